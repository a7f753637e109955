"""Tables: CSV, TSV and workbooks (.xlsx, .xlsb, .xls, .ods), whose rows are documents."""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import attrs

from .encoding import TextFile
from .office_files import check_archive, transitional
from .records import FieldMapping, number_or_text, record_of
from .sections import ENCRYPTED, Piece, Reading, SectionBuilder, Trouble, UnreadableFileError, check_size, short_reason

MAX_FIELD_CHARS = 16_000_000
"""Characters. Python's own limit, 131,072, is too low for a column of articles."""

_DELIMITERS = (",", ";", "\t", "|")
_SAMPLE_LINES = 50
_SAMPLE_CHARS = 65_536
_SEP = re.compile(r"\ufeff?\"?sep=(.)\"?\r?\n?", re.IGNORECASE)


def read_csv(path: Path, mapping: FieldMapping, reading: Reading) -> Iterator[Piece]:
    """Yield a record for each row. Numeric fields become numbers in the metadata.

    A first line ``sep=;``, as Excel reads and writes it, sets the delimiter.

    Raises:
        UnreadableFileError: The file is not text, or has no header row.
    """
    csv.field_size_limit(max(csv.field_size_limit(), MAX_FIELD_CHARS))
    with TextFile(path, reading, newline="") as file:
        first = file.readline()
        separator = _SEP.fullmatch(first)
        lines: Iterator[str] = iter(file) if separator else chain([first] if first else [], file)
        sample = _sample(lines)
        delimiter = separator[1] if separator else _delimiter(path, sample)
        # Strict: otherwise an unclosed quote turns the rest of the file into one field.
        rows = csv.reader(chain(sample, lines), delimiter=delimiter, strict=True)
        try:
            header = next(rows, [])
        except csv.Error as error:
            raise UnreadableFileError(f"is not CSV: line 1: {error}") from None
        if not any(name.strip("\ufeff \t") for name in header):
            raise UnreadableFileError("has no first row with the names of its fields")
        yield from _records(rows, 1 if separator else 0, column_names(header, reading), mapping, reading)
        yield from file.troubles()


def _sample(lines: Iterator[str]) -> list[str]:
    sample: list[str] = []
    for line in lines:
        sample.append(line)
        if len(sample) >= _SAMPLE_LINES or sum(map(len, sample)) >= _SAMPLE_CHARS:
            break
    return sample


def _delimiter(path: Path, sample: Sequence[str]) -> str:
    """Detect the delimiter: the one with the most fields in the first row, if most other rows have as many."""
    if path.suffix.casefold() == ".tsv" and any("\t" in line for line in sample[:1]):
        return "\t"

    def agreement(delimiter: str) -> tuple[bool, int]:
        rows = csv.reader(sample, delimiter=delimiter)
        try:
            counts = [len(row) for row in rows if row]
        except csv.Error:
            return False, 0
        fields = counts[0] if counts else 0
        return fields > 1 and 2 * counts.count(fields) > len(counts), fields

    return max(_DELIMITERS, key=agreement)  # max returns the first of equals: the comma.


def column_names(header: Sequence[str], reading: Reading) -> list[str]:
    """Name each column uniquely: a record with duplicate names would lose a field."""
    names: dict[str, None] = {}
    for number, field in enumerate(header, 1):
        name = field.strip().lstrip("\ufeff").strip() or f"column {number}"
        if name in names:
            name = f"{name} (column {number})"
            reading.note(f"names a column twice: the second is called '{name[:80]}'")
        names[name] = None
    if all(isinstance(number_or_text(name), int | float) for name in names):
        reading.note("has only numbers in its first row, which was taken for the names of the columns")
    return list(names)


def _records(
    rows: Iterator[list[str]], skipped: int, names: Sequence[str], mapping: FieldMapping, reading: Reading
) -> Iterator[Piece]:
    while True:
        line = rows.line_num + skipped + 1  # type: ignore[attr-defined]  # csv's reader has it, its type has no name
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            yield Trouble(f"line {line}: {_explained(error)}")
            continue
        if not any(field.strip() for field in row):
            continue
        if any(field.strip() for field in row[len(names) :]):
            yield Trouble(f"line {line}: {len(row)} fields, but the first line names {len(names)}")
            continue
        if len(row) < len(names):
            reading.unread["missing field# (a row shorter than the first)"] += len(names) - len(row)
        record = record_of(dict(zip(names, row, strict=False)), mapping, f"line {line}")
        if not isinstance(record, Trouble):
            numbers = {k: number_or_text(v) if isinstance(v, str) else v for k, v in record.metadata.items()}
            record = attrs.evolve(record, metadata=numbers)
        yield record


