"""The guarded client, for whatever a user, a model or a document names: tools, documents, redirects, tokens."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import contextvars
import logging
import re
import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

import attrs
from flexchat.domain.fetching import Fetched, FetchedStream, FetchRequest
from flexchat.domain.masking import Mask
from flexchat.errors import AddressRefusedError, FetchAnswerError, FetchConnectionError, FetchError, FetchTimeoutError
from flexchat.services.breaker import CircuitOpen, WatchedCall
from flexchat.services.endpoints import Endpoints

from .guard import AddressRule, CheckedUrl, checked_url
from .secrets import header_problem

if TYPE_CHECKING:  # loaded with the first request
    import httpx

log = logging.getLogger(__name__)

CONNECT_S = 5.0
MAX_BYTES = 8 * 2**20
MAX_REDIRECTS = 5
_LOGGED_CHARS = 2_000
_PACKING = 2**16
"""What packing may add to an answer, in bytes."""
_SLICE = 4_096
"""How much is unpacked at once, in bytes: with many packed parts in a row, the rest is copied for each of them."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# What goes along to another origin: everything else may be a key.
_SENT_ANYWHERE = frozenset({"accept", "accept-language", "user-agent"})
_CREDENTIAL_HEADER = re.compile(r"(?:^|[-_])(?:api[-_]?key|access[-_]?key|token|secret|passw(?:or)?d)$")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


@attrs.define(eq=False)
class _Hop:
    """One request to one address, and how far it came."""

    url: CheckedUrl
    is_connected: bool = False

    def connected(self) -> None:
        self.is_connected = True


# aiohttp asks about an address inside the task of the request, or in one that it starts: both see this.
_hop: contextvars.ContextVar[_Hop | None] = contextvars.ContextVar("flexchat_hop", default=None)


