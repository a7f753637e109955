"""The settings of a [[tools.mcp]] table."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

import attrs
from flexchat.host import DEFAULT_TENANT, is_secret_name
from flexchat.plugin import key, secret_key

MODERN = "2026-07-28"  # the revision of the protocol without a handshake
TENANT_VARIABLE = "FLEXCHAT_TENANT"  # environment variable with the name of a command's tenant, with per_tenant


@attrs.frozen(kw_only=True)
class McpAuth:
    """Credentials for a server over HTTP."""

    bearer: str | None = secret_key("Token sent as Authorization: Bearer.")
    oauth: bool = key("Whether a person signs in, with flexchat mcp login NAME.", default=False)
    client_id: str | None = key("For oauth: the client as it was registered by hand.", default=None)
    client_secret: str | None = secret_key("For oauth: the secret of that client.")
    client_metadata_url: str | None = key(
        "For oauth: https address of a client metadata document, which serves as the client's id.", default=None
    )
    scope: str | None = key("For oauth: rights to ask for beyond those the server names.", default=None)
    redirect_port: int = key(
        "For oauth: port of 127.0.0.1 the browser comes back to, at /callback; 0: a free one.",
        min=0,
        max=65_535,
        default=0,
    )

    def __attrs_post_init__(self) -> None:
        if self.oauth and self.bearer:
            raise ValueError("auth has either a bearer token or oauth")
        url = self.client_metadata_url
        if url is not None and not (url.startswith("https://") and url[8:].partition("/")[2]):
            raise ValueError("client_metadata_url is an https address with a path")


@attrs.frozen(kw_only=True)
class McpConfig:
    """A server whose tools are tools of the chat: a command that is started, or a URL."""

    command: str | tuple[str, ...] | None = key(
        'Program that is the server, and talks over its stdin and stdout: "uvx", or a list with its arguments. No '
        "shell reads it.",
        default=None,
    )
    args: tuple[str, ...] = key("Arguments of the command.", default=())
    env: Mapping[str, str] = key(
        "Environment variables of the command, besides PATH, HOME, USER, LOGNAME, SHELL, TERM and LANG.",
        factory=dict,
        repr=False,
    )
    cwd: str | None = key("Folder the command runs in. Default: the config's.", default=None)
    url: str | None = key("Address of a server over HTTP.", default=None)
    transport: Literal["http", "sse"] = key(
        "How the URL is spoken to: streamable HTTP, or the older SSE that some servers still have.", default="http"
    )
    headers: Mapping[str, str] = key("Headers sent with each request to the URL.", factory=dict, repr=False)
    auth: McpAuth | None = key(  # noqa: RUF009
        "Credentials for the URL: { bearer = … } or { oauth = true }.", default=None
    )
    protocol: Literal["auto", "handshake"] = key(
        "Era of the protocol: handshake for that before 2026-07-28. Default: the server is asked, once.", default="auto"
    )
    include: tuple[str, ...] = key('Which tools, by the server\'s names: "read_*". Default: all.', default=())
    exclude: tuple[str, ...] = key("Which of those to leave out; written as for include.", default=())
    effects: Mapping[str, Literal["read", "idempotent", "write"]] = key(
        'What tools change: { "list_*" = "read" }. The server\'s own hints count only if they are named here: '
        '{ readOnlyHint = "read", idempotentHint = "idempotent" }. Default: write.',
        factory=dict,
    )
    resources: bool = key(
        "Whether two more tools, list_resources and read_resource, read the server's resources.", default=False
    )
    trust: bool = key(
        "Whether a tool whose definition has changed may still be called as it was accepted. Default: not before the "
        "change is accepted.",
        default=False,
    )
    idempotency_meta: str | None = key(
        "Key in _meta for the call's key, if the server acts once per key: example.com/idempotency-key. Means "
        "honours_key.",
        default=None,
    )
    call_timeout_ms: int | None = key("Milliseconds a call may take.", min=1, max=10**9, default=None)
    per_tenant: bool = key(
        "Whether each tenant has a server of its own: process or connection, tokens and list. Default: all share one.",
        default=False,
    )
    tenants: int = key(
        "With per_tenant: how many tenants besides the default one have a server at a time; one that is not in use "
        "ends for the next.",
        min=1,
        max=10_000,
        default=50,
    )
    start_ms: int = key("Milliseconds the server may take to start.", min=1, max=10**7, default=30_000)
    idle_ms: int = key(
        "Milliseconds after which an unused command is ended, and with per_tenant an unused connection; 0: never.",
        min=0,
        default=600_000,
    )
    restarts: int = key("How often a minute a server that ended is started again.", min=0, max=1_000, default=5)
    max_bytes: int = key("Longest message from the server, in bytes.", min=1_024, max=256 * 2**20, default=4 * 2**20)

    def __attrs_post_init__(self) -> None:
        if (self.command is None) == (self.url is None):
            raise ValueError("a server has either a command or a url")
        if self.command is not None and not "".join(self.argv[:1]):
            raise ValueError("command is empty")
        if self.per_tenant and TENANT_VARIABLE in map(str.upper, self.env):  # Windows ignores case
            raise ValueError(f"per_tenant sets {TENANT_VARIABLE} in env: leave it out there")

    @property
    def argv(self) -> tuple[str, ...]:
        """The command with its arguments; empty for a URL."""
        if self.command is None:
            return ()
        first = (self.command,) if isinstance(self.command, str) else tuple(self.command)
        return (*first, *self.args)

    def secrets(self) -> list[str]:
        """List the values that must not be shown: headers and variables of the config, except short words."""
        auth = self.auth or McpAuth()
        credentials = [one for one in (auth.bearer, auth.client_secret) if one]
        return [*credentials, *self.headers.values(), *self.env.values(), *secrets_in(self.argv, self.url)]


@attrs.frozen(kw_only=True)
class McpToolSettings:
    """The implementation table of a server's tool, as stored in the lock."""

    tool: str = key("The server's name for it.")
    hash: str = key("SHA-256 of its definition: name, title, description, schemas, annotations.")
    resources: bool = key("Whether it is ours, and lists or reads the server's resources.", default=False)
    title: str | None = key("Its title, for people.", default=None)
    output: Mapping[str, Any] | None = key("JSON Schema of its structured content.", default=None)
    annotations: Mapping[str, Any] | None = key("The server's hints about it.", default=None)


