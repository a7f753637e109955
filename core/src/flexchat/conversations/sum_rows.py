"""Rows of the hourly sums of turns: what the journals in databases have in common."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from ..domain.counters import HourlySum, hour_text
from ..domain.journal import JournaledTurn, JournalEntry
from ..errors import StorageError
from ..plugin.contracts import AddTurn
from .journal_rows import steps_from_rows

SUMMED_KINDS = ("phase", "rule", "request", "answer", "limit", "tool")
"""Kinds of the steps that a sum is made of. The others hold requests and questions, which are long."""

Row = tuple[int, str, bytes]
"""Hours since 1970, tenant, and the packed values."""


def readable_steps(id: str, rows: Iterable[Sequence[object]]) -> Sequence[JournalEntry]:
    """Return the steps in rows of number, kind, JSON and time; none if they are damaged: the turn itself counts."""
    try:
        return steps_from_rows(id, rows)
    except StorageError:
        return ()


def hour_of(turn: JournaledTurn) -> int:
    """Return the hour in which a turn ended, counted since 1970."""
    return int(datetime.fromisoformat(turn.ended_at).timestamp() // 3600)


def add_turns(
    add: AddTurn,
    turns: Iterable[tuple[JournaledTurn, Sequence[JournalEntry]]],
    packed: Mapping[tuple[int, str], bytes],
) -> list[Row]:
    """Return the rows of the turns' hours, with the turns added.

    Args:
        packed: The values of these hours so far, by hour and tenant.
    """
    sums: dict[tuple[int, str], dict[str, int]] = {}
    for turn, entries in turns:
        key = hour_of(turn), turn.tenant
        if key not in sums:
            sums[key] = unpack(packed[key]) if key in packed else {}
        add(sums[key], turn, entries)
    return [(*key, zlib.compress(json.dumps(values, separators=(",", ":")).encode())) for key, values in sums.items()]


def unpack(data: bytes) -> dict[str, int]:
    """Return the values in the column of a row. Raises StorageError."""
    try:
        values: dict[str, int] = json.loads(zlib.decompress(data))
    except (ValueError, zlib.error) as error:
        raise StorageError(f"turns: a row of hourly sums cannot be read: {error}") from None
    return values


def sum_from_row(row: Row) -> HourlySum:
    """Return the sum in a row. Raises StorageError."""
    hour, tenant, data = row
    return HourlySum(hour=hour_text(hour), labels={"tenant": tenant}, values=unpack(bytes(data)))
