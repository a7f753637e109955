"""Chunking: splits texts into passages at the end of a paragraph, else of a sentence, a line or a word.

A passage's title is the path of its headings, "Guide › Install › Linux", which its text does not repeat. Stores search
and embed title and text together.
Runs of Base64 are taken out of texts before.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from flexchat.store import Document, storable

from .sections import Record, Section

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
