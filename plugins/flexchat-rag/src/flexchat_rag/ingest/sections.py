"""The output of file readers, and its passages: texts are split at the end of a paragraph, else sentence, line or word.

A passage's title is the path of its headings, "Guide › Install › Linux", which its text does not repeat. Stores search
and embed title and text together. Runs of Base64 are taken out of texts before.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
from flexchat.plugin import FlexChatError
from flexchat.store import Document, error_text, storable

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


MIN_CHARS = 200

_DATA_URL = re.compile(r"data:[\w.+-]*(?:/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,[A-Za-z0-9+/=_%-]{40,}")
_BLOCK = re.compile(r"(?<![A-Za-z0-9+/=])[A-Za-z0-9+/]{60,}(?:\r?\n[A-Za-z0-9+/]+)*={0,2}(?![A-Za-z0-9+/=])")
LEFT_OUT = "[Base64]"


def without_base64(text: str) -> tuple[str, int]:
    """Replace each run of Base64 with a marker. Returns the text and the number of replacements."""
    if ";base64," in text:
        text, urls = _DATA_URL.subn(LEFT_OUT, text)
    else:
        urls = 0
    blocks = 0

    def left_out(block: re.Match[str]) -> str:
        nonlocal blocks
        if len(block[0]) < MIN_CHARS or not _is_mixed(block[0][:MIN_CHARS]):
            return block[0]
        blocks += 1
        return LEFT_OUT

    return _BLOCK.sub(left_out, text), urls + blocks


def _is_mixed(text: str) -> bool:
    """Return True if a run has the mix of characters typical of Base64, unlike words, numbers and DNA."""
    return all(any(test(char) for char in text) for test in (str.isupper, str.islower, str.isdigit))


CHUNK_CHARS = 900
"""Local embedding models read 256 tokens and ignore the rest: about 1,000 characters of English, title included."""

OVERLAP_CHARS = 100
"""What a passage repeats of the one before: about a sentence, so that none is understood without its context."""

MIN_CHUNK_CHARS = 100

TITLE_SEPARATOR = " › "

_PARAGRAPH = re.compile(r"\n[^\S\n]*\n\s*")
_SENTENCE = re.compile(r"(?:[.!?…][\"'”’»)\]]*\s|[。！？])\s*")
_LINE = re.compile(r"\n")
_WORD = re.compile(r"\s")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$", re.MULTILINE)


def documents_of(
    piece: Section | Record, *, source: str, size: int = CHUNK_CHARS, overlap: int = OVERLAP_CHARS
) -> Iterator[Document]:
    """Yield the passages of a section or a record, in order.

    Args:
        source: Name of the file.
        size: Maximum number of characters of a passage.
        overlap: Maximum number of characters repeated from the previous passage.
    """
    text = storable(piece.text)
    name = source.rpartition("/")[2] or source
    if isinstance(piece, Record):
        base = Document(
            id=piece.id,
            text=text,
            title=piece.title or name,
            source=piece.source or source,
            metadata=piece.metadata,
        )
        if piece.whole or len(text) <= size:
            yield base
            return
    else:
        title = storable(TITLE_SEPARATOR.join(piece.headings)) or name
        base = Document(text=text, title=title, source=source, metadata=piece.metadata)
    line = base.metadata.get("line") if isinstance(piece, Section) else None
    counted = 0
    for number, (start, end) in enumerate(spans(text, size, overlap), 1):
        metadata = dict(base.metadata)
        if line is not None:
            line, counted = line + text.count("\n", counted, start), start
            metadata["line"] = line
        yield Document(
            id=base.id if base.id is None or number == 1 else f"{base.id}#{number}",
            text=text[start:end].rstrip(),
            title=base.title,
            source=base.source,
            metadata=metadata,
        )


def spans(text: str, size: int, overlap: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each passage of a text.

    The spans cover all non-blank text, none is longer than *size*, and both starts and ends increase strictly.

    Args:
        overlap: At most a quarter of size is used.
    """
    overlap = min(overlap, size // 4)
    fences = _fences(text) if len(text) > size else []
    end = len(text.rstrip())
    start = _after_blanks(text, 0)
    last_cut = 0
    while end - start > size:
        cut = _cut(text, start, size, fences, last_cut)
        yield start, cut
        start = max(_resume(text, cut, overlap, fences), start + 1)
        last_cut = cut
    if start < end:
        yield start, end


def _cut(text: str, start: int, size: int, fences: list[tuple[int, int]], last_cut: int) -> int:
    low, high = max(start + size // 2, last_cut + 1), start + size
    fence = _around(fences, high)
    if fence is not None and fence[0] > max(start + size // 4, last_cut):
        return fence[0]
    for pattern in (_PARAGRAPH, _SENTENCE, _LINE, _WORD):
        best = 0
        for match in pattern.finditer(text, low, high):
            in_code = pattern in (_PARAGRAPH, _SENTENCE, _WORD) and _around(fences, match.end()) is not None
            if not in_code:
                best = match.end()
        if best > last_cut:
            return best
    return high


def _resume(text: str, cut: int, overlap: int, fences: list[tuple[int, int]]) -> int:
    """Find the start of the next passage: before the cut by up to *overlap*, at a sentence if possible."""
    begin = cut - overlap
    if overlap and _around(fences, cut) is None and _around(fences, begin) is None:
        for pattern in (_SENTENCE, _WORD):
            for match in pattern.finditer(text, begin, cut):
                if match.end() < cut:
                    return _after_blanks(text, match.end())
    return _after_blanks(text, cut)


def _after_blanks(text: str, place: int) -> int:
    while place < len(text) and text[place].isspace():
        place += 1
    return place


def _fences(text: str) -> list[tuple[int, int]]:
    """Find the spans of fenced code blocks (``` or ~~~). An unclosed one extends to the end of the text."""
    fences, opened, mark = [], None, ""
    for match in _FENCE.finditer(text):
        if opened is None:
            opened, mark = match.start(), match[1]
        elif match[1].startswith(mark) and not match[2].strip():
            fences.append((opened, match.end()))
            opened = None
    return [*fences, (opened, len(text))] if opened is not None else fences


def _around(fences: list[tuple[int, int]], place: int) -> tuple[int, int] | None:
    for fence in fences:
        if fence[0] < place < fence[1]:
            return fence
        if fence[0] >= place:
            break
    return None
