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


@attrs.frozen
class Kind:
    """A kind of file.

    Attributes:
        suffixes: The endings of its files, separated by blanks.
        records: The file contains records, to which the field mapping applies: it is the reader's second argument.
        text: The file is text, to which the encoding option applies.
        version: Incremented when the reader's output changes, so that unchanged files are read again.
    """

    name: str
    suffixes: str
    reader: Callable[..., Iterator[Piece]]
    records: bool = attrs.field(default=False, kw_only=True)
    text: bool = attrs.field(default=True, kw_only=True)
    version: int = attrs.field(default=2, kw_only=True)

    def read(self, path: Path, mapping: FieldMapping, reading: Reading | None = None) -> Iterator[Piece]:
        """Yield the pieces of a file, in order. Remarks about the file are collected in *reading*.

        Raises:
            UnreadableFileError: The file cannot be read.
        """
        reading = reading or Reading()
        return self.reader(path, mapping, reading) if self.records else self.reader(path, reading)


TEXT = Kind("text", ".txt .text .rst .adoc .org .log", read_text)
MARKDOWN = Kind("Markdown", ".md .markdown .mdx", read_markdown)
HTML = Kind("HTML", ".html .htm .xhtml", read_html)
PDF = Kind("PDF", ".pdf", read_pdf, text=False)
DOCX = Kind("DOCX", ".docx", read_docx, text=False)
WORKBOOK = Kind("workbook", ".xlsx .xlsm .xlsb .xls .ods", read_workbook, records=True, text=False)
SLIDES = Kind("PowerPoint", ".pptx .ppsx", read_slides, text=False)
OPEN_DOCUMENT = Kind("OpenDocument", ".odt .odp", read_open_document, text=False)
OFFICE = (DOCX, WORKBOOK, SLIDES, OPEN_DOCUMENT)
KINDS = (
    *(TEXT, MARKDOWN, HTML, PDF, *OFFICE),
    Kind("e-mail", ".eml .mht .mhtml", read_mail, text=False),
    Kind("Jupyter", ".ipynb", read_notebook, text=False),
    Kind("CSV", ".csv .tsv", read_csv, records=True),
    Kind("JSON", ".json", read_json, records=True),
    Kind("JSONL", ".jsonl .ndjson", read_jsonl, records=True),
)

_BY_SUFFIX = {suffix: kind for kind in KINDS for suffix in kind.suffixes.split()}
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
    by_name = _BY_SUFFIX.get(suffix)
    content = content_of(path)
    kind = _BY_CONTENT.get(content.name)
    if kind is HTML and by_name is MARKDOWN:  # which may begin with HTML
        kind = None
    if content.name == _OLD_OFFICE and by_name is WORKBOOK:
        return WORKBOOK
    if kind is not None:
        if kind is not by_name and (by_name or suffix in _OTHER_PROGRAMS) and reading is not None:
            reading.note(f"is named {suffix}, but holds {content.name}, and was read as that")
        return kind
    if suffix in _OTHER_PROGRAMS:
        raise UnreadableFileError(f"is of an unsupported kind ({suffix}): save it as {_OTHER_PROGRAMS[suffix]}")
    if content.name not in ("", "HTML") and by_name not in OFFICE:  # whose readers report the details
        raise UnreadableFileError(f"is not text but {content.article} {content.name}{content.advice}")
    return by_name or TEXT