def _explained(error: csv.Error) -> str:
    if "unexpected end" in str(error):
        return "a quote is never closed, so nothing after it could be read"
    if "expected after" in str(error):
        return f"{error}: a quote within a quoted field is written twice"
    return str(error)


MAX_BYTES = 100_000_000


def read_workbook(path: Path, mapping: FieldMapping, reading: Reading) -> Iterator[Piece]:
    """Yield the rows of each sheet, with ``sheet`` and ``row`` in the metadata, counted from 1.

    Raises:
        UnreadableFileError: It is damaged, protected by a password, or too large.
    """
    from python_calamine import CalamineWorkbook

    check_size(path, MAX_BYTES)
    with path.open("rb") as file:
        is_archive = file.read(2) == b"PK"
    if is_archive:
        check_archive(path, "a workbook")
    try:
        content = transitional(path) if is_archive else io.BytesIO(path.read_bytes())
        workbook = CalamineWorkbook.from_filelike(content)
        names = workbook.sheet_names
    except BaseException as error:  # noqa: BLE001  see _reason
        if type(error).__name__ == "PasswordError" or "password" in str(error).lower():
            raise UnreadableFileError(ENCRYPTED) from None
        raise UnreadableFileError(f"is a damaged workbook ({_reason(error)})") from None
    for name in names:
        try:
            rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
        except BaseException as error:  # noqa: BLE001  see _reason
            yield Trouble(f"sheet '{name[:80]}' cannot be read ({_reason(error)})")
            continue
        yield from _sheet(name, rows, mapping, reading)


def _reason(error: BaseException) -> str:
    # A panic of the Rust library is a BaseException. KeyboardInterrupt and SystemExit must propagate.
    if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
        raise error
    return short_reason(error)


def _sheet(name: str, rows: Sequence[Sequence[Any]], mapping: FieldMapping, reading: Reading) -> Iterator[Piece]:
    texts = [(number, [*map(_text, row)]) for number, row in enumerate(rows, 1)]
    texts = [(number, row) for number, row in texts if any(row)]
    if not texts:
        return
    if not _is_table(texts):
        builder = SectionBuilder({"sheet": name, "row": texts[0][0]})
        yield from builder.heading(1, name)
        for _, row in texts:
            builder.add(f"{' | '.join(filter(None, row))}\n")
            yield from builder.ready()
        yield from builder.end()
        return
    names = column_names(texts[0][1], reading)
    for number, _ in texts[1:]:
        values = {each: _value(value) for each, value in zip(names, rows[number - 1], strict=False)}
        record = record_of(values, mapping, f"sheet '{name[:80]}', row {number}")
        if isinstance(record, Trouble):
            yield record
        else:
            yield attrs.evolve(record, metadata={**record.metadata, "sheet": name, "row": number})


def _is_table(texts: Sequence[tuple[int, Sequence[str]]]) -> bool:
    """Return True if the first row is a header for all others, with at least two columns."""
    first = texts[0][1]
    width = max(len(first) - next((i for i, text in enumerate(reversed(first)) if text), 0), 0)
    has_names = all(text and not _is_number(text) for text in first[:width])
    return len(texts) > 1 and width > 1 and has_names and not any(any(row[width:]) for _, row in texts)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _value(cell: Any) -> Any:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return int(cell)
    if isinstance(cell, (str, int, float)):
        return cell.strip() if isinstance(cell, str) else cell
    return _text(cell)


def _text(cell: Any) -> str:
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e15:
        return str(int(cell))
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, datetime.datetime) and not (cell.hour or cell.minute or cell.second or cell.microsecond):
        return cell.date().isoformat()
    if isinstance(cell, (datetime.date, datetime.time)):
        return cell.isoformat()
    return str(cell).strip() if cell is not None else ""
