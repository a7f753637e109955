"""What readers make of files, before it is cut into passages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import FlexChatError

MOST_BUFFERED = 65_536
"""Characters after which a section is handed on at the next empty line, so that no file is held as a whole."""

LONGEST_HEADING = 200


class UnreadableFileError(FlexChatError):
    """Nothing of a file can be used; the text says why, as the end of a sentence that begins with its name."""


@attrs.frozen(kw_only=True)
class Section:
    """A part of a text, with the headings it stands under, outermost first.

    Attributes:
        metadata: Where it is: {"line": 12}, {"page": 3}. A line is that of the text's beginning, from 1.
    """

    text: str
    headings: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class Record:
    """A row of a table, or an object of a JSON file: a document by itself.

    Attributes:
        whole: It is stored as it is, however long: it was exported from a store.
    """

    text: str
    id: str | None = None
    title: str | None = None
    source: str | None = None
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    whole: bool = False


@attrs.frozen
class Trouble:
    """A part of a file that could not be read; the rest can. text says where and why."""

    text: str


Piece = Section | Record | Trouble


@attrs.define(kw_only=True)
class Reading:
    """How a file is to be read, and what there is to say of it beside its pieces.

    Attributes:
        encoding: Of a text file, where somebody has said it; None to find out.
        said: Ends of sentences that begin with the file's name: "was read as cp1252, a guess".
        unread: What was seen and is not read, how often. The # in a name is an s where there are several:
            "picture# without a text".
    """

    encoding: str | None = None
    said: list[str] = attrs.field(factory=list)
    unread: Counter[str] = attrs.field(factory=Counter)

    def note(self, text: str) -> None:
        """Say something of the file, once."""
        if text not in self.said:
            self.said.append(text)

    def notes(self) -> list[str]:
        """Return all there is to say, each the end of a sentence that begins with the file's name."""
        counted = [
            f"{count:,} {name.replace('#', 's' if count > 1 else '')}" for name, count in self.unread.items() if count
        ]
        return [*self.said, *([f"holds what is not read: {', '.join(counted)}"] if counted else [])]


class SectionBuilder:
    """Collects text under headings, and hands over sections as they are finished."""

    def __init__(self, metadata: Mapping[str, Any] | None = None) -> None:
        self.metadata = dict(metadata or {})
        self._path: list[tuple[int, str]] = []
        self._parts: list[str] = []
        self._size = 0
        self._line: int | None = None
        self._bare = False  # the last heading has no text yet

    def heading(self, level: int, title: str, *, line: int | None = None) -> Iterator[Section]:
        """Begin a section; level 1 is the outermost, 0 stands above all others."""
        whole = " ".join(title.split())
        title = whole[:LONGEST_HEADING]
        yield from self.flush()
        if not title:
            return
        if self._bare and self._path and level <= self._path[-1][0]:
            yield from self._bare_heading()
        while self._path and (self._path[-1][0] >= level or self._path[-1][1] == title):
            self._path.pop()
        self._path.append((level, title))
        self._bare, self._line = True, line
        if len(whole) > LONGEST_HEADING:
            self.add(f"{whole}\n\n", line=line)

    def add(self, text: str, *, line: int | None = None) -> None:
        """Add text to the section; what separates it from the next is the caller's to add."""
        if not self._parts:
            if not text.strip():
                return
            self._line = line
        self._parts.append(text)
        self._size += len(text)

    @property
    def full(self) -> bool:
        """Whether it is time to flush, if this is a good place."""
        return self._size >= MOST_BUFFERED

    @property
    def overfull(self) -> bool:
        """Whether it is time to flush wherever this is."""
        return self._size >= 4 * MOST_BUFFERED

    def flush(self) -> Iterator[Section]:
        """Hand over what was added."""
        if self._parts:
            text = "".join(self._parts).rstrip()
            yield Section(text=text, headings=self._headings(), metadata=self._place())
            self._parts, self._size, self._bare = [], 0, False

    def end(self) -> Iterator[Section]:
        """Hand over the last section, and a heading without a text as a text of its own."""
        yield from self.flush()
        if self._bare:
            yield from self._bare_heading()

    def _bare_heading(self) -> Iterator[Section]:
        yield Section(text=self._path[-1][1], headings=self._headings(), metadata=self._place())
        self._bare = False

    def _headings(self) -> tuple[str, ...]:
        return tuple(title for _, title in self._path)

    def _place(self) -> dict[str, Any]:
        return {**self.metadata, **({"line": self._line} if self._line is not None else {})}
