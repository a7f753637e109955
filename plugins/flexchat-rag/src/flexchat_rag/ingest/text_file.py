"""Plain text, Markdown and Jupyter notebooks: sections by heading."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .encoding import lines_of
from .records import number_or_text
from .sections import Piece, Reading, Section, SectionBuilder, Trouble, UnreadableFileError, check_size


def read_text(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield a text in parts of bounded size, split at empty lines where possible."""
    builder = SectionBuilder()
    troubles: list[Trouble] = []
    for number, line in _numbered(lines_of(path, reading), troubles):
        builder.add(line, line=number)
        yield from builder.ready(is_gap=not line.strip())
    yield from builder.end()
    yield from troubles


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
    for number, line in itertools.chain(first_lines, lines):
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
        elif (
            (setext := _SETEXT.match(bare))
            and before.strip()
            and not _NO_PARAGRAPH.match(before)
            and not earlier.strip()
        ):
            yield from builder.heading(1 if setext[1][0] == "=" else 2, _plain(before), line=before_number)
            before = earlier = ""
            continue
        builder.add(before, line=before_number)
        yield from builder.ready(is_gap=not before.strip() and not fence)
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


def _plain(heading: str) -> str:
    return _MARKS.sub("", _LINK.sub(r"\1", heading)).strip()


MAX_BYTES = 100_000_000
MAX_OUTPUT_CHARS = 5_000
_HEADING = re.compile(r"(#{1,6})\s+(.+?)\s*#*")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def read_notebook(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield the cells under each heading; code and output are fenced.

    Raises:
        UnreadableFileError: It is too large, or not a notebook.
    """
    check_size(path, MAX_BYTES)
    try:
        notebook = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise UnreadableFileError("is not a Jupyter notebook: it is not JSON") from None
    cells = _cells(notebook)
    if cells is None:
        raise UnreadableFileError("is not a Jupyter notebook: it has no cells")
    metadata = notebook.get("metadata")
    language = metadata.get("language_info", {}) if isinstance(metadata, dict) else {}
    language = str(language.get("name") or "") if isinstance(language, dict) else ""
    builder = SectionBuilder()
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        source = _text(cell.get("source", cell.get("input")))
        if cell.get("cell_type") == "code":
            builder.add(f"```{language}\n{source}\n```\n\n" if source.strip() else "")
            for output in cell.get("outputs") or ():
                builder.add(_output(output, reading))
        else:
            yield from _markdown(source, builder)
        yield from builder.ready()
    yield from builder.end()


def _cells(notebook: Any) -> list[Any] | None:
    if not isinstance(notebook, dict):
        return None
    sheets = notebook.get("worksheets")
    if isinstance(sheets, list):  # nbformat 3
        return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet.get("cells") or ()]
    cells = notebook.get("cells")
    return cells if isinstance(cells, list) else None


def _markdown(source: str, builder: SectionBuilder) -> Iterator[Piece]:
    fenced = False
    for line in source.splitlines():
        fenced ^= line.lstrip().startswith(("```", "~~~"))
        heading = None if fenced else _HEADING.fullmatch(line.strip())
        if heading is not None:
            yield from builder.heading(len(heading[1]), heading[2])
        else:
            builder.add(f"{line}\n")
    builder.add("\n")


def _output(output: Any, reading: Reading) -> str:
    """Return the text of a cell's output; pictures are counted."""
    if not isinstance(output, Mapping):
        return ""
    data = output.get("data", output)
    data = data if isinstance(data, Mapping) else {}
    text = _text(output.get("text")) or _text(data.get("text/plain")) or _text(data.get("text/markdown"))
    if output.get("output_type") in ("error", "pyerr"):
        text = f"{output.get('ename', '')}: {output.get('evalue', '')}"
    if any(str(key).startswith("image/") or key in ("png", "jpeg", "svg") for key in data):
        reading.unread["picture#"] += 1
        text = _text(data.get("text/markdown"))
    text = _ESCAPE.sub("", text).strip()
    if len(text) > MAX_OUTPUT_CHARS:
        reading.unread[f"output# beyond {MAX_OUTPUT_CHARS:,} characters"] += 1
        text = text[:MAX_OUTPUT_CHARS]
    return f"Output:\n```\n{text}\n```\n\n" if text else ""


def _text(lines: Any) -> str:
    if isinstance(lines, list):
        return "".join(line for line in lines if isinstance(line, str))
    return lines if isinstance(lines, str) else ""
