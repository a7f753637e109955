"""The transport of a server that is a process: between its pipes and the SDK's streams."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Callable

import anyio
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)

from .errors import TOO_LARGE
from .lines import FloodError, Lines, Oversized
from .process import ServerProcess

log = logging.getLogger(__name__)

_WAITING = 1_024
"""Messages that may wait to be written; so nobody waits for a server that does not read."""
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
                        message = _message(line)
                        if message is None:
                            if isinstance(line, Oversized):
                                raise FloodError(f"it sent a message of more than {max_bytes:,} bytes")
                            if not has_warned:
                                log.warning("MCP server '%s' prints on its stdout, which is for messages", name)
                            has_warned = True
                            lines.note_nonsense(len(line))
                            continue
                        lines.note_message()
                        if line == before and isinstance(message, JSONRPCNotification):
                            continue  # a storm of one message, of which we have acted on none yet
                        before = line
                        if isinstance(message, JSONRPCResponse | JSONRPCError):
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


def _message(line: bytes | Oversized) -> JSONRPCMessage | None:
    """Return the JSON-RPC message of a line; None if it is none."""
    if isinstance(line, Oversized):
        if line.id is None:
            return None
        return JSONRPCError(jsonrpc="2.0", id=line.id, error=ErrorData(code=TOO_LARGE, message=""))
    try:
        return jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return None
