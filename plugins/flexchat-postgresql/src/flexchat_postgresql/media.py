"""Media of messages in PostgreSQL: the bytes of each once per tenant, in pieces, so that none is a message of its own
size to or from the server."""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Mapping
from typing import LiteralString

from flexchat.store import StorageError, UnknownMediaError, digests_in, effect_rows, live_media, media_rows, storable

from .connections import Connection, Connections

MIGRATED_TURNS, MIGRATED_BYTES = 50, 8_000_000  # in one step

# The conflict waits for another transaction that adds the same medium, or deletes it, to end.
_ROW: LiteralString = """
    INSERT INTO {s}.media AS m (tenant, sha256, bytes, held_until) VALUES (%s, %s, %s, %s)
    ON CONFLICT (tenant, sha256) DO UPDATE SET held_until = CASE WHEN %s THEN excluded.held_until ELSE m.held_until END
    RETURNING number"""
_HAS_PIECES: LiteralString = "SELECT 1 FROM {s}.media_pieces WHERE medium = %s LIMIT 1"
_RECEIVE: LiteralString = """
    INSERT INTO {s}.media (tenant, bytes, held_until) VALUES (%s, 0, %s) RETURNING number"""
_PIECE: LiteralString = "INSERT INTO {s}.media_pieces VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"
_READ: LiteralString = """
    SELECT data FROM {s}.media_pieces
    WHERE medium = (SELECT number FROM {s}.media WHERE tenant = %s AND sha256 = %s) AND place = %s"""
_HOLD: LiteralString = "UPDATE {s}.media SET held_until = %s WHERE tenant = %s AND sha256 = %s"
_USE: LiteralString = """
    INSERT INTO {s}.media_uses (medium, tenant, conversation, turn, journaled) VALUES (%s, %s, %s, %s, %s)
    ON CONFLICT DO NOTHING"""
_QUOTA_LOCK: LiteralString = "SELECT pg_advisory_xact_lock(hashtextextended('media ' || %s, 0))"
_TOTAL: LiteralString = "SELECT coalesce(sum(bytes), 0) FROM {s}.media WHERE tenant = %s AND sha256 IS NOT NULL"
_EXPIRED: LiteralString = """
    SELECT number FROM {s}.media WHERE held_until <> '' AND held_until < %s ORDER BY number FOR UPDATE"""
_FORGET: LiteralString = """
    DELETE FROM {s}.media m WHERE number = ANY(%s)
    AND NOT EXISTS (SELECT FROM {s}.media_uses WHERE medium = m.number)"""
_AT: LiteralString = "SELECT tenant, conversation, number FROM {s}.media_migration"
_SIZES: LiteralString = """
    SELECT octet_length(turn) + coalesce(octet_length(history), 0) FROM {s}.turns
    WHERE (tenant, conversation, number) > (%s, %s, %s) ORDER BY tenant, conversation, number LIMIT %s"""
_OLD: LiteralString = """
    SELECT tenant, conversation, number, id, history, turn FROM {s}.turns
    WHERE (tenant, conversation, number) > (%s, %s, %s) ORDER BY tenant, conversation, number LIMIT %s"""
_MOVE: LiteralString = """
    UPDATE {s}.turns SET history = %s, turn = %s
    WHERE tenant = %s AND conversation = %s AND number = %s AND id = %s"""
_MIGRATED: LiteralString = """
    UPDATE {s}.media_migration SET (tenant, conversation, number) = ROW (%s, %s, %s)
    WHERE (tenant, conversation, number) < (%s, %s, %s)"""


