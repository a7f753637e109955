"""Selection of a file's reader: by content, and by name only where the content is ambiguous."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import attrs

from .csv_file import read_csv
from .docx_file import read_docx
from .fields import FieldMapping
from .html_file import read_html
from .json_file import read_json
from .jsonl_file import read_jsonl
from .mail_file import read_mail
from .markdown_file import read_markdown
from .notebook_file import read_notebook
from .open_document_file import read_open_document
from .pdf_file import read_pdf
from .sections import Piece, Reading, UnreadableFileError
from .signatures import content_of
from .slides_file import read_slides
from .text_file import read_text
from .workbook_file import read_workbook


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of file.

    Attributes:
        version: Incremented when the reader's output changes, so that unchanged files are read again.
        records: The file contains records, to which the field mapping applies.
        text: The file is text, to which the encoding option applies.
    """

    name: str
    suffixes: tuple[str, ...]
    reader: Callable[[Path, FieldMapping, Reading], Iterator[Piece]]
    version: int = 2
    records: bool = False
    text: bool = True

    def read(self, path: Path, mapping: FieldMapping, reading: Reading | None = None) -> Iterator[Piece]:
        """Yield the pieces of a file, in order. Remarks about the file are collected in *reading*.

        Raises:
            UnreadableFileError: The file cannot be read.
        """
        return self.reader(path, mapping, reading or Reading())


TEXT = Kind(
    name="text",
    suffixes=(".txt", ".text", ".rst", ".adoc", ".org", ".log"),
    reader=lambda path, _, reading: read_text(path, reading),
)
HTML = Kind(name="HTML", suffixes=(".html", ".htm", ".xhtml"), reader=lambda path, _, reading: read_html(path, reading))
PDF = Kind(name="PDF", suffixes=(".pdf",), reader=lambda path, _, reading: read_pdf(path, reading), text=False)
DOCX = Kind(name="DOCX", suffixes=(".docx",), reader=lambda path, _, reading: read_docx(path, reading), text=False)
WORKBOOK = Kind(
    name="workbook",
    suffixes=(".xlsx", ".xlsm", ".xlsb", ".xls", ".ods"),
    reader=read_workbook,
    records=True,
    text=False,
)
SLIDES = Kind(
    name="PowerPoint",
    suffixes=(".pptx", ".ppsx"),
    reader=lambda path, _, reading: read_slides(path, reading),
    text=False,
)
OPEN_DOCUMENT = Kind(
    name="OpenDocument",
    suffixes=(".odt", ".odp"),
    reader=lambda path, _, reading: read_open_document(path, reading),
    text=False,
)

MARKDOWN = Kind(
    name="Markdown",
    suffixes=(".md", ".markdown", ".mdx"),
    reader=lambda path, _, reading: read_markdown(path, reading),
)

KINDS = (
    TEXT,
    MARKDOWN,
    HTML,
    PDF,
    DOCX,
    WORKBOOK,
    SLIDES,
    OPEN_DOCUMENT,
    Kind(
        name="e-mail",
        suffixes=(".eml", ".mht", ".mhtml"),
        reader=lambda path, _, reading: read_mail(path, reading),
        text=False,
    ),
    Kind(
        name="Jupyter", suffixes=(".ipynb",), reader=lambda path, _, reading: read_notebook(path, reading), text=False
    ),
    Kind(name="CSV", suffixes=(".csv", ".tsv"), reader=read_csv, records=True),
    Kind(name="JSON", suffixes=(".json",), reader=read_json, records=True),
    Kind(name="JSONL", suffixes=(".jsonl", ".ndjson"), reader=read_jsonl, records=True),
)

_BY_SUFFIX = {suffix: kind for kind in KINDS for suffix in kind.suffixes}
_BY_CONTENT = {
    **{"PDF": PDF, "DOCX": DOCX, "HTML": HTML, "PowerPoint presentation": SLIDES},
    **{"Excel workbook": WORKBOOK, "OpenDocument table": WORKBOOK},
    **{"OpenDocument text": OPEN_DOCUMENT, "OpenDocument presentation": OPEN_DOCUMENT},
}
_OLD_OFFICE = "Office file of the old kind"
_OTHER_PROGRAMS = {".doc": ".docx", ".ppt": ".pptx", ".rtf": ".docx", ".msg": ".eml"}


def known_kind(path: Path) -> Kind | None:
    """Return the kind that a file's name suggests; None if it suggests none."""
    return _BY_SUFFIX.get(path.suffix.casefold())


def kind_of(path: Path, reading: Reading | None = None) -> Kind:
    """Determine the kind of a file by its content, else by its name; the default is plain text.

    Args:
        reading: Receives a note if content and name disagree.

    Raises:
        UnreadableFileError: There is no reader for this kind of file.
        OSError: The file cannot be opened.
    """
    suffix = path.suffix.casefold()
    named = _BY_SUFFIX.get(suffix)
    content = content_of(path)
    kind = _BY_CONTENT.get(content.name)
    if kind is HTML and named is MARKDOWN:  # which may begin with HTML
        kind = None
    if content.name == _OLD_OFFICE and suffix in WORKBOOK.suffixes:
        return WORKBOOK
    if kind is not None:
        if kind is not named and (named or suffix in _OTHER_PROGRAMS) and reading is not None:
            reading.note(f"is named {suffix}, but holds {content.name}, and was read as that")
        return kind
    if suffix in _OTHER_PROGRAMS:
        raise UnreadableFileError(f"is of an unsupported kind ({suffix}): save it as {_OTHER_PROGRAMS[suffix]}")
    if content.name not in ("", "HTML") and named not in (
        DOCX,
        WORKBOOK,
        SLIDES,
        OPEN_DOCUMENT,
    ):  # their readers report the details
        raise UnreadableFileError(f"is not text but {content.article} {content.name}{content.advice}")
    return named or TEXT
