"""The laws of kept questions hold for the built-in store, and each store that breaks one is caught."""

import asyncio
import unittest

import attrs
import pytest
from flexchat.store import ClosedQuestionError
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_sqlite.journal import SqliteJournal
from flexchat_sqlite.ledger import SqliteLedger
from flexchat_testing import PendingConformance
from flexchat_testing.laws.law import laws_of

pytestmark = [
    pytest.mark.slow,
    # A law that fails leaves the requests that it has not made yet.
    pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning"),
]


class LastCounts(SqliteJournal):
    """Replaces a reply by a later one."""

    async def answer(self, id, *, tenant, reply, by):
        try:
            return await super().answer(id, tenant=tenant, reply=reply, by=by)
        except ClosedQuestionError:
            update = "UPDATE questions SET state = 'open', reply = NULL WHERE id = ? AND state = 'replied'"
            await self.database.write(lambda d: d.execute(update, (id,)))
            return await super().answer(id, tenant=tenant, reply=reply, by=by)


class Sleeping(SqliteJournal):
    """Leaves a turn suspended when its question has a reply."""

    async def answer(self, id, *, tenant, reply, by):
        row = await self.question(id, tenant=tenant)
        turn, _ = await self.read(row.turn, tenant=tenant)
        replied = await super().answer(id, tenant=tenant, reply=reply, by=by)
        if turn.state == "suspended":
            update = "UPDATE journal_turns SET state = 'suspended' WHERE id = ?"
            await self.database.write(lambda d: d.execute(update, (turn.id,)))
        return replied


class Hasty(SqliteJournal):
    """Suspends a turn although one of its questions has a reply."""

    async def suspend(self, turn, entries):
        if not await super().suspend(turn, entries):
            update = "UPDATE journal_turns SET state = 'suspended', owner = '' WHERE id = ?"
            await self.database.write(lambda d: d.execute(update, (turn.id,)))
        return True


class Generous(SqliteJournal):
    """Lets an approval be used again and again."""

    async def use_approval(self, approval, *, tenant, by, may_repeat=False):
        row = await self.database.write(
            lambda d: d.execute("UPDATE questions SET used_by = '' WHERE id = ?", (approval.question,)).rowcount
        )
        return bool(row) and await super().use_approval(approval, tenant=tenant, by=by, may_repeat=may_repeat)


class Careless(SqliteJournal):
    """Does not look at what was approved."""

    async def use_approval(self, approval, *, tenant, by, may_repeat=False):
        query = "SELECT digest FROM questions WHERE id = ?"
        found = await self.database.read(lambda d: d.execute(query, (approval.question,)).fetchone())
        approval = approval if found is None else attrs.evolve(approval, digest=found[0])
        return await super().use_approval(approval, tenant=tenant, by=by, may_repeat=may_repeat)


class Indiscreet(SqliteJournal):
    """Shows everybody's questions."""

    async def question(self, id, *, tenant):
        return await super().question(id, tenant="t")


class Patient(SqliteJournal):
    """Never marks a question as expired."""

    async def expire_questions(self):
        return 0


class Stubborn(SqliteJournal):
    """Keeps what was revoked."""

    async def revoke(self, id, *, tenant):
        return attrs.evolve(await self.question(id, tenant=tenant), remembered="")


class Deaf(SqliteJournal):
    """Has no commands."""

    async def list_commands(self, owner):
        return []


class Blind(SqliteJournal):
    """Sees no changes."""

    async def watch(self):
        await asyncio.get_running_loop().create_future()
        yield ""


class Impatient(SqliteJournal):
    """Lists what is not due yet."""

    async def list_resumable(self, *, limit):
        listed = await super().list_resumable(limit=limit)
        rows = await self.list(tenant="t", states=["accepted"], limit=limit)
        return [*listed, *(row for row in rows if row.due_at and row.id not in {each.id for each in listed})]


class Unapproved(SqliteLedger):
    """Claims without the approval."""

    async def claim(self, call, *, owner, lease_s, take_over=False, approval=None):
        return await super().claim(call, owner=owner, lease_s=lease_s, take_over=take_over)


class Forgetful(SqliteLedger):
    """Releases what waits for a reply as if it had never run."""

    async def release(self, key, fence, *, note, is_pending=False):
        return await super().release(key, fence, note=note)


JOURNALS = (
    LastCounts,
    Sleeping,
    Hasty,
    Generous,
    Careless,
    Indiscreet,
    Patient,
    Stubborn,
    Deaf,
    Blind,
    Impatient,
)


@pytest.mark.parametrize("kind", [*JOURNALS, Unapproved, Forgetful], ids=lambda kind: kind.__name__)
def test_a_store_that_breaks_a_law_is_caught(kind):
    class Laws(PendingConformance):
        supports = frozenset({"durable", "shared", "ledger"})

        def make_store(self, folder):
            store = SqliteConversations(folder / "conversations.db")
            if kind in JOURNALS:
                store.journal = kind(store.database)
            else:
                store.ledger = lambda: kind(store.database)
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
