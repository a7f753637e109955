"""The default transport: httpx's transport protocol over aiohttp's connections.

httpx 0.28's own pool never recovers from many simultaneous cancellations, and is slow with hundreds of waiting
requests; aiohttp's does neither. Not httpx_aiohttp: it reports a broken connection as a connect timeout, ignores the
environment's proxies, and costs some 50 µs more per request.
"""

from __future__ import annotations

import asyncio
import base64
import functools
import io
import ipaddress
import os
import socket
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import httpx
from aiohttp.http import HttpProcessingError
from yarl import URL

from .pieces import Json, Pieces

MAX_CONNECTIONS = 1024
KEPT_S = 15.0  # seconds that an unused connection stays open
# aiohttp warns of larger bodies that are not files.
_AS_FILE_BYTES = 2**20
_STALE = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
_TROUBLE = (aiohttp.ClientError, HttpProcessingError, OSError, ValueError)


class BodyStream(httpx.AsyncByteStream):
    """A request body in memory, or made while it is read."""

    def __init__(self, body: Json) -> None:
        self.body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in (self.body,) if isinstance(self.body, bytes) else self.body:
            yield piece


class ForbiddenAddressError(OSError):
    """The address that a name resolves to is not permitted. No socket was created for it."""

    def __init__(self) -> None:
        super().__init__("the address may not be connected to")


class AiohttpTransport(httpx.AsyncBaseTransport):
    """An httpx transport over aiohttp's connection pool, for one event loop at a time.

    Of a request's timeouts, only ``connect`` is used: the other deadlines are the caller's. Of its extensions,
    ``repeatable`` (False: never send the request again when a reused connection turns out to be closed) and
    ``connected`` (called without arguments once there is a connection, before anything is sent).

    Args:
        permits: Called with (address, port) before a socket is created, inside the task of the request. Not called
            for proxies or for addresses behind them. None permits all.
        keeps: Whether connections are reused for later requests.
        resolver: Resolves names; None for the system's.

    Attributes:
        kept_until: The time, by time.monotonic(), until which the pool may hold a reusable connection.
    """

    def __init__(
        self,
        *,
        permits: Callable[[str, int], bool] | None = None,
        keeps: bool = True,
        resolver: aiohttp.abc.AbstractResolver | None = None,
    ) -> None:
        self._permits, self._keeps, self._resolver = permits, keeps, resolver
        self._sessions: dict[bool, aiohttp.ClientSession] = {}  # by whether addresses are checked
        self._loop: asyncio.AbstractEventLoop | None = None
        self._process = 0
        self._inherited: list[object] = []
        self._targets: dict[str, tuple[URL, dict[str, Any]]] = {}
        self.kept_until = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. The caller reads the answer's body and closes its stream.

        A request is sent twice only if it is repeatable and a reused connection turned out to be closed.
        """
        body = request.stream.body if isinstance(request.stream, BodyStream) else await request.aread()
        data: Any = body or None
        if isinstance(body, Pieces):
            data = request.stream
        elif len(body) >= _AS_FILE_BYTES:
            data = io.BytesIO(body)
        connect_s = request.extensions.get("timeout", {}).get("connect")
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in request.headers.raw]
        may_repeat = request.extensions.get("repeatable", True) and time.monotonic() < self.kept_until
        for may_be_stale in (may_repeat, False):
            try:
                url, proxy = self._target(str(request.url))
                response = await self._session(is_checked=self._permits is not None and not proxy).request(
                    request.method,
                    url,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    timeout=_timeout(connect_s),
                    trace_request_ctx=request.extensions.get("connected"),
                    **proxy,
                )
                break
            except _STALE as error:
                # The server may have closed an idle connection at the moment it was reused: retry once, immediately.
                # After kept_until no idle connection exists, so that a second request would be a real repetition.
                if not may_be_stale or isinstance(error, aiohttp.ClientConnectorError):
                    raise _as_httpx(error, request) from error
            except _TROUBLE as error:
                raise _as_httpx(error, request) from error
        stream = _AnswerStream(self, response, request)
        return httpx.Response(response.status, headers=response.raw_headers, stream=stream, request=request)

    async def aclose(self) -> None:
        """Close all connections."""
        sessions, self._sessions = self._sessions, {}
        if self._loop is asyncio.get_running_loop():
            for session in sessions.values():
                await session.close()

    def _session(self, *, is_checked: bool) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        # Connections belong to the loop that opened them; the sessions of another loop, which may be closed, are
        # dropped without closing.
        if self._loop is not loop:
            if self._process != os.getpid():
                # A parent's sockets: collecting them would remove them from the parent's selector, which a fork shares.
                self._inherited.append((self._loop, self._sessions))
            self._process, self._loop, self.kept_until, self._sessions = os.getpid(), loop, 0.0, {}
        if (cached := self._sessions.get(is_checked)) is None:
            cached = self._sessions[is_checked] = self._open(is_checked)
        return cached

    def _open(self, is_checked: bool) -> aiohttp.ClientSession:
        keeping: dict[str, Any] = {"keepalive_timeout": KEPT_S} if self._keeps else {"force_close": True}
        connector = aiohttp.TCPConnector(
            limit=MAX_CONNECTIONS,
            ssl=_tls(),
            resolver=self._resolver,
            socket_factory=self._checked_socket if is_checked else None,
            **keeping,
        )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trace_configs=[_tracing()] if self._permits is not None else None,
        )

    def _checked_socket(self, info: tuple[Any, ...]) -> socket.socket:
        # The last moment before a connection: the address is the one connected to, so that a name which resolves
        # differently a second time (DNS rebinding) cannot pass the check.
        family, kind, protocol, _, address = info
        if self._permits is None or not self._permits(address[0], address[1]):
            raise ForbiddenAddressError
        return socket.socket(family, kind, protocol)

    def _target(self, url: str) -> tuple[URL, dict[str, Any]]:
        if (cached := self._targets.get(url)) is None:
            if len(self._targets) >= 64:
                self._targets.clear()
            cached = self._targets[url] = (URL(url, encoded=True), proxy_arguments(url))
        return cached


class _AnswerStream(httpx.AsyncByteStream):
    """The body of an answer, in the pieces in which it arrives.

    With its C parser, aiohttp 3.14 does not notify the body when the connection closes after broken framing: a reader
    would wait forever. Therefore the end of the connection is observed here.
    """

    def __init__(self, transport: AiohttpTransport, response: aiohttp.ClientResponse, request: httpx.Request) -> None:
        self._transport, self._response, self._request = transport, response, request
        protocol = response.connection.protocol if response.connection is not None else None
        self._closed: asyncio.Future[None] | None = protocol.closed if protocol is not None else None
        if self._closed is None:
            self._lost(None)
        else:
            # Removed first, so that a connection reused a thousand times holds the callback once.
            self._closed.remove_done_callback(_retrieve_exception)
            self._closed.add_done_callback(_retrieve_exception)
            self._closed.add_done_callback(self._lost)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            piece = await self._response.content.readany()
        except _TROUBLE as error:
            raise _as_httpx(error, self._request) from error
        if not piece:
            raise StopAsyncIteration
        return piece

    async def aclose(self) -> None:
        # If the answer has ended, its connection is already back in the pool and stays there; any other is closed.
        self._transport.kept_until = time.monotonic() + KEPT_S
        if self._closed is not None:
            self._closed.remove_done_callback(self._lost)
        self._response.close()

    def _lost(self, closed: object) -> None:
        content = self._response.content
        if not content.is_eof() and content.exception() is None:
            content.set_exception(HttpProcessingError(message="the framing of the body is broken"))


def _retrieve_exception(closed: asyncio.Future[None]) -> None:
    """Retrieve a connection's exception, which asyncio would otherwise log as never retrieved."""
    if not closed.cancelled():
        closed.exception()


