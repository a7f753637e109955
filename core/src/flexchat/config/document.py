"""A configuration as written: its data, and the line of each part."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs

from ..domain.copies import copied
from ..errors import ConfigError, Problem, did_you_mean, json_error_message
from ..files import path_exists, read_file
from ..installing import how_to_install
from .positions import KeyPath, locate_json, locate_toml, parse_toml
from .wording import describe_type, describe_value, format_path, printable

MAX_BYTES = 8 * 1024 * 1024  # the largest configuration file accepted
SUFFIXES = (".toml", ".yaml", ".yml", ".json")  # how names of configuration files end, and what they are read as
MAX_DEPTH = 64
MAX_VALUES = 100_000
_TOO_LONG_A_NUMBER = "a number is too long to be read"
_MAX_BITS = 14_000  # of a whole number: Python writes none of more than 4,300 digits, but 0x… makes them possible
_OF_BACKSLASH = "; in \"…\" a backslash begins an escape: use single quotes, '…', or write \\\\ for each"
MAX_PROBLEMS = 100  # most problems, and most notes, that are listed; fix these first


def and_more(count: int) -> str:
    """Return the sentence about the problems that are not listed."""
    return f"there {'is' if count == 1 else 'are'} {count:,} more, not listed here"


@attrs.frozen(kw_only=True)
class ConfigDocument:
    """A configuration that is parsed but not interpreted yet.

    Attributes:
        source: The file as the user named it; empty if given in code.
        data: Its tables: dict, list and scalars.
        lines: Line of each written path, from 1.
        folder: Where relative paths in it start.
        moved: Paths written elsewhere: path in data to path in the file.
        problems: The problems found so far.
        content: The bytes of the file; empty if not read from a file.
        files: The included files, as named, of the paths that they wrote; see including.py.
        others: The bytes of the files read besides its own: included ones, and prompts.
    """

    source: str = ""
    data: dict[str, Any] = attrs.field(factory=dict)
    lines: Mapping[KeyPath, int] = attrs.field(factory=dict, repr=False)
    folder: Path = attrs.field(factory=Path)
    moved: Mapping[KeyPath, KeyPath] = attrs.field(factory=dict, repr=False)
    problems: tuple[Problem, ...] = ()
    content: bytes = attrs.field(default=b"", repr=False)
    files: Mapping[KeyPath, str] = attrs.field(factory=dict, repr=False)
    others: Mapping[Path, bytes] = attrs.field(factory=dict, repr=False)

    def tables(self, *pattern: str | int) -> Iterator[tuple[KeyPath, dict[str, Any]]]:
        """Yield the tables at a pattern of keys, in which * matches every key or index, each with its path."""
        matches: list[tuple[KeyPath, Any]] = [((), self.data)]
        for step in pattern:
            matches = [
                ((*path, key), item) for path, value in matches for key, item in _items(value) if step in ("*", key)
            ]
        return ((path, value) for path, value in matches if isinstance(value, dict))

    def problem(self, path: KeyPath, text: str, at: KeyPath | None = None) -> Problem:
        """Return a problem with its path as written, and the line of ``at`` or path, or of its nearest parent."""
        where = self._nearest(at or path)
        return Problem(
            path=format_path(self.original_path(path)),
            text=text,
            source=self.files.get(where, self.source),
            line=self.lines.get(where),
        )

    def line(self, path: KeyPath) -> int | None:
        """Return the line of a path or of its nearest existing parent; None if there is none."""
        return self.lines.get(self._nearest(path))

    def _nearest(self, path: KeyPath) -> KeyPath:
        """Return where in the file a path, or its nearest parent that has a line, was written."""
        original = self.original_path(path)
        parents = (original[:length] for length in range(len(original), 0, -1))
        return next((parent for parent in parents if parent in self.lines), ())

    def original_path(self, path: KeyPath) -> KeyPath:
        """Return where in the file a path was written."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.moved:
                return (*self.moved[path[:length]], *path[length:])
        return path


