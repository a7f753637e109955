"""The laws of a journal hold for the built-in store, and each store that breaks one is caught."""

import unittest

import attrs
import pytest
from flexchat.store import TurnNotWaitingError
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_sqlite.journal import SqliteJournal
from flexchat_testing import JournalConformance
from flexchat_testing.laws.law import laws_of

pytestmark = pytest.mark.slow


class Unfenced(SqliteJournal):
    """Lets a former owner write."""

    async def write(self, turn, entries, *, lease_s):
        if entries[0].number > 1:
            turn, _ = await self.read(turn.id, tenant=turn.tenant)
        await super().write(turn, entries, lease_s=lease_s)


class Piecemeal(SqliteJournal):
    """Writes steps one by one."""

    async def write(self, turn, entries, *, lease_s):
        for entry in entries:
            await super().write(turn, [entry], lease_s=lease_s)


class Greedy(SqliteJournal):
    """Takes up what is still running."""

    async def acquire(self, id, *, tenant, owner, lease_s):
        try:
            return await super().acquire(id, tenant=tenant, owner=owner, lease_s=lease_s)
        except TurnNotWaitingError as error:
            if error.state != "running":
                raise
            await super().release((await self.read(id, tenant=tenant))[0])
            return await super().acquire(id, tenant=tenant, owner=owner, lease_s=lease_s)


class Unfencing(SqliteJournal):
    """Gives the next owner the same fence as the one before."""

    async def acquire(self, id, *, tenant, owner, lease_s):
        taken = await super().acquire(id, tenant=tenant, owner=owner, lease_s=lease_s)
        await self.database.write(
            lambda d: d.execute("UPDATE journal_turns SET fence = fence - 1 WHERE id = ?", (taken.id,))
        )
        return attrs.evolve(taken, fence=taken.fence - 1)


class Clinging(SqliteJournal):
    """Does not give up a turn."""

    async def release(self, turn, *, error=""):
        pass


class Wordless(SqliteJournal):
    """Does not say why a turn was given up."""

    async def release(self, turn, *, error=""):
        await super().release(turn)


class Backwards(SqliteJournal):
    """Returns the last step first."""

    async def read(self, id, *, tenant):
        turn, entries = await super().read(id, tenant=tenant)
        return turn, entries[::-1]


class Hasty(SqliteJournal):
    """Tells what waits, the newest first."""

    async def list_interrupted(self, conversation, *, tenant):
        return [*await super().list_interrupted(conversation, tenant=tenant)][::-1]


class Silent(SqliteJournal):
    """Says that nothing waits."""

    async def list_interrupted(self, conversation, *, tenant):
        return []


class Deaf(SqliteJournal):
    """Does not hear that an owner lives."""

    def renew(self, owner, lease_s):
        pass


class Indiscreet(SqliteJournal):
    """Shows everybody's turns."""

    async def read(self, id, *, tenant):
        return await super().read(id, tenant="t")


class Thrifty(SqliteJournal):
    """Forgets what has not ended."""

    async def forget(self, *, older_than_s, events_older_than_s):
        count = await super().forget(older_than_s=older_than_s, events_older_than_s=events_older_than_s)
        if older_than_s == 0:
            await self.database.write(lambda d: d.execute("DELETE FROM journal_turns"))
        return count


class Fickle(SqliteJournal):
    """Binds a key to whoever came last."""

    async def bind(self, key, *, instead_of=None, **rest):
        bound = await super().bind(key, instead_of=instead_of, **rest)
        return await super().bind(key, instead_of=bound, **rest)


class Careless(SqliteJournal):
    """Replaces the turn of a key even if it has begun since."""

    async def bind(self, key, *, instead_of=None, **rest):
        bound = await super().bind(key, instead_of=instead_of, **rest)
        if instead_of is not None and instead_of.turn == bound.turn:
            bound = await super().bind(key, instead_of=bound, **rest)
        return bound


class Unmarked(SqliteJournal):
    """Does not look at a turn's key when it begins."""

    async def write(self, turn, entries, *, lease_s):
        await super().write(attrs.evolve(turn, key=""), entries, lease_s=lease_s)


class Repeating(SqliteJournal):
    """Returns all events, whatever the reader has seen."""

    async def events(self, id, *, tenant, after=0):
        return await super().events(id, tenant=tenant)


class Stuck(SqliteJournal):
    """Leaves what cannot go on among what can."""

    async def release(self, turn, *, error=""):
        await super().release(turn, error=error)
        if error == "the rule is gone":
            await self.database.write(
                lambda d: d.execute("UPDATE journal_turns SET error = '' WHERE id = ?", (turn.id,))
            )


class Torn(SqliteConversations):
    """Ends a turn after it has changed the conversation."""

    async def append(self, conversation, turn, *, tenant, end=None):
        await super().append(conversation, turn, tenant=tenant)
        await super().append(conversation, turn, tenant=tenant, end=end)


class Loyal(SqliteConversations):
    """Keeps the turns of a deleted conversation."""

    async def delete(self, conversation, *, tenant):
        def delete(database):
            database.execute("DELETE FROM conversations WHERE tenant = ? AND id = ?", (tenant, conversation))

        await self.database.write(delete)


JOURNALS = (
    Unfenced,
    Piecemeal,
    Greedy,
    Unfencing,
    Clinging,
    Wordless,
    Backwards,
    Hasty,
    Silent,
    Deaf,
    Indiscreet,
    Thrifty,
    Fickle,
    Careless,
    Unmarked,
    Repeating,
    Stuck,
)


@pytest.mark.parametrize("kind", [*JOURNALS, Torn, Loyal], ids=lambda kind: kind.__name__)
def test_a_journal_that_breaks_a_law_is_caught(kind):
    class Laws(JournalConformance):
        supports = frozenset({"durable", "shared"})

        def make_store(self, folder):
            if issubclass(kind, SqliteConversations):
                return kind(folder / "conversations.db")
            store = SqliteConversations(folder / "conversations.db")
            store.journal = kind(store.database)
            return store

    def breaks(law):
        try:
            law(Laws())
        except unittest.SkipTest:
            return False
        except Exception:
            return True
        return False

    assert any(breaks(law) for _, law in laws_of(Laws))
