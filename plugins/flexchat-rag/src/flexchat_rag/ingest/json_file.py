"""JSON: a list of records, read one by one, or an object, which is one record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, TextIO

from .encoding import encoding_of
from .fields import FieldMapping, record_of
from .sections import Piece, Record, Trouble, UnreadableFileError

MOST_CHARS = 16_000_000
"""Characters of one record."""

_BLOCK = 1 << 16
_BLANK = " \t\n\r\ufeff"


def read_json(path: Path, mapping: FieldMapping) -> Iterator[Piece]:
    """Yield the records of a list, or the one that the file is.

    Raises:
        UnreadableFileError: It is no JSON, or a record is too large or too deep.
    """
    with path.open(encoding=encoding_of(path), errors="replace") as file:
        window = _Window(file)
        if window.peek() != "[":
            yield as_piece(window.value(), mapping, "the object")
            if window.peek():
                window.refuse("more follows the first value; one value a line is JSONL: name the file .jsonl")
            return
        window.skip("[")
        number = 1
        while window.peek() != "]":
            yield as_piece(window.value(), mapping, f"item {number}")
            number += 1
            if window.peek() != ",":
                break
            window.skip(",")
        window.skip("]")


def as_piece(value: Any, mapping: FieldMapping, place: str) -> Piece:
    """Return what a JSON value is: an object a record, a text a document by itself, all else is trouble."""
    if isinstance(value, dict):
        return record_of(value, mapping, place)
    if isinstance(value, str) and value.strip() and not mapping.text_fields:
        return Record(text=value)
    return Trouble(f"{place}: a record is an object, not {json.dumps(value)[:40]}")


def parse(text: str, start: int = 0) -> tuple[Any, int]:
    """Return the JSON value at start, and where it ends.

    Raises:
        ValueError: It is no JSON, or is nested too deeply; the text says which.
    """
    try:
        return _DECODER.raw_decode(text, start)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_number, strict=False)


class _Window:
    """The part of a file that is being read; never more than one value and a block."""

    def __init__(self, file: TextIO) -> None:
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
        found = self.peek()
        if found != expected:
            self.refuse(f"'{expected}' expected, not {f'{found!r}' if found else 'its end'}")
        self._at += 1

    def value(self) -> Any:
        """Read a value: with more and more of the file, since only its end shows that it was read as a whole."""
        self.peek()
        while True:
            problem = ""
            try:
                value, end = parse(self._text, self._at)
            except ValueError as error:
                problem = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                if problem.startswith("it is nested"):
                    self.refuse(problem)
            else:
                if end < len(self._text):
                    self._at = end
                    return value
            if len(self._text) - self._at > MOST_CHARS:
                self.refuse(problem or f"a record has more than {MOST_CHARS:,} characters")
            if not self._more(max(_BLOCK, len(self._text) - self._at)):
                if problem:
                    self.refuse(problem)
                self._at = end
                return value

    def refuse(self, problem: str) -> NoReturn:
        line = self._line + self._text.count("\n", 0, self._at)
        raise UnreadableFileError(f"is no JSON that can be read: in or behind line {line}: {problem}")

    def _more(self, size: int = _BLOCK) -> bool:
        self._line += self._text.count("\n", 0, self._at)
        block = self._file.read(size)
        self._text, self._at = self._text[self._at :] + block, 0
        return bool(block)
