"""The frames of a stream, byte by byte if necessary: server-sent events, and newline-delimited JSON.

Sources: HTML Living Standard, 9.2.6; ndjson.org: one JSON value per line, lines end in a line feed, UTF-8.
"""

from __future__ import annotations

from typing import NamedTuple

MAX_EVENT_BYTES = 8 * 2**20  # longest event accepted. Inline images and long reasoning are one line of several MiB.


class SseEvent(NamedTuple):
    """One event: its data lines joined with a line feed, as bytes, and the name of its ``event`` field."""

    data: bytes
    name: str = ""


class SseDecoder:
    """Turns the bytes of a stream into events, however the network split them.

    Lines end in LF, CR or CRLF and nowhere else: JSON may contain unescaped U+2028 and the like. ``id`` and
    ``retry`` are for a client that reconnects; they are ignored.
    """

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._held: list[bytes] = []  # pieces of an incomplete line, joined only once it is complete
        self._event_bytes = 0
        self._lines = _Lines()
        self._after_cr = False
        self._at_start = True

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Return the events this chunk completes. No byte is looked at more than a few times.

        Raises:
            ValueError: An event is longer than allowed.
        """
        if b"\r" in chunk or self._after_cr:
            chunk = self._with_line_feeds(chunk)
        if not chunk:
            return []
        self._held.append(chunk)
        self._event_bytes += len(chunk)
        if b"\n" not in chunk:
            self._check_length()
            return []
        text = b"".join(self._held) if len(self._held) > 1 else chunk
        if self._at_start:
            text = self._without_mark(text)
        blocks = text.split(b"\n\n")
        rest = blocks.pop()
        if blocks:
            self._event_bytes = len(rest)
        self._check_length()
        events = []
        for block in blocks:
            # Nearly every block is like this.
            if block.startswith(b"data: ") and b"\n" not in block and not self._lines:
                events.append(SseEvent(block[6:]))
            elif (block or self._lines) and (event := self._lines.end(block)):
                events.append(event)
        # A complete line is read now. Its line feed stays: another one after it ends the event.
        at = rest.rfind(b"\n")
        if at > 0:
            self._lines.add(rest[:at])
            rest = rest[at:]
        self._held = [rest] if rest else []
        return events

    def close(self) -> list[SseEvent]:
        """Return the event the stream ended in, if it lacks only its empty line.

        The standard drops it. Here it is kept: some servers do not end their last line, and a cut-off one must be
        noticed.
        """
        text = b"".join(self._held)
        if self._at_start:
            text = self._without_mark(text)
        self._held, self._event_bytes = [], 0
        event = self._lines.end(text)
        return [event] if event else []

    def _with_line_feeds(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk, self._after_cr = chunk[1:], False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _without_mark(self, text: bytes) -> bytes:
        self._at_start = False
        return text.removeprefix(b"\xef\xbb\xbf")

    def _check_length(self) -> None:
        if self._event_bytes > self._max:
            raise ValueError(f"an event of the stream is longer than {self._max // 2**20} MiB")


class _Lines:
    """The content of one event's lines so far; false before the first line."""

    def __init__(self) -> None:
        self._data: list[bytes] = []
        self._name = b""
        self._any = False

    def __bool__(self) -> bool:
        return self._any

    def add(self, lines: bytes) -> None:
        self._any = True
        for line in lines.split(b"\n"):
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif field == b"event":
                self._name = value.removeprefix(b" ")

    def end(self, lines: bytes) -> SseEvent | None:
        """Return the event these lines complete, if it has data; the next lines belong to another event."""
        self.add(lines)
        event = SseEvent(b"\n".join(self._data), self._name.decode("utf-8", "replace")) if self._data else None
        self._data, self._name, self._any = [], b"", False
        return event


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
