"""Word documents (.docx): their text in document order, with text boxes, notes, fields, controls and equations."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import attrs

from .office_files import check_archive, elements, local_name, texts_of, transitional
from .sections import Reading, Section, SectionBuilder, parsing


def equation(element: Any) -> str:
    """Return an equation, or a part of one."""
    name = local_name(element)
    match name:
        case "t":
            return element.text or ""
        case "f":
            return f"{_grouped(element, 'num')}/{_grouped(element, 'den')}"
        case "sSup" | "limUpp":
            return f"{_part(element, 'e')}^{_grouped(element, 'sup', 'lim')}"
        case "sSub" | "limLow":
            return f"{_part(element, 'e')}_{_grouped(element, 'sub', 'lim')}"
        case "sSubSup":
            return f"{_part(element, 'e')}_{_grouped(element, 'sub')}^{_grouped(element, 'sup')}"
        case "rad":
            return f"{_part(element, 'deg')}√{_grouped(element, 'e')}"
        case "nary":
            marks = (("_", "sub"), ("^", "sup"))
            limits = [f"{mark}{_grouped(element, part)}" for mark, part in marks if _part(element, part)]
            return f"{_sign(element, 'chr', '∫')}{''.join(limits)} {_part(element, 'e')}"
        case "d":
            begin, separator, end = (
                _sign(element, *sign) for sign in (("begChr", "("), ("sepChr", "|"), ("endChr", ")"))
            )
            inner = [equation(child) for child in element if local_name(child) == "e"]
            return f"{begin}{separator.join(inner)}{end}"
        case "m" | "eqArr":
            rows = [equation(child) for child in element if local_name(child) in ("mr", "e")]
            return f"[{'; '.join(rows)}]"
        case "mr":
            return ", ".join(equation(child) for child in element)
        case "del" | "moveFrom":
            return ""
    if name.endswith("Pr"):
        return ""
    return "".join(equation(child) for child in element)


def _part(element: Any, *names: str) -> str:
    return "".join(equation(child) for child in element if local_name(child) in names)


def _grouped(element: Any, *names: str) -> str:
    text = _part(element, *names)
    return text if text.isalnum() else f"({text})"


def _sign(element: Any, name: str, usual: str) -> str:
    for properties in element:
        if local_name(properties).endswith("Pr"):
            for child in properties:
                if local_name(child) == name:
                    return next((value for key, value in child.attrib.items() if key.endswith("}val")), usual)
    return usual


_WORD = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_RELATION = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"

_HEADING = re.compile(r"heading ([1-9])", re.IGNORECASE)
_LIST = re.compile(r"list (bullet|number|paragraph)", re.IGNORECASE)
_AROUND = {"sdt", "sdtContent", "ins", "moveTo", "customXml", "smartTag"}
_GONE = {"del", "moveFrom"}
_SIGNS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_NOTES = {"footnoteReference": "footnotes", "endnoteReference": "endnotes", "commentReference": "comments"}
_OFF = ("0", "false", "off")


@attrs.frozen(kw_only=True)
class Block:
    """A paragraph, or a row of a table.

    Attributes:
        level: Of a heading, 0 for a title.
    """

    text: str
    kind: Literal["paragraph", "heading", "item", "row", "end of table"] = "paragraph"
    level: int = 0


class DocxText:
    """Reads one part of a document: its body, or a header.

    Args:
        part: Where the references of its elements lead (python-docx's).
        styles: Names of styles by their ids.
        notes: Footnotes, endnotes and comments, each by its id.
    """

    def __init__(
        self, part: Any, styles: Mapping[str, str], notes: Mapping[str, Mapping[str, Any]], reading: Reading
    ) -> None:
        self._part, self._styles, self._notes, self._reading = part, styles, notes, reading
        self._codes: list[bool] = []  # of each field that is open, whether its code is being read
        self._boxes: list[Any] = []
        self._remarks: list[str] = []

    def blocks(self, parent: Any) -> Iterator[Block]:
        """Yield the paragraphs and rows of an element."""
        for child, name in self._children(parent):
            if name == "p":
                yield from self._paragraph(child)
            elif name == "tbl":
                yield from self._table(child)
            elif name == "altChunk":
                self._reading.unread["embedded document#"] += 1
            elif name in ("oMath", "oMathPara"):
                yield Block(text=equation(child))

    def _paragraph(self, paragraph: Any) -> Iterator[Block]:
        text = self._inline(paragraph).strip()
        boxes, self._boxes = self._boxes, []
        remarks, self._remarks = self._remarks, []
        if text:
            yield self._styled(paragraph, text)
        for box in boxes:
            yield from self.blocks(box)
        for remark in remarks:
            yield Block(text=remark)

    def _styled(self, paragraph: Any, text: str) -> Block:
        name = self._styles.get(_value(paragraph, "pPr", "pStyle"), "")
        if heading := _HEADING.fullmatch(name):
            return Block(text=text, kind="heading", level=int(heading[1]))
        if name.casefold() == "title":
            return Block(text=text, kind="heading")
        numbered = _find(paragraph, "pPr", "numPr") is not None
        return Block(text=text, kind="item" if numbered or _LIST.match(name) else "paragraph")

    def _table(self, table: Any) -> Iterator[Block]:
        above: dict[int, str] = {}
        for row in self._within(table, "tr"):
            if _find(row, "trPr", "del") is not None:
                self._count_deleted(row)
                continue
            cells, column = [], 0
            for cell in self._within(row, "tc"):
                # Semicolons separate the rows of a table in a cell.
                ends = {"row": "; "}
                texts = (" ".join(block.text.split()) + ends.get(block.kind, " ") for block in self.blocks(cell))
                text = "".join(texts).strip().removesuffix(";")
                if _find(cell, "tcPr", "vMerge") is not None and _value(cell, "tcPr", "vMerge") != "restart":
                    text = text or above.get(column, "")  # a cell over several rows stands in each of them
                above[column] = text
                column += int(_value(cell, "tcPr", "gridSpan") or 1)
                cells.append(text)
            if any(cells):
                yield Block(text=" | ".join(cells), kind="row")
        yield Block(text="", kind="end of table")

    def _within(self, parent: Any, tag: str) -> Iterator[Any]:
        return (child for child, name in self._children(parent) if name == tag)

    def _children(self, parent: Any) -> Iterator[tuple[Any, str]]:
        """Yield the elements of an element with their names: those of wrappers, and no deleted ones."""
        for child in parent:
            name = local_name(child)
            if name in _AROUND:
                yield from self._children(child)
            elif name in _GONE:
                self._count_deleted(child)
            else:
                yield child, name

    def _inline(self, parent: Any) -> str:
        return "".join(self._piece(child, local_name(child)) for child in parent)

    def _piece(self, element: Any, name: str) -> str:
        if name == "t":
            return "" if any(self._codes) else element.text or ""
        if name in _SIGNS:
            return "" if any(self._codes) else _SIGNS[name]
        if name == "fldChar":
            return self._field(element)
        if name == "r" and _is_on(_find(element, "rPr", "vanish")):
            self._reading.unread["piece# of hidden text"] += bool(self._inline(element).strip())
            return ""
        if name == "sym":
            return _symbol(element)
        if name in _NOTES:
            return self._note(element, _NOTES[name])
        if name in ("drawing", "pict", "object"):
            return self._drawing(element)
        if name == "AlternateContent":
            return self._inline(element[0]) if len(element) else ""
        if name in ("oMath", "oMathPara"):
            return equation(element)
        if name == "ruby":
            bases, readings = (map(self._inline, elements(element, name)) for name in ("rubyBase", "rt"))
            return "".join([*bases, *(f"({reading})" for reading in readings)])
        if name in _GONE:
            self._count_deleted(element)
            return ""
        if name.endswith("Pr") or name in ("instrText", "delText"):
            return ""
        return self._inline(element)

    def _field(self, mark: Any) -> str:
        kind = mark.get(f"{_WORD}fldCharType")
        text = ""
        if kind == "begin":
            text = "" if any(self._codes) else _chosen(mark)
            self._codes.append(True)
        elif self._codes and kind == "separate":
            self._codes[-1] = False
        elif self._codes and kind == "end":
            self._codes.pop()
        return text

    def _note(self, reference: Any, kind: str) -> str:
        number = reference.get(f"{_WORD}id", "")
        note = self._notes.get(kind, {}).get(number)
        if note is None:
            return ""
        inner = DocxText(self._part, self._styles, {}, self._reading)
        text = " ".join(" ".join(block.text.split()) for block in inner.blocks(note)).strip()
        if not text:
            return ""
        if kind == "comments":
            author = note.get(f"{_WORD}author", "")
            self._remarks.append(f"[Comment{f' by {author}' if author else ''}: {text}]")
            return ""
        mark = f"[{'note' if kind == 'footnotes' else 'endnote'} {number}]"
        self._remarks.append(f"{mark} {text}")
        return f" {mark}"

    def _drawing(self, drawing: Any) -> str:
        pictures, description, texts = 0, "", []
        waiting = [drawing]
        while waiting:
            element = waiting.pop()
            name = local_name(element)
            if name == "txbxContent":
                self._boxes.append(element)
                continue
            if name == "AlternateContent":
                waiting += element[:1]
                continue
            if name in ("pic", "imagedata"):
                pictures += 1
            elif name in ("docPr", "shape"):
                description = description or element.get("descr") or element.get("alt") or ""
            elif name == "decorative" and element.get("val") in ("1", "true"):
                description = description or " "
            elif name == "textpath" or (name == "t" and not element.tag.startswith(_WORD)):
                texts.append(element.get("string") or element.text or "")
            elif name in ("chart", "relIds"):
                texts.append(self._drawn_elsewhere(element, name))
            elif name == "OLEObject":
                self._reading.unread["embedded object#"] += 1
                pictures = -1_000  # its picture is a picture of it
            waiting += reversed(element)
        description = " ".join(description.split()) if description.strip() else description
        if pictures > 0 and not description:
            self._reading.unread["picture# without a text"] += pictures
        return " ".join(filter(None, (f"[Picture: {description}]" if description.strip() else "", *texts)))

    def _drawn_elsewhere(self, element: Any, name: str) -> str:
        """Return the text of a chart or of SmartArt, which is stored in a separate part."""
        from docx.oxml.parser import parse_xml

        reference = element.get(f"{_RELATION}id" if name == "chart" else f"{_RELATION}dm")
        what = "chart" if name == "chart" else "diagram"
        try:
            words = texts_of(parse_xml(self._part.related_parts[reference].blob), "t", "v")
        except Exception:  # noqa: BLE001  whatever is wrong with it, the text around it is there
            words = []
        if not words:
            self._reading.unread[f"{what}#"] += 1
            return ""
        return f"[{what.capitalize()}: {', '.join(words)}]"

    def _count_deleted(self, element: Any) -> None:
        if texts_of(element, "delText", "t"):
            self._reading.unread["deletion# kept as tracked change#"] += 1


def _find(element: Any, *path: str) -> Any:
    return element.find("/".join(f"{_WORD}{name}" for name in path))


def _value(element: Any, *path: str) -> str:
    """Return the value of the element at a path; empty if there is none."""
    value = _find(element, *path)
    return value.get(f"{_WORD}val", "") if value is not None else ""


def _is_on(switch: Any) -> bool:
    return switch is not None and switch.get(f"{_WORD}val", "1") not in _OFF


def _symbol(element: Any) -> str:
    """Return a character of a symbol font, except private-use ones, which only this font can render."""
    try:
        sign = chr(int(element.get(f"{_WORD}char", ""), 16))
    except (ValueError, OverflowError):
        return ""
    return "" if "\ue000" <= sign <= "\uf8ff" else sign


def _chosen(mark: Any) -> str:
    """Return the value of a legacy form field: the selected list entry or a check mark."""
    data = _find(mark, "ffData")
    if data is None:
        return ""
    entries = [each.get(f"{_WORD}val", "") for each in data.iterfind(f"{_WORD}ddList/{_WORD}listEntry")]
    if entries:
        place = int(_value(data, "ddList", "result") or 0)
        return entries[place] if 0 <= place < len(entries) else ""
    box = _find(data, "checkBox")
    if box is None:
        return ""
    ticked = _find(box, "checked")
    return "☒" if _is_on(ticked if ticked is not None else _find(box, "default")) else "☐"


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
            yield from builder.ready()
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
    references = (reference.attrib.items() for reference in elements(body, name))
    parts = dict.fromkeys(value for attributes in references for key, value in attributes if key.endswith("}id"))
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
