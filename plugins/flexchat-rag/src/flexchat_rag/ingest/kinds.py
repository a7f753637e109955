"""Which reader reads which files."""

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
from .markdown_file import read_markdown
from .pdf_file import read_pdf
from .sections import Piece, UnreadableFileError
from .text_file import read_text


@attrs.frozen(kw_only=True)
class Kind:
    """A kind of file.

    Attributes:
        version: Counted up when files are read differently, so that all of them are read again.
        records: Whether the field mapping matters.
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, FieldMapping], Iterator[Piece]]
    version: int = 1
    records: bool = False


TEXT = Kind(
    name="text", suffixes=(".txt", ".text", ".rst", ".adoc", ".org", ".log"), read=lambda path, _: read_text(path)
)

KINDS = (
    TEXT,
    Kind(name="Markdown", suffixes=(".md", ".markdown", ".mdx"), read=lambda path, _: read_markdown(path)),
    Kind(name="HTML", suffixes=(".html", ".htm", ".xhtml"), read=lambda path, _: read_html(path)),
    Kind(name="PDF", suffixes=(".pdf",), read=lambda path, _: read_pdf(path)),
    Kind(name="DOCX", suffixes=(".docx",), read=lambda path, _: read_docx(path)),
    Kind(name="CSV", suffixes=(".csv", ".tsv"), read=read_csv, records=True),
    Kind(name="JSON", suffixes=(".json",), read=read_json, records=True),
    Kind(name="JSONL", suffixes=(".jsonl", ".ndjson"), read=read_jsonl, records=True),
)

_BY_SUFFIX = {suffix: kind for kind in KINDS for suffix in kind.suffixes}
_OTHER_PROGRAMS = {".doc": ".docx", ".odt": ".docx", ".rtf": ".docx", ".xls": ".csv", ".xlsx": ".csv", ".ods": ".csv"}


def known_kind(path: Path) -> Kind | None:
    """Return the kind that a file's name says it is; None for one that says nothing known."""
    return _BY_SUFFIX.get(path.suffix.casefold())


def kind_of(path: Path) -> Kind:
    """Return how to read a file that somebody named: what its name says, else as text.

    Raises:
        UnreadableFileError: Its name says that it is of a kind nobody here reads.
    """
    suffix = path.suffix.casefold()
    if suffix in _OTHER_PROGRAMS:
        raise UnreadableFileError(f"is of a kind that is not read ({suffix}): save it as {_OTHER_PROGRAMS[suffix]}")
    return _BY_SUFFIX.get(suffix, TEXT)
