"""Newline-delimited JSON, byte by byte if necessary.

Source: the format's own description (ndjson.org): one JSON value per line, lines end in a line feed, UTF-8.
"""

from __future__ import annotations

MAX_LINE_BYTES = 8 * 2**20  # longest line accepted. A whole answer with long arguments or reasoning may be one line.


class NdjsonDecoder:
    """Turns the bytes of a stream into lines, however the network split them.

    Lines end in LF, with or without CR before it, and nowhere else: JSON may contain unescaped U+2028 and the like.
    Lines are still bytes, so no character is ever cut. Empty lines are dropped.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._max = max_line_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._at_start = True

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines this chunk completes.

        Raises:
            ValueError: A line is longer than allowed.
        """
        self._held.append(chunk)
        self._held_bytes += len(chunk)
        if b"\n" not in chunk:
            self._check_length(self._held_bytes)
            return []
        lines = b"".join(self._held).split(b"\n")
        rest = lines.pop()
        self._held, self._held_bytes = [rest], len(rest)
        self._check_length(max(len(rest), *map(len, lines)))
        return [line for line in map(self._bare, lines) if line]

    def close(self) -> list[bytes]:
        """Return the line the stream ended in, if it lacks only its line feed.

        Some servers do not end their last line, and a cut-off line must be noticed.
        """
        line = self._bare(b"".join(self._held))
        self._held, self._held_bytes = [], 0
        return [line] if line else []

    def _bare(self, line: bytes) -> bytes:
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        return line.strip(b" \t\r")

    def _check_length(self, length: int) -> None:
        if length > self._max:
            raise ValueError(f"a line of the stream is longer than {self._max // 2**20} MiB")
