"""The transport of a server that is a process: between its pipes and the SDK's streams, with limits on its messages."""

from __future__ import annotations

import contextlib
import logging
import re
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import anyio
import attrs
import mcp_types as types
from mcp import StdioServerParameters
from mcp.client._transport import TransportStreams
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage

from .errors import Code, ServerUnusableError
from .process import ServerProcess
from .settings import McpConfig

NONSENSE_BYTES = 2**18  # how much that is no message a server may write between two messages: prints of its libraries
WINDOW_S = 10.0
"""The length of the window in which at most _FLOOD × max_bytes (at least of 1 MiB) may arrive without an answer."""
_FLOOD = 16
MAX_MESSAGES = 20_000
"""How many messages may arrive in the window without an answer: each costs time, however short it is."""

_ID = rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{1,64}")'
_VERSION = rb'"jsonrpc"\s*:\s*"2\.0"'
_KIND = rb'"(?:result|error)"\s*:'
# The id of an answer, not of something in it: before all else or after it, as SDKs write it.
_FIRST = re.compile(rb"\s*\{\s*(?:%b\s*,\s*)?%b\s*,\s*(?:%b\s*,\s*)?%b" % (_VERSION, _ID, _VERSION, _KIND))
_LAST = re.compile(
    rb"\s*\{\s*(?:%b\s*,\s*)?%b.*%b\s*(?:,\s*%b\s*)?\}\s*$" % (_VERSION, _KIND, _ID, _VERSION), re.DOTALL
)
_END = 512


class FloodError(Exception):
    """The server sends more than the limits allow; the text names the limit."""


@attrs.frozen
class Oversized:
    """An answer that is longer than max_bytes and was not kept.

    Attributes:
        id: Of the request, as it stands in the message; None if it could not be found.
    """

    id: int | str | None


