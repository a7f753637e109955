"""What is in kept_2026_11_28.sql of both stores, and that today's code reads and resumes it beside an older process.

The dumps were written by the code of 2026-11-28 (SQLite: 17 steps, PostgreSQL: 14), before the hourly sums of turns.
They hold turns that are done, one with a photo, one that waits for an approval, an accepted one, one whose process was
killed in a tool that honours keys, one whose process runs while its model is asked; budgets, their sums, and a
reservation of a dead process. The statements in older_2026_11_28.sql are what that code executed then for another turn
with a call, an accepted turn and a reservation.
"""

from collections import Counter
from functools import partial

import kept_database
from flexchat import Reply, tool
from flexchat.store import Charge
from flexchat_testing import says
from flexchat_testing.laws.turn_sums import count

STATES = {
    "plain": "done",
    "drawn": "done",
    "signed": "suspended",
    "accepted": "accepted",
    "interrupted": "interrupted",
    "running": "running",
}

dated_now = partial(kept_database.dated_now, written="2026-11-28T12:49:10")


class Kept(kept_database.KeptDatabase):
    """A chat over a restored store, with a tool that needs an approval, and questions that wait.

    The class has its name in the dumps: what is approved is of a function, by its qualified name.
    """

    def __init__(self, store, *replies):
        super().__init__(store, *replies)
        self.chat.questions_expire_s = 7 * 86400.0

    def _tools(self):
        @tool(approve=True)
        async def sign(paper: str) -> str:
            """Sign a paper."""
            self.ran.append("sign")
            return f"signed {paper}"

        return (*super()._tools(), sign)


async def states(chat):
    return {turn.conversation: turn.state for turn in await chat.turns(limit=50)}


async def end_all(chat):
    """Run every turn that may go on, one after the other; return their texts."""
    texts = []
    while handles := await chat.resume_interrupted(most=1):
        texts.append((await handles[0].result()).content)
    return texts


async def check_that_everything_is_read(kept):
    chat = Kept(kept.store).chat

    assert await states(chat) == STATES
    greeted, paid = await kept.store.turns("plain", tenant="default")
    (drawn,) = await kept.store.turns("drawn", tenant="default")
    assert [greeted.messages[-1].content, paid.messages[-1].content] == ["Hello.", "Paid."]
    photo = drawn.messages[0].media[0]
    assert (photo.name, photo.data) == ("photo.png", kept_database.PIXEL)
    assert [(effect.tool, effect.state) for effect in await chat.effects()] == [
        ("order", "unknown"),
        ("pay", "done"),
        ("draw", "done"),
    ]
    assert (await chat.respond("Pay 5.", conversation="plain", idempotency_key="request-1")).is_repeat


async def check_that_unfinished_turns_go_on(kept):
    """Each once; the one whose process lives when that has ended."""
    opened = Kept(kept.store, says("Ordered."), says("Later done."), says("Signed."), says("Thought."))
    (pending,) = await opened.chat.pending()

    assert await end_all(opened.chat) == ["Ordered.", "Later done."]
    assert opened.ran == ["order"]  # again, under its key
    handle = await opened.chat.answer(pending.id, Reply(action="accept"), by="ann")
    turn = await handle.result()
    assert turn.content == "Signed."
    assert opened.ran == ["order", "sign"]
    assert {**STATES, **dict.fromkeys(("signed", "accepted", "interrupted"), "done")} == await states(opened.chat)
    kept.end_owners()
    assert await end_all(opened.chat) == ["Thought."]
    assert {*(await states(opened.chat)).values()} == {"done"}
    assert [effect.state for effect in await opened.chat.effects()] == ["done"] * 4


async def check_that_budgets_go_on(kept):
    """With what was spent; what a dead process reserved counts as spent."""
    budget = partial(Charge, key="ever", ceiling=1000)
    counters = kept.store.counters

    refusal = await counters.reserve("1", [budget(amount=501)], owner="new", lease_s=60)
    assert (refusal.key, refusal.left) == ("ever", 500)
    assert await counters.reserve("2", [budget(amount=500)], owner="new", worst={"trillionths": 5}) is None
    assert await counters.settle("2", {"ever": 500}, sums={"trillionths": 5})

    total = Counter()
    for row in await counters.sums():
        total[row.labels.get("tool", "")] += row.values["trillionths"]
    assert total == {"pay": 300 + 200 + 100, "": 5}


async def check_that_an_older_process_writes_on(kept):
    """Into the tables of today: its turns are read, resumed and counted, and its keys bind."""
    opened = Kept(kept.store, *[says(f"Answer {number}.") for number in range(9)])
    assert await kept.store.journal.sums.add(count) == 3

    kept.write_as_older()

    (ordered,) = await kept.store.turns("older", tenant="default")
    assert ordered.messages[-1].content == "One chair ordered."
    newest, *_ = await opened.chat.effects()
    assert (newest.tool, newest.state, newest.honours_key) == ("order", "done", True)
    assert (await opened.chat.respond("Order a chair.", conversation="older", idempotency_key="older-1")).is_repeat
    assert await states(opened.chat) == {**STATES, "older": "done", "older accepted": "accepted"}
    assert await kept.store.journal.sums.add(count) == 1
    sums = await kept.store.counters.sums()
    assert [row.values for row in sums if row.labels["tool"] == "order"] == [{"calls": 1, "trillionths": 70}]
    assert len(await end_all(opened.chat)) == 3
    assert (await states(opened.chat))["older accepted"] == "done"
    assert await kept.store.journal.sums.add(count) == 3
    total = sum(row.values["turns"] for row in await kept.store.journal.sums.read())
    assert total == 7


CHECKS = (
    check_that_everything_is_read,
    check_that_unfinished_turns_go_on,
    check_that_budgets_go_on,
    check_that_an_older_process_writes_on,
)