class GuardedFetcher:
    """Sends requests to addresses that the rule permits, and nowhere else.

    Every address is checked when a socket is about to be made for it, so it does not matter what a name led to before.
    If the environment names a proxy for a URL, the proxy decides where its name leads; addresses in the URL itself
    are still checked. Requests to one origin share a circuit breaker and a retry budget.

    Loads aiohttp with the first request. Close it after use; it can be used again.

    Args:
        rule: Which addresses may be reached.
        mask: Removes secrets from errors and the log.
        endpoints: What is known of the servers; default: nothing yet.
        resolver: An aiohttp resolver; None for the system's.
    """

    def __init__(
        self,
        rule: AddressRule | None = None,
        *,
        mask: Mask | None = None,
        endpoints: Endpoints | None = None,
        resolver: Any = None,
    ) -> None:
        self._rule, self._mask = rule or AddressRule(), mask or Mask()
        self._endpoints = endpoints or Endpoints()
        self._resolver = resolver
        self._transports: dict[bool, httpx.AsyncBaseTransport] = {}

    async def fetch(
        self,
        request: FetchRequest,
        *,
        timeout_s: float = 10.0,
        max_bytes: int = MAX_BYTES,
        max_redirects: int = MAX_REDIRECTS,
        is_repeat: bool = False,
    ) -> Fetched:
        """Send a request and return the whole answer, whatever its status.

        Redirects are followed only for methods that change nothing, each hop through the guard, and without headers
        that may hold a key if the origin changes. Nothing is sent twice, except by request.repeatable.

        Args:
            timeout_s: For everything together, in seconds.
            max_bytes: The longest body, unpacked.
            is_repeat: Whether the same was sent before: then it takes from the origin's retry budget.

        Raises:
            FetchError: No usable answer; its ``may_have_arrived`` says whether the service may have acted.
        """
        url = self._checked(request)
        self._transport(keeps=request.may_repeat)  # loads the client: that is not the service's time
        until = time.monotonic() + timeout_s
        hops = 0
        while True:
            answer = await self._watched(request, url, until, timeout_s, max_bytes, is_repeat)
            target = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not target or not request.is_safe:
                return answer
            hops += 1
            if hops > max_redirects:
                raise FetchAnswerError(f"{url.host} redirects more than {max_redirects} times", may_have_arrived=True)
            before, url = url, self._redirected(url, target, request.domains)
            if url.origin != before.origin:
                kept = {name: text for name, text in request.headers.items() if name.lower() in _SENT_ANYWHERE}
                request = attrs.evolve(request, headers=kept, body=b"")

    @contextlib.asynccontextmanager
    async def stream(self, request: FetchRequest, *, timeout_s: float = 10.0) -> AsyncGenerator[FetchedStream, None]:
        """Send a request and give its answer as it arrives, for bodies that have no end; no redirect is followed.

        Args:
            timeout_s: Until the answer's headers are there, in seconds.

        Raises:
            FetchError: As fetch; reading the pieces raises it, too.
        """
        url = self._checked(request)
        transport = self._transport(keeps=request.may_repeat)
        hop = _Hop(url)
        self._log_request(request, url)
        endpoint = self._endpoints.of(url.origin)
        endpoint.budget.request()
        try:
            call = endpoint.breaker.call()
        except CircuitOpen as error:
            raise FetchConnectionError(self._mask(str(error)), retry_after_s=error.retry_after_s) from None
        with _Watch(call) as watch:
            async with self._told(hop, timeout_s):
                response = await transport.handle_async_request(self._as_httpx(request, hop))
            watch.has_failed = response.status_code >= 500
        try:
            pieces = self._pieces(response, hop)
            headers = _headers(response.headers.raw)
            yield FetchedStream(status=response.status_code, headers=headers, pieces=pieces, url=url.text)
        finally:
            await response.stream.aclose()  # type: ignore[union-attr]  # of an asynchronous transport

    async def aclose(self) -> None:
        """Close all connections."""
        transports, self._transports = self._transports, {}
        for transport in transports.values():
            await transport.aclose()

    def _checked(self, request: FetchRequest) -> CheckedUrl:
        """Return a request's URL, if the request may be sent."""
        url = checked_url(request.url)
        self._rule.check(url, request.domains)
        problem = header_problem(request.headers)
        if problem:
            raise AddressRefusedError(f"the request cannot be sent: {problem}")
        return url

    def _redirected(self, url: CheckedUrl, target: str, domains: tuple[str, ...] | None) -> CheckedUrl:
        try:
            found = checked_url(urljoin(url.text, target))
            self._rule.check(found, domains)
        except (FetchError, ValueError) as error:
            text = f"{url.host} redirects to where no request may go: {self._mask(str(error))}"
            hint = error.hint if isinstance(error, FetchError) else None
            raise AddressRefusedError(text, hint=hint, may_have_arrived=True) from None
        return found

    async def _watched(
        self, request: FetchRequest, url: CheckedUrl, until: float, timeout_s: float, max_bytes: int, is_repeat: bool
    ) -> Fetched:
        """Send one hop, and tell its endpoint how it went."""
        endpoint = self._endpoints.of(url.origin)
        if is_repeat and not endpoint.budget.take():
            raise FetchConnectionError(f"{url.host}: too many requests have been repeated already", retryable=False)
        if not is_repeat:
            endpoint.budget.request()
        try:
            call = endpoint.breaker.call()
        except CircuitOpen as error:
            raise FetchConnectionError(self._mask(str(error)), retry_after_s=error.retry_after_s) from None
        with _Watch(call) as watch:
            answer = await self._sent(request, url, until, timeout_s, max_bytes)
            watch.has_failed = answer.status >= 500
            return answer

    async def _sent(
        self, request: FetchRequest, url: CheckedUrl, until: float, timeout_s: float, max_bytes: int
    ) -> Fetched:
        hop, started = _Hop(url), time.monotonic()
        self._log_request(request, url)
        async with self._told(hop, timeout_s, until=until):
            transport = self._transport(keeps=request.may_repeat)
            response = await transport.handle_async_request(self._as_httpx(request, hop))
            try:
                answer = await _read(response, url, max_bytes)
            finally:
                await response.stream.aclose()  # type: ignore[union-attr]  # of an asynchronous transport
        self._log_answer(answer, url, started, confidential=request.confidential)
        return answer

    @contextlib.asynccontextmanager
    async def _told(
        self, hop: _Hop, timeout_s: float | None, *, until: float | None = None
    ) -> AsyncGenerator[None, None]:
        """Let the guard know the hop of the requests sent inside, and turn what happens to them into FetchErrors.

        Args:
            timeout_s: How long they may take, in seconds, and what is said if they take longer.
            until: When they must have ended, by time.monotonic(); None for timeout_s from now.
        """
        import httpx

        host = hop.url.host
        token = _hop.set(hop)
        left_s = timeout_s if until is None else max(until - time.monotonic(), 0.001)
        deadline = asyncio.timeout(left_s)
        try:
            async with deadline:
                yield
        except TimeoutError:
            if not deadline.expired() or timeout_s is None:
                raise
            if hop.is_connected:
                text = f"{host} did not answer within {round(timeout_s, 2):g} s"
            else:
                text = f"no connection to {host} within {round(timeout_s, 2):g} s"
            raise FetchTimeoutError(text, may_have_arrived=hop.is_connected) from None
        except httpx.TransportError as error:
            from .fetch_trouble import fetch_trouble

            raise fetch_trouble(error, hop.url, self._mask, is_connected=hop.is_connected) from error
        finally:
            _hop.reset(token)

    async def _pieces(self, response: httpx.Response, hop: _Hop) -> AsyncIterator[bytes]:
        """Yield the body of a stream, unpacked."""
        unpack = _unpacker(response.headers.get("content-encoding", ""), hop.url)
        body = response.stream.__aiter__()  # type: ignore[union-attr]  # of an asynchronous transport
        while True:
            async with self._told(hop, None):
                try:
                    piece = await anext(body)
                except StopAsyncIteration:
                    return
            try:
                plain = piece if unpack is None else unpack(piece, MAX_BYTES)
            except zlib.error:
                text = f"{hop.url.host} sent compressed data that is damaged"
                raise FetchAnswerError(text, may_have_arrived=True) from None
            if plain:
                yield plain

    def _as_httpx(self, request: FetchRequest, hop: _Hop) -> httpx.Request:
        import httpx

        from .connections import BodyStream

        sent = {"host": hop.url.origin.partition("://")[2], "accept-encoding": "identity", "user-agent": "flexchat"}
        sent |= {name.lower(): text for name, text in request.headers.items() if name.lower() not in _OURS}
        if request.body or not request.is_safe:
            sent["content-length"] = str(len(request.body))
        for secret in (*request.secrets, *_credentials(sent)):
            self._mask.add(secret)  # the service may repeat it in its answer
        extensions = {
            "timeout": {"connect": CONNECT_S},
            "repeatable": request.may_repeat,
            "connected": hop.connected,
        }
        stream = BodyStream(request.body)
        return httpx.Request(request.method, hop.url.text, headers=sent, stream=stream, extensions=extensions)

    def _transport(self, *, keeps: bool) -> httpx.AsyncBaseTransport:
        """Return the transport that keeps connections, or the one for requests that must not meet a closed one."""
        found = self._transports.get(keeps)
        if found is None:
            from .connections import AiohttpTransport

            found = AiohttpTransport(permits=self._permits, keeps=keeps, resolver=self._resolver)
            self._transports[keeps] = found
        return found

    def _permits(self, address: str, port: int) -> bool:
        hop = _hop.get()
        return hop is not None and self._rule.permits(address, port, hop.url.host)

    def _log_request(self, request: FetchRequest, url: CheckedUrl) -> None:
        if log.isEnabledFor(logging.DEBUG):
            names = ", ".join(request.headers)
            shown = b"(confidential)" if request.confidential else request.body[:_LOGGED_CHARS]
            body = self._mask(shown.decode("utf-8", "replace"))
            log.debug("%s %s (headers: %s) %s", request.method, self._mask(url.text), names, body)

    def _log_answer(self, answer: Fetched, url: CheckedUrl, started: float, *, confidential: bool) -> None:
        if log.isEnabledFor(logging.DEBUG):
            took_ms = (time.monotonic() - started) * 1000
            shown = b"(confidential)" if confidential else answer.body[:_LOGGED_CHARS]
            body = self._mask(shown.decode("utf-8", "replace"))
            log.debug("%s answered %d after %.0f ms: %s", url.host, answer.status, took_ms, body)


