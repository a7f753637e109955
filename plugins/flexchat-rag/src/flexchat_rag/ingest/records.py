"""Records: their fields as text, title, source, id and metadata; and JSON files, which hold them.

A list of records is read one by one; an object is one record.

Lists and objects are formatted as by the document transformer of the Node.js FlexChat: lists in text fields are joined
by commas, everything else becomes compact JSON, and nulls are omitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import attrs
from flexchat.store import storable

from .encoding import TextFile
from .sections import Piece, Reading, Record, Trouble, UnreadableFileError

DEFAULT_TEXT_FIELDS = ("text", "content", "body", "page_content")
MAX_NAME_CHARS = 1_000
"""Characters of a title, an id or a source, which every passage of a record repeats."""

MAX_METADATA_FIELDS = 100
MAX_METADATA_CHARS = 4_000
"""Of names and values together. Every passage of a record has its metadata: without a limit a long record would be
stored as often as it has passages."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


def _text_names(names: Any) -> tuple[str, ...]:
    return _names(names, "text_fields")


def _metadata_names(names: Any) -> tuple[str, ...] | None:
    return None if names is None else _names(names, "metadata_fields")


def _names(names: Any, what: str) -> tuple[str, ...]:
    if isinstance(names, list | tuple) and all(isinstance(name, str) and name for name in names):
        return tuple(names)
    instead = f": write [{names!r}]" if isinstance(names, str) and names else ""
    raise TypeError(f"{what} must be a list of names of fields, not {names!r:.80}{instead}")


@attrs.frozen(kw_only=True)
class FieldMapping:
    """Roles of a record's fields. Without text_fields: "text" and similar names, else all fields with their names.

    Attributes:
        text_fields: Field names, as a list or tuple.
        text_separator: Separator of text fields; default: an empty line, or a newline if all fields are text.
        metadata_fields: Field names; None for all other non-empty fields.

    Raises:
        TypeError: A list of names is not a list or tuple, for example a single string.
    """

    text_fields: tuple[str, ...] = attrs.field(default=(), converter=_text_names)
    text_separator: str | None = None
    title_field: str | None = None
    source_field: str | None = None
    id_field: str | None = None
    metadata_fields: tuple[str, ...] | None = attrs.field(default=None, converter=_metadata_names)


def record_of(fields: Mapping[str, Any], mapping: FieldMapping, place: str) -> Record | Trouble:
    """Build a record from its fields, or a Trouble if they are unusable.

    Args:
        place: Position in the file, such as "line 3".
    """
    if mapping == FieldMapping() and _is_exported(fields):
        return Record(**fields, whole=True)
    missing = [name for name in mapping.text_fields if name not in fields]
    if mapping.text_fields and len(missing) == len(mapping.text_fields):
        there = ", ".join(list(fields)[:20]) or "none"
        return Trouble(f"{place}: there is no field {' or '.join(map(repr, missing))} (there are: {there})"[:400])
    names = mapping.text_fields or tuple(name for name in DEFAULT_TEXT_FIELDS if isinstance(fields.get(name), str))[:1]
    parts = [_as_text(fields.get(name)) for name in names]
    if not names:
        parts = [f"{name}: {text}" for name, value in fields.items() if (text := _as_text(value))]
    separator = ("\n\n" if names else "\n") if mapping.text_separator is None else mapping.text_separator
    text = separator.join(part for part in parts if part)
    if not text:
        return Trouble(f"{place}: no text in {', '.join(map(repr, names)) or 'any field'}")
    title_field, source_field = mapping.title_field or "title", mapping.source_field
    used = {*names, title_field, source_field, mapping.id_field}
    return Record(
        id=_name(fields, mapping.id_field),
        title=_name(fields, title_field),
        text=text,
        source=_name(fields, source_field),
        metadata=_metadata(fields, mapping.metadata_fields, used),
    )


def number_or_text(text: str) -> str | int | float:
    """Convert a numeric string to a number, so that filters can compare it; "007" stays a string."""
    if _WHOLE.fullmatch(text):
        return int(text)
    try:
        value = float(text)
    except ValueError:
        return text
    return value if repr(value) == text and abs(value) < 1e16 else text


def bounded(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Limit a record's metadata to a size that each of its passages can carry, dropping the other fields."""
    carried: dict[str, Any] = {}
    room = MAX_METADATA_CHARS
    for name, value in metadata.items():
        size = len(name) + (len(value) if isinstance(value, str) else 20)
        if size <= room and len(carried) < MAX_METADATA_FIELDS:
            carried[name] = value
            room -= size
    return carried


def _is_exported(fields: Mapping[str, Any]) -> bool:
    types = {"id": str, "title": str, "text": str, "source": str | None, "metadata": Mapping}
    return fields.keys() == types.keys() and all(isinstance(fields[name], kind) for name, kind in types.items())


def _metadata(fields: Mapping[str, Any], names: Sequence[str] | None, used: set[str | None]) -> dict[str, Any]:
    if names is not None:
        return {name: _as_value(fields[name]) for name in names if fields.get(name) is not None}
    inner, candidates = fields.get("metadata"), fields
    if isinstance(inner, Mapping):
        candidates = {**{name: value for name, value in fields.items() if name != "metadata"}, **inner}
    empty: tuple[Any, ...] = ("", None, [], {})
    return {name: _as_value(value) for name, value in candidates.items() if name not in used and value not in empty}


def _as_value(value: Any) -> str | int | float | bool:
    if isinstance(value, bool | float):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else str(value)
    return storable(value if isinstance(value, str) else _as_json(value))


def _as_json(value: Any) -> str:
    return _ENCODER.encode(value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_as_text, value)))
    return (value if isinstance(value, str) else _as_json(value)).strip()


