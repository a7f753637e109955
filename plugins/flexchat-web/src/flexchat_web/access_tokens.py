"""Access tokens (JWT) of identity providers: their keys, fetched or from a file, and their verification.

Needs the extra jwt. Source: RFC 7519 (JWT), RFC 8725 (its best practices), OpenID Connect Discovery 1.0, RFC 8414.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import attrs
from flexchat.host import read_file
from flexchat.plugin import FetchError, FetchRequest

from .problems import ApiError
from .serve_settings import is_protected

if TYPE_CHECKING:
    import jwt

log = logging.getLogger(__name__)

FETCH_S = 10.0
FRESH_S = 600.0
"""After which keys are fetched again while they are used: a key that the provider withdraws ends."""

MAX_AGE_S = 6 * 3_600.0
"""How long keys are used if their service does not answer."""

REFETCH_S, RETRY_S = 30.0, 5.0
"""Between two requests for keys, and after one that failed: tokens with unknown keys cannot flood the provider."""

MAX_BYTES = 1 << 20
MAX_TOKEN_CHARS = 16_384


class TokenError(ValueError):
    """A token is refused; the text is for the log only."""


@attrs.frozen(kw_only=True)
class Trust:
    """Whose tokens are accepted, and for what.

    Attributes:
        jwks: Address of the keys, or their file; None: as the issuer's metadata name it.
        leeway_s: By which clocks may differ.
    """

    issuer: str
    audience: str
    jwks: str | Path | None = None
    algorithms: tuple[str, ...]
    leeway_s: float = 30


class TokenVerifier:
    """Verifies tokens. There is one for a server, so that what shares an issuer shares its keys.

    Args:
        create_fetcher: Makes a client, given addresses that need not be public.
    """

    def __init__(self, create_fetcher: Callable[[list[str]], Any]) -> None:
        self._create_fetcher = create_fetcher
        self._keys: dict[tuple[str, str | Path | None], KeySet] = {}
        self._fetchers: list[Any] = []

    async def verify(self, token: str, trust: Trust) -> Mapping[str, Any]:
        """Return the claims of a token.

        Raises:
            TokenError: It is refused.
            ApiError: 503: the keys are not available.
        """
        import jwt

        try:
            if len(token) > MAX_TOKEN_CHARS:
                raise TokenError("it is too long")
            unverified = jwt.decode_complete(token, options={"verify_signature": False})
            # What another issuer has signed is no reason to fetch keys.
            header, issuer = unverified["header"], unverified["payload"].get("iss")
            if header.get("alg") not in trust.algorithms or issuer != trust.issuer:
                raise TokenError("its issuer or its algorithm is not one that is accepted")
            key = await self._keys_of(trust).find(header.get("kid"))
            if key is None:
                raise TokenError("its issuer has no key with its id")
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[*trust.algorithms],
                audience=trust.audience,
                issuer=trust.issuer,
                leeway=trust.leeway_s,
                options={"require": ["exp", "iss", "aud"]},
            )
        except (ApiError, TokenError):
            raise
        except Exception as error:  # numbers out of range, deep nesting: a stranger writes the token
            raise TokenError(f"{type(error).__name__}: {error}") from error
        return claims

    def read_keys(self, trust: Trust) -> None:
        """Read the keys of a file, in place of those read before.

        Raises:
            ValueError, OSError: The file cannot be used; the earlier keys stay.
        """
        assert isinstance(trust.jwks, Path)
        keys = parse_keys(json.loads(read_file(trust.jwks, most=MAX_BYTES)))
        self._keys[trust.issuer, trust.jwks] = KeySet(None, keys)

    async def aclose(self) -> None:
        """Close the connections."""
        for fetcher in self._fetchers:
            await fetcher.aclose()

    def _keys_of(self, trust: Trust) -> KeySet:
        place = trust.issuer, trust.jwks
        if place not in self._keys:
            self._keys[place] = KeySet(self._fetches(trust))
        return self._keys[place]

    def _fetches(self, trust: Trust) -> Callable[[], Awaitable[tuple[jwt.PyJWK, ...]]]:
        # Addresses that the operator has written may be private; those that a document names, if [network] allows it.
        own = [_host_of(url) for url in (trust.issuer, trust.jwks) if isinstance(url, str)]
        fetcher = self._create_fetcher(own)
        self._fetchers.append(fetcher)

        async def get(url: str) -> Mapping[str, Any]:
            if not is_protected(url):
                raise ValueError(f"{url} is no https address")
            request = FetchRequest(url=url, headers={"accept": "application/json"})
            answer = await fetcher.fetch(request, timeout_s=FETCH_S, max_bytes=MAX_BYTES, max_redirects=0)
            document = json.loads(answer.body) if answer.status == 200 else None
            if not isinstance(document, dict):
                raise ValueError(f"{url} answered {answer.status}, without a JSON object")
            return document

        async def fetch() -> tuple[jwt.PyJWK, ...]:
            url = trust.jwks if isinstance(trust.jwks, str) else await _discover(trust.issuer, get)
            return parse_keys(await get(url))

        return fetch


class KeySet:
    """The keys of one issuer.

    Args:
        fetch: Reads them anew; None for those of a file.
    """

    def __init__(
        self, fetch: Callable[[], Awaitable[tuple[jwt.PyJWK, ...]]] | None, keys: tuple[jwt.PyJWK, ...] = ()
    ) -> None:
        self._fetch, self._keys = fetch, keys
        self._fetched_at, self._next_at = float("-inf"), float("-inf")
        self._refresh: asyncio.Task[None] | None = None

    async def find(self, kid: object) -> jwt.PyJWK | None:
        """Return the key with an id, or, without one, the only key; None if there is none.

        Only requests that cannot use a known key wait for new ones.

        Raises:
            ApiError: 503: the keys could not be fetched.
        """
        key = self._match(kid)
        if self._fetch is None:
            return key
        age, now = monotonic() - self._fetched_at, monotonic()
        if (key is None or age > FRESH_S) and self._refresh is None and now >= self._next_at:
            self._refresh = asyncio.create_task(self._fetch_again(self._fetch))
        if key is None or age > MAX_AGE_S:
            if self._refresh is not None:
                await asyncio.shield(self._refresh)
            if monotonic() - self._fetched_at > MAX_AGE_S:
                text = "the identity provider does not answer, so no token can be checked: try again later"
                raise ApiError(503, text, kind="identity-provider", headers={"retry-after": f"{RETRY_S:.0f}"})
            key = self._match(kid)
        return key

    def _match(self, kid: object) -> jwt.PyJWK | None:
        if kid is None:
            return self._keys[0] if len(self._keys) == 1 else None
        return next((key for key in self._keys if key.key_id == kid), None)

    async def _fetch_again(self, fetch: Callable[[], Awaitable[tuple[jwt.PyJWK, ...]]]) -> None:
        try:
            self._keys = await fetch()
        except (FetchError, ValueError) as error:
            log.warning("the keys of the identity provider cannot be fetched: %s", error)
            self._next_at = monotonic() + RETRY_S
        else:
            self._fetched_at, self._next_at = monotonic(), monotonic() + REFETCH_S
        finally:
            self._refresh = None


def parse_keys(document: object) -> tuple[jwt.PyJWK, ...]:
    """Return the keys for signatures in a JWKS document.

    Raises:
        ValueError: There is none.
    """
    import jwt

    try:
        keys = jwt.PyJWKSet.from_dict(document).keys  # type: ignore[arg-type]  # whatever it is
    except Exception as error:  # of several libraries, for a document of any shape
        raise ValueError(f"no usable keys: {error}") from error
    public = tuple(key for key in keys if key.key_type != "oct" and key.public_key_use in (None, "sig"))
    if not public:
        raise ValueError("no public keys for signatures")
    return public


async def _discover(issuer: str, get: Callable[[str], Awaitable[Mapping[str, Any]]]) -> str:
    parts = urlsplit(issuer)
    base, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    places = (
        f"{base}{path}/.well-known/openid-configuration",
        f"{base}/.well-known/oauth-authorization-server{path}",
        f"{base}/.well-known/openid-configuration{path}",
    )
    trouble: Exception = ValueError(f"{issuer} has no metadata")
    for place in dict.fromkeys(places):
        try:
            document = await get(place)
        except (FetchError, ValueError) as error:
            trouble = error
            continue
        url = document.get("jwks_uri")
        if document.get("issuer") == issuer and isinstance(url, str):
            return url
        trouble = ValueError(f"the metadata at {place} are those of another issuer, or name no keys")
    raise trouble


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"{host}:{parts.port or {'http': 80, 'https': 443}[parts.scheme]}"
