"""JSON lines: a record on each line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .encoding import encoding_of
from .fields import FieldMapping
from .json_file import MOST_CHARS, as_piece, parse
from .sections import Piece, Trouble


def read_jsonl(path: Path, mapping: FieldMapping) -> Iterator[Piece]:
    """Yield a record for each line; a line that cannot be read is trouble, and the others are read all the same."""
    with path.open(encoding=encoding_of(path), errors="replace") as file:
        number = 0
        while line := file.readline(MOST_CHARS):
            number += 1
            if len(line) == MOST_CHARS and not line.endswith("\n"):
                yield Trouble(f"line {number}: it has more than {MOST_CHARS:,} characters")
                while (rest := file.readline(1 << 20)) and not rest.endswith("\n"):
                    pass
                continue
            text = line.strip(" \t\r\n\ufeff")
            if text:
                yield _piece(text, mapping, f"line {number}")


def _piece(text: str, mapping: FieldMapping, place: str) -> Piece:
    try:
        value, end = parse(text)
    except ValueError as error:
        return Trouble(f"{place}: {error}")
    if text[end:].strip():
        return Trouble(f"{place}: more follows the first value (character {end + 1})")
    return as_piece(value, mapping, place)
