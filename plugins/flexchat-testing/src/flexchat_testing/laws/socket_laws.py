"""Laws about faults of a server, over real sockets on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Iterator, Mapping

import attrs
from flexchat_sdk import (
    ProviderConnectionError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderTimeoutError,
)

from .error_laws import REFUSALS
from .law import law, raising_only, require, show
from .wire import Asked, ProviderKit, as_bytes

_TEXT = "Hello"
_PAGE = {"content-type": "text/html"}
_JSON = {"content-type": "application/json"}
_PATIENCE_S = 9.0
_MAX_LINE_BYTES = 10 * 2**20


@attrs.frozen
class _Fault:
    """What a server sends for a request, how it ends ("close", "reset" or "hold"), and what must become of it.

    Attributes:
        expected: The error, or None for the answer; a tuple of both where either is right.
    """

    name: str
    sent: bytes
    end: str
    expected: type[ProviderError] | tuple[type[ProviderError], None] | None


class SocketLaws(ProviderKit):
    """A server that breaks off, stalls or sends nonsense causes a ProviderError, or the exact answer."""

    @law("http", "sockets")
    async def test_every_fault_of_a_server_is_an_error_or_the_answer(self, stream: bool) -> None:
        """No foreign exception, no silent success, no endless wait, and no key in any text."""
        for fault in (*self._faults(), *(self._stream_faults() if stream else self._whole_faults())):
            outcome = await self._outcome(fault, stream)
            right = fault.expected if isinstance(fault.expected, tuple) else (fault.expected,)
            if isinstance(outcome, ProviderError):
                fits = isinstance(outcome, tuple(kind for kind in right if kind is not None))
                require(fits, f"{fault.name}: expected {fault.expected or 'the answer'}, got {outcome!r}")
                require(self.key is None or self.key not in str(outcome), f"{fault.name}: the key is in the error")
                require(outcome.model == self.model, f"{fault.name}: the error names the model {outcome.model!r}")
            else:
                fits = None in right and outcome == _TEXT
                require(fits, f"{fault.name}: expected {fault.expected or _TEXT}, got the answer {show(outcome)}")

    async def _outcome(self, fault: _Fault, stream: bool) -> str | ProviderError | None:
        async with self._server(fault) as address, asyncio.timeout(_PATIENCE_S):
            seconds = 0.15 if fault.end == "hold" else _PATIENCE_S
            provider = self.make_provider_at(
                address, timeout_s=seconds, first_byte_timeout_s=seconds, idle_timeout_s=seconds
            )
            try:
                with raising_only(ProviderError, what=fault.name):
                    return (await self.chat(provider, stream=stream)).content
            except ProviderError as error:
                return error
            finally:
                await provider.aclose()

    def _faults(self) -> Iterator[_Fault]:
        """Yield the faults that do not depend on how the answer is sent."""
        yield _Fault("closed before an answer", b"", "close", ProviderConnectionError)
        yield _Fault("reset before an answer", b"", "reset", ProviderConnectionError)
        yield _Fault("silence", b"", "hold", ProviderTimeoutError)
        yield _Fault("no HTTP", b"220 mail.example ESMTP\r\n", "close", ProviderProtocolError)
        yield _Fault("headers that break off", b"HTTP/1.1 200 OK\r\ncontent-", "close", ProviderError)
        for headers in (_PAGE, _JSON):
            yield _Fault(
                f"a page as {headers}", _http(200, b"<html>hi</html>", headers), "close", ProviderProtocolError
            )
        yield _Fault("an empty body", _http(200, b"", _JSON), "close", ProviderProtocolError)
        whole = as_bytes(self.text_reply(_TEXT))
        yield _Fault("a whole answer, asked to stream or not", _http(200, whole, _JSON), "close", None)
        yield _Fault("a whole answer that is cut", _http(200, whole[: len(whole) // 2], _JSON), "close", ProviderError)
        yield _Fault("brotli", _http(200, b"xx", {**_JSON, "content-encoding": "br"}), "close", ProviderProtocolError)
        away = {"location": "https://elsewhere.example/"}
        yield _Fault("a redirect", _http(307, b"", away), "close", ProviderProtocolError)
        yield _Fault("503 with a page", _http(503, b"<html>later</html>", _PAGE), "close", ProviderOverloadedError)
        for kind, (expected, _, _) in REFUSALS.items():
            refusal = self.error_reply(kind)
            if refusal is not None:
                status, body = refusal
                yield _Fault(f'the refusal "{kind}"', _http(status, as_bytes(body), _JSON), "close", expected)

    def _whole_faults(self) -> Iterator[_Fault]:
        whole = as_bytes(self.text_reply(_TEXT))
        packed = _http(200, gzip.compress(whole), {**_JSON, "content-encoding": "gzip"})
        yield _Fault("gzip", packed, "close", None)

    def _stream_faults(self) -> Iterator[_Fault]:
        pieces = [as_bytes(piece) for piece in self.as_stream(self.text_reply(_TEXT))]
        stream, half = b"".join(pieces), b"".join(pieces[: len(pieces) // 2])
        kind = {"content-type": self.stream_type}
        open_ended = {**kind, "content-length": "9999999"}
        start = b"data: " if "event-stream" in self.stream_type else b""

        yield _Fault("a body that is reset", _http(200, half, open_ended), "reset", ProviderConnectionError)
        yield _Fault("a body that is cut", _http(200, half, open_ended), "close", ProviderConnectionError)
        yield _Fault("a stream", _http(200, stream, kind), "close", None)
        yield _Fault("a stream with CRLF", _http(200, stream.replace(b"\n", b"\r\n"), kind), "close", None)
        if start:
            yield _Fault("a stream with a mark", _http(200, b"\xef\xbb\xbf" + stream, kind), "close", None)
        yield _Fault(
            "a stream whose server does not hang up",
            _http(200, stream, open_ended),
            "hold",
            (ProviderTimeoutError, None),
        )
        yield _Fault("a stream that stalls", _http(200, half, open_ended), "hold", ProviderTimeoutError)
        yield _Fault("a frame that is cut", _http(200, pieces[0] + pieces[1][:-5], kind), "close", ProviderError)
        invalid = stream.replace(_TEXT[:2].encode(), b"H\xff", 1)
        yield _Fault("no UTF-8", _http(200, invalid, kind), "close", ProviderProtocolError)
        endless = start + b"x" * _MAX_LINE_BYTES
        yield _Fault("an endless line", _http(200, endless, kind), "close", ProviderProtocolError)
        deep = start + b"[" * 100_000 + b"\n\n"
        yield _Fault("JSON that is nested too deeply", _http(200, deep, kind), "close", ProviderProtocolError)
        packed = _http(200, gzip.compress(stream), {**kind, "content-encoding": "gzip"})
        yield _Fault("gzip", packed, "close", None)

    @contextlib.asynccontextmanager
    async def _server(self, fault: _Fault) -> AsyncIterator[str]:
        tasks: set[asyncio.Task[None]] = set()

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if (task := asyncio.current_task()) is not None:
                tasks.add(task)
            try:
                request = await _request(reader)
                other = self.other_reply(request)
                if other is not None:
                    writer.write(_http(200, as_bytes(other), {**_JSON, "connection": "close"}))
                    await writer.drain()
                    return
                writer.write(fault.sent)
                await writer.drain()
                if fault.end == "reset":
                    writer.transport.abort()
                elif fault.end == "hold":
                    await reader.read()
            except (OSError, EOFError):
                pass  # the client hung up first
            except asyncio.CancelledError:
                # Ended below. asyncio of Python 3.11 logs a handler that ends as cancelled.
                pass
            finally:
                writer.close()

        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def _http(status: int, content: bytes, headers: Mapping[str, str]) -> bytes:
    lines = {"content-length": str(len(content)), **headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status} X\r\n{head}\r\n".encode() + content


async def _request(reader: asyncio.StreamReader) -> Asked:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    method, path, _ = first.split(" ")
    content = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method=method, url=f"http://127.0.0.1{path}", headers=headers, content=content)
