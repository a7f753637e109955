"""Markdown: sections by heading, and the front matter of site generators.

Read line by line, because a Markdown parser would hold the whole file in memory and only headings and fences matter.
Source: CommonMark 0.31.2, 4.2 ATX headings, 4.3 setext headings, 4.5 fenced code blocks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from .encoding import lines_of
from .fields import number_or_text
from .sections import Piece, Reading, Section, SectionBuilder, Trouble

MAX_FRONT_MATTER_LINES = 200
"""Lines. A rule of dashes at the beginning of a text is none."""

_ATX = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*?))?(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(=+|-+)[ \t]*$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)$")
_NO_PARAGRAPH = re.compile(r" {0,3}(?:[-*+>|#]|\d+[.)])| {4}|\t")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"\*\*|__|`|\s*\{#[^}]*\}\s*$")
_FRONT = re.compile(r"\s|[-#\]}]|[\"']?[\w.-]+[\"']?[ \t]*:(\s|$)")
_KEY = re.compile(r"([A-Za-z_][\w-]*):[ \t]+(.+)$")


def read_markdown(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield the text under each heading."""
    troubles: list[Trouble] = []
    yield from _sections(_numbered(lines_of(path, reading), troubles), reading)
    yield from troubles


def _sections(lines: Iterator[tuple[int, str]], reading: Reading) -> Iterator[Section]:
    front, first_lines = _front_matter(lines, reading)
    title = str(front.pop("title", ""))
    builder = SectionBuilder(front)
    yield from builder.heading(0, title)
    fence = ""
    before, earlier = "", ""  # the last line, not yet added, and the one before it
    before_number = 1
    for number, line in _chain(first_lines, lines):
        bare = line.rstrip("\n")
        if fence:
            closing = _FENCE.match(bare)
            if closing and closing[1].startswith(fence) and not closing[2].strip():
                fence = ""
        elif opening := _FENCE.match(bare):
            fence = opening[1] if not (opening[1][0] == "`" and "`" in opening[2]) else ""
        elif atx := _ATX.match(bare):
            builder.add(before, line=before_number)
            before = earlier = ""
            yield from builder.heading(len(atx[1]), _plain(atx[2] or ""), line=number)
            continue
        elif (setext := _SETEXT.match(bare)) and _is_paragraph(before) and not earlier.strip():
            yield from builder.heading(1 if setext[1][0] == "=" else 2, _plain(before), line=before_number)
            before = earlier = ""
            continue
        builder.add(before, line=before_number)
        if builder.overfull or (builder.full and not before.strip() and not fence):
            yield from builder.flush()
        earlier, before, before_number = before, line, number
    builder.add(before, line=before_number)
    yield from builder.end()


def _numbered(lines: Iterator[str | Trouble], troubles: list[Trouble]) -> Iterator[tuple[int, str]]:
    number = 1
    for line in lines:
        if isinstance(line, Trouble):
            troubles.append(line)
            continue
        yield number, line
        number += line.endswith("\n")


def _chain(first: list[tuple[int, str]], rest: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    yield from first
    yield from rest


def _front_matter(
    lines: Iterator[tuple[int, str]], reading: Reading
) -> tuple[dict[str, str | int | float], list[tuple[int, str]]]:
    """Parse front matter between two ``---`` lines. Returns its values, and the consumed lines that are text."""
    consumed = []
    for number, line in lines:
        consumed.append((number, line))
        if number == 1 and line.rstrip() != "---":
            break
        if number > 1 and line.rstrip() in ("---", "..."):
            if not all(_FRONT.match(line) for _, line in consumed[1:-1]):
                break  # a text between two rules
            return _values([line for _, line in consumed[1:-1]], reading), []
        if len(consumed) > MAX_FRONT_MATTER_LINES:
            break
    return {}, consumed


def _values(lines: list[str], reading: Reading) -> dict[str, str | int | float]:
    """Parse the one-line ``name: value`` entries; lists and multi-line values are only counted."""
    values: dict[str, str | int | float] = {}
    for line in lines:
        match = _KEY.match(line.rstrip())
        if match and match[2][0] not in "[{|>&*!#":
            text = match[2].strip()
            quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
            values[match[1]] = text[1:-1] if quoted else number_or_text(text)
        elif line.strip() and not line.lstrip().startswith("#"):
            reading.unread["line# of front matter not of the form NAME: VALUE"] += 1
    return values


def _is_paragraph(line: str) -> bool:
    return bool(line.strip()) and not _NO_PARAGRAPH.match(line)


def _plain(heading: str) -> str:
    return _MARKS.sub("", _LINK.sub(r"\1", heading)).strip()
