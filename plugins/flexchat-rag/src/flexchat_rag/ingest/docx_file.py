"""Word documents (.docx): how they are opened, and in which order their parts are read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from .archive import check_archive, transitional
from .docx_text import Block, DocxText
from .equations import local_name
from .sections import Reading, Section, SectionBuilder, parsing


def read_docx(path: Path, reading: Reading) -> Iterator[Section]:
    """Yield the text under each heading; headers come first and footers last.

    Raises:
        UnreadableFileError: It is no Word document, or one that is made to fill the memory.
    """
    check_archive(path, "a Word document (.docx)")
    from docx import Document as open_docx

    builder = SectionBuilder()
    with parsing("Word document"):
        document = open_docx(transitional(path))
        for block in _blocks(document, reading):
            if block.kind == "heading":
                yield from builder.heading(block.level, block.text)
            elif block.kind in ("row", "end of table"):
                builder.add(f"{block.text}\n")
            else:
                builder.add(f"- {block.text}\n" if block.kind == "item" else f"{block.text}\n\n")
            if builder.full:
                yield from builder.flush()
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