def _name(fields: Mapping[str, Any], field: str | None) -> str | None:
    return (storable(_as_text(fields.get(field))) or None) if field else None


MAX_CHARS = 16_000_000
"""Characters of one record."""

_BLOCK = 1 << 16
_BLANK = " \t\n\r\ufeff"


def read_json(path: Path, mapping: FieldMapping, reading: Reading) -> Iterator[Piece]:
    """Yield the records of a list, or the single record of the file.

    Raises:
        UnreadableFileError: The file is not JSON, or a record is too large or too deeply nested.
    """
    with TextFile(path, reading) as file:
        window = _Window(file)
        if window.peek() != "[":
            yield from as_pieces(window.value(), mapping, "the object")
            if window.peek():
                window.refuse("more follows the first value; one value a line is JSONL: name the file .jsonl")
        else:
            window.skip("[")
            number = 1
            while window.peek() != "]":
                yield from as_pieces(window.value(), mapping, f"item {number}")
                number += 1
                if window.peek() != ",":
                    break
                window.skip(",")
            window.skip("]")
            if window.peek():
                window.refuse("more follows the list")
        yield from file.troubles()


def as_pieces(parsed: Parsed, mapping: FieldMapping, place: str) -> Iterator[Piece]:
    """Convert a JSON value: an object to a record, a string to a document, anything else to a Trouble."""
    value = parsed.value
    if parsed.repeated:
        names = ", ".join(f"'{name[:40]}'" for name in parsed.repeated[:5])
        yield Trouble(f"{place}: {names} stands more than once in one object; the last one counts")
    if isinstance(value, dict):
        yield record_of(value, mapping, place)
    elif isinstance(value, str) and value.strip() and not mapping.text_fields:
        yield Record(text=value)
    else:
        yield Trouble(f"{place}: a record is an object, not {json.dumps(value)[:40]}")


@attrs.frozen(kw_only=True)
class Parsed:
    """A parsed JSON value.

    Attributes:
        end: Position after the value in the parsed text.
        repeated: Names that occur more than once in an object.
    """

    value: Any
    end: int
    repeated: tuple[str, ...]


def parse(text: str, start: int = 0) -> Parsed:
    """Parse the JSON value at *start*.

    Raises:
        ValueError: The text is not JSON, or is nested too deeply; the message names the cause.
    """
    repeated: list[str] = []

    def as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        table = dict(pairs)
        if len(table) < len(pairs):
            seen: set[str] = set()
            repeated.extend(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        return table

    decoder = json.JSONDecoder(object_pairs_hook=as_object, parse_constant=_no_number, strict=False)
    try:
        value, end = decoder.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return Parsed(value=value, end=end, repeated=tuple(dict.fromkeys(repeated)))


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


class _Window:
    """A buffer over a file that holds at most one value and one block."""

    def __init__(self, file: TextFile) -> None:
        self._file = file
        self._text, self._at = "", 0
        self._line = 1

    def peek(self) -> str:
        """Return the next character that is not blank; an empty text at the end."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _BLANK:
                    return self._text[self._at]
                self._at += 1
            if not self._more():
                return ""

    def skip(self, expected: str) -> None:
        character = self.peek()
        if character != expected:
            self.refuse(f"'{expected}' expected, not {f'{character!r}' if character else 'its end'}")
        self._at += 1

    def value(self) -> Parsed:
        """Read a value, extending the buffer until the value's end is inside it."""
        self.peek()
        while True:
            problem = ""
            try:
                parsed = parse(self._text, self._at)
            except ValueError as error:
                problem = (
                    error.msg.removesuffix(" starting at") if isinstance(error, json.JSONDecodeError) else str(error)
                )
                if problem.startswith("it is nested"):
                    self.refuse(problem)
            else:
                if parsed.end < len(self._text):
                    self._at = parsed.end
                    return parsed
            if len(self._text) - self._at > MAX_CHARS:
                self.refuse(problem or f"a record has more than {MAX_CHARS:,} characters")
            if not self._more(max(_BLOCK, len(self._text) - self._at)):
                if problem:
                    self.refuse(problem)
                self._at = parsed.end
                return parsed

    def refuse(self, problem: str) -> NoReturn:
        line = self._line + self._text.count("\n", 0, self._at)
        raise UnreadableFileError(f"is not JSON that can be read: in or behind line {line}: {problem}")

    def _more(self, size: int = _BLOCK) -> bool:
        self._line += self._text.count("\n", 0, self._at)
        block = self._file.read(size)
        self._text, self._at = self._text[self._at :] + block, 0
        return bool(block)


def read_jsonl(path: Path, mapping: FieldMapping, reading: Reading) -> Iterator[Piece]:
    """Yield a record for each line. An invalid line yields a Trouble and does not stop the reading."""
    with TextFile(path, reading) as file:
        number = 0
        while line := file.readline(MAX_CHARS):
            number += 1
            if len(line) == MAX_CHARS and not line.endswith("\n"):
                yield Trouble(f"line {number}: it has more than {MAX_CHARS:,} characters")
                while (rest := file.readline(1 << 20)) and not rest.endswith("\n"):
                    pass
                continue
            text = line.strip(" \t\r\n\ufeff")
            if not text:
                continue
            try:
                parsed = parse(text)
            except ValueError as error:
                yield Trouble(f"line {number}: {error}")
                continue
            if text[parsed.end :].strip():
                yield Trouble(f"line {number}: more follows the first value (character {parsed.end + 1})")
            else:
                yield from as_pieces(parsed, mapping, f"line {number}")
        yield from file.troubles()
