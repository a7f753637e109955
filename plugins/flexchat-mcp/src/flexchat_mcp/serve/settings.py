"""The settings of the [mcp_server] table. Light: it is read with every configuration that has it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal

import attrs
from flexchat.plugin import key, secret_key

TABLE = "mcp_server"
MIN_SECRET_CHARS = 32
_SLOT = re.compile(r"\{(\w+)\}")


def _is_long(instance: object, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and len(value) < MIN_SECRET_CHARS:
        raise ValueError(
            f"secret has fewer than {MIN_SECRET_CHARS} characters; a good one: "
            "python -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )


@attrs.frozen(kw_only=True)
class PromptArgument:
    """One argument of a prompt."""

    name: str = key("Name of the argument; the text has it as {{name}}.")
    description: str = key("Its meaning, for people.", default="")
    required: bool = key("Whether it must be given.", default=False)
    values: tuple[str, ...] = key("Values to suggest while a person types it.", default=())


@attrs.frozen(kw_only=True)
class ServedPrompt:
    """A prompt that clients offer to their users: a text, or what a tool returns."""

    name: str = key("Name of the prompt.")
    description: str = key("What it is for, for people.", default="")
    text: str | None = key("The user's message, with {{name}} for the arguments.", default=None)
    tool: str | None = key("Tool whose result is the user's message; it gets the arguments.", default=None)
    arguments: tuple[PromptArgument, ...] = key("The arguments.", default=())

    def __attrs_post_init__(self) -> None:
        if (self.text is None) == (self.tool is None):
            raise ValueError("a prompt has either a text or a tool")


@attrs.frozen(kw_only=True)
class ServedResource:
    """A resource that clients can read: a text, a file, or what a tool returns."""

    uri: str = key("Its address, of any scheme. With {slots}, it is a template, and the tool gets them as arguments.")
    name: str = key("Name, for people.")
    description: str = key("What it contains.", default="")
    mime_type: str | None = key("Media type.", default=None)
    text: str | None = key("The content.", default=None)
    file: str | None = key("The file with the content, relative to the config's folder.", default=None)
    tool: str | None = key("Tool whose result is the content.", default=None)

    def __attrs_post_init__(self) -> None:
        if sum(source is not None for source in (self.text, self.file, self.tool)) != 1:
            raise ValueError("a resource has one of text, file and tool")
        if self.slots and self.tool is None:
            raise ValueError("a resource whose uri has {slots} needs a tool, which gets them")
        if ":" not in self.uri:
            raise ValueError("the uri of a resource begins with a scheme: handbook://rules")

    @property
    def slots(self) -> tuple[str, ...]:
        """Names of the variable parts of its address."""
        return tuple(_SLOT.findall(self.uri))

    def match(self, uri: str) -> Mapping[str, str] | None:
        """Return the values of the slots in an address; None if it is another resource's."""
        pattern = "".join(
            f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(_SLOT.split(self.uri))
        )
        match = re.fullmatch(pattern, uri)
        return None if match is None else match.groupdict()


@attrs.frozen(kw_only=True)
class ServerOAuth:
    """Access tokens of an authorization server that clients of /mcp may use, beside those of flexchat serve."""

    issuer: str = key("Address of the authorization server, exactly as it writes it in its tokens.")
    resource: str = key("Public address of /mcp, for which tokens must be made (their audience).")
    jwks_url: str | None = key("Address of its keys. Default: as its metadata name it.", default=None)
    scopes: Mapping[str, str] = key(
        'Tenant of each scope: { "flexchat:acme" = "acme" }. A token needs exactly one of them, or the claim.',
        factory=dict,
    )
    tenant_claim: str | None = key("Claim of the token that names its tenant, in place of a scope.", default=None)
    roles_claim: str | None = key("Claim with the list of the user's roles. Default: no roles.", default=None)
    algorithms: tuple[Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"], ...] = (
        key("Signatures to accept.", default=("RS256", "PS256", "ES256", "EdDSA"))
    )

    def __attrs_post_init__(self) -> None:
        if not self.scopes and self.tenant_claim is None:
            raise ValueError("oauth needs scopes or a tenant_claim, which identify a token's tenant")
        for name in ("issuer", "resource", "jwks_url"):
            address = getattr(self, name)
            local = address is not None and re.match(r"http://(localhost|127\.0\.0\.1|\[::1\])[:/]", address)
            if address is not None and not address.startswith("https://") and not local:
                raise ValueError(f"{name} is an https address")


@attrs.frozen(kw_only=True)
class McpServerConfig:
    """[mcp_server]: what MCP clients get."""

    name: str = key("Name of the server, for people.", default="flexchat")
    instructions: str | None = key("What the server is for, for the models of clients.", default=None)
    tools: tuple[str, ...] | None = key(
        'Which tools: names, "time/*" for all of a source. Default: those that rules offer.', default=None
    )
    chat: bool = key("Whether the chat itself is a tool: ask(message, conversation?).", default=True)
    documents: bool = key("Whether the documents of the stores can be read as resources.", default=True)
    prompts: tuple[ServedPrompt, ...] = key("Prompts that clients offer to their users.", default=())
    resources: tuple[ServedResource, ...] = key("Further resources.", default=())
    tasks: Mapping[str, Literal["optional", "required"]] = key(
        'Long calls, by tool: { "report_*" = "optional" }. They are answered with a task by clients that support '
        "tasks; required: others cannot make them.",
        factory=dict,
    )
    ttl_ms: int = key("Milliseconds for which clients may keep lists.", min=0, max=10**9, default=60_000)
    max_bytes: int = key("Longest message from a client, in bytes.", min=1_024, max=2**28, default=4 * 2**20)
    max_calls: int = key("Calls that one tenant may have under way at a time.", min=1, max=10_000, default=64)
    secret: str | None = attrs.field(
        default=None,
        repr=False,
        validator=_is_long,
        metadata={
            **secret_key("").metadata,
            "help": "Signs the state of open questions, where several machines serve. "
            "Default: a key in a file of this user's data folder.",
        },
    )
    oauth: ServerOAuth | None = key("Tokens of an authorization server for /mcp.", default=None)  # noqa: RUF009

    def task_mode(self, tool: str) -> Literal["optional", "required"] | None:
        """Return whether calls of a tool are answered with tasks; None if they are not."""
        if tool in self.tasks:
            return self.tasks[tool]
        return next((mode for pattern, mode in self.tasks.items() if fnmatchcase(tool, pattern)), None)
