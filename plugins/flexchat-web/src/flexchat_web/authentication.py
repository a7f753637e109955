"""How a request is identified: by a token of the server, a trusted proxy, or a token of an identity provider."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flexchat import ConfigError, Problem
from starlette.types import Scope

from .access_tokens import TokenError, TokenVerifier, Trust
from .identity import Identity, identity_of
from .problems import ApiError
from .serve_settings import JwtSettings, ProxySettings, ServeSettings
from .token_file import TokenFileError, TokenLine, digest_of, read_token_file

log = logging.getLogger(__name__)

POLL_SECONDS = 0.5
PEER = "flexchat.peer"
"""In an ASGI scope: the address that the connection comes from, not what headers name; only our server writes it."""


class Authentication:
    """Identifies requests, by what the operator has set.

    Args:
        table: The configuration's [serve]. It is read once: who is admitted does not change with a configuration.
        folder: Where its relative paths start.
        tokens, token_file, trusted_proxies: As in the server's Settings.

    Raises:
        ConfigError, TokenFileError: It cannot be done as the operator has set it.
    """

    def __init__(
        self,
        table: ServeSettings | None,
        folder: Path,
        verifier: TokenVerifier,
        *,
        tokens: Mapping[str, str],
        token_file: Path | None,
        trusted_proxies: Iterable[str],
    ) -> None:
        self.verifier, self._file, self._given = verifier, token_file, tuple(tokens)
        fixed = [Identity(tenant=tenant, token_digest=digest_of(token)) for token, tenant in tokens.items()]
        self._fixed = {identity.token_digest: identity for identity in fixed}
        self._lines: tuple[TokenLine, ...] = ()
        self._tokens: Mapping[str, Identity] = self._fixed
        self._jwt, self._proxy = (table.jwt, table.proxy) if table is not None else (None, None)
        self._trusted = [*map(ipaddress.ip_network, trusted_proxies)]
        self._trust = None if self._jwt is None else _trust_of(self._jwt, folder)
        if self._proxy is not None:
            self._check_proxy()
        if self._trust is not None:
            require_jwt()
        self._facts_read = self._facts()
        if self._file is not None:
            self._read_tokens()
        if self._trust is not None and isinstance(self._trust.jwks, Path):
            try:
                self._read_keys()
            except ValueError as error:
                raise ConfigError([Problem(path="serve.jwt.jwks", text=str(error))]) from None

    @property
    def has_tokens(self) -> bool:
        """Whether there are tokens with which a browser can sign in."""
        return bool(self._fixed) or self._file is not None

    @property
    def is_required(self) -> bool:
        """Whether a request needs an identity."""
        return self.has_tokens or self._jwt is not None or self._proxy is not None

    @property
    def plain_tokens(self) -> tuple[str, ...]:
        """The tokens that are known, for masks: a file may have hashes only."""
        return (*self._given, *(line.token for line in self._lines if line.token))

    @property
    def digests(self) -> Iterator[str]:
        """The digests of the tokens that are valid now."""
        return (digest for digest, identity in self._tokens.items() if not identity.has_expired)

    def of_digest(self, digest: str) -> Identity | None:
        """Return the identity that a token of the server grants, by its digest; None if it grants none."""
        match = None
        for own_digest, identity in self._tokens.items():  # all of them, so that the time reveals nothing
            if hmac.compare_digest(own_digest, digest):
                match = identity
        return None if match is None or match.has_expired else match

    def of_token(self, token: str) -> Identity | None:
        """Return the identity that a token of the server grants; None if it grants none."""
        return self.of_digest(digest_of(token))

    def still_counts(self, identity: Identity | None) -> bool:
        """Return whether an identity has not been withdrawn since it was found: its token is still there, unchanged."""
        if identity is None or not identity.token_digest:
            return True
        return self._tokens.get(identity.token_digest) == identity and not identity.has_expired

    async def of_request(self, scope: Scope, bearer: str) -> Identity | None:
        """Return the identity that a request brings along, by header; None if it has none that counts.

        Raises:
            ApiError: 401: a trusted proxy names no user that can be one; 503: no token can be verified.
        """
        if self._proxy is not None and self._is_trusted(scope.get(PEER)):
            try:
                if (identity := _of_headers(self._proxy, scope)) is not None:
                    return identity
            except ValueError as error:
                log.info("the headers of the proxy are refused: %s", error)
                raise ApiError(401, "the proxy in front of this server names no user", kind="token") from error
        identity = self.of_token(bearer) if bearer else None
        if identity is not None or not bearer or self._jwt is None or self._trust is None:
            return identity
        try:
            claims = await self.verifier.verify(bearer, self._trust)
            return _of_claims(self._jwt, claims)
        except ValueError as error:
            log.info("a token of the identity provider is refused: %s", error)
            return None

    async def watch(self) -> None:
        """Read the files again when they change, until cancelled; one that changes is left alone until it rests."""
        earlier = self._facts_read
        while True:
            await asyncio.sleep(POLL_SECONDS)
            facts = await asyncio.to_thread(self._facts)
            if facts != self._facts_read and facts == earlier:
                await asyncio.to_thread(self.read_again)
            earlier = facts

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are watched."""
        jwks = self._trust.jwks if self._trust is not None else None
        return tuple(file for file in (self._file, jwks) if isinstance(file, Path))

    def read_again(self) -> None:
        """Read the files again. One that cannot be used is logged, and what was read from it before stays."""
        self._facts_read = self._facts()
        for file in self.files:
            try:
                self._read_tokens() if file == self._file else self._read_keys()
            except (TokenFileError, ValueError) as error:
                log.error("%s; what was read before stays in use", "; ".join(str(error).splitlines()))
            else:
                log.warning("%s has been read again", file)

    def _facts(self) -> list[tuple[int, ...]]:
        return [_facts_of(file) for file in self.files]

    def _read_tokens(self) -> None:
        assert self._file is not None
        self._lines = read_token_file(self._file)
        self._tokens = {line.digest: line.identity for line in self._lines} | self._fixed

    def _read_keys(self) -> None:
        assert self._trust is not None
        try:
            self.verifier.read_keys(self._trust)
        except OSError as error:
            raise ValueError(f"{self._trust.jwks}: {error.strerror or error}") from None
        except json.JSONDecodeError as error:
            raise ValueError(f"{self._trust.jwks}:{error.lineno}: it is not JSON: {error.msg}") from None
        except ValueError as error:
            raise ValueError(f"{self._trust.jwks}: {error}") from None

    def _check_proxy(self) -> None:
        text = ""
        if not self._trusted:
            text = "no proxy is trusted, so nobody could sign in: flexchat serve --trusted-proxy ADDRESS names it"
        elif any(network.prefixlen == 0 for network in self._trusted):
            text = "--trusted-proxy trusts every address, so anyone could be anyone: name the proxy's own"
        if text:
            raise ConfigError([Problem(path="serve.proxy", text=text)])

    def _is_trusted(self, peer: object) -> bool:
        try:
            address = ipaddress.ip_address(str(peer))
        except ValueError:
            return False  # a socket of this machine's file system, or another server's scope
        address = getattr(address, "ipv4_mapped", None) or address
        return any(address.version == network.version and address in network for network in self._trusted)


