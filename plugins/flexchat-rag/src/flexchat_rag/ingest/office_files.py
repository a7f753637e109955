"""Office files, ZIP archives of XML parts: their size limits and parts, and the readers of .pptx, .odt and .odp.

A presentation has a section for each slide, with its notes and comments.

Source: ECMA-376 part 1, 19 PresentationML and 21 DrawingML; OASIS OpenDocument 1.3 part 3, 4 Document Structure to 10
Graphic Content.
"""

from __future__ import annotations

import io
import posixpath
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from .sections import (
    ENCRYPTED,
    Piece,
    Reading,
    Section,
    SectionBuilder,
    Trouble,
    UnreadableFileError,
    parsing,
    short_reason,
)

MAX_UNPACKED = 200_000_000
"""Bytes of all parts together, pictures included."""

MAX_UNPACKED_XML = 50_000_000
"""Bytes of one XML part, which is held as a tree."""

MAX_RATIO = 150
"""Unpacked to packed, where more than ``_HARMLESS`` bytes come out. Text of office files packs about 10:1, deflate
at most 1,032:1, which is what zip bombs use."""

MAX_PARTS = 10_000

_HARMLESS = 5_000_000

_STRICT = re.compile(rb"http://purl\.oclc\.org/ooxml/([A-Za-z]+)/")


def check_archive(path: Path, what: str) -> None:
    """Check the sizes in an archive's directory. Parts are never unpacked beyond the sizes listed there.

    Args:
        what: The format with its article: "a Word document (.docx)".

    Raises:
        UnreadableFileError: The archive is damaged, or a decompression bomb.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise UnreadableFileError(f"is not {what}") from None
    if len(parts) > MAX_PARTS:
        raise UnreadableFileError(f"has {len(parts):,} parts, which no document needs")
    unpacked, packed = sum(part.file_size for part in parts), path.stat().st_size
    too_dense = unpacked > _HARMLESS and unpacked > MAX_RATIO * packed
    if unpacked > MAX_UNPACKED or too_dense:
        raise UnreadableFileError(
            f"unpacks to {unpacked:,} bytes from {packed:,}: it is a zip bomb, or too large to read"
        )
    if any(part.file_size > MAX_UNPACKED_XML for part in parts if part.filename.endswith(".xml")):
        raise UnreadableFileError(f"has a part of more than {MAX_UNPACKED_XML:,} bytes, too large to be read")


def transitional(path: Path) -> BinaryIO:
    """Open an Office Open XML file, converting the namespaces of Strict files to those that readers support.

    Source: ISO/IEC 29500-1 and 29500-4, which differ in namespaces and relationship types.
    """
    content = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(content) as archive:
        parts = archive.namelist()
        if not any(_STRICT.search(archive.read(name)) for name in parts if name.endswith("_rels/.rels")):
            content.seek(0)
            return content
        converted = io.BytesIO()
        with zipfile.ZipFile(converted, "w") as copy:
            for name in parts:
                part = archive.read(name)
                if name.endswith((".xml", ".rels")):
                    part = _STRICT.sub(rb"http://schemas.openxmlformats.org/\1/2006/", part)
                copy.writestr(name, part)
    converted.seek(0)
    return converted


def local_name(element: Any) -> str:
    """Return the name of an XML element without its namespace; empty for comments and the like."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def elements(root: Any, *names: str) -> Iterator[Any]:
    """Yield the elements of these names, at any depth."""
    return (element for element in root.iter() if local_name(element) in names)


def texts_of(root: Any, *names: str) -> list[str]:
    """Return the texts of the elements of these names, at any depth, without blank ones."""
    return [element.text.strip() for element in elements(root, *names) if (element.text or "").strip()]


class XmlParts:
    """The XML parts of an archive."""

    def __init__(self, content: BinaryIO) -> None:
        self._archive = zipfile.ZipFile(content)
        self.names = self._archive.namelist()

    def tree(self, name: str) -> Any:
        """Parse a part and return its root element; None if the part is missing."""
        from lxml import etree

        if name not in self.names:
            return None
        parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
        return etree.fromstring(self._archive.read(name), parser)

    def related(self, name: str) -> Iterator[tuple[str, str, str]]:
        """Yield (id, type, target part) for each relationship of a part."""
        folder, _, file = name.rpartition("/")
        root = self.tree(f"{folder}/_rels/{file}.rels")
        for each in root if root is not None else ():
            target = each.get("Target", "")
            part = target.removeprefix("/") if target.startswith("/") else posixpath.join(folder, target)
            yield each.get("Id", ""), each.get("Type", "").rpartition("/")[2], posixpath.normpath(part)


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


_SKIPPED = {"tracked-changes", "forms", "sequence-decls", "table-of-content", "binary-data", "ruby-text"}


