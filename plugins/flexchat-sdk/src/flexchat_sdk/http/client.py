"""The HTTP client of all provider packages: deadlines and size limits per request, and errors that name a remedy."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import httpx
from flexchat.errors import ProviderError, ProviderProtocolError, ProviderRequestError, ProviderTimeoutError

from .connections import AiohttpTransport, BodyStream
from .deadline import Deadline
from .pieces import Json
from .secrets import header_problem, key_mask
from .settings import HttpSettings
from .trouble import connection_trouble
from .unpacking import Unpacker, unpacker

MAX_BODY_BYTES = 16 * 2**20
MAX_STREAM_BYTES = 64 * 2**20
MAX_ERROR_BYTES = 64 * 2**10
_HOST = re.compile(rb"[A-Za-z0-9._:-]+")
# A stream's last bytes follow its last event at once, or the connection cannot be reused.
_FINISH_S = 0.2


@attrs.frozen(kw_only=True)
class Timeouts:
    """The deadlines of a request, in seconds.

    Attributes:
        connect_s: For a connection, TLS included.
        first_byte_s: For a stream's first bytes: a model that reasons first may be silent for minutes. Answers that
            are read as a whole are limited by the total only.
        idle_s: Between two pieces of a stream.
        total_s: For the whole request.
    """

    connect_s: float = 5.0
    first_byte_s: float = 60.0
    idle_s: float = 30.0
    total_s: float = 120.0

    @classmethod
    def of(cls, settings: HttpSettings) -> Timeouts:
        """Return the timeouts from a provider's settings."""
        return cls(
            connect_s=settings.connect_timeout_s,
            first_byte_s=settings.first_byte_timeout_s,
            idle_s=settings.idle_timeout_s,
            total_s=settings.timeout_s,
        )