class _Watch:
    """Tells a breaker how a call went: a status of 500 and more counts as the service's failure."""

    __slots__ = ("_call", "has_failed")

    def __init__(self, call: WatchedCall) -> None:
        self._call, self.has_failed = call, False

    def __enter__(self) -> _Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        if error is None and self.has_failed:
            error = FetchConnectionError("it failed on its side")
        self._call.__exit__(type(error) if error is not None else None, error, None)


async def _read(response: httpx.Response, url: CheckedUrl, max_bytes: int) -> Fetched:
    """Read an answer, at most max_bytes of it, packed and unpacked."""
    headers = _headers(response.headers.raw)
    if response.status_code < 200:
        raise FetchAnswerError(f"{url.host} wants to speak another protocol", may_have_arrived=True)
    unpack = _unpacker(headers.get("content-encoding", ""), url)
    pieces, size, packed = [], 0, 0
    async for piece in response.stream:  # type: ignore[union-attr]  # of an asynchronous transport
        packed += len(piece)
        try:
            plain = piece if unpack is None else unpack(piece, max_bytes - size + 1)
        except zlib.error:
            raise FetchAnswerError(f"{url.host} sent compressed data that is damaged", may_have_arrived=True) from None
        size += len(plain)
        if size > max_bytes or packed > max_bytes + _PACKING:  # packed without end, a bomb may be nothing unpacked
            raise FetchAnswerError(f"{url.host} sent more than {max_bytes} bytes in one answer", may_have_arrived=True)
        pieces.append(plain)
    if unpack is not None and pieces and not unpack.is_whole:
        raise FetchAnswerError(f"{url.host} sent compressed data that was cut off", may_have_arrived=True)
    return Fetched(status=response.status_code, headers=headers, body=b"".join(pieces), url=url.text)


