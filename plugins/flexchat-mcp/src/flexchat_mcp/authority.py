"""Requests to an authorization server, which an untrusted server may have named: answers are checked and limited."""

from __future__ import annotations

import asyncio
import ipaddress
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from urllib.parse import parse_qs, urlsplit

import attrs
import httpx2
from flexchat.plugin import FetchError
from mcp.client.auth import OAuthFlowError
from mcp.shared.auth import OAuthToken
from pydantic import ValidationError

Send = Callable[[httpx2.Request], Awaitable[httpx2.Response]]

ANSWER_S = 20.0  # how long it may take to answer
_MAX_BYTES = 128 * 1024
_MAX_TOKEN_CHARS = 16 * 1024
_MAX_LIFE_S = 10 * 365 * 86_400
_MAX_REASON_CHARS = 200


class AuthorityError(OAuthFlowError):
    """The authorization server cannot be asked, or its answer cannot be used."""


@attrs.frozen
class Authority:
    """Whoever the server at a URL names as its authorization server."""

    server_url: str

    def check_address(self, url: str) -> None:
        """Refuse addresses where codes and tokens could be read on the way (OAuth 2.1, section 1.5).

        Raises:
            AuthorityError: It is not https, nor http on this machine for a server that is also on this machine.
        """
        parts = urlsplit(url)
        if parts.scheme == "https":
            return
        here = parts.scheme == "http" and _is_loopback(parts.hostname)
        if not here or not _is_loopback(urlsplit(self.server_url).hostname):
            origin = f"{parts.scheme}://{parts.netloc}"[:_MAX_REASON_CHARS]
            raise AuthorityError(f"{origin} is not https: codes and tokens could be read on the way")

    async def ask(self, request: httpx2.Request, send: Send) -> httpx2.Response:
        """Send a request and read the whole answer. No log shows them.

        Raises:
            AuthorityError: There is no answer, or it is too long.
        """
        # Before anything is sent: the request has a code, a refresh token or a client's secret.
        self.check_address(str(request.url))
        request.extensions["confidential"] = True
        host = request.url.host
        try:
            # The clock covers the body as well: a server could send a byte a minute.
            async with asyncio.timeout(ANSWER_S):
                response = await send(request)
                try:
                    body = await read_limited(response.aiter_bytes(), _MAX_BYTES)
                finally:
                    await response.aclose()
        except TimeoutError:
            raise AuthorityError(f"{host} did not answer within {ANSWER_S:.0f} s") from None
        except FetchError as error:
            raise AuthorityError(f"{error} ({error.hint})" if error.hint else str(error)) from None
        except httpx2.HTTPError:
            raise AuthorityError(f"the answer of {host} broke off") from None
        if body is None:
            raise AuthorityError(f"{host} answered with more than {_MAX_BYTES:,} bytes")
        return httpx2.Response(response.status_code, headers=response.headers, content=body, request=request)


def token_in(response: httpx2.Response) -> OAuthToken:
    """Return the token in an answer.

    Raises:
        AuthorityError: It has none, or none that can be sent.
    """
    host = response.request.url.host
    try:
        token = OAuthToken.model_validate_json(response.content)
    except ValidationError as error:
        wrong = ".".join(map(str, error.errors(include_input=False)[0]["loc"])) or "JSON"
        raise AuthorityError(f"the answer of {host} is not a token: its {wrong} cannot be used") from None
    for text in (token.access_token, token.refresh_token or "-"):
        if not (text.isascii() and text.isprintable() and " " not in text and 0 < len(text) <= _MAX_TOKEN_CHARS):
            raise AuthorityError(f"the answer of {host} has a token that cannot be sent")
    if token.expires_in is not None:
        # A life of 10**300 s would overflow the time at which it ends.
        token.expires_in = min(max(token.expires_in, 0), _MAX_LIFE_S)
    return token


@attrs.frozen(kw_only=True)
class Refusal:
    """An authorization server's error response.

    Attributes:
        code: The error code of RFC 6749, section 5.2; empty without one.
        text: A description for people, without any part of the request.
        is_final: Whether repeating the request cannot succeed.
    """

    code: str
    text: str
    is_final: bool

    @classmethod
    def of(cls, response: httpx2.Response) -> Refusal:
        """Read an answer."""
        texts: dict[str, str] = {}
        try:
            data = json.loads(response.content)
            texts = {name: data[name] for name in ("error", "error_description") if isinstance(data.get(name), str)}
        except (ValueError, AttributeError, RecursionError):
            pass
        code = texts.get("error", "")[:_MAX_REASON_CHARS]
        text = f"{response.request.url.host} answered {response.status_code}"
        reason = ": ".join(texts.values())
        # Some servers repeat the code or the refresh token in their error.
        for sent in parse_qs(response.request.content.decode("utf-8", "replace")).values():
            reason = reason.replace(sent[0], "***") if len(sent[0]) > 20 else reason
        if reason:
            text += f": {' '.join(reason.split())[:_MAX_REASON_CHARS]}"
        return cls(code=code, text=text, is_final=response.status_code in _DECIDED and code not in _UNDECIDED)


_DECIDED = {200, 400, 401}  # other statuses come from whatever stands between
_UNDECIDED = {"", "server_error", "temporarily_unavailable", "slow_down"}


async def read_limited(body: AsyncIterator[bytes], max_bytes: int) -> bytes | None:
    """Read a body; None if it is too long."""
    pieces, size = [], 0
    async for piece in body:
        size += len(piece)
        if size > max_bytes:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _is_loopback(host: str | None) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False
