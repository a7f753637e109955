"""A copy of a part's tables as one file, which any later FlexChat can read: a ZIP of PostgreSQL's own text format.

pg_dump is not used: it would have to be installed in the server's version or a later one, and it copies schemas, which
several parts share.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, LiteralString

import psycopg
from flexchat.plugin import FlexChatError
from flexchat.store import SchemaState
from psycopg import sql

Raw = psycopg.AsyncConnection[tuple[Any, ...]]
Compose = Callable[..., sql.SQL]

_INDEX = "copy.json"
_TABLE = re.compile(r"CREATE TABLE \{s\}\.(\w+)")
_SEQUENCE = re.compile(r"CREATE SEQUENCE \{s\}\.(\w+)")
_FILLED = re.compile(r"INSERT INTO \{s\}\.(\w+)")
_CHUNK = 1 << 20

_COLUMNS: LiteralString = """
    SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped
    AND attgenerated = '' ORDER BY attnum"""


def tables_of(steps: Sequence[str]) -> list[str]:
    """Return the tables that the steps create, each after those that it references."""
    return _TABLE.findall("".join(steps))


def tables_with_data(steps: Sequence[str]) -> list[str]:
    """Return the tables that are empty until something is stored."""
    filled = _FILLED.findall("".join(steps))
    return [name for name in tables_of(steps) if name not in filled]


async def dump(
    raw: Raw, compose: Compose, file: Path, steps: Sequence[str], *, schema: str, part: str, state: SchemaState
) -> None:
    """Write the tables that the steps have created, in the connection's transaction, to a new file."""
    tables: dict[str, list[str]] = {}
    opened = os.fdopen(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb")
    with opened, zipfile.ZipFile(opened, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name in tables_of(steps):
            table = sql.Identifier(name)
            path = compose("{s}.{table}", table=table).as_string(raw)
            tables[name] = [row[0] for row in await (await raw.execute(_COLUMNS, (path,))).fetchall()]
            columns = sql.SQL(", ").join(map(sql.Identifier, tables[name]))
            query = compose("COPY {s}.{table} ({columns}) TO STDOUT", table=table, columns=columns)
            async with raw.cursor().copy(query) as copy:
                with archive.open(name, "w", force_zip64=True) as entry:
                    async for piece in copy:
                        entry.write(piece)
        # A sequence is not part of the snapshot: it may be ahead of the rows, never behind.
        sequences = await raw.execute(
            "SELECT sequencename, last_value FROM pg_sequences WHERE schemaname = %s AND last_value > 0", (schema,)
        )
        prefixes, explicit = tuple(f"{name}_" for name in tables), _SEQUENCE.findall("".join(steps))
        values = await sequences.fetchall()
        index = {
            "part": part,
            "version": state.version,
            "oldest": state.oldest,
            "tables": tables,
            "sequences": {name: value for name, value in values if name.startswith(prefixes) or name in explicit},
        }
        archive.writestr(_INDEX, json.dumps(index))


def check(file: Path, part: str, error: type[FlexChatError]) -> SchemaState:
    """Read a copy whole; return the state of its tables, as far as this module understands it.

    Raises:
        FlexChatError: It is damaged, or a copy of something else.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            damaged, index = archive.testzip(), _index(archive)
            missing = sorted(index["tables"].keys() - {*archive.namelist()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile) as cause:
        raise error(f"'{file}' cannot be read as a copy of PostgreSQL's tables: {cause}") from None
    if damaged or missing:
        raise error(f"'{file}' is damaged: the table {damaged or missing[0]} is not complete")
    if index["part"] != part:
        raise error(f"'{file}' is a copy of {index['part']}, not of {part}")
    return SchemaState(version=index["version"], oldest=index["oldest"], newest=index["version"])


async def load(raw: Raw, compose: Compose, file: Path, steps: Sequence[str]) -> None:
    """Fill the tables that the steps have created, in the connection's transaction."""
    with zipfile.ZipFile(file) as archive:
        index = _index(archive)
        # Names become parts of statements; they are quoted, and only those of the steps are accepted.
        for name in tables_of(steps):
            table = sql.Identifier(name)
            columns = sql.SQL(", ").join(map(sql.Identifier, index["tables"][name]))
            await raw.execute(compose("ALTER TABLE {s}.{table} DISABLE TRIGGER USER", table=table))
            await raw.execute(compose("DELETE FROM {s}.{table}", table=table))  # rows that a step has inserted
            query = compose("COPY {s}.{table} ({columns}) FROM STDIN", table=table, columns=columns)
            async with raw.cursor().copy(query) as copy:
                with archive.open(name) as entry:
                    while piece := entry.read(_CHUNK):
                        await copy.write(piece)
            await raw.execute(compose("ALTER TABLE {s}.{table} ENABLE TRIGGER USER", table=table))
        for name, value in index["sequences"].items():
            path = compose("{s}.{name}", name=sql.Identifier(name)).as_string(raw)
            await raw.execute("SELECT setval(s, %s) FROM to_regclass(%s) s WHERE s IS NOT NULL", (value, path))


def _index(archive: zipfile.ZipFile) -> dict[str, Any]:
    index: dict[str, Any] = json.loads(archive.read(_INDEX))
    return index
