"""JSON: a list of records, read one by one, or an object, which is one record; and JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import attrs

from .encoding import TextFile
from .fields import FieldMapping, record_of
from .sections import Piece, Reading, Record, Trouble, UnreadableFileError

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
            if text:
                yield from _pieces(text, mapping, f"line {number}")
        yield from file.troubles()


def _pieces(text: str, mapping: FieldMapping, place: str) -> Iterator[Piece]:
    try:
        parsed = parse(text)
    except ValueError as error:
        yield Trouble(f"{place}: {error}")
        return
    if text[parsed.end :].strip():
        yield Trouble(f"{place}: more follows the first value (character {parsed.end + 1})")
    else:
        yield from as_pieces(parsed, mapping, place)
