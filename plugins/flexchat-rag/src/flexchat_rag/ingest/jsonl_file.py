"""JSON lines: a record on each line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .encoding import TextFile
from .fields import FieldMapping
from .json_file import MAX_CHARS, as_pieces, parse
from .sections import Piece, Reading, Trouble


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
