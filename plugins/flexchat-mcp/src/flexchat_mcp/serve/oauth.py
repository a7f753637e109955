"""/mcp as an OAuth resource server: its metadata document, and access tokens (JWT) of one authorization server.

Source: RFC 9728 (metadata), RFC 9068 (JWT access tokens), RFC 8707 (audience); MCP 2026-07-28, "Authorization".
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .settings import ServerOAuth

if TYPE_CHECKING:
    from flexchat_web.typing import Admission, Serving, Web

log = logging.getLogger(__name__)


async def admit(web: Web, serving: Serving, oauth: ServerOAuth, token: str) -> Admission:
    """Return the tenant and the principal of a token, or the challenge for a client that is not admitted."""
    if not token:
        return web.Admission(challenge=challenge(oauth))
    trust = web.Trust(
        issuer=oauth.issuer, audience=oauth.resource, jwks=oauth.jwks_url, algorithms=tuple(oauth.algorithms)
    )
    try:
        claims = await serving.authentication.verifier.verify(token, trust)
        roles = claims.get(oauth.roles_claim, []) if oauth.roles_claim is not None else []
        if not isinstance(roles, list):
            raise ValueError(f"its claim {oauth.roles_claim} is no list of roles")
        identity = web.identity_of(tenant_of(oauth, claims), claims.get("sub"), roles)
    except ValueError as error:
        log.info("an access token is refused: %s", error)
        lacks_scope = isinstance(error, MissingScopeError)
        return web.Admission(challenge=challenge(oauth, error="insufficient_scope" if lacks_scope else "invalid_token"))
    return web.Admission(tenant=identity.tenant, principal=identity.principal)


class MissingScopeError(ValueError):
    """A valid token that no scope maps to a tenant."""


def tenant_of(oauth: ServerOAuth, claims: Mapping[str, Any]) -> str:
    """Return the tenant of verified claims. Raises ValueError."""
    if oauth.tenant_claim is not None:
        tenant = claims.get(oauth.tenant_claim)
        if not isinstance(tenant, str) or not tenant:
            raise ValueError(f"it has no claim {oauth.tenant_claim}")
        return tenant
    scopes = claims.get("scope", claims.get("scp", ""))
    granted = scopes.split() if isinstance(scopes, str) else scopes if isinstance(scopes, list) else []
    tenants = {oauth.scopes[scope] for scope in granted if isinstance(scope, str) and scope in oauth.scopes}
    if not tenants:
        raise MissingScopeError("none of its scopes is one of a tenant")
    if len(tenants) > 1:
        raise ValueError("its scopes are those of several tenants")
    return tenants.pop()


def challenge(oauth: ServerOAuth, *, error: str = "") -> str:
    """Return the header WWW-Authenticate."""
    parts = urlsplit(oauth.resource)
    metadata = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    failed = f'error="{error}", ' if error else ""
    scope = f', scope="{" ".join(oauth.scopes)}"' if oauth.scopes else ""
    return f'Bearer {failed}resource_metadata="{metadata}"{scope}'


async def send_metadata(oauth: ServerOAuth, scope: Mapping[str, Any], receive: Any, send: Any) -> None:
    """Answer with the metadata of the protected resource."""
    document = {
        "resource": oauth.resource,
        "authorization_servers": [oauth.issuer],
        **({"scopes_supported": [*oauth.scopes]} if oauth.scopes else {}),
        "bearer_methods_supported": ["header"],
        "resource_name": "FlexChat",
    }
    body = json.dumps(document).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body if scope["method"] != "HEAD" else b""})
