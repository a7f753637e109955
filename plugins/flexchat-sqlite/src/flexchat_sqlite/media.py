"""Media of messages, in the conversations' file: the bytes of each once per tenant, in pieces."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator, Mapping
from typing import Any

from flexchat.conversations.effect_rows import now_text
from flexchat.conversations.media_rows import (
    Joining,
    check_quota,
    check_size,
    held_until,
    in_pieces,
    move_media,
    read_pieces,
    split,
)
from flexchat.domain.codec import digests_in, live_media
from flexchat.domain.text import storable
from flexchat.errors import StorageError, UnknownMediaError

from .database import Database

# A medium that is being received has no digest yet. Held until then: uploads that no stored turn has used since.
# Triggers and foreign keys, so that no statement that deletes a turn can leave out its media.
TABLES = """
CREATE TABLE media (
    number INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, sha256 TEXT, bytes INTEGER NOT NULL,
    held_until TEXT NOT NULL, UNIQUE (tenant, sha256)
);
CREATE INDEX media_sizes ON media (tenant, bytes);
CREATE INDEX media_held ON media (held_until) WHERE held_until != '';
CREATE TABLE media_pieces (
    medium INTEGER NOT NULL REFERENCES media (number) ON DELETE CASCADE, place INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (medium, place)
);
CREATE TABLE media_uses (
    medium INTEGER NOT NULL REFERENCES media (number),
    turn INTEGER REFERENCES turns (number) ON DELETE CASCADE,
    journaled TEXT REFERENCES journal_turns (id) ON DELETE CASCADE,
    UNIQUE (turn, medium), UNIQUE (journaled, medium)
);
CREATE INDEX media_uses_of_media ON media_uses (medium);
CREATE TRIGGER media_unused AFTER DELETE ON media_uses
BEGIN
    DELETE FROM media WHERE number = OLD.medium AND held_until = ''
        AND NOT EXISTS (SELECT 1 FROM media_uses WHERE medium = OLD.medium);
