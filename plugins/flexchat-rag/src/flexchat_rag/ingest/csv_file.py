"""CSV and TSV: each row is a document, its fields named by the first row."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from .encoding import encoding_of
from .fields import FieldMapping, number_or_text, record_of
from .sections import Piece, Trouble, UnreadableFileError

LONGEST_FIELD = 16_000_000
"""Characters. Python's own limit, 131,072, is too low for a column of articles."""


def read_csv(path: Path, mapping: FieldMapping) -> Iterator[Piece]:
    """Yield a record for each row; numbers become numbers in the metadata.

    Raises:
        UnreadableFileError: It is no text, or has no first row that names the fields.
    """
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_FIELD))
    with path.open(encoding=encoding_of(path), errors="replace", newline="") as file:
        first = file.read(8192)
        file.seek(0)
        rows = csv.reader(file, delimiter=_delimiter(path, first))
        try:
            names = [name.strip().lstrip("\ufeff") for name in next(rows, [])]
        except csv.Error as error:
            raise UnreadableFileError(f"is no CSV file: {error}") from None
        if not any(names):
            raise UnreadableFileError("has no first row with the names of its fields")
        yield from _records(rows, names, mapping)


def _records(rows: Iterator[list[str]], names: list[str], mapping: FieldMapping) -> Iterator[Piece]:
    while True:
        line = rows.line_num + 1  # type: ignore[attr-defined]  # csv's reader has it, its type has no public name
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Trouble(f"line {line}: {error}")
            continue
        if not any(field.strip() for field in row):
            continue
        if len(row) > len(names):
            yield Trouble(f"line {line}: {len(row)} fields, but the first line names {len(names)}")
            continue
        fields = dict(zip(names, row, strict=False))
        record = record_of(fields, mapping, f"line {line}")
        yield record if isinstance(record, Trouble) else _with_numbers(record)


def _with_numbers(record: Piece) -> Piece:
    import attrs

    assert not isinstance(record, Trouble)
    numbers = {k: number_or_text(v) if isinstance(v, str) else v for k, v in record.metadata.items()}
    return attrs.evolve(record, metadata=numbers)


def _delimiter(path: Path, sample: str) -> str:
    if path.suffix.casefold() == ".tsv":
        return "\t"
    header = sample.partition("\n")[0]
    return max((",", ";", "\t"), key=header.count)  # max keeps the first of equals: the comma
