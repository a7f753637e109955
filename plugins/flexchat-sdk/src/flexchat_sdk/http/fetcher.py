"""The guarded client, for addresses that users, models and documents name: tools, documents, redirects, tokens."""

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
from typing import Any
from urllib.parse import urljoin

import attrs
import httpx
from flexchat.domain.fetching import Fetched, FetchedStream, FetchRequest
from flexchat.domain.masking import Mask
from flexchat.endpoints import CircuitOpen, Endpoints
from flexchat.errors import AddressRefusedError, FetchAnswerError, FetchConnectionError, FetchError, FetchTimeoutError

from .connections import AiohttpTransport, BodyStream
from .guard import AddressRule, CheckedUrl, checked_url
from .secrets import header_problem
from .trouble import fetch_trouble
from .unpacking import Unpacker, unpacker

log = logging.getLogger(__name__)

CONNECT_S = 5.0
MAX_BYTES = 8 * 2**20
MAX_REDIRECTS = 5
_LOGGED_CHARS = 2_000
_PACKING = 2**16  # bytes that compression may add to an incompressible answer
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
# Headers that a redirect may take to another origin: any other may hold a key.
_SENT_ANYWHERE = frozenset({"accept", "accept-language", "user-agent"})
_CREDENTIAL_HEADER = re.compile(r"(?:^|[-_])(?:api[-_]?key|access[-_]?key|token|secret|passw(?:or)?d)$")
_OURS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


@attrs.define(eq=False)
class _Hop:
    """One request to one address, whether it has reached a connection, and the status of its answer."""

    url: CheckedUrl
    is_connected: bool = False
    status: int = 0

    def connected(self) -> None:
        self.is_connected = True


class _ServerFailure(FetchConnectionError):
    """The service failed to answer a request that it received."""


# aiohttp checks an address in the request's task or in one that it starts: a context variable reaches both.
_hop: contextvars.ContextVar[_Hop | None] = contextvars.ContextVar("flexchat_hop", default=None)