def require_jwt() -> None:
    """Check that tokens of an identity provider can be verified.

    Raises:
        ConfigError: A package is missing, or broken.
    """
    try:
        from jwt.algorithms import has_crypto
    except Exception:  # noqa: BLE001  a broken package raises anything
        has_crypto = False
    if not has_crypto:
        text = "tokens cannot be verified without PyJWT and cryptography: pip install 'flexchat-web[jwt]'"
        raise ConfigError([Problem(path="serve.jwt", text=text)])


def _trust_of(jwt: JwtSettings, folder: Path) -> Trust:
    jwks = folder / jwt.jwks if jwt.jwks is not None and "://" not in jwt.jwks else jwt.jwks
    return Trust(issuer=jwt.issuer, audience=jwt.audience, jwks=jwks, algorithms=jwt.algorithms, leeway_s=jwt.leeway_s)


def _of_claims(jwt: JwtSettings, claims: Mapping[str, Any]) -> Identity:
    """Return the identity in verified claims.

    Raises:
        ValueError: A claim is missing, or has another type.
    """
    tenant = jwt.tenant if jwt.tenant_claim is None else _claim(claims, jwt.tenant_claim)
    roles = [] if jwt.roles_claim is None else _claim(claims, jwt.roles_claim)
    roles = roles.split() if isinstance(roles, str) else roles
    if not isinstance(roles, list):
        raise TokenError(f"its claim {jwt.roles_claim} is no list of roles")
    return identity_of(tenant, _claim(claims, jwt.user_claim), roles)


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim by its name, or by the path "realm_access.roles" if no claim has the name."""
    value: Any = claims
    for part in [name] if name in claims else name.split("."):
        if not isinstance(value, dict) or part not in value:
            raise TokenError(f"it has no claim {name}")
        value = value[part]
    return value


def _of_headers(proxy: ProxySettings, scope: Scope) -> Identity | None:
    """Return the identity in the headers of a trusted proxy; None if it names no user.

    Raises:
        ValueError: A header is repeated, missing, or names no user that can be one.
    """
    name = _header(scope, proxy.identity_header)
    if not name:
        return None
    tenant = proxy.tenant if proxy.tenant_header is None else _header(scope, proxy.tenant_header)
    roles = _header(scope, proxy.roles_header) if proxy.roles_header is not None else ""
    # A comma is what a proxy puts between the client's header and its own.
    if "," in name or "," in (tenant or ""):
        raise ValueError("several names in one header")
    return identity_of(tenant, name, [role.strip() for role in roles.split(",") if role.strip()])


def _header(scope: Scope, name: str) -> str:
    """Return a header that may appear once; empty if it does not."""
    values = [value for key, value in scope["headers"] if key.lower() == name.lower().encode()]
    if len(values) > 1:
        raise ValueError(f"the header {name} is repeated")
    return values[0].decode("utf-8").strip(" \t") if values else ""


def _facts_of(file: Path) -> tuple[int, ...]:
    try:
        facts = file.stat()
    except OSError:
        return ()
    return facts.st_mtime_ns, facts.st_size, facts.st_ino
