"""The output of file readers, before chunking."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from flexchat.plugin import FlexChatError
from flexchat.store import error_text

MAX_BUFFERED = 65_536
"""Characters after which a section is handed on at the next empty line, so that no file is held as a whole."""

MAX_HEADING_CHARS = 200


ENCRYPTED = "is encrypted and needs a password: store it without one first"


class UnreadableFileError(FlexChatError):
    """A file is unusable. The text is a predicate that completes a sentence beginning with the file's name."""


@contextlib.contextmanager
def parsing(what: str) -> Iterator[None]:
    """Report whatever a parser raises for a damaged file as an UnreadableFileError.

    Args:
        what: The format: "Word document".
    """
    try:
        yield
    except UnreadableFileError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged file makes its parser raise anything
        raise UnreadableFileError(f"is a damaged {what} ({short_reason(error)})") from None


def short_reason(error: BaseException) -> str:
    """Format what a parser raised, in at most 120 characters."""
    return error_text(error)[:120]


def check_size(path: Path, most: int) -> None:
    """Refuse a file that is too large to be read as a whole.

    Raises:
        UnreadableFileError: It is larger than *most* bytes.
    """
    if path.stat().st_size > most:
        raise UnreadableFileError(f"is larger than {most:,} bytes")


@attrs.frozen(kw_only=True)
class Section:
    """A part of a text, with its headings, outermost first.

    Attributes:
        metadata: Its position: {"line": 12} for the first line, {"page": 3}; both count from 1.
    """

    text: str
    headings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Record:
    """A row of a table, or an object of a JSON file: a document by itself.

    Attributes:
        whole: Never split: the record was exported from a store.
    """

    text: str
    id: str | None = None
    title: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    whole: bool = False


@attrs.frozen
class Trouble:
    """An unreadable part of an otherwise readable file. The text gives its position and the reason."""

    text: str


Piece = Section | Record | Trouble


@attrs.define(kw_only=True)
class Reading:
    """Options for reading one file, and the remarks collected while reading.

    Attributes:
        encoding: Encoding of a text file; None to detect it.
        remarks: Predicates of sentences that begin with the file's name: "was read as cp1252, a guess".
        unread: Counts of skipped content by name. A # in a name becomes the plural s: "picture# without a text".
    """

    encoding: str | None = None
    remarks: list[str] = attrs.field(factory=list)
    unread: Counter[str] = attrs.field(factory=Counter)

    def note(self, text: str) -> None:
        """Add a remark about the file, unless it is already present."""
        if text not in self.remarks:
            self.remarks.append(text)

    def notes(self) -> list[str]:
        """Return all remarks, each a predicate for a sentence that begins with the file's name."""
        counted = [
            f"{count:,} {name.replace('#', 's' if count > 1 else '')}" for name, count in self.unread.items() if count
        ]
        return [*self.remarks, *([f"holds what is not read: {', '.join(counted)}"] if counted else [])]


class SectionBuilder:
    """Collects text under headings, and yields completed sections."""

    def __init__(self, metadata: Mapping[str, Any] | None = None) -> None:
        self.metadata = dict(metadata or {})
        self._path: list[tuple[int, str]] = []
        self._parts: list[str] = []
        self._size = 0
        self._line: int | None = None
        self._bare = False  # the last heading has no text yet

    def heading(self, level: int, title: str, *, line: int | None = None) -> Iterator[Section]:
        """Begin a section. Level 1 is the outermost heading, 0 the title."""
        whole = " ".join(title.split())
        title = whole[:MAX_HEADING_CHARS]
        yield from self.flush()
        if not title:
            return
        if self._bare and self._path and level <= self._path[-1][0]:
            yield self._section(self._path[-1][1])
        while self._path and (self._path[-1][0] >= level or self._path[-1][1] == title):
            self._path.pop()
        self._path.append((level, title))
        self._bare, self._line = True, line
        if len(whole) > MAX_HEADING_CHARS:
            self.add(f"{whole}\n\n", line=line)

    def add(self, text: str, *, line: int | None = None) -> None:
        """Add text to the section. The caller adds separators."""
        if not self._parts:
            if not text.strip():
                return
            self._line = line
        self._parts.append(text)
        self._size += len(text)

    def ready(self, *, is_gap: bool = True) -> Iterator[Section]:
        """Yield the collected text if it is long; if it does not end at a gap, only once it is very long."""
        if self._size >= (MAX_BUFFERED if is_gap else 4 * MAX_BUFFERED):
            yield from self.flush()

    def flush(self) -> Iterator[Section]:
        """Yield the collected text as a section."""
        if self._parts:
            yield self._section("".join(self._parts).rstrip())

    def end(self) -> Iterator[Section]:
        """Yield the last section; a heading without text becomes a text."""
        yield from self.flush()
        if self._bare:
            yield self._section(self._path[-1][1])

    def _section(self, text: str) -> Section:
        self._parts, self._size, self._bare = [], 0, False
        place = {"line": self._line} if self._line is not None else {}
        headings = tuple(title for _, title in self._path)
        return Section(text=text, headings=headings, metadata={**self.metadata, **place})