END;
CREATE TABLE media_migration (next INTEGER NOT NULL);
INSERT INTO media_migration VALUES (0);
"""

MIGRATED_TURNS, MIGRATED_CHARS = 50, 8_000_000  # in one step

_RECEIVE = "INSERT INTO media (tenant, bytes, held_until) VALUES (?, 0, ?)"
_FIND = "SELECT number FROM media WHERE tenant = ? AND sha256 = ?"
_PIECE = f"SELECT data FROM media_pieces WHERE medium = ({_FIND}) AND place = ?"
_OLD = (
    "SELECT number, tenant, history, turn FROM turns WHERE number > (SELECT next FROM media_migration) "
    f"ORDER BY number LIMIT {MIGRATED_TURNS}"
)


class SqliteMedia:
    """See MediaStore."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.quota_bytes: int | None = None

    async def add(self, data: bytes | AsyncIterable[bytes], *, tenant: str, max_bytes: int | None = None) -> str:
        """Keep bytes; see MediaStore."""
        check_tenant(tenant)
        upload = _Upload(self, tenant, max_bytes)
        if isinstance(data, bytes):
            return await self._database.write(lambda database: upload.write_whole(database, data))
        try:
            async for piece in in_pieces(data):
                await self._database.write(functools.partial(upload.write, piece=piece))
            return await self._database.write(upload.end)
        except BaseException:
            # What is left by a process that dies here is deleted when it is a day old.
            await asyncio.shield(self._database.write(upload.discard))
            raise

    async def read(self, sha256: str, *, tenant: str) -> bytes:
        """Return the bytes of a medium; see MediaStore."""
        check_tenant(tenant)
        media = await self._database.read(lambda database: load(database, tenant, {sha256}))
        if sha256 not in media:
            raise UnknownMediaError(sha256)
        return media[sha256]

    def pieces(self, sha256: str, *, tenant: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a medium; see MediaStore."""

        async def read_piece(place: int) -> bytes | None:
            values = (tenant, storable(sha256), place)
            row = await self._database.read(lambda database: database.execute(_PIECE, values).fetchone())
            return None if row is None else row[0]

        check_tenant(tenant)
        return read_pieces(sha256, read_piece)

    async def migrate(self) -> bool:
        """Move the media of some older turns out of their JSON; see MediaStore."""
        at, moved = await self._database.read(_move_old)
        if at is None:
            return False

        def write(database: sqlite3.Connection) -> None:
            for number, tenant, texts, media in moved:
                # No row if it was deleted meanwhile. Two processes may do the same step: the second changes nothing.
                update = "UPDATE turns SET history = ?, turn = ? WHERE number = ? AND tenant = ?"
                if database.execute(update, (*texts, number, tenant)).rowcount:
                    use(database, tenant, media, turn=number)
            database.execute("UPDATE media_migration SET next = max(next, ?)", (at,))

        await self._database.write(write)
        return True


def _move_old(database: sqlite3.Connection) -> tuple[int | None, list[tuple[int, str, list[Any], dict[str, bytes]]]]:
    """Return the number of the last turn of a step, and the new texts of those of its turns that have media."""
    at, size, moved = None, 0, []
    for number, tenant, *texts in database.execute(_OLD):  # fetched one by one: they may be large
        at, (new_texts, media) = number, move_media(texts)
        size += sum(len(text) for text in texts if text)
        if media:
            moved.append((number, tenant, new_texts, media))
        if size > MIGRATED_CHARS:
            break
    return at, moved


class _Upload:
    """A medium that is being received: a row without a digest, until its end."""

    def __init__(self, store: SqliteMedia, tenant: str, max_bytes: int | None) -> None:
        self._store, self._tenant, self._max_bytes = store, tenant, max_bytes
        self._digest, self._number, self._size, self._place = hashlib.sha256(), 0, 0, 0

    def write_whole(self, database: sqlite3.Connection, data: bytes) -> str:
        """Add a medium whose bytes are all there; return its digest."""
        digest = hashlib.sha256(data).hexdigest()
        if _hold(database, self._tenant, digest):
            return digest
        for piece in split(data):
            self.write(database, piece)
        return self.end(database)

    def write(self, database: sqlite3.Connection, piece: bytes | memoryview) -> None:
        """Add a piece."""
        size = self._size + len(piece)
        check_size(size, self._max_bytes)
        number = self._number or database.execute(_RECEIVE, (self._tenant, held_until())).lastrowid
        with _small_cache(database):
            database.execute("INSERT INTO media_pieces VALUES (?, ?, ?)", (number, self._place, piece))
        database.execute("UPDATE media SET bytes = ? WHERE number = ?", (size, number))
        self._digest.update(piece)
        self._number, self._size, self._place = int(number or 0), size, self._place + 1

    def end(self, database: sqlite3.Connection) -> str:
        """Give the medium its digest, unless the tenant has it; return the digest."""
        digest, quota = self._digest.hexdigest(), self._store.quota_bytes
        if _hold(database, self._tenant, digest):
            self.discard(database)
            return digest
        if quota is not None:
            query = "SELECT sum(bytes) FROM media WHERE tenant = ? AND (sha256 IS NOT NULL OR number = ?)"
            (total,) = database.execute(query, (self._tenant, self._number)).fetchone()
            check_quota(self._size, total - self._size, quota)
        database.execute("UPDATE media SET sha256 = ? WHERE number = ?", (digest, self._number))
        return digest

    def discard(self, database: sqlite3.Connection) -> None:
        """Delete what was received."""
        database.execute("DELETE FROM media WHERE number = ? AND sha256 IS NULL", (self._number,))


@contextlib.contextmanager
def _small_cache(database: sqlite3.Connection) -> Iterator[None]:
    """Keep the pages of large values out of the cache: 2 MB in pieces of 4 kB, between which the heap has no room."""
    (size,) = database.execute("PRAGMA cache_size").fetchone()
    database.execute("PRAGMA cache_size = -256")
    try:
        yield
    finally:
        database.execute(f"PRAGMA cache_size = {size}")


def load(database: sqlite3.Connection, tenant: str, digests: Iterable[str]) -> dict[str, bytes]:
    """Return those of a tenant's media that there are, by their digests.

    Raises:
        StorageError: The bytes of one are not those of its digest.
    """
    media = {}
    query = f"SELECT data FROM media_pieces WHERE medium = ({_FIND}) ORDER BY place"
    for digest in digests:
        joining = None
        with _small_cache(database):
            for (piece,) in database.execute(query, (tenant, storable(digest))):
                joining = joining or Joining(digest)
                joining.add(piece)
        if joining is not None:
            media[digest] = joining.whole()
    return media


def load_for(database: sqlite3.Connection, tenant: str, texts: Iterable[str | None]) -> dict[str, bytes]:
    """Return the media that stored JSON texts need; those that messages in memory have are not read again."""
    digests = digests_in(texts)
    media = live_media(digests)
    return {**media, **load(database, tenant, digests - media.keys())}


def use(
    database: sqlite3.Connection,
    tenant: str,
    media: Mapping[str, bytes],
    *,
    turn: int | None = None,
    journaled: str | None = None,
) -> None:
    """Keep media with a stored or a journaled turn, in the caller's transaction, and their bytes if they are new."""
    for digest, data in media.items():
        row = database.execute(_FIND, (tenant, digest)).fetchone()
        if row is None:
            add = "INSERT INTO media (tenant, sha256, bytes, held_until) VALUES (?, ?, ?, '')"
            row = (database.execute(add, (tenant, digest, len(data))).lastrowid,)
            pieces = ((*row, place, piece) for place, piece in enumerate(split(data)))
            with _small_cache(database):
                database.executemany("INSERT INTO media_pieces VALUES (?, ?, ?)", pieces)
        elif turn is not None:  # from now on it is deleted with the turn
            database.execute("UPDATE media SET held_until = '' WHERE number = ?", row)
        add = "INSERT INTO media_uses (medium, turn, journaled) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        database.execute(add, (*row, turn, journaled))


def forget(database: sqlite3.Connection) -> None:
    """Delete the media that no turn has got within a day."""
    late = "held_until != '' AND held_until < ?"
    unused = "NOT EXISTS (SELECT 1 FROM media_uses WHERE medium = media.number)"
    database.execute(f"DELETE FROM media WHERE {late} AND {unused}", (now_text(),))
    database.execute(f"UPDATE media SET held_until = '' WHERE {late}", (now_text(),))


def _hold(database: sqlite3.Connection, tenant: str, digest: str) -> bool:
    """Keep a medium for a day, if the tenant has it."""
    hold = "UPDATE media SET held_until = ? WHERE tenant = ? AND sha256 = ?"
    return database.execute(hold, (held_until(), tenant, digest)).rowcount > 0


def check_tenant(tenant: str) -> None:
    """Refuse a name of a tenant that cannot be kept unchanged. Raises StorageError."""
    if not isinstance(tenant, str) or not tenant or tenant != storable(tenant):
        raise StorageError(f"media: {tenant!r} cannot name a tenant: it is empty, or not text a database accepts")