class PostgresqlMedia:
    """See MediaStore."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.quota_bytes: int | None = None

    async def add(self, data: bytes | AsyncIterable[bytes], *, tenant: str, max_bytes: int | None = None) -> str:
        """Keep bytes; see MediaStore."""
        if not isinstance(data, bytes):
            return await self._receive(data, check_tenant(tenant), max_bytes)
        media_rows.check_size(len(data), max_bytes)
        digest, until = hashlib.sha256(data).hexdigest(), media_rows.held_until()

        async def add(connection: Connection) -> str:
            if not (await connection.execute(_HOLD, (until, check_tenant(tenant), digest))).rowcount:
                await self._check_quota(connection, tenant, len(data))
                await _keep(connection, tenant, digest, data, until)
            return digest

        return await self._connections.repeated(add)

    async def _receive(self, pieces: AsyncIterable[bytes], tenant: str, max_bytes: int | None) -> str:
        """Write pieces as they arrive, in a row without a digest until all are there."""
        hashed, size, place, number = hashlib.sha256(), 0, 0, 0
        until = media_rows.held_until()

        async def write(connection: Connection, piece: bytes) -> int:
            medium = number
            if not medium:
                (medium,) = (await connection.rows(_RECEIVE, (tenant, until)))[0]
            await connection.execute(_PIECE, (medium, place, piece))
            return medium

        async def end(connection: Connection) -> str:
            digest = hashed.hexdigest()
            if not (await connection.execute(_HOLD, (until, tenant, digest))).rowcount:
                await self._check_quota(connection, tenant, size)
                medium, is_there = await _lock(connection, tenant, digest, size, until)
                if not is_there:
                    move = "UPDATE {s}.media_pieces SET medium = %s WHERE medium = %s"
                    await connection.execute(move, (medium, number))
            await discard(connection)
            return digest

        async def discard(connection: Connection) -> None:
            await connection.execute("DELETE FROM {s}.media WHERE number = %s AND sha256 IS NULL", (number,))

        try:
            async for piece in media_rows.in_pieces(pieces):
                size += len(piece)
                media_rows.check_size(size, max_bytes)
                hashed.update(piece)
                number = await self._connections.repeated(functools.partial(write, piece=piece))
                place += 1
            return await self._connections.repeated(end)
        except BaseException:
            # What is left by a process that dies here is deleted when it is a day old.
            await asyncio.shield(self._connections.repeated(discard))
            raise

    async def _check_quota(self, connection: Connection, tenant: str, size: int) -> None:
        if self.quota_bytes is None:
            return
        # Of two at once, the second counts the first.
        await connection.execute(_QUOTA_LOCK, (tenant,))
        ((total,),) = await connection.rows(_TOTAL, (tenant,))
        media_rows.check_quota(size, total, self.quota_bytes)

    async def read(self, sha256: str, *, tenant: str) -> bytes:
        """Return the bytes of a medium; see MediaStore."""
        async with self._connections.transaction() as connection:
            media = await _load(connection, check_tenant(tenant), {sha256})
        if sha256 not in media:
            raise UnknownMediaError(sha256)
        return media[sha256]

    def pieces(self, sha256: str, *, tenant: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a medium; see MediaStore."""

        async def read_piece(place: int) -> bytes | None:
            async with self._connections.transaction() as connection:
                return await _piece(connection, tenant, sha256, place)

        check_tenant(tenant)
        return media_rows.read_pieces(sha256, read_piece)

    async def migrate(self) -> bool:
        """Move the media of some older turns out of their JSON; see MediaStore."""
        async with self._connections.transaction() as connection:
            at = await connection.row(_AT)
            if at is None:
                return False
            sizes = [size for (size,) in await connection.rows(_SIZES, (*at, MIGRATED_TURNS))]
            count = next((n for n in range(1, len(sizes)) if sum(sizes[:n]) > MIGRATED_BYTES), len(sizes))
            rows = await connection.rows(_OLD, (*at, count))
        if not rows:
            return False
        moved = [(row[:4], *media_rows.move_media(row[4:])) for row in rows]

        async def write(connection: Connection) -> None:
            for key, texts, media in moved:
                # No row if it was deleted meanwhile. Two processes may do the same step: the second changes nothing.
                if media and (await connection.execute(_MOVE, (*texts, *key))).rowcount:
                    await use(connection, key[0], media, turn=(key[1], key[3]))
            await connection.execute(_MIGRATED, (*rows[-1][:3], *rows[-1][:3]))

        await self._connections.repeated(write)
        return True


async def _keep(connection: Connection, tenant: str, digest: str, data: bytes, held_until: str | None = None) -> int:
    """Add a medium if the tenant has none of this digest, and lock it; return its number."""
    number, is_there = await _lock(connection, tenant, digest, len(data), held_until)
    if not is_there:
        for place, piece in enumerate(media_rows.split(data)):
            await connection.execute(_PIECE, (number, place, piece))
    return number


async def _lock(connection: Connection, tenant: str, digest: str, size: int, held: str | None) -> tuple[int, bool]:
    """Lock the row of a medium, added if there is none; return its number, and whether it has its bytes."""
    ((number,),) = await connection.rows(_ROW, (tenant, digest, size, held or "", held is not None))
    # A later statement: the first does not see the pieces of a transaction that it has waited for.
    return number, await connection.row(_HAS_PIECES, (number,)) is not None


async def use(
    connection: Connection,
    tenant: str,
    media: Mapping[str, bytes],
    *,
    turn: tuple[str, str] | None = None,
    journaled: str | None = None,
) -> None:
    """Keep media with a stored or a journaled turn, in the caller's transaction, and their bytes if they are new.

    Args:
        turn: Its conversation and its id.
    """
    # In order, as two turns may have the same ones. Locked, so that who deletes the last use of one sees this one.
    for digest in sorted(media):
        # From now on it is deleted with a stored turn.
        number = await _keep(connection, tenant, digest, media[digest], None if turn is None else "")
        await connection.execute(_USE, (number, *((None, None, None) if turn is None else (tenant, *turn)), journaled))


async def forget(connection: Connection) -> None:
    """Delete the media that no turn has got within a day."""
    now = effect_rows.now_text()
    # Locked by one statement, and looked at by a later one: see use.
    numbers = [number for (number,) in await connection.rows(_EXPIRED, (now,))]
    if numbers:
        await connection.execute(_FORGET, (numbers,))
        await connection.execute("UPDATE {s}.media SET held_until = '' WHERE number = ANY(%s)", (numbers,))


async def load_for(connection: Connection, tenant: str, texts: Iterable[str | None]) -> dict[str, bytes]:
    """Return the media that stored JSON texts need; those that messages in memory have are not read again."""
    digests = digests_in(texts)
    media = live_media(digests)
    return {**media, **await _load(connection, tenant, digests - media.keys())}


async def _load(connection: Connection, tenant: str, digests: Iterable[str]) -> dict[str, bytes]:
    media = {}
    for digest in digests:
        joining, place = media_rows.Joining(digest), 0
        while (piece := await _piece(connection, tenant, digest, place)) is not None:
            joining.add(piece)
            place += 1
        if place:
            media[digest] = joining.whole()
    return media


async def _piece(connection: Connection, tenant: str, digest: str, place: int) -> bytes | None:
    values = (tenant, storable(digest), place)
    row = await (await connection.raw.execute(connection.compose(_READ), values, binary=True)).fetchone()
    return None if row is None else bytes(row[0])


def check_tenant(tenant: str) -> str:
    """Return the name of a tenant. Raises StorageError for one that cannot be kept unchanged."""
    if not tenant or tenant != storable(tenant) or len(tenant.encode()) > 800:
        raise StorageError(f"media: {tenant!r:.50} cannot name a tenant: a name is 1 to 800 bytes of storable text")
    return tenant
