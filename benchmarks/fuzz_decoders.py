"""Throws damaged and random bytes at everything that reads what a service sends, and reports what came of it.

    python benchmarks/fuzz_decoders.py [--count 1000000] [--seed 1] [--only sse,openai]

Targets: the HTTP client, over loopback; the decoders of server-sent events and of NDJSON; the reader of Retry-After;
and for each dialect a whole provider behind a transport in memory: streamed answers, whole answers, error bodies.
Inputs are valid answers with damage in their JSON trees, in their bytes, in their order and in how they are cut, and
noise. What could be read is sent back as history. Exit status 1 if anything was raised that is not a ProviderError
(ValueError of a decoder), if an answer was not what is promised, or if one input took longer than a second.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import logging
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from pathlib import Path
from typing import Any

import attrs
import httpx
from flexchat import AnswerEnd, ChatOptions, Message, ProviderError, ToolMessage, UserMessage
from flexchat.plugin import ChatResult
from flexchat_sdk import ProviderTimeoutError
from flexchat_sdk.http import client
from flexchat_sdk.http.framing import NdjsonDecoder, SseDecoder
from flexchat_sdk.refusals import retry_after_s, should_retry

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))
import wire_dialects

SLOWEST_ALLOWED_S = 1.0
HUGE = 9**400
VALUES: tuple[Any, ...] = (None, True, False, 0, -1, 1.5, HUGE, "", "Hello", "\ud800", "\u2028", "null", [], {})
VALUES += (
    [None],
    [[]],
    {"": None},
    [{}],
    [1, "a", None],
    {"error": {"message": "m"}},
    {"message": []},
    "stop",
    "error",
)
TOKENS = [b"null", b"{}", b"[]", b"{", b"}", b"[", b"]", b'"', b"\\", b"\\ud800", b"\\u0000", b"1e999", b"NaN", b"-0"]
TOKENS += [b":", b",", b"\r", b"\n", b"\n\n", b"\r\n\r\n", b"data:", b"data: [DONE]\n\n", b"event: error\n", b"\xff"]
TOKENS += [b"chunked", b"transfer-encoding: gzip, chunked\r\n", b"content-length: -1\r\n", b"ffffffffffffffff\r\n"]
TOKENS += [b"\x00", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"[" * 3000, b"9" * 5000, b"done", b"true", b": ping\n\n", b"id"]
HEADERS = ("", "0", "1", "-1", "1.5", "1e3", "1e999", "nan", "inf", "٣", "Wed, 21 Oct 2015 07:28:00 GMT", "tomorrow")
HEADERS += (
    "Wed, 99 Oct 99999 99:99:99 +9999",
    "0x10",
    "1_000",
    "true",
    "false",
    " 7 ",
    "99999",
    "Mon, 1 Jan 1 0:0:0 Z",
)
STATUSES = (400, 401, 402, 403, 404, 405, 408, 409, 413, 418, 422, 429, 499, 500, 502, 503, 504, 529, 599)
KINDS = ("application/json", "text/event-stream", "application/x-ndjson", "text/plain", "", "application/json; x")
MESSAGES = (UserMessage(content="Say hello."),)


class Transport(httpx.AsyncBaseTransport):
    """Answers every request with what it was given."""

    def __init__(self) -> None:
        self.status, self.headers, self.pieces = 200, [("content-type", "")], [b""]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(self.status, headers=self.headers, stream=_Pieces(self.pieces))


class _Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


def with_another_value(rng: random.Random, value: Any) -> Any:
    """Return JSON data with one node replaced, removed, doubled or wrapped."""
    path, node = [], value
    while isinstance(node, dict | list) and node and rng.random() < 0.85:
        step = rng.choice([*node]) if isinstance(node, dict) else rng.randrange(len(node))
        path.append(step)
        node = node[step]
    kind = rng.random()
    new = rng.choice(VALUES) if kind < 0.7 else [node] if kind < 0.8 else {"x": node} if kind < 0.85 else None
    return _replaced(value, path, new, remove=kind >= 0.85)


def _replaced(value: Any, path: list[Any], new: Any, *, remove: bool) -> Any:
    if not path:
        return new
    step, rest = path[0], path[1:]
    copy = dict(value) if isinstance(value, dict) else list(value)
    if remove and not rest:
        del copy[step]
    else:
        copy[step] = _replaced(copy[step], rest, new, remove=remove)
    return copy


def damaged(rng: random.Random, data: bytes) -> bytes:
    """Return bytes with a few of them flipped, removed, doubled, moved or replaced by something that means much."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(found) + 1)
        kind = rng.randrange(6)
        if kind == 0 and found:
            found[at - 1] = rng.randrange(256)
        elif kind == 1:
            del found[at : at + rng.choice([1, 1, 5, 50, 5000])]
        elif kind == 2:
            found[at:at] = rng.choice(TOKENS)
        elif kind == 3:
            found[at:at] = found[at : at + rng.choice([1, 10, 300])]
        elif kind == 4:
            other = rng.randrange(len(found) + 1)
            found[at : at + 40], found[other : other + 40] = found[other : other + 40], found[at : at + 40]
        else:
            found[at : at + len(rng.choice(TOKENS))] = rng.choice(TOKENS)
    return bytes(found)