def read_open_document(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield the text under each heading, or of each slide.

    Raises:
        UnreadableFileError: It is damaged, encrypted, or made to fill the memory.
    """
    check_archive(path, "an OpenDocument file")
    with parsing("OpenDocument file"), path.open("rb") as file:
        parts = XmlParts(file)
        manifest = parts.tree("META-INF/manifest.xml")
        if manifest is not None and next(elements(manifest, "encryption-data"), None) is not None:
            raise UnreadableFileError(ENCRYPTED)
        root = parts.tree("content.xml")
        pieces = [*_pieces(root, reading)] if root is not None else []
    yield from pieces


def _pieces(root: Any, reading: Reading) -> Iterator[Section]:
    body = next(elements(root, "body"), root)
    slides = [page for page in elements(body, "page") if "drawing" in page.tag]
    for number, slide in enumerate(slides, 1):
        yield from _Text(reading, {"slide": number}).sections(slide)
    if not slides:
        yield from _Text(reading, {}).sections(body)


class _Text:
    """The text of a document or of one slide."""

    def __init__(self, reading: Reading, metadata: dict[str, Any]) -> None:
        self._reading, self._builder = reading, SectionBuilder(metadata)
        self._remarks: list[str] = []

    def sections(self, parent: Any) -> Iterator[Section]:
        yield from self._blocks(parent)
        yield from self._builder.end()

    def _blocks(self, parent: Any, mark: str = "") -> Iterator[Section]:
        for each in parent:
            name = local_name(each)
            if name == "h":
                level = _number(each, "outline-level")
                yield from self._builder.heading(level, self._inline(each))
            elif name == "p":
                self._paragraph(each, mark)
            elif name in ("list-item", "list-header"):
                yield from self._blocks(each, "- ")
            elif name == "table":
                self._table(each)
            elif name == "notes":
                text = " ".join(self._flat(each).split())
                self._builder.add(f"[Notes: {text}]\n\n" if text else "")
            elif name == "frame":
                self._picture(each)
                yield from self._blocks(each, mark)
            elif name not in _SKIPPED:
                yield from self._blocks(each, mark)
            yield from self._builder.ready()

    def _paragraph(self, paragraph: Any, mark: str) -> None:
        text = self._inline(paragraph).strip()
        if text:
            self._builder.add(f"{mark}{text}\n" if mark else f"{text}\n\n")
        remarks, self._remarks = self._remarks, []
        for remark in remarks:
            self._builder.add(f"{remark}\n\n")

    def _table(self, table: Any) -> None:
        for row in elements(table, "table-row"):
            cells = [" ".join(self._flat(cell).split()) for cell in row if "table-cell" in local_name(cell)]
            if any(cells):
                self._builder.add(f"{' | '.join(cells)}\n")
        self._builder.add("\n")

    def _flat(self, parent: Any) -> str:
        texts = map(self._inline, elements(parent, "p", "h"))
        return " ".join(text for text in texts if text.strip())

    def _inline(self, element: Any) -> str:
        pieces = [element.text or ""]
        for each in element:
            pieces += (self._piece(each), each.tail or "")
        return "".join(pieces)

    def _piece(self, element: Any) -> str:
        name = local_name(element)
        if name == "s":
            return " " * min(_number(element, "c"), 100)
        if name in ("tab", "line-break"):
            return "\t" if name == "tab" else "\n"
        if name == "note":
            mark = "".join(each.text or "" for each in element if local_name(each) == "note-citation").strip()
            text = " ".join(" ".join(self._flat(each) for each in element).split())
            self._remarks.append(f"[note {mark}] {text}")
            return f" [note {mark}]"
        if name == "annotation":
            author = next((each.text or "" for each in element if local_name(each) == "creator"), "")
            text = " ".join(self._flat(element).split())
            self._remarks.append(f"[Comment{f' by {author}' if author else ''}: {text}]")
            return ""
        if name == "frame":
            self._picture(element)
        if name in ("p", "h"):
            return f" {self._inline(element)} "
        return "" if name in _SKIPPED or name in ("title", "desc") else self._inline(element)

    def _picture(self, frame: Any) -> None:
        names = {local_name(each) for each in frame}
        if "image" not in names:
            return
        about = [each.text for each in frame if local_name(each) in ("title", "desc") and (each.text or "").strip()]
        if about:
            self._remarks.append(f"[Picture: {' '.join(' '.join(about).split())}]")
        else:
            self._reading.unread["picture# without a text"] += 1


def _number(element: Any, name: str) -> int:
    value = next((text for key, text in element.attrib.items() if key.endswith(f"}}{name}")), "1")
    return int(value) if value.isdecimal() else 1
