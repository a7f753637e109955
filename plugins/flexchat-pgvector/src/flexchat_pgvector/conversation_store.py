"""The conversation store "postgresql"."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from flexchat.plugin import (
    ConversationInfo,
    ConversationTurn,
    StorageError,
    UnknownConversationError,
    storable,
    turn_from_json,
    turn_to_json,
)

from .config import PostgresqlConfig
from .connections import Connections
from .tables import CONVERSATIONS

LONGEST_KEY = 800
"""Bytes of a tenant's name or an id: an entry of an index holds three of them, and some 2,700 bytes."""

_INFO = "SELECT id, title, turns, started_at, used_at, topic FROM {s}.conversations c WHERE tenant = %s"


class PostgresqlConversations:
    """Conversations in PostgreSQL; see ConversationStore. Opens the database at the first use."""

    def __init__(self, config: PostgresqlConfig) -> None:
        self._connections = Connections(
            config, name="conversations", part="conversations", steps=CONVERSATIONS, error=StorageError
        )

    async def append(self, conversation: str, turn: ConversationTurn, *, tenant: str) -> None:
        """Add a turn at the end; a conversation that is not there begins with it.

        Turns from several processes come one after the other: each in the order its append got hold of the
        conversation.
        """
        who, which, id = _key("tenant", tenant), _key("conversation", conversation), _key("turn", turn.id)
        at = storable(turn.at) or _now()
        try:
            written = turn_to_json(turn)
        except ValueError as error:
            raise StorageError(f"conversations: {error}") from error
        async with self._connections.transaction(write=True) as connection:
            begun = """
                INSERT INTO {s}.conversations (tenant, id, title, topic, turns, started_at, used_at, used)
                VALUES (%s, %s, %s, '', 0, %s, %s, 0) ON CONFLICT DO NOTHING"""
            await connection.execute(self._connections.sql(begun), (who, which, storable(turn.title), at, at))
            locked = "SELECT turns FROM {s}.conversations WHERE tenant = %s AND id = %s FOR UPDATE"
            row = await (await connection.execute(self._connections.sql(locked), (who, which))).fetchone()
            if row is None:
                raise StorageError(f"conversations: '{which}' was deleted in this instant: append the turn again")
            added = """
                INSERT INTO {s}.turns (tenant, conversation, number, id, said, turn) VALUES (%s, %s, %s, %s, %s, %s)
                ON CONFLICT (tenant, conversation, id) DO NOTHING"""
            given = (who, which, row[0] + 1, id, turn.text, written)
            if (await connection.execute(self._connections.sql(added), given)).rowcount:
                used = """
                    UPDATE {s}.conversations SET turns = turns + 1, used_at = %s, topic = %s,
                        used = nextval(%s::regclass) WHERE tenant = %s AND id = %s"""
                sequence = self._connections.sql("{s}.conversation_uses").as_string(connection)
                await connection.execute(self._connections.sql(used), (at, storable(turn.topic), sequence, who, which))

    async def turns(self, conversation: str, *, tenant: str, last: int | None = None) -> Sequence[ConversationTurn]:
        """Return its turns, oldest first; the last so many of them, if that is given."""
        who, which = storable(tenant), storable(conversation)
        async with self._connections.transaction() as connection:
            asked = self._connections.sql(
                """
                SELECT turn FROM {s}.turns WHERE tenant = %s AND conversation = %s
                ORDER BY number DESC LIMIT %s"""
            )
            limit = None if last is None else max(last, 0)
            rows = await (await connection.execute(asked, (who, which, limit))).fetchall()
            if not rows:
                there = self._connections.sql("SELECT 1 FROM {s}.conversations WHERE tenant = %s AND id = %s")
                if await (await connection.execute(there, (who, which))).fetchone() is None:
                    raise UnknownConversationError(conversation)
        try:
            return [turn_from_json(written) for (written,) in reversed(rows)]
        except ValueError as error:
            raise StorageError(f"conversations: a turn of '{conversation}' cannot be read: {error}") from error

    async def get(self, conversation: str, *, tenant: str) -> ConversationInfo:
        """Return what is known of a conversation."""
        async with self._connections.transaction() as connection:
            asked = self._connections.sql(_INFO + " AND id = %s")
            row = await (await connection.execute(asked, (storable(tenant), storable(conversation)))).fetchone()
        if row is None:
            raise UnknownConversationError(conversation)
        return _info(row)

    async def list(
        self, *, tenant: str, search: str | None = None, limit: int = 50, before: str | None = None
    ) -> Sequence[ConversationInfo]:
        """Return conversations, the last used one first.

        Args:
            search: Words, or pieces of them, that must all occur in what was said in one turn, or in the title;
                small and capital letters are the same.
            before: Only those used before this conversation.
        """
        who = storable(tenant)
        words = ["%" + _escaped(word) + "%" for word in storable(search or "").split()]
        statement = _INFO
        given: list[object] = [who]
        if words:
            statement += """ AND (title ILIKE ALL(%s) OR EXISTS (
                SELECT FROM {s}.turns t WHERE t.tenant = c.tenant AND t.conversation = c.id AND t.said ILIKE ALL(%s)
            ))"""
            given += [words, words]
        if before is not None:
            statement += " AND used < (SELECT used FROM {s}.conversations WHERE tenant = %s AND id = %s)"
            given += [who, storable(before)]
        statement += " ORDER BY used DESC LIMIT %s"
        given.append(max(limit, 0))
        async with self._connections.transaction() as connection:
            rows = await (await connection.execute(self._connections.sql(statement), given)).fetchall()
        return [_info(row) for row in rows]

    async def rename(self, conversation: str, title: str, *, tenant: str) -> None:
        """Give it another title."""
        renamed = "UPDATE {s}.conversations SET title = %s WHERE tenant = %s AND id = %s"
        async with self._connections.transaction(write=True) as connection:
            given = (storable(title), storable(tenant), storable(conversation))
            if not (await connection.execute(self._connections.sql(renamed), given)).rowcount:
                raise UnknownConversationError(conversation)

    async def delete(self, conversation: str, *, tenant: str) -> None:
        """Delete it with all its turns."""
        deleted = "DELETE FROM {s}.conversations WHERE tenant = %s AND id = %s"
        async with self._connections.transaction(write=True) as connection:
            given = (storable(tenant), storable(conversation))
            if not (await connection.execute(self._connections.sql(deleted), given)).rowcount:
                raise UnknownConversationError(conversation)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._connections.aclose()


def _key(what: str, value: str) -> str:
    stored = storable(value)
    if not stored or len(stored.encode()) > LONGEST_KEY:
        raise StorageError(f"conversations: the name of a {what} has 1 to {LONGEST_KEY} bytes, got '{stored[:50]}'")
    return stored


def _escaped(word: str) -> str:
    return word.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


def _info(row: tuple[object, ...]) -> ConversationInfo:
    id, title, turns, started_at, used_at, topic = row
    return ConversationInfo(id=id, title=title, turns=turns, started_at=started_at, used_at=used_at, topic=topic)  # type: ignore[arg-type]  # the columns' types
