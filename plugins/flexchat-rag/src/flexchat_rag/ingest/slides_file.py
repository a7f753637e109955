"""PowerPoint presentations (.pptx): a section for each slide, with its notes and comments.

Source: ECMA-376 part 1, 19 PresentationML and 21 DrawingML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .archive import XmlParts, check_archive, elements, local_name, texts_of, transitional
from .sections import Piece, Reading, SectionBuilder, Trouble, parsing, short_reason

_SLIDE = re.compile(r"ppt/slides/slide(\d+)\.xml")


def read_slides(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield the text of each slide, with its number, from 1, in the metadata.

    Raises:
        UnreadableFileError: It is damaged, or made to fill the memory.
    """
    check_archive(path, "a PowerPoint presentation (.pptx)")
    with parsing("presentation"):
        parts = XmlParts(transitional(path))
        names = _slides(parts)
    for number, name in enumerate(names, 1):
        try:
            yield from [*_slide(parts, name, number, reading)]
        except Exception as error:  # noqa: BLE001  as above; the other slides are fine
            yield Trouble(f"slide {number} cannot be read ({short_reason(error)})")


def _slides(parts: XmlParts) -> list[str]:
    """Return the slides in presentation order, or by number if the file has none."""
    root = parts.tree("ppt/presentation.xml")
    by_id = {id: name for id, kind, name in parts.related("ppt/presentation.xml") if kind == "slide"}
    slides = elements(root, "sldId") if root is not None else ()
    ids = [value for slide in slides for key, value in slide.attrib.items() if key.endswith("}id")]
    in_order = [by_id[id] for id in ids if id in by_id]
    numbered = sorted((int(match[1]), name) for name in parts.names if (match := _SLIDE.fullmatch(name)))
    return in_order or [name for _, name in numbered]


def _slide(parts: XmlParts, name: str, number: int, reading: Reading) -> Iterator[Piece]:
    root = parts.tree(name)
    builder = SectionBuilder({"slide": number})
    titles = [shape for shape in elements(root, "sp") if _placeholder(shape) in ("title", "ctrTitle")]
    for each in titles:
        yield from builder.heading(1, " ".join(_paragraphs(each)))
    for text in _texts(root, {*map(id, titles)}, reading):
        builder.add(f"{text}\n\n")
    for _, kind, part in parts.related(name):
        words = _words(parts, kind, part, reading)
        if words:
            builder.add(f"{words}\n\n")
    yield from builder.end()


def _words(parts: XmlParts, kind: str, part: str, reading: Reading) -> str:
    """Return the text of a part that belongs to a slide."""
    if kind in ("video", "audio"):
        reading.unread["recording#"] += 1
    if kind in ("package", "oleObject"):
        reading.unread["embedded object#"] += 1
    root = parts.tree(part) if kind in ("notesSlide", "comments", "chart", "diagramData") else None
    if root is None:
        return ""
    if kind == "notesSlide":
        bodies = [shape for shape in elements(root, "sp") if _placeholder(shape) == "body"]
        notes = " ".join(text for body in bodies for text in _paragraphs(body))
        return f"[Notes: {notes}]" if notes else ""
    if kind == "comments":
        return "\n".join(f"[Comment: {text}]" for text in texts_of(root, "text", "t"))
    words = texts_of(root, "t", "v")
    return f"[{'Chart' if kind == 'chart' else 'Diagram'}: {', '.join(words)}]" if words else ""


def _texts(parent: Any, titles: set[int], reading: Reading) -> Iterator[str]:
    """Yield paragraphs, tables and descriptions of pictures in their order."""
    for each in parent:
        name = local_name(each)
        if id(each) in titles:
            continue
        if name == "p" and _text(each):
            yield _text(each)
        elif name == "tbl":
            rows = [[" ".join(_paragraphs(cell)) for cell in row if local_name(cell) == "tc"] for row in each]
            yield "\n".join(" | ".join(row) for row in rows if any(row))
        elif name == "pic":
            about = next((one.get("descr") for one in elements(each, "cNvPr")), None)
            if about:
                yield f"[Picture: {' '.join(about.split())}]"
            else:
                reading.unread["picture# without a text"] += 1
        elif name == "AlternateContent":
            yield from _texts(each[0], titles, reading) if len(each) else ()
        elif name != "p":
            yield from _texts(each, titles, reading)


def _paragraphs(parent: Any) -> list[str]:
    return [text for paragraph in elements(parent, "p") if (text := _text(paragraph))]


def _text(paragraph: Any) -> str:
    signs = {"br": "\n", "tab": "\t"}
    return "".join(signs.get(local_name(each)) or each.text or "" for each in elements(paragraph, "t", *signs)).strip()


def _placeholder(shape: Any) -> str:
    return next((each.get("type", "body") for each in elements(shape, "ph")), "")
