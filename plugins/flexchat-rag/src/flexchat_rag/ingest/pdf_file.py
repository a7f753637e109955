"""PDF: one section per page, with form fields and annotations after its text."""

from __future__ import annotations

import logging
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .sections import ENCRYPTED, Piece, Reading, Section, Trouble, UnreadableFileError, parsing, short_reason

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

MAX_PAGES = 20_000

_MAX_FIELD_DEPTH = 20
_BUTTON_IS_OFF = ("/Off", "")
_LIGATURE = re.compile("[\ufb00-\ufb06]")
_DIVIDED = re.compile(
    r"([^\W\d_]*[^\W\d_A-Z])[-\u2010\u00ad][ \t]*\r?\n[ \t]*([^\W\d_A-Z][^\W\d_]*[,.;:!?)]*)[ \t]*\n?"
)
_SHOWN_ELSEWHERE = {"/Popup", "/Link"}

_logger = logging.getLogger("pypdf")


def read_pdf(path: Path, reading: Reading) -> Iterator[Piece]:
    """Yield the text of each page, with its number, from 1, in the metadata.

    Raises:
        UnreadableFileError: The file is not a PDF, needs a password, or consists of scanned pages only.
    """
    _logger.setLevel(logging.ERROR)  # it warns of every irregularity of every page
    with path.open("rb") as file:
        if b"%PDF-" not in file.read(1024):
            raise UnreadableFileError("is not a PDF")
        reader, title, pages = _opened(file)
        has_text = False
        pictured: list[int] = []
        for number in range(1, pages + 1):
            try:
                page = reader.pages[number - 1]
                text = readable(page.extract_text()).strip()
            except Exception as error:  # noqa: BLE001  a damaged page raises anything, and the others are fine
                yield Trouble(f"page {number} cannot be read ({short_reason(error)})")
                has_text = True
                continue
            if "\ufffd" in text:
                yield Trouble(
                    f"page {number}: {text.count(chr(0xFFFD)):,} of its characters have no meaning in its fonts"
                )
            pictures = _pictures(page)
            if pictures and not text:
                pictured.append(number)
            else:
                reading.unread["picture#"] += pictures
            text = "\n\n".join(filter(None, (text, *_attached(page, number, reading))))
            if text:
                has_text = True
                yield Section(text=text, headings=(title,) if title else (), metadata={"page": number})
        if not has_text:
            raise UnreadableFileError("holds no text, only pictures of pages: recognise the text (OCR) first")
        if pictured:
            more = f" and {len(pictured) - 20:,} more" if len(pictured) > 20 else ""
            pages_named = f"page{'s' if len(pictured) > 1 else ''} {', '.join(map(str, pictured[:20]))}{more}"
            reading.note(f"holds only a picture on {pages_named}: recognise the text (OCR) first")
        _note_the_rest(reader, reading)


def readable(text: str) -> str:
    """Expand ligatures and rejoin words hyphenated at line ends.

    A hyphen is preserved if the page also contains the word with a hyphen inside a line.
    """
    text = _LIGATURE.sub(lambda match: unicodedata.normalize("NFKC", match[0]), text)

    def joined(match: re.Match[str]) -> str:
        before, after = match[1], match[2]
        return f"{before}-{after}\n" if f"{before}-{after}" in text else f"{before}{after}\n"

    text = _DIVIDED.sub(joined, text)
    return text.replace("\u00ad", "")


def _attached(page: PageObject, number: int, reading: Reading) -> Iterator[str]:
    """Yield a page's annotations: filled-in form fields, comments and free text."""
    try:
        annotations = [each.get_object() for each in page.get("/Annots") or ()]
    except Exception as error:  # noqa: BLE001  a damaged list raises anything, and the page's text is there
        reading.note(f"has remarks or form fields on page {number} that cannot be read ({short_reason(error)})")
        return
    for annotation in annotations:
        try:
            kind = annotation.get("/Subtype")
            text = _field(annotation) if kind == "/Widget" else _text(annotation.get("/Contents"))
            if kind not in ("/Widget", "/FreeText") and text:
                author = _text(annotation.get("/T"))
                text = f"[Remark{f' by {author}' if author else ''}: {text}]"
        except Exception:  # noqa: BLE001  as above
            reading.unread["damaged remark# or form field#"] += 1
            continue
        if text and kind not in _SHOWN_ELSEWHERE:
            yield text
        elif kind == "/FileAttachment":
            reading.unread["attached file#"] += 1
        elif kind in ("/Screen", "/Movie", "/Sound", "/3D", "/RichMedia"):
            reading.unread["recording# or model#"] += 1


def _field(widget: Any) -> str:
    """Format a filled-in form field as "name: value". Attributes may be inherited from the widget's parents."""
    names: list[str] = []
    value = kind = None
    node = widget
    for _ in range(_MAX_FIELD_DEPTH):
        value = node.get("/V") if value is None else value
        kind = node.get("/FT") if kind is None else kind
        if name := _text(node.get("/TU")) or _text(node.get("/T")):
            names.insert(0, name)
        if node.get("/Parent") is None:
            break
        node = node["/Parent"].get_object()
    values = value.get_object() if value is not None else None
    texts = [_text(each) for each in (values if isinstance(values, list) else [values])]
    text = ", ".join(filter(None, texts))
    if kind == "/Sig":
        text = ""
    if kind == "/Btn":
        text = "" if text in _BUTTON_IS_OFF else text.removeprefix("/")
    return f"{names[-1] if names else 'Field'}: {text}" if text else ""


def _text(value: Any) -> str:
    value = value.get_object() if hasattr(value, "get_object") else value
    if isinstance(value, bytes):
        value = value.decode("latin-1")
    return value.strip() if isinstance(value, str) else ""


def _pictures(page: PageObject) -> int:
    """Count the images of a page, without decoding them."""
    try:
        resources = page.get("/Resources")
        objects = resources.get_object().get("/XObject") if resources is not None else None
        drawn = objects.get_object().values() if objects is not None else ()
        return sum(each.get_object().get("/Subtype") == "/Image" for each in drawn)
    except Exception:  # noqa: BLE001  what is damaged is not shown either
        return 0


def _note_the_rest(reader: PdfReader, reading: Reading) -> None:
    try:
        reading.unread["attached file#"] += len(reader.attachments)
        form = reader.root_object.get("/AcroForm")
        if form is not None and "/XFA" in form.get_object():
            reading.note("holds a form of the kind XFA, of which only the text shown on its pages was read")
    except Exception as error:  # noqa: BLE001  the pages have already been read
        reading.note(f"may hold attached files, whose list is damaged ({short_reason(error)})")


def _opened(file: object) -> tuple[PdfReader, str, int]:
    from pypdf import PasswordType, PdfReader
    from pypdf.errors import DependencyError

    with parsing("PDF"):
        try:
            reader = PdfReader(file, strict=False)  # type: ignore[arg-type]  # any binary stream
            if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
                raise UnreadableFileError(ENCRYPTED)
            pages = len(reader.pages)
            title = _title(reader)
        except DependencyError:
            raise UnreadableFileError("is encrypted: store it without a password first") from None
    if pages > MAX_PAGES:
        raise UnreadableFileError(f"has {pages:,} pages, which is more than {MAX_PAGES:,}")
    return reader, title, pages


def _title(reader: PdfReader) -> str:
    try:
        title = reader.metadata.title if reader.metadata else None
    except Exception:  # noqa: BLE001  damaged properties do not affect the pages
        return ""
    return " ".join(title.split())[:200] if isinstance(title, str) else ""
