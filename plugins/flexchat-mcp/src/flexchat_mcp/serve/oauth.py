"""/mcp as an OAuth resource server: its metadata document, and access tokens (JWT) of one authorization server.

Source: RFC 9728 (metadata), RFC 9068 (JWT access tokens), RFC 8707 (audience); MCP 2026-07-28, "Authorization".
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import jwt

from .settings import ServerOAuth

if TYPE_CHECKING:
    from flexchat_web.typing import Serving

log = logging.getLogger(__name__)

FETCH_S = 10.0
REFRESH_S = 30.0
"""How long keys are used before they may be fetched again: tokens with unknown keys cannot make us flood the issuer."""

MAX_BYTES = 2**20
MAX_TOKEN_CHARS = 16_384
LEEWAY_S = 30


class TokenVerifier:
    """Verifies access tokens, with the keys of their issuers."""

    def __init__(self, serving: Serving | None = None) -> None:
        self._keys: dict[str, tuple[float, jwt.PyJWKSet | None]] = {}
        self._lock = asyncio.Lock()

    async def verify(self, oauth: ServerOAuth, token: str) -> tuple[str | None, str]:
        """Return the tenant of a token, or None, and the challenge for a client that is not admitted."""
        if not token:
            return None, challenge(oauth)
        try:
            return await self._tenant(oauth, token), ""
        except (jwt.PyJWTError, OSError, ValueError) as error:
            log.info("an access token is refused: %s", error)
            lacks_scope = isinstance(error, MissingScopeError)
            return None, challenge(oauth, error="insufficient_scope" if lacks_scope else "invalid_token")

    async def _tenant(self, oauth: ServerOAuth, token: str) -> str:
        if len(token) > MAX_TOKEN_CHARS:
            raise ValueError("it is too long")
        kid = jwt.get_unverified_header(token).get("kid")
        key = await self._key(oauth, kid)
        claims = jwt.decode(
            token,
            key,
            algorithms=[*oauth.algorithms],
            audience=oauth.resource,
            issuer=oauth.issuer,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iss", "aud"]},
        )
        return tenant_of(oauth, claims)

    async def _key(self, oauth: ServerOAuth, kid: Any) -> jwt.PyJWK:
        async with self._lock:
            fetched_at, keys = self._keys.get(oauth.issuer, (float("-inf"), None))
            key = _find(keys, kid)
            if key is None and time.monotonic() - fetched_at > REFRESH_S:
                # Noted first: a server that is down is not asked by every request.
                self._keys[oauth.issuer] = time.monotonic(), keys
                keys = await asyncio.to_thread(_fetch_keys, oauth)
                self._keys[oauth.issuer] = time.monotonic(), keys
                key = _find(keys, kid)
        if key is None:
            raise ValueError("the authorization server has no key with the id in the token")
        return key


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


def _find(keys: jwt.PyJWKSet | None, kid: Any) -> jwt.PyJWK | None:
    if keys is None:
        return None
    if kid is None:
        return keys.keys[0] if len(keys.keys) == 1 else None
    return next((key for key in keys.keys if key.key_id == kid), None)


def _fetch_keys(oauth: ServerOAuth) -> jwt.PyJWKSet:
    url = oauth.jwks_url or _jwks_url(oauth.issuer)
    return jwt.PyJWKSet.from_dict(_get(url))


def _jwks_url(issuer: str) -> str:
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = (
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}/.well-known/openid-configuration{path}",
        f"{base}{path}/.well-known/openid-configuration",
    )
    trouble: Exception = ValueError(f"{issuer} has no metadata")
    for place in places:
        try:
            document = _get(place)
        except (OSError, ValueError) as error:
            trouble = error
            continue
        if document.get("issuer") != issuer:
            raise ValueError(f"the metadata at {place} are those of another issuer")
        if isinstance(url := document.get("jwks_uri"), str):
            return url
    raise trouble


def _get(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(url, timeout=FETCH_S) as response:
        document = json.loads(response.read(MAX_BYTES))
    if not isinstance(document, dict):
        raise ValueError(f"{url}: not a JSON object")
    return document