def noise(rng: random.Random) -> bytes:
    """Return random bytes, or random words of the formats."""
    if rng.random() < 0.3:
        return rng.randbytes(rng.choice([0, 1, 3, 30, 300]))
    return b"".join(rng.choice(TOKENS) for _ in range(rng.randint(0, 30)))


def cut(rng: random.Random, data: bytes) -> list[bytes]:
    """Return data in pieces: whole, in a few, or byte by byte; some of them empty."""
    kind = rng.random()
    if kind < 0.4 or len(data) < 2:
        return [data]
    if kind < 0.5 and len(data) < 3000:
        return [data[at : at + 1] for at in range(len(data))]
    places = sorted(rng.randrange(len(data) + 1) for _ in range(rng.randint(1, 8)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


@attrs.frozen
class Target:
    """Something that reads.

    Attributes:
        read: Reads one input made from the random numbers; returns "answer" or "refused", and raises what it must not.
        around: What must be open while it reads.
    """

    name: str
    read: Callable[[random.Random], Awaitable[str]]
    around: Callable[[], AbstractAsyncContextManager[None]] = nullcontext


class DialectInputs:
    """Answers of one dialect, well and badly."""

    def __init__(self, dialect: Any) -> None:
        self.dialect = dialect
        text = ["Hello", " ", "world"]
        said = [dialect.say(piece) for piece in text]
        end = dialect.end("".join(text))
        self.streams = [
            [*dialect.begin, *said, *end],
            [*dialect.begin, *dialect.call, *end],
            [*dialect.begin, *said, dialect.failed],
            [*dialect.begin, dialect.hollow, *end],
            [*dialect.begin, *dialect.rare, *end],
            *[[*dialect.begin, event, *said, *end] for event in dialect.rare],
        ]
        self.wholes = [dialect.whole("Hello world"), dialect.hollow_whole, dialect.failed_whole]
        self.errors = [dialect.failed, dialect.failed_whole, {"message": "m"}, {"detail": [{"msg": "m"}]}, "text", []]
        self.errors += [{"error": "text"}, {"error": {"message": "no key sk-12345678", "code": 1, "type": None}}]

    def stream(self, rng: random.Random) -> bytes:
        events, frame = list(rng.choice(self.streams)), self.dialect.frame
        kind = rng.random()
        if kind < 0.1:
            return noise(rng)
        if kind < 0.6:
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(len(events))
                events[at] = with_another_value(rng, events[at])
        if kind > 0.5 and rng.random() < 0.3:
            rng.shuffle(events)
        data = b"".join(_framed(frame, event) for event in events)
        if rng.random() < 0.1:
            data = data.replace(b"\n", b"\r\n")
        return damaged(rng, data) if kind > 0.6 else data

    def whole(self, rng: random.Random, answers: Sequence[Any]) -> bytes:
        kind, value = rng.random(), rng.choice(answers)
        if kind < 0.1:
            return noise(rng)
        for _ in range(rng.randint(1, 3)):
            value = with_another_value(rng, value)
        data = json.dumps(value).encode()
        return damaged(rng, data) if kind > 0.6 else data


def _framed(frame: Callable[[Any], bytes], event: Any) -> bytes:
    try:
        return frame(event)
    except (UnicodeEncodeError, KeyError):  # half of a surrogate pair; an event without a type
        return b"data: " + json.dumps(event).encode() + b"\n\n"


def dialect_targets(dialect: Any) -> list[Target]:
    transport, inputs = Transport(), DialectInputs(dialect)
    real, client.AiohttpTransport = client.AiohttpTransport, lambda: transport  # type: ignore[assignment, misc]
    try:
        service = dialect.service("http://127.0.0.1:1")
        provider = service.type.create(service.settings)
    finally:
        client.AiohttpTransport = real  # type: ignore[misc]

    async def ask(streamed: bool, messages: tuple[Message, ...] = MESSAGES) -> str:
        try:
            if streamed:
                events = [event async for event in provider.stream_chat(messages, "m-1", ChatOptions())]
                assert isinstance(events[-1], AnswerEnd), "no AnswerEnd"
                assert sum(isinstance(event, AnswerEnd) for event in events) == 1, "several StreamEnds"
                result = events[-1].result
            else:
                result = await provider.generate_chat(messages, "m-1", ChatOptions())
        except ProviderError as error:
            if type(error) is ProviderError or dialect_key in str(error):
                raise AssertionError(f"no class of its own, or the key: {error!r}") from error
            return "refused"
        assert isinstance(result, ChatResult), "no result"
        assert all(call.arguments is not None or call.error for call in result.tool_calls), "a call without a reason"
        if messages is MESSAGES:  # what was read must go back without trouble
            answers = [ToolMessage(tool_call_id=call.id, name=call.name, content="{}") for call in result.tool_calls]
            await ask(streamed, (*MESSAGES, result.message, *answers, *MESSAGES))
        return "answer"

    dialect_key = service.settings.api_key

    async def stream(rng: random.Random) -> str:
        transport.status, transport.headers = 200, [("content-type", rng.choice(KINDS))]
        transport.pieces = cut(rng, inputs.stream(rng))
        return await ask(rng.random() < 0.8)

    async def whole(rng: random.Random) -> str:
        transport.status, transport.headers = 200, [("content-type", rng.choice(KINDS))]
        transport.pieces = cut(rng, inputs.whole(rng, inputs.wholes))
        return await ask(rng.random() < 0.2)

    async def error(rng: random.Random) -> str:
        transport.status = rng.choice(STATUSES)
        names = ("content-type", "retry-after", "retry-after-ms", "x-should-retry", "x-request-id")
        transport.headers = [(name, rng.choice(HEADERS).encode("latin-1", "replace").decode()) for name in names]
        transport.pieces = cut(rng, inputs.whole(rng, inputs.errors))
        return await ask(rng.random() < 0.5)

    kinds = {"stream": stream, "whole": whole, "errors": error}
    return [Target(f"{dialect.name} {kind}", read) for kind, read in kinds.items()]


def decoder_target(name: str, decoder: type, dialects: Sequence[Any]) -> Target:
    inputs = [DialectInputs(dialect) for dialect in dialects]

    async def read(rng: random.Random) -> str:
        data = rng.choice(inputs).stream(rng)
        try:
            found = [_fed(decoder(), pieces) for pieces in (cut(rng, data), [data])]
        except ValueError:
            return "refused"
        assert found[0] == found[1], "another result when cut otherwise"
        return "answer"

    return Target(name, read)


def _fed(decoder: Any, pieces: Sequence[bytes]) -> list[Any]:
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


def retry_after_target() -> Target:
    async def read(rng: random.Random) -> str:
        names = ("retry-after", "retry-after-ms", "x-should-retry")
        headers = {n: _header(rng) for n in names if rng.random() < 0.7}
        should_retry(headers)
        seconds = retry_after_s(headers, now=rng.choice([None, 0.0, 1e9]))
        assert seconds is None or 0 <= seconds < float("inf"), f"{seconds} seconds"
        return "refused" if seconds is None else "answer"

    return Target("retry-after", read)


def _header(rng: random.Random) -> str:
    text = rng.choice(HEADERS)
    return damaged(rng, text.encode()).decode("latin-1") if rng.random() < 0.7 else text


ANSWERS = [
    b"200 OK\r\ncontent-type: application/json\r\ncontent-length: 14\r\n\r\n" + b'{"a": "hello"}',
    b"200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n5\r\nhello\r\n6;ext=1\r\n world\r\n0\r\nx: y\r\n\r\n",
    b"200 OK\r\ncontent-encoding: gzip\r\nconnection: close\r\n\r\n" + gzip.compress(b"hello", mtime=0),
    b"100 Continue\r\n\r\nHTTP/1.1 429 X\r\nretry-after: 5\r\ncontent-length: 2\r\n\r\n{}",
    b"302 Found\r\nlocation: http://[x/\r\ncontent-length: 0\r\n\r\n",
    b"200 OK\r\nset-cookie: a=b\r\nupgrade: websocket\r\n\r\nhello",
]


def http_target() -> Target:
    """The HTTP client, against a server that sends the damaged bytes and closes the connection."""
    sent: list[bytes] = []
    clients: list[client.HttpClient] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await reader.readexactly(2)
            for piece in sent:
                writer.write(piece)
                await asyncio.sleep(0)
            await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def around() -> AsyncIterator[None]:
        server = await asyncio.start_server(connected, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        clients.append(client.HttpClient("test", f"http://127.0.0.1:{port}", {}, timeouts=client.Timeouts(total_s=5)))
        yield
        await clients.pop().aclose()
        server.close()

    async def read(rng: random.Random) -> str:
        sent[:] = cut(rng, damaged(rng, b"HTTP/1.1 " + rng.choice(ANSWERS)) if rng.random() < 0.95 else noise(rng))
        try:
            if rng.random() < 0.5:
                await clients[0].post("/x", b"{}")
            else:
                async with clients[0].stream("/x", b"{}") as answer:
                    async for _ in answer:
                        pass
        except ProviderTimeoutError as error:
            raise AssertionError(f"waited for what never comes: {b''.join(sent)!r}") from error
        except ProviderError:
            return "refused"
        return "answer"

    return Target("http", read, around)


def targets() -> list[Target]:
    """Everything there is to read."""
    wire = wire_dialects
    sse = [dialect for dialect in wire.DIALECTS if dialect.is_sse]
    found = [http_target(), retry_after_target(), decoder_target("sse", SseDecoder, sse)]
    found.append(decoder_target("ndjson", NdjsonDecoder, [wire.OLLAMA]))
    return found + [target for dialect in wire.DIALECTS for target in dialect_targets(dialect)]


@attrs.frozen(kw_only=True)
class Report:
    """What came of one target."""

    name: str
    tally: Counter[str]
    slowest_s: float
    seconds: float

    @property
    def is_fine(self) -> bool:
        """Whether all went as promised."""
        return not self.tally["unhandled"] and self.slowest_s < SLOWEST_ALLOWED_S


async def fuzz(target: Target, count: int, seed: int) -> Report:
    """Let a target read count inputs; each is made from the seed and its number, and can be made again."""
    tally: Counter[str] = Counter()
    slowest, began = 0.0, time.thread_time()
    async with target.around():
        for number in range(count):
            started = time.thread_time()
            try:
                tally[await target.read(random.Random(f"{seed} {number}"))] += 1
            except Exception as error:
                tally["unhandled"] += 1
                print(f"{target.name} {seed} {number}: {type(error).__name__}: {str(error)[:300]}", file=sys.stderr)
            slowest = max(slowest, time.thread_time() - started)
            if number % 64 == 0:
                await asyncio.sleep(0)  # the loop forgets its timers
    return Report(name=target.name, tally=tally, slowest_s=slowest, seconds=time.thread_time() - began)


def main() -> int:
    """Run, print a line for each target, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000, help="inputs for each target")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="beginnings of targets' names, with commas between")
    options = parser.parse_args()
    logging.getLogger("asyncio").setLevel(logging.ERROR)  # our own server writes on where the client has gone
    only = tuple(options.only.split(","))
    row = "{:<24}{:>12}{:>12}{:>12}{:>11}{:>12}{:>10}"
    print(row.format("target", "inputs", "answers", "refused", "unhandled", "slowest", "a second"))
    is_fine = True
    for target in targets():
        if target.name.startswith(only):
            report = asyncio.run(fuzz(target, options.count, options.seed))
            counts = [f"{report.tally[word]:,}" for word in ("answer", "refused", "unhandled")]
            slowest, rate = f"{report.slowest_s * 1e3:.1f} ms", f"{options.count / report.seconds:,.0f}"
            print(row.format(report.name, f"{options.count:,}", *counts, slowest, rate), flush=True)
            is_fine = is_fine and report.is_fine
    print("fine" if is_fine else "NOT FINE")
    return 0 if is_fine else 1


if __name__ == "__main__":
    sys.exit(main())