class Report:
    """The problems and notes of a document, collected while it is read."""

    def __init__(self, document: ConfigDocument) -> None:
        self.document = document
        self.problems: list[Problem] = []
        self.notes: list[Problem] = []

    def problem(self, path: KeyPath, text: str, at: KeyPath | None = None) -> None:
        """Add a problem; arguments as of ConfigDocument.problem."""
        self.problems.append(self.document.problem(path, text, at))

    def note(self, path: KeyPath, text: str, at: KeyPath | None = None) -> None:
        """Add a note, likewise."""
        self.notes.append(self.document.problem(path, text, at))


def read_document(path: str | Path) -> ConfigDocument:
    """Read a .toml, .yaml or .json file; raise ConfigError if read_content or parse_document does."""
    return parse_document(read_content(path), path)


def read_content(path: str | Path) -> bytes:
    """Return the bytes of a configuration file; raise ConfigError for another suffix, an unreadable or a large file."""
    path, source = Path(path), str(path)
    if path.suffix.lower() not in SUFFIXES:
        raise _failed(source, "a configuration is a .toml, .yaml or .json file")
    try:
        return read_file(path, most=MAX_BYTES)
    except OSError as error:
        hint = _similar(path) if isinstance(error, FileNotFoundError) and not path_exists(path) else ""
        raise _failed(source, f"{error.strerror}{hint}") from None


def parse_document(content: str | bytes, path: str | Path) -> ConfigDocument:
    """Parse a text, or its bytes, as the .toml, .yaml or .json file at that path, which need not exist.

    Raises:
        ConfigError: It is not UTF-8, not what its suffix names, or nested too deeply.
    """
    source = str(path)
    text = _decoded(content, source) if isinstance(content, bytes) else content
    text = text.removeprefix("\ufeff")  # written by editors on Windows
    suffix = Path(path).suffix.lower()
    if suffix == ".json":
        data = _parse_json(text, source)
        lines, twice = locate_json(text)
    elif suffix in (".yaml", ".yml"):
        data, lines, twice = _parse_yaml(text, source)
    else:
        data = _parse_toml(text, source)
        lines, twice = locate_toml(text), []
    read = content if isinstance(content, bytes) else b""
    document = ConfigDocument(source=source, data=data, lines=lines, folder=Path(path).parent, content=read)
    problems = [
        document.problem(key_path, f"the key is written twice, first on line {first}; remove one of them")
        for key_path, first, _ in twice
    ]
    return attrs.evolve(document, problems=(*problems, *_unusable_values(document)))


def document_of(data: Mapping[str, Any]) -> ConfigDocument:
    """Return a document for a mapping given in code; raise ConfigError as check_size."""
    check_size(data, "")
    document = ConfigDocument(data=copied(data))
    return attrs.evolve(document, problems=tuple(_unusable_values(document)))


def walk(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    """Yield everything inside a value, each with its path."""
    for key, item in _items(value):
        yield (*path, key), item
        yield from walk(item, (*path, key))


def _items(value: Any) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()


def _failed(source: str, text: str, line: int | None = None) -> ConfigError:
    return ConfigError([Problem(path="", text=text, source=source, line=line)])


def _decoded(raw: bytes, source: str) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise _failed(source, "the file is UTF-16; save it as UTF-8", 1)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _failed(source, "the file is not UTF-8", raw.count(b"\n", 0, error.start) + 1) from None


def _similar(path: Path) -> str:
    try:
        names = {entry.stem: entry.name for entry in path.parent.iterdir() if entry.suffix in SUFFIXES}
    except (OSError, ValueError):
        return ""
    hint = did_you_mean(path.stem, names)  # the shared suffix .toml does not make names similar
    return next((hint.replace(f"'{stem}'", f"'{name}'") for stem, name in names.items() if f"'{stem}'" in hint), "")


def _parse_toml(text: str, source: str) -> dict[str, Any]:
    try:
        data = parse_toml(text)
    except ValueError as error:
        if "set_int_max_str_digits" in str(error):  # the only error Python's reader gives no position for
            raise _failed(source, _TOO_LONG_A_NUMBER) from None
        message, line = str(error), None
        match = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)$", message)
        if match:
            line = int(match.group(1)) if match.group(1) else text.count("\n") + (not text.endswith("\n"))
            message = message[: match.start()]
        hint = "; this looks like JSON: name the file .json" if text.lstrip().startswith("{") else ""
        if line is not None and "\\" in "".join(text.split("\n")[line - 1 : line]):
            hint = _OF_BACKSLASH
        raise _failed(source, f"this is not TOML: {printable(message)}{hint}", line) from None
    except RecursionError:
        raise _too_deep(source) from None
    check_size(data, source)
    return data


