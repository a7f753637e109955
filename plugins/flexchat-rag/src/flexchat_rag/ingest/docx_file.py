"""Word documents (.docx): how they are opened, and in which order their parts are read."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
from flexchat.store import error_text

from .docx_text import Block, DocxText
from .equations import local_name
from .sections import Reading, Section, SectionBuilder, UnreadableFileError

MOST_UNPACKED = 200_000_000
"""Bytes of all parts together, pictures included."""

MOST_UNPACKED_XML = 50_000_000
"""Bytes of one XML part, which is held as a tree."""

HIGHEST_RATIO = 150
"""Unpacked to packed, where more than ``_HARMLESS`` bytes come out. Text of office files packs about 10:1, deflate
at most 1,032:1, which is what zip bombs use."""

MOST_PARTS = 10_000

_HARMLESS = 5_000_000


def read_docx(path: Path, reading: Reading) -> Iterator[Section]:
    """Yield the text under each heading; headers come first and footers last.

    Raises:
        UnreadableFileError: It is no Word document, or one that is made to fill the memory.
    """
    _check_archive(path)
    from docx import Document as open_docx

    try:
        document = open_docx(str(path))
        builder = SectionBuilder()
        for block in _blocks(document, reading):
            if block.kind == "heading":
                yield from builder.heading(block.level, block.text)
            elif block.kind in ("row", "end of table"):
                builder.add(f"{block.text}\n")
            else:
                builder.add(f"- {block.text}\n" if block.kind == "item" else f"{block.text}\n\n")
            if builder.full:
                yield from builder.flush()
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged document makes its parsers raise anything
        short = error_text(error)[:120]
        raise UnreadableFileError(f"is a damaged Word document ({short})") from None
    yield from builder.end()


def _blocks(document: Any, reading: Reading) -> Iterator[Block]:
    part, body = document.part, document.element.body
    styles = {style.style_id: style.name or "" for style in document.styles}
    notes = {kind: _notes(part, kind) for kind in ("footnotes", "endnotes", "comments")}
    yield from _repeated(body, "headerReference", part, styles, reading)
    yield from DocxText(part, styles, notes, reading).blocks(body)
    yield from _repeated(body, "footerReference", part, styles, reading)


def _repeated(body: Any, name: str, part: Any, styles: dict[str, str], reading: Reading) -> Iterator[Block]:
    """Yield the headers or footers, each text once."""
    parts = dict.fromkeys(
        value
        for element in body.iter()
        if local_name(element) == name
        for key, value in element.attrib.items()
        if key.endswith("}id")
    )
    seen: set[tuple[Block, ...]] = set()
    for reference in parts:
        inner = part.related_parts.get(reference)
        if inner is None:
            continue
        blocks = tuple(DocxText(inner, styles, {}, reading).blocks(inner.element))
        if blocks not in seen:
            seen.add(blocks)
            yield from (attrs.evolve(block, kind="paragraph") if block.kind == "heading" else block for block in blocks)


def _notes(part: Any, kind: str) -> dict[str, Any]:
    """Return footnotes, endnotes or comments by their ids."""
    from docx.oxml.parser import parse_xml

    for relation in part.rels.values():
        if relation.reltype.endswith(f"/{kind}") and not relation.is_external:
            root = parse_xml(relation.target_part.blob)
            return {value: note for note in root for key, value in note.attrib.items() if key.endswith("}id")}
    return {}


def _check_archive(path: Path) -> None:
    """Look at the sizes in the archive's directory; no part is ever unpacked beyond what that says."""
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise UnreadableFileError("is not a Word document (.docx)") from None
    if len(parts) > MOST_PARTS:
        raise UnreadableFileError(f"has {len(parts):,} parts, which no Word document needs")
    unpacked, packed = sum(part.file_size for part in parts), path.stat().st_size
    too_dense = unpacked > _HARMLESS and unpacked > HIGHEST_RATIO * packed
    if unpacked > MOST_UNPACKED or too_dense:
        raise UnreadableFileError(
            f"unpacks to {unpacked:,} bytes from {packed:,}: it is a zip bomb, or too large to read"
        )
    if any(part.file_size > MOST_UNPACKED_XML for part in parts if part.filename.endswith(".xml")):
        raise UnreadableFileError(f"has a part of more than {MOST_UNPACKED_XML:,} bytes, too large to be read")
