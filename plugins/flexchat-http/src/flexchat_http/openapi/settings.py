"""Settings of a [[tools.openapi]] table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import attrs
from flexchat.plugin import key

from ..settings import Auth


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