def _headers(raw: list[tuple[bytes, bytes]]) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


class _Unpacker:
    """Unpacks gzip and deflate, piece by piece."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(wbits=47)  # detects on its own which of the two it is

    def __call__(self, piece: bytes, at_most: int) -> bytes:
        plain = bytearray()
        for start in range(0, len(piece), _SLICE):
            packed = piece[start : start + _SLICE]
            while packed and len(plain) < at_most:
                # There may be several in a row (RFC 1952, section 2.2): some proxies pack each piece separately.
                if self._inflate.eof:
                    self._inflate = zlib.decompressobj(wbits=47)
                plain += self._inflate.decompress(packed, at_most - len(plain))
                packed = self._inflate.unused_data
        return bytes(plain)

    @property
    def is_whole(self) -> bool:
        return self._inflate.eof


def _unpacker(encoding: str, url: CheckedUrl) -> _Unpacker | None:
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return None
    if kind in ("gzip", "x-gzip", "deflate"):
        return _Unpacker()
    raise FetchAnswerError(
        f"{url.host} sent content-encoding {kind[:40]!r}, which was not asked for", may_have_arrived=True
    )


def _credentials(headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the tokens and passwords of a request's headers."""
    for name, text in headers.items():
        if name in ("authorization", "proxy-authorization"):
            scheme, _, token = text.partition(" ")
            yield (token or scheme).strip()
            if scheme.lower() == "basic":
                with contextlib.suppress(ValueError):
                    yield base64.b64decode(token, validate=True).decode()
        elif name == "cookie":
            yield from (pair.strip().partition("=")[2] for pair in text.split(";"))
        elif _CREDENTIAL_HEADER.search(name):
            yield text.strip()
