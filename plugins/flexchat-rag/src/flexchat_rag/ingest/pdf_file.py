"""PDF: a section for each page."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from .sections import Piece, Section, Trouble, UnreadableFileError

if TYPE_CHECKING:
    from pypdf import PdfReader

MOST_PAGES = 20_000

_logger = logging.getLogger("pypdf")


def read_pdf(path: Path) -> Iterator[Piece]:
    """Yield the text of each page, with its number, from 1, in the metadata.

    Raises:
        UnreadableFileError: It is no PDF, needs a password, or holds pictures of pages only.
    """
    _logger.setLevel(logging.ERROR)  # it warns of every irregularity of every page
    with path.open("rb") as file:
        if b"%PDF-" not in file.read(1024):
            raise UnreadableFileError("is no PDF")
        reader, title, pages = _opened(file)
        found = False
        for number in range(pages):
            try:
                text = reader.pages[number].extract_text().strip()
            except Exception as error:  # noqa: BLE001  a damaged page raises anything, and the others are fine
                yield Trouble(f"page {number + 1} cannot be read ({_short(error)})")
                found = True
                continue
            if text:
                found = True
                yield Section(text=text, headings=(title,) if title else (), metadata={"page": number + 1})
        if not found:
            raise UnreadableFileError("holds no text, only pictures of pages: recognise the text (OCR) first")


def _opened(file: object) -> tuple[PdfReader, str, int]:
    from pypdf import PasswordType, PdfReader
    from pypdf.errors import DependencyError

    try:
        reader = PdfReader(file, strict=False)  # type: ignore[arg-type]  # any binary stream
        if reader.is_encrypted and reader.decrypt("") == PasswordType.NOT_DECRYPTED:
            raise UnreadableFileError("is encrypted and needs a password: store it without one first")
        pages = len(reader.pages)
        title = _title(reader)
    except UnreadableFileError:
        raise
    except DependencyError:
        raise UnreadableFileError("is encrypted: store it without a password first") from None
    except Exception as error:  # noqa: BLE001  garbage makes a parser raise anything
        raise UnreadableFileError(f"is a damaged PDF ({_short(error)})") from None
    if pages > MOST_PAGES:
        raise UnreadableFileError(f"has {pages:,} pages, which is more than {MOST_PAGES:,}")
    return reader, title, pages


def _title(reader: PdfReader) -> str:
    try:
        title = reader.metadata.title if reader.metadata else None
    except Exception:  # noqa: BLE001  a document with damaged properties can be read all the same
        return ""
    return " ".join(title.split())[:200] if isinstance(title, str) else ""


def _short(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:120]
