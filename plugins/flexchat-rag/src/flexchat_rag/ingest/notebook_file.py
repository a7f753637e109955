"""Jupyter notebooks (.ipynb): text, code, and what the code printed.

Source: nbformat 3 and 4.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .sections import Piece, Reading, SectionBuilder, UnreadableFileError, check_size

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
        if builder.full:
            yield from builder.flush()
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