@attrs.frozen(kw_only=True)
class HttpAnswer:
    """A whole answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """A client of one service. Holds connections: close it after use.

    Attributes:
        host: host[:port] of the service, for texts.
        origin: scheme://host[:port], for ProviderData.
        mask: Removes keys from a text.

    Args:
        provider: The provider type's name, for errors.
        base_url: The prefix of all paths; its query is appended to each of them.
        headers: Sent with every request, including the key.
        secrets: Texts that no error may contain.
        transport: None for real connections; httpx.MockTransport or similar in tests.

    Raises:
        ProviderRequestError: base_url or a header cannot be used.
    """

    def __init__(
        self,
        provider: str,
        base_url: str,
        headers: Mapping[str, str],
        *,
        timeouts: Timeouts | None = None,
        secrets: Sequence[str] = (),
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.provider = provider
        self.timeouts = timeouts or Timeouts()
        self.mask = key_mask(secrets)
        address, mark, query = base_url.partition("?")
        self._address, self._query = address.rstrip("/"), mark + query  # Azure wants ?api-version=… everywhere
        try:
            url = httpx.URL(self._address)
        except (httpx.InvalidURL, ValueError, TypeError):
            url = httpx.URL("")
        if url.scheme not in ("http", "https") or not _HOST.fullmatch(url.raw_host):
            text = f"base_url {self.mask(base_url)!r} is not an http or https address"
            raise ProviderRequestError(text, provider=provider)
        if problem := header_problem(headers):
            raise ProviderRequestError(problem, provider=provider)
        self.host = url.netloc.decode("ascii")
        self.origin = f"{url.scheme}://{self.host}"
        identity = {"host": self.host, "accept-encoding": "identity", "user-agent": "flexchat", **headers}
        self._headers = httpx.Headers(list(identity.items()))
        self._extensions = {"timeout": {"connect": self.timeouts.connect_s}}
        self._urls: dict[str, httpx.URL] = {}
        self._transport = transport or AiohttpTransport()

    async def post(self, path: str, body: Json, *, timeout_s: float | None = None) -> HttpAnswer:
        """POST *body* and return the whole answer; statuses of 400 and above do not raise.

        Raises:
            ProviderError: No answer, none in time, or one that an API does not send: a redirect, a web page, more
                than 16 MiB.
        """
        return await self.send("POST", path, body, timeout_s=timeout_s)

    async def get(self, path: str, *, timeout_s: float | None = None) -> HttpAnswer:
        """GET *path*; otherwise the same as post."""
        return await self.send("GET", path, timeout_s=timeout_s)

    async def send(self, method: str, path: str, body: Json = b"", *, timeout_s: float | None = None) -> HttpAnswer:
        """Send a request with any method: "PUT", "DELETE". Otherwise the same as post."""
        async with HttpStream(self, self._request(method, path, body), timeout_s, whole=True) as answer:
            return HttpAnswer(status=answer.status, headers=answer.headers, body=await answer.read())

    def stream(self, path: str, body: Json, *, timeout_s: float | None = None, whole: bool = False) -> HttpStream:
        """Send body; ``async with`` gives the answer as it arrives. Raises the same errors as post.

        Args:
            whole: Whether it is to be read as a whole, with the limits of post.
        """
        return HttpStream(self, self._request("POST", path, body), timeout_s, whole=whole)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._transport.aclose()

    def unreadable(self, what: str, **rest: Any) -> ProviderProtocolError:
        """Create the error for an unusable answer; *what* is a predicate whose subject is the host."""
        return ProviderProtocolError(f"{self.host} {self.mask(what)}", provider=self.provider, **rest)

    def _request(self, method: str, path: str, body: Json) -> httpx.Request:
        if (url := self._urls.get(path)) is None:
            # Paths may contain ids: without a bound, the cache would grow with each of them.
            if len(self._urls) >= 64:
                self._urls.clear()
            url = self._urls[path] = httpx.URL(self._address + path + self._query)
        request = httpx.Request(
            method, url, headers=self._headers, stream=BodyStream(body), extensions=self._extensions
        )
        if body:
            request.headers["content-type"] = "application/json"
            request.headers["content-length"] = str(len(body))
        return request


class HttpStream:
    """An answer being received: a context manager, and an asynchronous iterator over its bytes.

    Attributes:
        status, headers: The answer's, once entered. Header names are in lower case.
    """

    status: int
    headers: dict[str, str]

    def __init__(self, client: HttpClient, request: httpx.Request, timeout_s: float | None, *, whole: bool) -> None:
        self._client, self._request, self._whole = client, request, whole
        total_s = client.timeouts.total_s
        self._total_s = total_s if timeout_s is None else min(timeout_s, total_s)
        self._cap = MAX_BODY_BYTES if whole else MAX_STREAM_BYTES
        self._size = 0
        self._unpacker: Unpacker | None = None
        self._steps: Iterator[bytes] = iter(())  # of a piece that is not unpacked to its end
        self._response: httpx.Response | None = None

    async def __aenter__(self) -> HttpStream:
        timeouts = self._client.timeouts
        self._deadline = Deadline(self._total_s)
        self._patience_s = self._total_s if self._whole else timeouts.first_byte_s
        try:
            due = self._deadline.wait(self._patience_s)
            response = await self._client._transport.handle_async_request(self._request)
            self._deadline.rest()
            if not self._whole:
                # Some services send headers at once and then reason: what is left of the deadline is for the first
                # byte of the body.
                self._patience_s = due - asyncio.get_running_loop().time()
        except asyncio.CancelledError:
            # __aexit__ does not run after a failed __aenter__, so each branch releases the timer itself.
            self._deadline.close()
            # Only the deadline's own cancellation becomes a timeout: the caller's must go on.
            if self._deadline.passed():
                raise self._timeout_error() from None
            raise
        except httpx.TransportError as error:
            self._deadline.close()
            raise self._connection_error(error) from error
        except BaseException:
            self._deadline.close()
            raise
        self._response = response
        self.status = response.status_code
        self.headers = {k.decode("latin-1").lower(): v.decode("latin-1") for k, v in response.headers.raw}
        self._pieces = aiter(response.stream)  # type: ignore[arg-type]  # of an asynchronous transport
        try:
            self._check()
        except ProviderError:
            await self._close()
            raise
        if self.status >= 400:
            # An error page without end must not be read to the limit of an answer.
            self._cap = MAX_ERROR_BYTES
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._close()

    def __aiter__(self) -> HttpStream:
        return self

    async def __anext__(self) -> bytes:
        """Return the next bytes in the pieces in which they arrive, compressed ones unpacked in steps."""
        if self._unpacker is not None and (step := self._next_step()) is not None:
            return self._count(step)
        deadline = self._deadline
        try:
            deadline.wait(self._patience_s)
            piece = await self._pieces.__anext__()
            deadline.rest()
        except StopAsyncIteration:
            deadline.rest()
            if self._unpacker is not None and not self._unpacker.is_whole:
                raise self._client.unreadable(
                    "sent compressed data that was cut off", status=self.status, retryable=self._whole
                ) from None
            raise
        except asyncio.CancelledError:
            deadline.close()
            if deadline.passed():
                raise self._timeout_error() from None
            raise
        except httpx.TransportError as error:
            deadline.close()
            raise self._connection_error(error) from error
        if not self._size and not self._whole:
            self._patience_s = self._client.timeouts.idle_s
        if self._unpacker is not None:
            self._steps = self._unpacker.steps(piece)
            piece = self._next_step() or b""
        return self._count(piece)

    def _count(self, piece: bytes) -> bytes:
        self._size += len(piece)
        if self._size > self._cap and self.status < 400:
            raise self._client.unreadable(f"sent more than {self._cap // 2**20} MiB in one answer", status=self.status)
        return piece

    async def read(self) -> bytes:
        """Read the rest of the body; of an error's, the first 64 KiB, or as much as arrives before a failure."""
        pieces = []
        try:
            async for piece in self:
                pieces.append(piece)
                if self._size >= self._cap and self.status >= 400:
                    break
        except ProviderError:
            if self.status < 400:
                raise  # an error is reported by its status, even if its text cannot be read
        return b"".join(pieces)[: self._cap]

    async def finish(self) -> None:
        """Read to the end for at most 0.2 s, so that the connection can be reused."""
        self._deadline.shorten(_FINISH_S)
        self._patience_s = _FINISH_S
        try:
            async for _ in self:
                pass
        except ProviderError:
            pass  # the answer is complete already; the connection is closed instead of reused

    async def _close(self) -> None:
        self._deadline.close()
        if self._response is not None:
            # Cleared before the await: a cancellation in it must not close the stream twice.
            response, self._response = self._response, None
            await response.stream.aclose()  # type: ignore[union-attr]  # of an asynchronous transport

    def _check(self) -> None:
        """Check encoding, status and content type; raise for an answer that suggests a wrong base URL."""
        client, kind = self._client, self.headers.get("content-type", "").strip().lower()
        try:
            self._unpacker = unpacker(self.headers.get("content-encoding", ""))
        except ValueError as error:
            raise client.unreadable(str(error)) from None
        if self.status < 200:
            raise client.unreadable("wants to speak another protocol: is base_url right?", status=self.status)
        if 300 <= self.status < 400:
            target = self.headers.get("location", "")
            to = f" to {httpx.URL(target).netloc.decode() or target[:200]}" if _is_address(target) else ""
            text = f"redirects {self._request.url.path}{to}: is base_url right? Redirects are not followed"
            raise client.unreadable(text, status=self.status)
        if self.status < 400 and kind.startswith("text/html"):
            raise client.unreadable(
                f"answered {self._request.url.path} with a web page: is base_url right? (An API like OpenAI's often "
                "ends in /v1)",
                status=self.status,
            )

    def _next_step(self) -> bytes | None:
        try:
            return next(self._steps, None)
        except zlib.error:
            raise self._client.unreadable("sent compressed data that is damaged", status=self.status) from None

    def _timeout_error(self) -> ProviderTimeoutError:
        """Create the timeout error; it names the deadline that passed and the setting that moves it.

        Only a missing first byte is retryable: after a piece, a second attempt would repeat text already passed on.
        """
        host, timeouts = self._client.host, self._client.timeouts
        if self._deadline.is_total:
            text, retryable = f"{host} did not finish its answer within {self._total_s:g} s (timeout_s)", False
        elif self._size:
            text, retryable = f"{host} stopped in the middle of its answer: nothing for {timeouts.idle_s:g} s", False
            text += " (idle_timeout_s)"
        else:
            text, retryable = f"{host} sent nothing for {timeouts.first_byte_s:g} s (first_byte_timeout_s)", True
        return ProviderTimeoutError(text, provider=self._client.provider, retryable=retryable)

    def _connection_error(self, error: httpx.TransportError) -> ProviderError:
        client, answered = self._client, self._response is not None
        received = self._size > 0
        trouble = connection_trouble(
            error,
            client.host,
            client.timeouts.connect_s,
            answered=answered,
            received=received,
            passed_on=received and not self._whole,
        )
        trouble.args = (client.mask(str(trouble)),)
        trouble.provider, trouble.status = client.provider, self.status if answered else None
        return trouble


def _is_address(text: str) -> bool:
    try:
        return bool(httpx.URL(text))
    except (httpx.InvalidURL, ValueError):
        return False
