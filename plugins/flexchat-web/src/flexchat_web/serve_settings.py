"""The settings of the [serve] table. Light: it is read with every configuration that has it."""

from __future__ import annotations

import re
from typing import Any, Literal

import attrs
from flexchat.plugin import key
from flexchat_sdk import web_address

TABLE = "serve"

_LOOPBACK = re.compile(r"http://(localhost|127\.0\.0\.1|\[::1\])[:/]")
_HEADER = re.compile(r"[A-Za-z0-9-]{1,100}")
_OURS = ("authorization", "cookie", "host", "origin", "content-type", "content-length", "x-request-id")

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]


def is_protected(address: str) -> bool:
    """Return whether what is read from an address cannot be changed on the way."""
    return address.startswith("https://") or _LOOPBACK.match(address) is not None


def _is_https(instance: Any, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is None or (attribute.name == "jwks" and "://" not in value):
        return
    if not is_protected(value):
        raise ValueError(f"{attribute.name} is an https address, such as https://login.example.com")
    web_address(instance, attribute, value)


def _is_name(instance: Any, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and (not value or value != value.strip() or not value.isprintable()):
        raise ValueError(f"{attribute.name} is empty, or has spaces around it or characters that cannot be printed")


def _is_one_of_two(instance: Any, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if (instance.tenant is None) == (value is None):
        raise ValueError(f"tenant or {attribute.name}: one of them is required, and excludes the other")


def _is_header(instance: Any, attribute: attrs.Attribute[Any], value: str | None) -> None:
    if value is not None and not _HEADER.fullmatch(value):
        text = "is the name of a header of letters, digits and '-', such as X-Forwarded-User"
        raise ValueError(f"{attribute.name} {text}")
    if value is not None and value.lower() in _OURS:
        raise ValueError(f"{attribute.name} is the name of a header that only the proxy uses, not {value}")


@attrs.frozen(kw_only=True)
class JwtSettings:
    """[serve.jwt]: tokens of an identity provider."""

    issuer: str = key(
        "Address of the identity provider, exactly as it writes it in its tokens (iss).", validator=_is_https
    )
    audience: str = key(
        "The name of this server at the identity provider, for which tokens must be made (aud).", validator=_is_name
    )
    jwks: str | None = key(
        "Its keys: an address, or a file relative to the configuration. Default: as its metadata name them.",
        default=None,
        validator=_is_https,
    )
    algorithms: tuple[Algorithm, ...] = key("Signatures to accept.", default=("RS256", "PS256", "ES256", "EdDSA"))
    tenant: str | None = key(
        "Tenant of all its users, who see each other's conversations.", default=None, validator=_is_name
    )
    tenant_claim: str | None = key(
        'Claim that names the tenant: "org", or "sub" for one of each user.',
        default=None,
        validator=(_is_one_of_two, _is_name),
    )
    user_claim: str = key("Claim that names the user.", default="sub", validator=_is_name)
    roles_claim: str | None = key(
        'Claim with the roles, a list or words: "groups", "realm_access.roles". Default: no roles.',
        default=None,
        validator=_is_name,
    )
    leeway_s: int = key("Seconds by which clocks may differ.", min=0, max=300, default=30)

    @algorithms.validator
    def _is_not_empty(self, attribute: attrs.Attribute[Any], value: tuple[str, ...]) -> None:
        if not value:
            raise ValueError("algorithms is empty, so every token would be refused")


@attrs.frozen(kw_only=True)
class ProxySettings:
    """[serve.proxy]: headers in which a trusted proxy names the user that it has signed in."""

    identity_header: str = key('Header with the user\'s name: "X-Forwarded-User".', validator=_is_header)
    roles_header: str | None = key(
        "Header with the roles, separated by commas. Default: no roles.", default=None, validator=_is_header
    )
    tenant: str | None = key(
        "Tenant of all users, who see each other's conversations.", default=None, validator=_is_name
    )
    tenant_header: str | None = key(
        "Header that names the tenant; it may be the identity_header.",
        default=None,
        validator=(_is_one_of_two, _is_header),
    )


@attrs.frozen(kw_only=True)
class ServeSettings:
    """[serve]: how flexchat serve identifies its users."""

    token_file: str | None = key(
        "File with tokens, as flexchat tokens add writes them, relative to this file. --token-file overrides it.",
        default=None,
        validator=_is_name,
    )
    jwt: JwtSettings | None = key("Tokens of an identity provider.", default=None)  # noqa: RUF009
    proxy: ProxySettings | None = key("Headers of a trusted proxy.", default=None)  # noqa: RUF009
