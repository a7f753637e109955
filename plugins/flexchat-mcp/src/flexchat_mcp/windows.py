"""The transport of a server that is a process on Windows: the SDK's, which ends it with a job object.

Not tried on Windows. It lacks what ``stdio.py`` and ``process.py`` add: limits on what the server
sends, and its stderr.
"""

from __future__ import annotations

import contextlib
import logging
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import anyio
from mcp import StdioServerParameters
from mcp.client._transport import TransportStreams
from mcp.client.stdio import stdio_client
from mcp.shared.message import SessionMessage

from .errors import ServerUnusableError
from .settings import McpConfig

log = logging.getLogger(__name__)


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
