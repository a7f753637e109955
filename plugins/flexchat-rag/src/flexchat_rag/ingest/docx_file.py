"""Word documents (.docx): headings by their styles, paragraphs and tables."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .sections import Section, SectionBuilder, UnreadableFileError

MOST_UNPACKED = 200_000_000
"""Bytes of all parts together, pictures included."""

MOST_UNPACKED_XML = 50_000_000
"""Bytes of one XML part, which is held as a tree."""

HIGHEST_RATIO = 150
"""Unpacked to packed, where more than ``_HARMLESS`` bytes come out. Text of office files packs about 10:1, deflate
at most 1,032:1, which is what zip bombs use."""

MOST_PARTS = 10_000

_HARMLESS = 5_000_000
_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_LIST = re.compile(r"list (bullet|number|paragraph)", re.IGNORECASE)


def read_docx(path: Path) -> Iterator[Section]:
    """Yield the text under each heading.

    Raises:
        UnreadableFileError: It is no Word document, or one that is made to fill the memory.
    """
    _check_archive(path)
    from docx import Document as open_docx
    from docx.table import Table

    try:
        content = open_docx(str(path)).iter_inner_content()
        builder = SectionBuilder()
        for block in content:
            if isinstance(block, Table):
                for row in _rows(block):
                    builder.add(row + "\n")
                builder.add("\n")
            else:
                yield from _paragraph(block, builder)
            if builder.full:
                yield from builder.flush()
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged document makes its parsers raise anything
        short = (str(error) or type(error).__name__)[:120]
        raise UnreadableFileError(f"is a damaged Word document ({short})") from None
    yield from builder.end()


def _paragraph(block: Any, builder: SectionBuilder) -> Iterator[Section]:
    text = block.text.strip()
    if not text:
        return
    style = (block.style.name if block.style is not None else "") or ""
    heading = _HEADING.fullmatch(style)
    if heading or style.casefold() == "title":
        yield from builder.heading(int(heading[1]) if heading else 0, text)
    else:
        builder.add(f"- {text}\n" if _LIST.match(style) else f"{text}\n\n")


def _rows(table: Any) -> Iterator[str]:
    for row in table.rows:
        cells: list[str] = []
        last = None
        for cell in row.cells:
            if cell._tc is not last:  # a cell over several columns comes once for each
                cells.append(" ".join(cell.text.split()))
            last = cell._tc
        if any(cells):
            yield " | ".join(cells)


def _check_archive(path: Path) -> None:
    """Look at the sizes in the archive's directory; no part is ever unpacked beyond what that says."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise UnreadableFileError("is no Word document (.docx)") from None
    if len(parts) > MOST_PARTS:
        raise UnreadableFileError(f"has {len(parts):,} parts, which no Word document needs")
    unpacked, packed = sum(part.file_size for part in parts), path.stat().st_size
    too_dense = unpacked > _HARMLESS and unpacked > HIGHEST_RATIO * packed
    if unpacked > MOST_UNPACKED or too_dense:
        raise UnreadableFileError(
            f"unpacks to {unpacked:,} bytes from {packed:,}: that is a zip bomb, or too large to be read"
        )
    if any(part.file_size > MOST_UNPACKED_XML for part in parts if part.filename.endswith(".xml")):
        raise UnreadableFileError(f"has a part of more than {MOST_UNPACKED_XML:,} bytes, too large to be read")