class GuardedFetcher:
    """An HTTP client for untrusted URLs: it connects only to addresses that *rule* permits.

    Each address is checked when its socket is created, so earlier resolutions of a name do not matter. If the
    environment names a proxy for a URL, the proxy resolves its name; addresses in the URL itself are still checked.
    Requests to one origin share a circuit breaker and a retry budget.

    Close it after use; it can be used again.

    Args:
        rule: Which addresses may be reached.
        mask: Removes secrets from errors and the log.
        endpoints: Circuit breakers and retry budgets of the origins; default: new ones.
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
        """Send a request and return the whole answer; error statuses do not raise.

        Redirects are followed for safe methods only. Each hop is checked by the guard, and loses headers that may
        hold a key if the origin changes. Requests are never sent twice unless *request* permits it.

        Args:
            timeout_s: For all hops together, in seconds.
            max_bytes: The longest body, unpacked.
            is_repeat: Whether this repeats an earlier request: it then draws on the origin's retry budget.

        Raises:
            FetchError: No usable answer; ``may_have_arrived`` is whether the service may have acted.
        """
        url = self._check(request)
        until = time.monotonic() + timeout_s
        hops = 0
        while True:
            answer = await self._send(request, url, until, timeout_s, max_bytes, is_repeat)
            target = answer.headers.get("location")
            if answer.status not in _REDIRECTS or not target or not request.is_safe:
                return answer
            hops += 1
            if hops > max_redirects:
                raise FetchAnswerError(f"{url.host} redirects more than {max_redirects} times", may_have_arrived=True)
            before, url = url, self._redirect(url, target, request.domains)
            if url.origin != before.origin:
                # Chosen by what is harmless, not by what is secret: any header of a user may be a credential.
                headers = {name: text for name, text in request.headers.items() if name.lower() in _SENT_ANYWHERE}
                request = attrs.evolve(request, headers=headers, body=b"")

    @contextlib.asynccontextmanager
    async def stream(self, request: FetchRequest, *, timeout_s: float = 10.0) -> AsyncGenerator[FetchedStream, None]:
        """Send a request and yield its answer while it arrives, for endless bodies; redirects are not followed.

        Args:
            timeout_s: Limit for the answer's headers, in seconds; the body has none.

        Raises:
            FetchError: As for fetch; also raised while reading the pieces.
        """
        url = self._check(request)
        transport = self._transport(keeps=request.may_repeat)
        hop = _Hop(url)
        with self._watched(hop):
            self._log_request(request, url)
            async with self._guarded(hop, timeout_s):
                response = await transport.handle_async_request(self._as_httpx(request, hop))
            hop.status = response.status_code
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

    def _check(self, request: FetchRequest) -> CheckedUrl:
        """Check that a request may be sent, and return its URL.

        Raises:
            AddressRefusedError: Its URL or a header is not permitted.
        """
        url = checked_url(request.url)
        self._rule.check(url, request.domains)
        if problem := header_problem(request.headers):
            raise AddressRefusedError(f"the request cannot be sent: {problem}")
        return url

    def _redirect(self, url: CheckedUrl, target: str, domains: tuple[str, ...] | None) -> CheckedUrl:
        try:
            redirected = checked_url(urljoin(url.text, target))
            self._rule.check(redirected, domains)
        except (FetchError, ValueError) as error:
            text = f"{url.host} redirects to where no request may go: {self._mask(str(error))}"
            hint = error.hint if isinstance(error, FetchError) else None
            raise AddressRefusedError(text, hint=hint, may_have_arrived=True) from None
        return redirected

    async def _send(
        self, request: FetchRequest, url: CheckedUrl, until: float, timeout_s: float, max_bytes: int, is_repeat: bool
    ) -> Fetched:
        hop, started = _Hop(url), time.monotonic()
        with self._watched(hop, is_repeat=is_repeat):
            self._log_request(request, url)
            async with self._guarded(hop, timeout_s, until=until):
                transport = self._transport(keeps=request.may_repeat)
                response = await transport.handle_async_request(self._as_httpx(request, hop))
                hop.status = response.status_code
                try:
                    answer = await _read(response, url, max_bytes)
                finally:
                    await response.stream.aclose()  # type: ignore[union-attr]  # of an asynchronous transport
        self._log_answer(answer, url, started, confidential=request.confidential)
        return answer

    @contextlib.contextmanager
    def _watched(self, hop: _Hop, *, is_repeat: bool = False) -> Iterator[None]:
        """Record the outcome of a hop in its origin's circuit breaker and retry budget."""
        endpoint = self._endpoints.of(hop.url.origin)
        if not is_repeat:
            endpoint.budget.request()
        elif not endpoint.budget.take():
            text = f"{hop.url.host}: too many requests have been repeated already"
            raise FetchConnectionError(text, retryable=False)
        try:
            call = endpoint.breaker.call()
        except CircuitOpen as error:
            raise FetchConnectionError(self._mask(str(error)), retry_after_s=error.retry_after_s) from None
        # A status of 500 and above is a failure for the breaker, but an answer for the caller.
        with contextlib.suppress(_ServerFailure), call:
            yield
            if hop.status >= 500:
                raise _ServerFailure("it failed on its side")

    @contextlib.asynccontextmanager
    async def _guarded(
        self, hop: _Hop, timeout_s: float | None, *, until: float | None = None
    ) -> AsyncGenerator[None, None]:
        """Run the enclosed requests as part of *hop*: its guard applies, and their failures become FetchErrors.

        Args:
            timeout_s: The limit in seconds, as named in the error; None for no limit.
            until: The end by time.monotonic(); None for timeout_s from now.
        """
        host = hop.url.host
        token = _hop.set(hop)
        left_s = timeout_s if until is None else max(until - time.monotonic(), 0.001)
        deadline = asyncio.timeout(left_s)
        try:
            async with deadline:
                yield
        except TimeoutError:
            # A timeout of the caller's that expires inside is not ours to convert.
            if not deadline.expired() or timeout_s is None:
                raise
            if hop.is_connected:
                text = f"{host} did not answer within {round(timeout_s, 2):g} s"
            else:
                text = f"no connection to {host} within {round(timeout_s, 2):g} s"
            raise FetchTimeoutError(text, may_have_arrived=hop.is_connected) from None
        except httpx.TransportError as error:
            raise fetch_trouble(error, hop.url, self._mask, is_connected=hop.is_connected) from error
        finally:
            _hop.reset(token)

    async def _pieces(self, response: httpx.Response, hop: _Hop) -> AsyncIterator[bytes]:
        """Yield the body of a stream, unpacked."""
        packed = _unpacker(response.headers.get("content-encoding", ""), hop.url)
        body = response.stream.__aiter__()  # type: ignore[union-attr]  # of an asynchronous transport
        while True:
            async with self._guarded(hop, None):
                try:
                    piece = await anext(body)
                except StopAsyncIteration:
                    return
            for plain in _unpack(packed, piece, hop.url):
                if plain:
                    yield plain

    def _as_httpx(self, request: FetchRequest, hop: _Hop) -> httpx.Request:
        sent = {"host": hop.url.origin.partition("://")[2], "accept-encoding": "identity", "user-agent": "flexchat"}
        sent |= {name.lower(): text for name, text in request.headers.items() if name.lower() not in _OURS}
        if request.body or not request.is_safe:
            sent["content-length"] = str(len(request.body))
        for secret in (*request.secrets, *_credentials(sent)):
            self._mask.add(secret)  # the service may echo it in its answer
        extensions = {"timeout": {"connect": CONNECT_S}, "repeatable": request.may_repeat, "connected": hop.connected}
        stream = BodyStream(request.body)
        return httpx.Request(request.method, hop.url.text, headers=sent, stream=stream, extensions=extensions)

    def _transport(self, *, keeps: bool) -> httpx.AsyncBaseTransport:
        """Return the pooled transport, or the one that opens a connection per request.

        A request that must not be sent twice needs a new connection: on a reused one that the server has closed, a
        failure does not show whether the request arrived.
        """
        if (transport := self._transports.get(keeps)) is None:
            transport = AiohttpTransport(permits=self._permits, keeps=keeps, resolver=self._resolver)
            self._transports[keeps] = transport
        return transport

    def _permits(self, address: str, port: int) -> bool:
        hop = _hop.get()
        return hop is not None and self._rule.permits(address, port, hop.url.host)

    def _log_request(self, request: FetchRequest, url: CheckedUrl) -> None:
        if log.isEnabledFor(logging.DEBUG):
            body = self._excerpt(request.body, request.confidential)
            log.debug("%s %s (headers: %s) %s", request.method, self._mask(url.text), ", ".join(request.headers), body)

    def _log_answer(self, answer: Fetched, url: CheckedUrl, started: float, *, confidential: bool) -> None:
        if log.isEnabledFor(logging.DEBUG):
            took_ms, body = (time.monotonic() - started) * 1000, self._excerpt(answer.body, confidential)
            log.debug("%s answered %d after %.0f ms: %s", url.host, answer.status, took_ms, body)

    def _excerpt(self, body: bytes, confidential: bool) -> str:
        return "(confidential)" if confidential else self._mask(body[:_LOGGED_CHARS].decode("utf-8", "replace"))


