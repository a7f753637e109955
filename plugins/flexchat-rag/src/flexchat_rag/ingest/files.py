"""Discovery of files below given paths, and of the reader of each: by content, else by name."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import attrs

from .docx_file import read_docx
from .html_file import read_html, read_mail
from .office_files import read_open_document, read_slides
from .pdf_file import read_pdf
from .records import FieldMapping, read_json, read_jsonl
from .sections import Piece, Reading, Trouble, UnreadableFileError
from .table_file import read_csv, read_workbook
from .text_file import read_markdown, read_notebook, read_text

_HEAD = 4096


@attrs.frozen
class Content:
    """A file's format; the name is empty for text and for unknown formats."""

    name: str = ""
    advice: str = ""


_ZIP = ("ZIP archive", ": unpack it first")
# Regular expressions for the first bytes of a file, and names of members of an archive; each with name and advice.
_FORMATS: dict[str, Any] = json.loads(resources.files(__package__).joinpath("formats.json").read_bytes())


def content_of(path: Path) -> Content:
    """Detect a file's format; the result has no name for text and unknown formats.

    Raises:
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"PK\x03\x04"):
        return _in_archive(path)
    patterns = _FORMATS["patterns"]
    return next((Content(*about) for p, *about in patterns if re.match(p.encode(), head, re.DOTALL)), Content())


def _in_archive(path: Path) -> Content:
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if "mimetype" in names:
                with archive.open("mimetype") as file:
                    kind = file.read(100).decode("ascii", "replace")
                if kind.startswith("application/vnd.oasis.opendocument."):
                    format = kind.removeprefix("application/vnd.oasis.opendocument.").partition("-")[0].strip()
                    return Content(_FORMATS["opendocument"].get(format, "OpenDocument file"))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, RuntimeError, OSError, EOFError, zlib.error):
        return Content("ZIP archive", ", and a damaged one")
    return next((Content(*about) for name, *about in _FORMATS["members"] if name in names), Content(*_ZIP))


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
        article = "an" if re.match(r"[AEIO]|[LMNSX][A-Z0-9 ]", content.name) else "a"  # by pronunciation
        raise UnreadableFileError(f"is not text but {article} {content.name}{content.advice}")
    return by_name or TEXT


_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_VERSION_CONTROL = {"CVS", "_darcs"}  # the others' folders are hidden


@attrs.frozen(kw_only=True)
class FoundFile:
    """A file to read.

    Attributes:
        source: Its source name in a store.
    """

    path: Path
    source: str


@attrs.define
class Walk:
    """Finds files, each once, ordered by name. Folders are read lazily, one at a time.

    Hidden files and folders are skipped, and so are links inside folders unless follow_links is set. In folders, files
    of known kinds are found, or those that match *include*; files listed in ``paths`` are always included.

    Attributes:
        include, exclude: Patterns like "*.md" or "docs/*/old", matched against names and paths relative to the folder.
        left_out: Counts of skipped contents: files by suffix, "hidden" files and folders, "links". Those skipped
            because of *include* and *exclude* do not count.
        incomplete: Folders of ``paths`` that could not be read completely: a file missing there may still exist.
    """

    paths: Sequence[str]
    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    follow_links: bool = False
    left_out: Counter[str] = attrs.field(factory=Counter)
    incomplete: set[str] = attrs.field(factory=set)

    def files(self) -> Iterator[FoundFile | Trouble]:
        """Yield the files, and a Trouble for each unreadable path."""
        for name in self.paths:
            if not name.strip():  # Usually an unset shell variable; Path("") would be the current folder.
                yield Trouble("a path is empty: name a file or a folder")
                continue
            path = Path(os.path.normpath(os.path.expanduser(name)))
            try:
                mode = path.stat().st_mode
            except (OSError, ValueError) as error:
                self.incomplete.add(str(path))
                yield Trouble(f"{source_name(path)} {_reason(error)}")
                continue
            if stat.S_ISDIR(mode):
                yield from self._below(path)
            elif stat.S_ISREG(mode):
                yield FoundFile(path=path, source=source_name(path))
            else:
                yield Trouble(f"{source_name(path)} is neither a file nor a folder")

    def folders(self) -> list[str]:
        """Return the folders among the paths that were read completely. Call it after files() is exhausted."""
        normal = [os.path.normpath(os.path.expanduser(name)) for name in self.paths if name.strip()]
        return [name for name in normal if name not in self.incomplete and os.path.isdir(name)]

    def _below(self, top: Path) -> Iterator[FoundFile | Trouble]:
        waiting, seen = [top], set()
        while waiting:
            folder = waiting.pop()
            try:
                status = folder.stat()
                if (status.st_dev, status.st_ino) in seen:  # a link leads back to it
                    continue
                seen.add((status.st_dev, status.st_ino))
                with os.scandir(folder) as entries:
                    listed = sorted(entries, key=lambda entry: entry.name)
            except OSError as error:
                self.incomplete.add(str(top))
                yield Trouble(f"{source_name(folder)} {_reason(error)}")
                continue
            deeper = []
            for entry in listed:
                path = Path(entry.path)
                if not self._is_wanted(entry, path.relative_to(top).as_posix()):
                    continue
                try:
                    if entry.is_dir():
                        deeper.append(path)
                    elif entry.is_file() and self._is_included(entry.name, path.relative_to(top).as_posix()):
                        yield FoundFile(path=path, source=source_name(path))
                except OSError as error:
                    yield Trouble(f"{source_name(path)} {_reason(error)}")
            waiting += reversed(deeper)

    def _is_wanted(self, entry: os.DirEntry[str], below: str) -> bool:
        if entry.name in _VERSION_CONTROL or _fits(entry.name, below, self.exclude):
            return False
        if entry.name.startswith("."):
            self.left_out["hidden"] += 1
            return False
        if entry.is_symlink() and not self.follow_links:
            self.left_out["links"] += 1
            return False
        return True

    def _is_included(self, name: str, below: str) -> bool:
        if self.include:
            return _fits(name, below, self.include)
        if known_kind(Path(name)) is not None:
            return True
        self.left_out[_printable(Path(name).suffix.casefold()[:20]) or "without ending"] += 1
        return False


def source_name(path: Path) -> str:
    r"""Convert a path to a printable name, escaping control characters and invalid UTF-8 as \x0a."""
    return _printable(os.fspath(path) if os.sep == "/" else path.as_posix())


def _printable(text: str) -> str:
    text = os.fsencode(text).decode("utf-8", "backslashreplace")
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def _fits(name: str, below: str, patterns: Sequence[str]) -> bool:
    return any(
        fnmatch.fnmatchcase(name, p) or fnmatch.fnmatchcase(below, p.removeprefix("./").rstrip("/")) for p in patterns
    )


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, FileNotFoundError):
        return "does not exist"
    return f"cannot be read: {error.strerror if isinstance(error, OSError) and error.strerror else error}"