def option(tenant: str) -> str:
    """Format the option that names a tenant in a command; empty for the default one."""
    if tenant == DEFAULT_TENANT:
        return ""
    return f" --tenant {shlex.quote(tenant) if tenant.isprintable() and len(tenant) <= 100 else 'NAME'}"


_OPTION = re.compile(r"-{1,2}([A-Za-z][\w.-]*)")
_ASSIGNED = re.compile(r"-{0,2}([A-Za-z_][\w.-]*)\s*[=:]\s*(?!//)(.+)", re.DOTALL)
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]+")
_SCHEME = re.compile(r"(?:bearer|basic|token|apikey)\s+", re.IGNORECASE)
# The beginnings of keys that services publish, so that scanners find them.
_KNOWN = re.compile(
    r"(?<![A-Za-z0-9])(?:sk-|sk_|pk_|rk_|gh[opsur]_|github_pat_|glpat-|xox[abeoprs]-|xapp-|AKIA|ASIA|AIza|ya29\.|ntn_|hf_"
    r"|pplx-|tvly-|fc-|lin_api_|figd_|pat|npm_|pypi-|dop_v1_|eyJ)[A-Za-z0-9_.=-]{12,}"
)
_NAMES = {"authorization", "auth", "key", "pat", "pwd", "credentials", "dsn"}
_LONG = re.compile(r"(?=[^/]*[0-9])(?=[^/]*[A-Za-z])[A-Za-z0-9_-]{24,}")
"""A part of a URL's path that is long and mixes letters with digits: services put tokens there."""


def secrets_in(arguments: Sequence[str], url: str | None = None) -> list[str]:
    """Return the secrets in a command's arguments and in a URL; references to variables do not count."""
    secrets = [*_of_arguments(arguments), *(_of_url(url) if url is not None else ())]
    return [*dict.fromkeys(secret for secret in secrets if secret and "${" not in secret)]


def is_secret(name: str) -> bool:
    """Whether the name of an option, a variable or a header marks its value as secret."""
    return is_secret_name(name) or name.lower() in _NAMES


def hidden(text: str, secrets: Iterable[str]) -> str:
    """Return a text in which *** stands for each secret, however short."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _of_arguments(arguments: Sequence[str]) -> Iterator[str]:
    for before, argument in pairwise(("", *arguments)):
        option = _OPTION.fullmatch(before)
        if option is not None and is_secret(option[1]) and not argument.startswith("-"):
            yield argument
        assigned = _ASSIGNED.fullmatch(argument)
        if assigned is not None and is_secret(assigned[1]):
            yield _SCHEME.sub("", assigned[2], count=1)
        yield from _KNOWN.findall(argument)
        for url in _URL.findall(argument):
            yield from _of_url(url)


def _of_url(url: str) -> Iterator[str]:
    try:
        parts = urlsplit(url)
        password, user = parts.password, parts.username
    except ValueError:
        return
    if password or user:
        yield from (part for part in (password, user if not password else None) if part)
    for text in (parts.query, parts.fragment):
        for name, value in parse_qsl(text):
            if is_secret(name):
                yield value
                yield from (
                    raw for raw in text.split("&") if unquote(raw) == f"{name}={value}" and raw != f"{name}={value}"
                )
    yield from _KNOWN.findall(url)
    yield from (part for part in parts.path.split("/") if _LONG.fullmatch(part))
