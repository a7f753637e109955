"""The settings of the [serve] table. Light: it is read with every configuration that has it."""

from __future__ import annotations

import re
from typing import Literal

import attrs
from flexchat.plugin import key

TABLE = "serve"

_LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])[:/]")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_OURS = ("authorization", "cookie", "host", "origin", "content-type", "content-length", "x-request-id")

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


@attrs.frozen(kw_only=True)
class JwtSettings:
    """[serve.jwt]: tokens of an identity provider."""

    issuer: str = key("Address of the identity provider, exactly as it writes it in its tokens (iss).")
    audience: str = key("The name of this server at the identity provider, for which tokens must be made (aud).")
    jwks: str | None = key(
        "Its keys: an address, or a file relative to the configuration. Default: as its metadata name them.",
        default=None,
    )
    algorithms: tuple[Algorithm, ...] = key("Signatures to accept.", default=("RS256", "PS256", "ES256", "EdDSA"))
    tenant: str | None = key("Tenant of all its users, who see each other's conversations.", default=None)
    tenant_claim: str | None = key('Claim that names the tenant: "org", or "sub" for one of each user.', default=None)
    user_claim: str = key("Claim that names the user.", default="sub")
    roles_claim: str | None = key(
        'Claim with the roles, a list or words: "groups", "realm_access.roles". Default: no roles.', default=None
    )
    leeway_s: int = key("Seconds by which clocks may differ.", min=0, max=300, default=30)

    def __attrs_post_init__(self) -> None:
        if (self.tenant is None) == (self.tenant_claim is None):
            raise ValueError("jwt needs either a tenant or a tenant_claim")
        if not self.algorithms:
            raise ValueError("algorithms is empty, so every token would be refused")
        for name in ("issuer", "jwks"):
            address = getattr(self, name)
            if address is not None and (name == "issuer" or "://" in address) and not is_protected(address):
                raise ValueError(f"{name} is an https address")


@attrs.frozen(kw_only=True)
class ProxySettings:
    """[serve.proxy]: headers in which a trusted proxy names the user that it has signed in."""

    identity_header: str = key('Header with the user\'s name: "X-Forwarded-User".')
    roles_header: str | None = key("Header with the roles, separated by commas. Default: no roles.", default=None)
    tenant: str | None = key("Tenant of all users, who see each other's conversations.", default=None)
    tenant_header: str | None = key("Header that names the tenant; it may be the identity_header.", default=None)

    def __attrs_post_init__(self) -> None:
        if (self.tenant is None) == (self.tenant_header is None):
            raise ValueError("proxy needs either a tenant or a tenant_header")
        for name in ("identity_header", "roles_header", "tenant_header"):
            header = getattr(self, name)
            if header is not None and (not _HEADER.fullmatch(header) or header.lower() in _OURS):
                raise ValueError(f"{name} is the name of a header of letters, digits and '-', such as X-Forwarded-User")


@attrs.frozen(kw_only=True)
class ServeSettings:
    """[serve]: how flexchat serve identifies its users, beside its token file."""

    jwt: JwtSettings | None = key("Tokens of an identity provider.", default=None)  # noqa: RUF009
    proxy: ProxySettings | None = key("Headers of a trusted proxy.", default=None)  # noqa: RUF009


def is_protected(address: str) -> bool:
    """Return whether what is read from an address cannot be changed on the way."""
    return address.startswith("https://") or _LOOPBACK.match(address) is not None
