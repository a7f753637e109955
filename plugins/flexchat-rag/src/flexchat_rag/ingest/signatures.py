"""Detection of a file's format by its first bytes, because names are unreliable.

Source: the specifications of the formats. The list covers what is common in folders of documents.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from pathlib import Path

import attrs

_HEAD = 4096


@attrs.frozen
class Content:
    """A file's format; the name is empty for text and for unknown formats."""

    name: str = ""
    advice: str = ""

    @property
    def article(self) -> str:
        """The indefinite article for the name, by pronunciation: "a" or "an"."""
        return "an" if re.match(r"[AEIO]|[LMNSX][A-Z0-9 ]", self.name) else "a"


_UNPACK = ": unpack it first"
_PICTURE = ": recognise its text (OCR) first"
_SAVE_AS_DOCX, _SAVE_AS_CSV = ": save it as .docx", ": save it as .csv"
_SAVE_AS_PDF = ": save it as .pdf"

_SIGNATURES = (
    (b"\x1f\x8b", Content("gzip archive", _UNPACK)),
    (b"BZh", Content("bzip2 archive", _UNPACK)),
    (b"\xfd7zXZ\0", Content("xz archive", _UNPACK)),
    (b"\x28\xb5\x2f\xfd", Content("Zstandard archive", _UNPACK)),
    (b"7z\xbc\xaf\x27\x1c", Content("7z archive", _UNPACK)),
    (b"Rar!\x1a\x07", Content("RAR archive", _UNPACK)),
    (b"\x89PNG\r\n\x1a\n", Content("PNG picture", _PICTURE)),
    (b"\xff\xd8\xff", Content("JPEG picture", _PICTURE)),
    (b"GIF87a", Content("GIF picture", _PICTURE)),
    (b"GIF89a", Content("GIF picture", _PICTURE)),
    (b"II*\0", Content("TIFF picture", _PICTURE)),
    (b"MM\0*", Content("TIFF picture", _PICTURE)),
    (b"{\\rtf", Content("Rich Text document (RTF)", _SAVE_AS_DOCX)),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Content("Office file of the old kind", ": save it as .docx or .csv")),
    (b"SQLite format 3\0", Content("SQLite database")),
    (b"\x7fELF", Content("ELF program")),
    (b"\xcf\xfa\xed\xfe", Content("Mach-O program")),
    (b"\xca\xfe\xba\xbe", Content("Mach-O or Java program")),
    (b"OggS", Content("Ogg recording")),
    (b"ID3", Content("MP3 recording")),
    (b"fLaC", Content("FLAC recording")),
    (b"%!PS-Adobe", Content("PostScript document", _SAVE_AS_PDF)),
    (b"PAR1", Content("Parquet table", _SAVE_AS_CSV)),
)
_IN_ARCHIVES = (
    ("word/document.xml", Content("DOCX")),
    ("xl/workbook.xml", Content("Excel workbook")),
    ("xl/workbook.bin", Content("Excel workbook")),
    ("ppt/presentation.xml", Content("PowerPoint presentation")),
    ("META-INF/container.xml", Content("EPUB book", ": convert it to .html or .docx")),
    ("META-INF/MANIFEST.MF", Content("Java archive")),
)
_OPEN_DOCUMENT = {
    "text": Content("OpenDocument text"),
    "spreadsheet": Content("OpenDocument table"),
    "presentation": Content("OpenDocument presentation"),
}
_PAGE = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*(<!doctype\s+html|<html[\s>])", re.IGNORECASE | re.DOTALL)


def content_of(path: Path) -> Content:
    """Detect a file's format; the result has no name for text and unknown formats.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _in_archive(path)
    for signature, content in _SIGNATURES:
        if head.startswith(signature):
            return content
    if head[:2] == b"MZ" and b"\0" in head:
        return Content("Windows program")
    if head[:2] == b"BM" and head[6:10] == bytes(4):
        return Content("BMP picture", _PICTURE)
    if head[:4] == b"RIFF" and head[8:12] in (b"WEBP", b"WAVE", b"AVI "):
        return Content("WebP picture", _PICTURE) if head[8:12] == b"WEBP" else Content("RIFF recording")
    if head[4:8] == b"ftyp":
        return Content("video or picture (MP4, HEIC)")
    if re.match(rb"[\s\xef\xbb\xbf]*%PDF-\d", head):
        return Content("PDF")
    if _PAGE.match(head.removeprefix(b"\xef\xbb\xbf")):
        return Content("HTML")
    return Content()


def _in_archive(path: Path) -> Content:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "mimetype" in names:
                with archive.open("mimetype") as file:
                    kind = file.read(100).decode("ascii", "replace")
                if kind.startswith("application/vnd.oasis.opendocument."):
                    format = kind.removeprefix("application/vnd.oasis.opendocument.").partition("-")[0].strip()
                    return _OPEN_DOCUMENT.get(format, Content("OpenDocument file"))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, RuntimeError, OSError, EOFError, zlib.error):
        return Content("ZIP archive", ", and a damaged one")
    return next((content for name, content in _IN_ARCHIVES if name in names), Content("ZIP archive", _UNPACK))
