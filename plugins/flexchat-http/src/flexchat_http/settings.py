"""Settings of an HTTP tool's implementation table, and of a [[tools.openapi]] table."""

# ruff: noqa: RUF009  (key is attrs.field with a description)

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Mapping
from typing import Any, Literal

import attrs
from flexchat.plugin import key, secret_key

TIMEOUT_MS = 10_000
PLACEHOLDER = re.compile(r"\{([^{}]*)\}")  # a part of a URL that an argument fills in: {id}

Place = Literal["query", "path", "header", "cookie", "body"]
PLACES: tuple[Place, ...] = ("query", "path", "header", "cookie", "body")


@attrs.define(eq=False)
class Token:
    """An access token, shared by all calls that use one auth table.

    Attributes:
        value: Empty for none.
        renew_at: When to get a new one, in time.monotonic's seconds.
    """

    value: str = ""
    renew_at: float = 0.0
    lock: asyncio.Lock = attrs.field(factory=asyncio.Lock, repr=False)

    def is_good(self) -> bool:
        """True until the token expires."""
        return bool(self.value) and time.monotonic() < self.renew_at


@attrs.frozen(kw_only=True)
class Auth:
    """Authentication of requests. Secrets come from the environment: "${API_KEY}"."""

    type: Literal["bearer", "api_key", "basic", "oauth2"] = key("Kind: bearer, api_key, basic, oauth2.")
    token: str | None = secret_key("Token of a bearer.")
    api_key: str | None = secret_key("The API key.")
    name: str | None = key("Name of the header, query parameter or cookie that holds the API key.", default=None)
    place: Literal["header", "query", "cookie"] = key("Where the API key is sent.", default="header")
    username: str | None = key("User name, for basic.", default=None)
    password: str | None = secret_key("Password, for basic.")
    token_url: str | None = key("Where tokens are issued, for oauth2 (client credentials).", default=None)
    client_id: str | None = key("Name of this client, for oauth2.", default=None)
    client_secret: str | None = secret_key("Secret of this client, for oauth2.")
    scopes: tuple[str, ...] = key("Scopes to ask for, for oauth2.", default=())
    audience: str | None = key("Audience to ask for, for oauth2.", default=None)
    client_auth: Literal["basic", "body"] = key("How the client's secret is sent to token_url.", default="basic")
    issued: Token = attrs.field(factory=Token, init=False, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class Paging:
    """Pagination of a list. With it, a tool returns {"items": […], "has_more": true or false}."""

    type: Literal["link", "cursor"] = key("link: the header Link (RFC 8288). cursor: a value in the answer.")
    cursor_path: str | None = key("JSONPath of the next page's cursor in the answer.", default=None)
    cursor_param: str | None = key("Query parameter the cursor is sent in.", default=None)
    max_pages: int = key("Pages read at most.", min=1, max=100, default=5)


@attrs.frozen(kw_only=True)
class HttpToolSettings:
    """The implementation table of an HTTP tool."""

    url: str = key("Address; {name} is replaced by the argument of that name, escaped.")
    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"] = key("Method.", default="GET")
    headers: Mapping[str, str] = key("Headers; secrets come from the environment.", factory=dict, repr=False)
    params_mapping: Mapping[str, str] = key(
        'Arguments and their names in the API: "q", or with a place: "query:q", "header:X-Unit", "cookie:c", '
        '"body:user.name", "path:id". With a mapping, only arguments in it are sent.',
        factory=dict,
    )
    body: Literal["json", "form", "multipart", "text"] = key("Form of the body.", default="json")
    auth: Auth | None = key("How the service knows its caller.", default=None)
    response_path: str | None = key("JSONPath (RFC 9535) of the result in the answer: $.results.", default=None)
    result: Literal["auto", "json", "text"] = key("How the answer is read; auto: by its content type.", default="auto")
    output_schema: Mapping[str, Any] | None = key("JSON Schema the result must fit.", default=None)
    max_bytes: int = key("Longest answer, in bytes.", min=1, max=64 * 2**20, default=4 * 2**20)
    paging: Paging | None = key("How further pages are found.", default=None)
    idempotency_header: str | None = key(
        "Header for the call's key, for services that act once per key: Idempotency-Key. Means honours_key.",
        default=None,
    )
    traceparent: bool = key(
        "Whether to send the header traceparent, so that the trace goes on in the service.", default=False
    )
    domains: tuple[str, ...] | None = key(
        "The only hosts it may reach: api.example.com, *.example.com. Needed if the host has a placeholder.",
        default=None,
    )

    engines: list[Any] = attrs.field(factory=list, init=False, eq=False, repr=False)
    """Holds what checks against output_schema, once it has been made."""

    @property
    def is_safe(self) -> bool:
        """True if the method is safe (RFC 9110, section 9.2.1)."""
        return self.method in ("GET", "HEAD", "OPTIONS")


def usual(settings: HttpToolSettings) -> Mapping[str, Any]:
    """Return the defaults of a tool's definition: a safe method reads, any other writes."""
    return {
        "effect": "read" if settings.is_safe else "write",
        "honours_key": settings.idempotency_header is not None,
        "timeout_ms": TIMEOUT_MS,
    }


@attrs.frozen(kw_only=True)
class OpenApiConfig:
    """A document whose operations are tools."""

    document: str = key("Path or URL of an OpenAPI document (2.0 or later), JSON or YAML.")
    include: tuple[str, ...] = key(
        'Which operations: "listPets" (an id), "list*", "tag:store", "GET", "/pets", "/pets/*", "GET /pets/*". '
        "Default: all.",
        default=(),
    )
    exclude: tuple[str, ...] = key("Which of those to leave out; written as for include.", default=())
    effect: Mapping[str, Literal["read", "idempotent", "write"]] = key(
        'What operations change, where it is not what their method says: { "POST /search" = "read" }.', factory=dict
    )
    server: str | None = key("URL that paths are appended to, instead of the document's.", default=None)
    auth: Mapping[str, str] = key(
        "Credentials, by the name of a security scheme of the document: a key or token, USER:PASSWORD for basic, "
        "CLIENT_ID:CLIENT_SECRET for OAuth 2 client credentials. From the environment.",
        factory=dict,
        secret=True,
        repr=False,
    )
    headers: Mapping[str, str] = key("Headers sent with each request.", factory=dict, repr=False)
    idempotency_header: str | None = key(
        "Header for the call's key, if the service acts once per key: Idempotency-Key. Means honours_key.", default=None
    )
    remote_refs: bool = key("Whether $ref may lead to URLs outside of the document's folder.", default=False)
    max_bytes: int = key("Longest answer, in bytes.", min=1, max=64 * 2**20, default=4 * 2**20)

    auths: dict[str, Auth] = attrs.field(factory=dict, init=False, eq=False, repr=False)
    """What has been made of auth, by scheme: it holds access tokens."""


@attrs.frozen(kw_only=True)
class OperationSettings:
    """The implementation table of an operation's tool: the plan of its call (plan.py)."""

    plan: Mapping[str, Any] = key("How the operation is called.")