class Lines:
    """Splits bytes into lines, one message each, in linear time.

    Args:
        max_bytes: The longest line. Of a longer one that answers a request only its id is kept.
        clock: time.monotonic, but for tests.
    """

    def __init__(self, max_bytes: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._max, self._clock = max_bytes, clock
        self._pieces: list[bytes] = []
        self._size = 0
        self._nonsense = 0
        self._since, self._unasked, self._messages = clock(), 0, 0

    def feed(self, chunk: bytes) -> Iterator[bytes | Oversized]:
        """Yield the lines that are complete now, without their ends.

        Raises:
            FloodError: A line never ends, or more and more arrives that answers nothing.
        """
        self._count(len(chunk))
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            self._keep(line)
            if message := self._line():
                yield message
        self._keep(rest)

    def note_answer(self) -> None:
        """Note that an answer was among it."""
        self._nonsense, self._unasked, self._messages, self._since = 0, 0, 0, self._clock()

    def note_message(self) -> None:
        """Note that a line was a message.

        Raises:
            FloodError: There have been too many that answer nothing.
        """
        self._nonsense = 0
        self._messages += 1
        if self._messages > MAX_MESSAGES:
            raise FloodError(f"it sent more than {MAX_MESSAGES:,} messages in {WINDOW_S:g} s without an answer")

    def note_nonsense(self, size: int) -> None:
        """Note that a line was none.

        Raises:
            FloodError: There have been too many of them.
        """
        self._nonsense += size
        if self._nonsense > NONSENSE_BYTES:
            raise FloodError(f"it printed more than {NONSENSE_BYTES:,} bytes on stdout that are no messages")

    def _count(self, size: int) -> None:
        now = self._clock()
        if now - self._since > WINDOW_S:
            self._since, self._unasked, self._messages = now, 0, 0
        self._unasked += size
        most = _FLOOD * max(self._max, 2**20)
        if self._unasked > most:
            raise FloodError(f"it sent more than {most:,} bytes in {WINDOW_S:g} s without an answer")

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size <= self._max or not self._pieces:
            self._pieces.append(piece)
        else:
            # Only the ends are kept, where the id stands: memory stays bounded however long the line is, and each piece
            # is copied once.
            whole = b"".join((*self._pieces, piece))
            self._pieces = [whole[:_END], whole[_END:][-_END:]]

    def _line(self) -> bytes | Oversized:
        line, size = b"".join(self._pieces), self._size
        self._pieces, self._size = [], 0
        if size <= self._max:
            return line
        ends = line[:_END] + line[_END:][-_END:]
        if (match := _FIRST.match(ends) or _LAST.match(ends)) is None:
            return Oversized(None)
        text = match[1].decode("ascii", "replace")
        return Oversized(text.strip('"') if text.startswith('"') else int(text))


log = logging.getLogger(__name__)

_WAITING = 1_024  # messages that may wait to be written; so no call waits for a server that does not read
_CHUNK = 2**18


@contextlib.asynccontextmanager
async def stdio_transport(
    process: ServerProcess, *, name: str, max_bytes: int, ended: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """Give the SDK's streams for a process; leaving does not end the process.

    Args:
        ended: Called once with the reason, a sentence, when the stream has ended.
    """
    to_session, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write_stream, from_session = anyio.create_memory_object_stream[SessionMessage](_WAITING)

    async def read() -> None:
        lines, has_warned, why = Lines(max_bytes), False, ""
        stdout = process.process.stdout
        assert stdout is not None
        # Its buffer has no room, so a message is read only when the SDK has taken the one before; a server that floods
        # waits at its pipe.
        async with to_session:
            try:
                while chunk := await stdout.read(_CHUNK):
                    before: bytes | Oversized = b""
                    for line in lines.feed(chunk):
                        if (message := _message(line)) is None:
                            if isinstance(line, Oversized):
                                raise FloodError(f"it sent a message of more than {max_bytes:,} bytes")
                            if not has_warned:
                                log.warning("MCP server '%s' prints on its stdout, which is for messages", name)
                            has_warned = True
                            lines.note_nonsense(len(line))
                            continue
                        lines.note_message()
                        if line == before and isinstance(message, types.JSONRPCNotification):
                            continue  # a storm of one message, of which we have acted on none yet
                        before = line
                        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
                            lines.note_answer()
                        await to_session.send(SessionMessage(message))
            except FloodError as error:
                why = str(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                pass
            if not why:
                await process.wait_settled()
            ended(why or process.how_it_ended)

    async def write() -> None:
        stdin = process.process.stdin
        assert stdin is not None
        async with from_session:
            with contextlib.suppress(OSError):  # it has ended: the reading side reports that
                async for item in from_session:
                    stdin.write(item.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                    await stdin.drain()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read)
        tasks.start_soon(write)
        try:
            yield read_stream, write_stream
        finally:
            # Cancelled before the streams are closed: a reader that is blocked in send would raise otherwise.
            tasks.cancel_scope.cancel()
            for stream in (read_stream, write_stream, to_session, from_session):
                stream.close()


def _message(line: bytes | Oversized) -> types.JSONRPCMessage | None:
    """Return the JSON-RPC message of a line; None if it is none."""
    if isinstance(line, Oversized):
        if line.id is None:
            return None
        return types.JSONRPCError(jsonrpc="2.0", id=line.id, error=types.ErrorData(code=Code.TOO_LARGE, message=""))
    try:
        return types.jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None


@contextlib.asynccontextmanager
async def windows_transport(
    config: McpConfig, *, name: str, env: Mapping[str, str], folder: Path, ended: Callable[[str], None]
) -> AsyncIterator[TransportStreams]:
    """Start a command and give the SDK's streams for it; leaving ends it, with all that it has started.

    Args:
        env: Its variables.
        folder: Where it runs.
        ended: Called once with the reason, a sentence, when the stream has ended.

    Raises:
        ServerUnusableError: It cannot be started.
    """
    program, *arguments = config.argv
    command = StdioServerParameters(command=program, args=arguments, env=dict(env), cwd=folder)
    async with contextlib.AsyncExitStack() as stack:
        try:
            # The SDK passes it on to subprocess, which also accepts this.
            client = stdio_client(command, subprocess.DEVNULL)  # type: ignore[arg-type]
            from_server, write_stream = await stack.enter_async_context(client)
        except (OSError, ValueError) as error:
            raise ServerUnusableError(f"{program} cannot be started: {error}") from None
        to_session, read_stream = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def read() -> None:
            has_warned = False
            with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for item in from_server:
                    if isinstance(item, SessionMessage):
                        await to_session.send(item)
                    elif not has_warned:
                        log.warning("MCP server '%s' prints on its stdout, which is for messages", name)
                        has_warned = True
            to_session.close()
            ended("it has ended")

        tasks = await stack.enter_async_context(anyio.create_task_group())
        tasks.start_soon(read)
        try:
            yield read_stream, write_stream
        finally:
            tasks.cancel_scope.cancel()
            to_session.close()
            read_stream.close()
