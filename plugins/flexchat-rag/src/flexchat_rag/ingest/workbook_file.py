"""Workbooks (.xlsx, .xlsb, .xls, .ods): one record per row of sheets that are tables, text for the others."""

from __future__ import annotations

import datetime
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs

from .archive import check_archive, transitional
from .csv_file import column_names
from .fields import FieldMapping, record_of
from .sections import ENCRYPTED, Piece, Reading, SectionBuilder, Trouble, UnreadableFileError, check_size, short_reason

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
        raise _unreadable(error) from None
    for name in names:
        try:
            rows = workbook.get_sheet_by_name(name).to_python(skip_empty_area=False)
        except BaseException as error:  # noqa: BLE001  see _reason
            yield Trouble(f"sheet '{name[:80]}' cannot be read ({_reason(error)})")
            continue
        yield from _sheet(name, rows, mapping, reading)


def _unreadable(error: BaseException) -> UnreadableFileError:
    if type(error).__name__ == "PasswordError" or "password" in str(error).lower():
        return UnreadableFileError(ENCRYPTED)
    return UnreadableFileError(f"is a damaged workbook ({_reason(error)})")


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
            if builder.full:
                yield from builder.flush()
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
