"""The implementation type "openapi": a call of an operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import attrs
from flexchat.plugin import ToolContext, ToolError

from ..answer import value_of
from ..request import merge_headers
from ..sending import Sending, authorize
from ..settings import TIMEOUT_MS, Auth, OpenApiConfig, OperationSettings
from .plan import Plan
from .request import build_request
from .security import Scheme


async def run(settings: OperationSettings, params: Mapping[str, Any], context: ToolContext) -> Any:
    """Send the request of a call and decode the response.

    Raises:
        ToolError: The arguments cannot be sent, or a credential is missing.
        FetchError: There was no response, or its status is an error.
    """
    plan = cast(Plan, settings.plan)
    source = context.source
    config: OpenApiConfig = source.settings if source is not None else OpenApiConfig(document="")
    auths = credentials(plan, config, source.name if source is not None else "")
    request = build_request(plan, params)
    accept = {} if plan["method"] == "HEAD" else {"Accept": "application/json, text/*;q=0.8, */*;q=0.5"}
    request = attrs.evolve(request, headers=merge_headers(accept, request.headers, config.headers))
    timeout_s = (context.tool.timeout_ms or TIMEOUT_MS) / 1000
    for auth in auths[:-1]:  # several at once: a key for the application, and one for the user
        request = await authorize(request, auth, context.fetcher, timeout_s)
    sending = Sending(
        auth=auths[-1] if auths else None,
        key_header=config.idempotency_header,
        max_bytes=config.max_bytes,
        secrets=tuple(config.auth.values()),
    )
    answer = await sending.send(request, context)
    return value_of(answer, is_write=context.tool.effect == "write")


def credentials(plan: Plan, config: OpenApiConfig, source: str) -> list[Auth]:
    """Select the credentials of an operation: the first alternative that is completely configured.

    Raises:
        ToolError: No alternative is.
    """
    alternatives = plan.get("security", [])
    for schemes in alternatives:
        if all(config.auth.get(scheme["scheme"], "").strip() and scheme["type"] != "other" for scheme in schemes):
            return [_auth(scheme, config) for scheme in schemes]
    if not alternatives:
        return []
    names = sorted({scheme["scheme"] for schemes in alternatives for scheme in schemes})
    raise ToolError(
        "this operation needs a key, and the operator of this tool has not set it",
        hint=f"auth of the tool source '{source}' must have one of: {', '.join(names)}",
    )


def _auth(scheme: Scheme, config: OpenApiConfig) -> Auth:
    name = scheme["scheme"]
    if name not in config.auths:
        config.auths[name] = auth_of(scheme, config.auth[name])
    return config.auths[name]


def auth_of(scheme: Scheme, credential: str) -> Auth:
    """Build the auth settings for a credential."""
    if scheme["type"] == "key":
        return Auth(type="api_key", name=scheme["key"], place=cast(Any, scheme["place"]), api_key=credential)
    before, colon, after = credential.partition(":")
    if scheme["type"] == "basic":
        return Auth(type="basic", username=before, password=after)
    if scheme["type"] == "oauth2" and colon and "token_url" in scheme:
        return Auth(
            type="oauth2",
            token_url=scheme["token_url"],
            client_id=before,
            client_secret=after,
            scopes=tuple(scheme.get("scopes", ())),
        )
    return Auth(type="bearer", token=credential)
