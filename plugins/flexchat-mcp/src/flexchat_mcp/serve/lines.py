"""The lines of stdin, none longer than a message may be."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator
from typing import Any, BinaryIO

import anyio.to_thread

MAX_READ_BYTES = 2**16

log = logging.getLogger(__name__)


def input_lines(most: int) -> Any:
    """Return the lines of stdin, for the SDK's stdio_server; of a longer one, only the beginning, which is no message.

    File descriptor 0 is the null device from then on, so that no tool reads what a client has sent.
    """
    file = os.fdopen(os.dup(0), "rb", closefd=False)  # a thread may still read it at the end
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    return _lines(file, most)


async def _lines(file: BinaryIO, most: int) -> AsyncIterator[str]:
    while line := await anyio.to_thread.run_sync(read_line, file, most):
        yield line.decode("utf-8", "replace")


def read_line(file: BinaryIO, most: int) -> bytes:
    """Read a line; one with more than ``most`` bytes is read to its end, but not kept."""
    line = part = file.readline(most + 1)
    if len(line) > most and not line.endswith(b"\n"):
        log.warning("a message is skipped: it has more than %s bytes (mcp_server.max_bytes)", f"{most:,}")
        line = line[:100]
    while part and not part.endswith(b"\n"):
        part = file.readline(MAX_READ_BYTES)
    return line
