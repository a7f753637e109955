"""OpenDocument texts and presentations (.odt, .odp).

Source: OASIS OpenDocument 1.3 part 3, 4 Document Structure to 10 Graphic Content.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .archive import XmlParts, check_archive, elements, local_name
from .sections import ENCRYPTED, Piece, Reading, Section, SectionBuilder, UnreadableFileError, parsing

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
            if self._builder.full:
                yield from self._builder.flush()

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