def _parse_json(text: str, source: str) -> dict[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        rest = text[error.pos :]
        hint = ""
        if rest.startswith(("//", "/*", "#")):
            hint = '; JSON has no comments, a "comment" key takes them'
        elif rest.startswith(("]", "}")):
            hint = "; is there an extra comma before it?"
        elif "escape" in error.msg:
            hint = "; a backslash is written \\\\"
        raise _failed(
            source, f"this is not JSON: {json_error_message(error)} (column {error.colno}){hint}", error.lineno
        ) from None
    except ValueError:
        raise _failed(source, _TOO_LONG_A_NUMBER) from None
    except RecursionError:
        raise _too_deep(source) from None
    if not isinstance(data, dict):
        raise _failed(source, f"a configuration is one table: {{…}}, not {describe_type(data)}", 1)
    check_size(data, source)
    return data


def _parse_yaml(text: str, source: str) -> tuple[dict[str, Any], dict[KeyPath, int], list[tuple[KeyPath, int, int]]]:
    from . import yaml_reading

    if len(text) > yaml_reading.MAX_BYTES:
        raise _failed(source, f"a YAML configuration has at most {yaml_reading.MAX_BYTES // 1024:,} KiB")
    try:
        data, lines, twice = yaml_reading.read_yaml(text, max_depth=MAX_DEPTH, max_values=MAX_VALUES)
    except ImportError:
        raise _failed(source, f"YAML needs a reader: {how_to_install('flexchat-core', 'yaml')}") from None
    except yaml_reading.YamlError as error:
        hint = _OF_BACKSLASH if "escape" in str(error) else ""
        raise _failed(source, f"this is not a YAML configuration: {printable(str(error))}{hint}", error.line) from None
    if not isinstance(data, dict):
        raise _failed(source, f"a configuration is one table of keys and values, not {describe_type(data)}", 1)
    check_size(data, source)
    return copied(data), lines, twice  # an alias's target is one object in several places


def _too_deep(source: str) -> ConfigError:
    return _failed(source, f"tables and lists are nested more than {MAX_DEPTH} deep")


def check_size(data: Mapping[str, Any], source: str) -> None:
    """Raise ConfigError for tables that are nested too deeply, hold too many values, or have a key that is no text."""
    level: list[Any] = [data]
    budget = MAX_VALUES
    for _ in range(MAX_DEPTH):
        budget -= sum(map(len, level))
        if budget < 0:
            raise _failed(source, f"there are more than {MAX_VALUES:,} values; a configuration has fewer")
        below: list[Any] = []
        for value in level:
            if isinstance(value, Mapping):
                wrong = next((key for key in value if not isinstance(key, str)), None)
                if wrong is not None:
                    raise _failed(source, f"keys are text, got {describe_value(wrong)}")
            below += value.values() if isinstance(value, Mapping) else value
        level = [item for item in below if isinstance(item, (Mapping, list, tuple))]
        if not level:
            return
    raise _too_deep(source)


def _unusable_values(document: ConfigDocument) -> Iterator[Problem]:
    """Yield a problem for each value that JSON cannot express, and so no model can get."""
    for path, value in walk(document.data):
        if isinstance(value, (datetime.date, datetime.time)):
            yield document.problem(path, "dates and times are written as text, in quotes")
        elif isinstance(value, float) and not math.isfinite(value):
            yield document.problem(path, "expected a finite number")
        elif isinstance(value, int) and value.bit_length() > _MAX_BITS:
            yield document.problem(path, _TOO_LONG_A_NUMBER)
        elif isinstance(value, str) and not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            yield document.problem(path, "the text contains half of a surrogate pair (\\ud800 to \\udfff)")
        elif isinstance(value, str) and path[-1] == "path" and printable(value) != value:
            yield document.problem(path, f"a path has no tabs or line breaks{_OF_BACKSLASH}")