async def _read(response: httpx.Response, url: CheckedUrl, max_bytes: int) -> Fetched:
    """Read an answer, limited to *max_bytes* both before and after decompression.

    Raises:
        FetchAnswerError: The body is longer, damaged or cut off.
    """
    headers = _headers(response.headers.raw)
    if response.status_code < 200:
        raise FetchAnswerError(f"{url.host} wants to speak another protocol", may_have_arrived=True)
    packed = _unpacker(headers.get("content-encoding", ""), url)
    pieces, size, received = [], 0, 0
    async for piece in response.stream:  # type: ignore[union-attr]  # of an asynchronous transport
        received += len(piece)
        for plain in _unpack(packed, piece, url):
            size += len(plain)
            # Both limits: an endless compressed stream may unpack to nothing, and a short one to gigabytes.
            if size > max_bytes or received > max_bytes + _PACKING:
                text = f"{url.host} sent more than {max_bytes} bytes in one answer"
                raise FetchAnswerError(text, may_have_arrived=True)
            pieces.append(plain)
    if packed is not None and not packed.is_whole:
        raise FetchAnswerError(f"{url.host} sent compressed data that was cut off", may_have_arrived=True)
    return Fetched(status=response.status_code, headers=headers, body=b"".join(pieces), url=url.text)


def _unpack(packed: Unpacker | None, piece: bytes, url: CheckedUrl) -> Iterator[bytes]:
    try:
        yield from (piece,) if packed is None else packed.steps(piece)
    except zlib.error:
        raise FetchAnswerError(f"{url.host} sent compressed data that is damaged", may_have_arrived=True) from None


def _headers(raw: list[tuple[bytes, bytes]]) -> Mapping[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _unpacker(encoding: str, url: CheckedUrl) -> Unpacker | None:
    try:
        return unpacker(encoding)
    except ValueError as error:
        raise FetchAnswerError(f"{url.host} {error}", may_have_arrived=True) from None


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
