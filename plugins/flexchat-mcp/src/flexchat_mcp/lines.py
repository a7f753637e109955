"""Takes what a server writes to stdout apart into messages, and does not let it flood us. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import attrs

NONSENSE_BYTES = 2**18
"""How much that is no message a server may write between two messages: prints of its libraries."""
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
            message = self._line()
            if message:
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
        match = _FIRST.match(ends) or _LAST.match(ends)
        if match is None:
            return Oversized(None)
        text = match[1].decode("ascii", "replace")
        return Oversized(text.strip('"') if text.startswith('"') else int(text))