def proxy_arguments(url: str) -> dict[str, Any]:
    """Return aiohttp's arguments for the proxy that the environment names for *url*; empty without one.

    HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY are honoured; loopback is always reached directly.
    """
    target = URL(url)
    host = target.host or ""
    if _is_loopback(host) or urllib.request.proxy_bypass(host):
        return {}
    proxies = urllib.request.getproxies()
    if not (address := proxies.get(target.scheme) or proxies.get("all")):
        return {}
    proxy = URL(address if "://" in address else f"http://{address}")
    if proxy.scheme not in ("http", "https"):
        raise ValueError(f"a proxy of kind {proxy.scheme} cannot be used, only http and https")
    if proxy.user is None:
        return {"proxy": proxy}
    credentials = base64.b64encode(f"{proxy.user}:{proxy.password or ''}".encode()).decode()
    return {"proxy": proxy.with_user(None), "proxy_headers": {"Proxy-Authorization": f"Basic {credentials}"}}


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


@functools.lru_cache(maxsize=64)
def _timeout(connect_s: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, sock_connect=connect_s)


@functools.cache
def _tracing() -> aiohttp.TraceConfig:
    """Create the trace that calls a request's ``connected`` once it has a connection, new or reused."""

    async def connected(session: object, context: Any, params: object) -> None:
        if context.trace_request_ctx is not None:
            context.trace_request_ctx()

    tracing = aiohttp.TraceConfig()
    tracing.on_connection_create_end.append(connected)
    tracing.on_connection_reuseconn.append(connected)
    tracing.freeze()
    return tracing


@functools.cache
def _tls() -> ssl.SSLContext | bool:
    """Return the machine's certificates, or certifi's if it has none; cached, because loading them is slow."""
    paths = ssl.get_default_verify_paths()
    if os.name == "nt" or paths.cafile or (paths.capath and os.listdir(paths.capath)):
        return True  # aiohttp created this context at import, for the whole program
    import certifi

    return ssl.create_default_context(cafile=certifi.where())


def _as_httpx(error: Exception, request: httpx.Request) -> httpx.TransportError:
    """Convert an aiohttp error to httpx's; details are in its cause.

    The first match counts: subclasses stand before their parents.
    """
    kinds: tuple[tuple[type[Exception], type[httpx.TransportError]], ...] = (
        (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
        (aiohttp.ClientProxyConnectionError, httpx.ProxyError),
        (aiohttp.ClientHttpProxyError, httpx.ProxyError),
        (aiohttp.ClientConnectorError, httpx.ConnectError),
        (aiohttp.ClientConnectorCertificateError, httpx.ConnectError),
        (aiohttp.ServerDisconnectedError, httpx.ReadError),
        (aiohttp.ClientResponseError, httpx.RemoteProtocolError),
        (HttpProcessingError, httpx.RemoteProtocolError),  # its parsers' own errors, which can get through
        (aiohttp.ClientPayloadError, httpx.ReadError),
        (aiohttp.ClientConnectionError, httpx.ReadError),
        (aiohttp.ClientError, httpx.UnsupportedProtocol),
        (OSError, httpx.ReadError),
    )
    for ours, theirs in kinds:
        if isinstance(error, ours):
            return theirs(str(error), request=request)
    return httpx.UnsupportedProtocol(str(error), request=request)
