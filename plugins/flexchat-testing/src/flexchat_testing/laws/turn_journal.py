"""The laws of a conversation store that also keeps the steps of turns."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

import attrs
from flexchat import UserMessage
from flexchat.store import (
    JOURNAL_FORMAT,
    ConversationTurn,
    JournaledEvent,
    JournaledTurn,
    JournalEntry,
    JournalingStore,
    LostTurnError,
    StorageError,
    TurnEnd,
    TurnKey,
    TurnNotWaitingError,
    UnknownConversationError,
    UnknownTurnError,
)

from .kept_samples import DEAD, LIVES, TEXTS, unwritable_turn
from .law import Conformance, expect, law, opened_in, refused, require, show

_ENDS: tuple[Any, ...] = ("done", "failed", "cancelled")


class JournalConformance(Conformance):
    """The laws of every journal: it stores the steps of a turn in order, for the turn's current owner only.

    Define make_store and ``supports``.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "durable": "make_store with a closed store's folder opens the same turns again",
        "shared": "two stores with one folder may be open at once, as in two processes, and see each other's turns",
    }

    def make_store(self, folder: Path) -> JournalingStore:
        """Return a store with a journal; an empty one for every new folder. Same folder, same turns."""
        raise NotImplementedError(f"{type(self).__name__} must write make_store")

    def opened(self, folder: Path | None = None) -> AbstractAsyncContextManager[JournalingStore]:
        """Open a store for the length of a law: an empty one, or that of a folder."""
        return opened_in(self.make_store, folder)

    @law()
    async def test_a_turn_comes_back_whole(self, store: JournalingStore) -> None:
        """It is read with its request, and with its steps unchanged and in order."""
        expected = turn("a1", message="Pay, please")
        steps = entries(1, 2, 3)
        await store.journal.write(expected, steps[:1], lease_s=LIVES)
        await store.journal.write(expected, steps[1:], lease_s=None)
        record, came = await store.journal.read("a1", tenant="t")
        require([*came] == [*steps], f"the steps came back as {show(came)}")
        for listed in (record, *await store.journal.list(tenant="t")):
            for field in ("id", "tenant", "conversation", "state", "message", "owner", "fence", "error"):
                was, now = getattr(expected, field), getattr(listed, field)
                require(was == now, f"{field} was {show(was)} and came back as {show(now)}")
            require("T" in listed.began_at, f"began_at is an ISO 8601 time, not {listed.began_at!r}")
            require(listed.ended_at == "", f"ended_at is empty while it runs, not {listed.ended_at!r}")

    @law()
    async def test_steps_are_written_all_or_none(self, store: JournalingStore) -> None:
        """A step that is no JSON data is a StorageError, and those beside it are not kept."""
        await _begun(store, "a1")
        bad = attrs.evolve(entries(3)[0], data=_circle())
        for steps in ([entries(2)[0], bad], [attrs.evolve(bad, number=2)]):
            await refused(store.journal.write(turn("a1"), steps, lease_s=None), StorageError, "no JSON data")
        require(await _steps(store, "a1") == [1], f"after a write that failed there is {await _steps(store, 'a1')}")
        await refused(store.journal.write(turn("b1"), [attrs.evolve(bad, number=1)], lease_s=LIVES), StorageError, "")
        require(await _listed(store) == ["a1"], "a write that failed began a turn")
        await store.journal.write(turn("a1"), entries(2, 3), lease_s=None)
        require(await _steps(store, "a1") == [1, 2, 3], "the turn goes on after a write that failed")

    @law()
    async def test_steps_that_are_written_again_are_left_out(self, store: JournalingStore) -> None:
        """A write that was cancelled may be whole: its steps come again with the next ones, or with the turn's end."""
        await store.journal.write(turn("a1"), entries(1, 2), lease_s=LIVES)
        await store.journal.write(turn("a1"), entries(1, 2, 3), lease_s=None)
        require(await _steps(store, "a1") == [1, 2, 3], f"steps written again gave {await _steps(store, 'a1')}")
        other = attrs.evolve(turn("a1"), owner="p")
        await refused(store.journal.write(other, entries(1), lease_s=LIVES), LostTurnError, "a turn begun by another")
        await store.append("c", turn_of("a1"), tenant="t", end=ending(turn("a1"), "done", 1, 2, 3, 4))
        require(await _steps(store, "a1") == [1, 2, 3, 4], f"written with the end: {await _steps(store, 'a1')}")

    @law()
    async def test_a_turn_is_interrupted_when_its_owner_is_dead(self, store: JournalingStore) -> None:
        """Wherever it is shown; and it runs again when its owner is heard of, also while the event loop is blocked."""
        for id in ("a1", "a2"):
            await _begun(store, id, DEAD)
        await _begun(store, "b1", owner="other")
        for id, state in (("a1", "interrupted"), ("a2", "interrupted"), ("b1", "running")):
            await _check_state(store, id, state)
        renewing = threading.Thread(target=store.journal.renew, args=("o", LIVES), daemon=True)
        renewing.start()
        renewing.join(10)
        require(not renewing.is_alive(), "renew must not wait for the event loop: it is called in a thread")
        for id in ("a1", "a2"):
            await _check_state(store, id, "running")
        await store.journal.write(turn("a1"), entries(2), lease_s=DEAD)
        await _check_state(store, "a1", "interrupted")
        await store.journal.write(turn("a1"), entries(3), lease_s=LIVES)
        await store.journal.write(turn("a1"), entries(4), lease_s=None)
        await _check_state(store, "a1", "running")

    @law()
    async def test_a_turn_of_a_newer_version_is_left_to_it(self, store: JournalingStore) -> None:
        """Its steps may mean what this version does not know: it is listed, and nothing takes it up."""
        newer = attrs.evolve(turn("a1"), format=JOURNAL_FORMAT + 1)
        accepted = attrs.evolve(newer, id="b1", conversation="d", state="accepted", owner="", fence=0)
        await store.journal.write(newer, entries(1), lease_s=DEAD)
        await store.journal.write(accepted, entries(1), lease_s=None)
        require(await store.journal.list_resumable(limit=9) == [], "a turn of a newer version is no resumable one")
        require([*await store.journal.list_interrupted("c", tenant="t")] == [], "nor one that a message may end")
        for id in ("a1", "b1"):
            taking = store.journal.acquire(id, tenant="t", owner="p", lease_s=LIVES)
            await refused(taking, StorageError, "a turn of a newer version")
        require(sorted(await _listed(store)) == ["a1", "b1"], "a list has the turns of newer versions")
        fences = [each.fence for each in await store.journal.list(tenant="t")]
        require(fences == [0, 1], f"a refused acquisition must not count as a runner: {fences}")

    @law()
    async def test_of_many_that_take_a_turn_one_has_it(self, store: JournalingStore) -> None:
        """The winner gets the next fence; for the others, the turn is running."""
        await _begun(store, "a1", DEAD)
        takes = [store.journal.acquire("a1", tenant="t", owner=f"o{n}", lease_s=LIVES) for n in range(10)]
        outcomes = await asyncio.gather(*takes, return_exceptions=True)
        yours = [one for one in outcomes if isinstance(one, JournaledTurn)]
        others = [one for one in outcomes if isinstance(one, TurnNotWaitingError) and one.state == "running"]
        require((len(yours), len(others)) == (1, 9), f"ten took a turn, and it came to {show(outcomes)}")
        came = (yours[0].id, yours[0].fence, yours[0].state, yours[0].message)
        require(came == ("a1", 2, "running", "hello"), f"a turn that was taken up is {came}")
        record, _ = await store.journal.read("a1", tenant="t")
        require(record == yours[0], f"read gives {show(record)}, and take gave {show(yours[0])}")

    @law()
    async def test_only_an_interrupted_turn_is_taken(self, store: JournalingStore) -> None:
        """A running or ended turn is refused with its state, and does not change."""
        await _begun(store, "a1")
        for id, state in zip(("b1", "c1", "d1"), _ENDS, strict=True):
            await _begun(store, id, conversation=id)
            await store.append(id, turn_of(id), tenant="t", end=ending(turn(id, conversation=id), state, 2))
        for id, state in zip(("a1", "b1", "c1", "d1"), ("running", *_ENDS), strict=True):
            take = store.journal.acquire(id, tenant="t", owner="p", lease_s=LIVES)
            await refused(take, TurnNotWaitingError, f"take of a turn that is {state}")
            await _check_state(store, id, state)

    @law()
    async def test_whoever_had_a_turn_before_is_refused(self, store: JournalingStore) -> None:
        """It can neither write steps, nor give the turn up, nor end it; a conversation gets nothing of it."""
        first = await _begun(store, "a1", DEAD)
        second = await store.journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)
        for late in (first, attrs.evolve(first, fence=7), attrs.evolve(second, id="a9")):
            await refused(store.journal.write(late, entries(2), lease_s=None), LostTurnError, "a late write")
            end = store.append("c", turn_of("a1"), tenant="t", end=ending(late, "done", 2))
            await refused(end, LostTurnError, "a late end")
            await store.journal.release(late, error="late")
        await _check_state(store, "a1", "running")
        require(await _steps(store, "a1") == [1], "what a former owner wrote was kept")
        await refused(store.turns("c", tenant="t"), UnknownConversationError, "turns after a late end")
        await store.journal.write(second, entries(2), lease_s=None)
        require(await _steps(store, "a1") == [1, 2], "the new owner writes on where the former one stopped")

    @law()
    async def test_a_turn_that_is_given_up_waits(self, store: JournalingStore) -> None:
        """At once, although its owner lives, and with the reason; the next owner has the next fence."""
        begun = await _begun(store, "a1")
        await store.journal.release(begun, error="the rule is gone")
        await _check_state(store, "a1", "interrupted")
        record, _ = await store.journal.read("a1", tenant="t")
        require(record.error == "the rule is gone", f"the reason came back as {record.error!r}")
        resumed = await store.journal.acquire("a1", tenant="t", owner="o", lease_s=LIVES)
        require((resumed.fence, resumed.owner) == (2, "o"), f"taken up again it is {show(resumed)}")
        await store.journal.release(attrs.evolve(resumed, suspensions=1))
        record, _ = await store.journal.read("a1", tenant="t")
        expect((record.fence, record.suspensions, record.error), (2, 1, ""), "fence, suspensions and reason")
        resumed = await store.journal.acquire("a1", tenant="t", owner="o", lease_s=LIVES)
        await store.append("c", turn_of("a1"), tenant="t", end=ending(resumed, "done", 2))
        await store.journal.release(resumed, error="too late")
        await _check_state(store, "a1", "done")

    @law()
    async def test_a_turn_ends_with_its_conversation(self, store: JournalingStore) -> None:
        """Last steps, state, reason and the conversation's turn are there together; then nothing more is written."""
        for n, state in enumerate(_ENDS):
            id = f"a{n}"
            begun = await _begun(store, id)
            await store.append("c", turn_of(id), tenant="t", end=ending(begun, state, 2, 3, error=f"why {n}"))
            record, steps = await store.journal.read(id, tenant="t")
            came = (record.state, record.error, [step.number for step in steps])
            require(came == (state, f"why {n}", [1, 2, 3]), f"a turn that ended came back as {came}")
            require("T" in record.ended_at, f"ended_at is an ISO 8601 time, not {record.ended_at!r}")
            turns = await _turn_ids(store)
            require(turns[-1] == id, f"the conversation ends with the turn, got {turns}")
            late = store.journal.write(begun, entries(4), lease_s=None)
            await refused(late, LostTurnError, f"a step of a turn that is {state}")
            again = store.append("c", turn_of(f"b{n}"), tenant="t", end=ending(begun, state, 4))
            await refused(again, LostTurnError, f"a second end of a turn that is {state}")
        require(len(await store.turns("c", tenant="t")) == 3, "a second end adds nothing to the conversation")

    @law()
    async def test_a_turn_may_begin_with_its_end(self, store: JournalingStore) -> None:
        """A turn none of whose steps had to be written before; and one that is not in the journal ends without it."""
        await store.append("c", turn_of("a1"), tenant="t", end=ending(turn("a1"), "done", 1, 2, lease_s=LIVES))
        await _check_state(store, "a1", "done")
        require(await _steps(store, "a1") == [1, 2], "all its steps are written")
        await store.append("c", turn_of("b1"), tenant="t")
        require(await _turn_ids(store) == ["a1", "b1"], "both turns are kept")
        require(await _listed(store) == ["a1"], "one is in the journal")

    @law()
    async def test_an_end_that_cannot_be_written_changes_nothing(self, store: JournalingStore) -> None:
        """Neither the journal nor the conversation: what cannot be kept is refused with a StorageError."""
        begun = await _begun(store, "a1")
        bad_step = attrs.evolve(ending(begun, "done", 2), entries=(attrs.evolve(entries(2)[0], data=_circle()),))
        for added, end in ((unwritable_turn(), ending(begun, "done", 2)), (turn_of("a1"), bad_step)):
            await refused(store.append("c", added, tenant="t", end=end), StorageError, "an end that is no JSON data")
            await _check_state(store, "a1", "running")
            require(await _steps(store, "a1") == [1], "steps of an end that was refused were kept")
            await refused(store.turns("c", tenant="t"), UnknownConversationError, "turns after that")
        await store.append("c", turn_of("a1"), tenant="t", end=ending(begun, "done", 2))
        await _check_state(store, "a1", "done")

    @law()
    async def test_what_waits_is_told(self, store: JournalingStore) -> None:
        """The interrupted turns of one conversation, oldest first; none that runs or has ended."""
        for id in ("d1", "b1", "c1"):
            await _begun(store, id, DEAD)
        for id, conversation, tenant in (("e1", "other", "t"), ("f1", "c", "u")):
            await _begun(store, id, DEAD, conversation=conversation, tenant=tenant)
        await _begun(store, "a1", owner="lives")
        await _done(store, "a2", owner="lives")
        waiting = [*await store.journal.list_interrupted("c", tenant="t")]
        require(waiting == ["d1", "b1", "c1"], f"waiting are d1, b1 and c1, oldest first; got {waiting}")
        require([*await store.journal.list_interrupted("new", tenant="t")] == [], "nothing waits in a new conversation")

    @law()
    async def test_a_list_is_the_newest_first(self, store: JournalingStore) -> None:
        """By state, by conversation, page by page."""
        for n in range(9):
            owner, lease_s = (f"o{n}", DEAD) if n % 3 == 1 else ("lives", LIVES)
            begun = await _begun(store, f"a{n}", lease_s, owner=owner, conversation="c" if n % 2 else "d")
            if n % 3 == 2:
                end = ending(begun, "done", 2)
                await store.append(begun.conversation, turn_of(begun.id), tenant="t", end=end)
        newest = [f"a{n}" for n in reversed(range(9))]

        async def listed(**rest: Any) -> list[str]:
            return [one.id for one in await store.journal.list(tenant="t", **rest)]

        for came, expected in (
            (await listed(), newest),
            (await listed(limit=2), newest[:2]),
            (await listed(limit=2, before="a7"), newest[2:4]),
            (await listed(before="a0"), []),
            (await listed(states=["interrupted"]), newest[1::3]),
            (await listed(states=["done", "running"], limit=3), ["a8", "a6", "a5"]),
            (await listed(states=[]), []),
            (await listed(conversation="c"), newest[1::2]),
            (await listed(limit=0), []),
        ):
            require(came == expected, f"listed {came}, wanted {expected}")
        await refused(listed(before="ff"), UnknownTurnError, "list before an unknown turn")

    @law()
    async def test_a_turn_is_found_by_the_beginning_of_its_id(self, store: JournalingStore) -> None:
        """One that fits several, or none, is refused, whatever it is; an id that is whole is found."""
        for id in ("abc1", "abc2", "abc", "d0"):
            await _begun(store, id, DEAD)
        for beginning, id in (("abc1", "abc1"), ("abc", "abc"), ("d", "d0")):
            record, _ = await store.journal.read(beginning, tenant="t")
            require(record.id == id, f"read of '{beginning}' found {record.id}")
        require((await store.journal.acquire("d", tenant="t", owner="p", lease_s=LIVES)).id == "d0", "take of 'd'")
        for wrong in ("ab", "", "ff", "abc10", "%", "_", "A", "\0", "\ud83d", "zzz", "'; --"):
            await refused(store.journal.read(wrong, tenant="t"), UnknownTurnError, f"read of {wrong!r}")
            take = store.journal.acquire(wrong, tenant="t", owner="p", lease_s=LIVES)
            await refused(take, UnknownTurnError, f"take of {wrong!r}")

    @law()
    async def test_tenants_never_meet(self, store: JournalingStore) -> None:
        """None reads, takes, lists or waits for another's turn, or ends it by ending a conversation of that name."""
        await _begun(store, "a1", DEAD)
        journal = store.journal
        await refused(journal.read("a1", tenant="u"), UnknownTurnError, "read of another tenant's turn")
        take = journal.acquire("a1", tenant="u", owner="p", lease_s=LIVES)
        await refused(take, UnknownTurnError, "take of another tenant's turn")
        await refused(journal.list(tenant="u", before="a1"), UnknownTurnError, "list before another tenant's turn")
        require([*await store.journal.list(tenant="u")] == [], "list shows another tenant's turns")
        require([*await store.journal.list_interrupted("c", tenant="u")] == [], "another tenant's turn waits here")
        await store.append("c", turn_of("b1"), tenant="u")
        await store.delete("c", tenant="u")
        await _check_state(store, "a1", "interrupted")

    @law()
    async def test_any_text_can_be_kept(self, store: JournalingStore) -> None:
        """Steps are read unchanged; characters that a database rejects may be missing from messages and reasons."""
        for n, text in enumerate(TEXTS):
            begun = turn(f"a{n}", message=text)
            step = attrs.evolve(entries(1)[0], data={"said": text, text: [None, 1.5, True]})
            await store.journal.write(begun, [step], lease_s=LIVES)
            record, (came,) = await store.journal.read(f"a{n}", tenant="t")
            require(came == step, f"a step with {show(text, 60)} came back as {show(came, 100)}")
            await store.journal.release(begun, error=text)
            released, _ = await store.journal.read(f"a{n}", tenant="t")
            if text.isprintable() or len(text) > 1000:
                require((record.message, released.error) == (text, text), f"{show(text, 60)} came back otherwise")
            resumed = await store.journal.acquire(f"a{n}", tenant="t", owner="o", lease_s=LIVES)
            await store.append("c", turn_of(f"a{n}"), tenant="t", end=ending(resumed, "failed", 2, error=text))
            await _check_state(store, f"a{n}", "failed")

    @law()
    async def test_what_ended_long_ago_is_forgotten(self, store: JournalingStore) -> None:
        """With its steps, and counted; nothing younger, and nothing that has not ended."""
        await _begun(store, "a1")
        await _begun(store, "b1", DEAD, owner="dead")
        for id in ("d1", "d2"):
            await _done(store, id)
        forgotten = await store.journal.forget(older_than_s=3600, events_older_than_s=3600)
        require(forgotten == 0, "nothing younger is forgotten")
        await asyncio.sleep(0.005)  # rows hold milliseconds
        expect(await store.journal.forget(older_than_s=0, events_older_than_s=0), 2, "the count of ended turns")
        expect(await _listed(store), ["b1", "a1"], "what has not ended stays")
        require(len(await store.turns("c", tenant="t")) == 2, "the conversation keeps its turns")
        await refused(store.journal.read("d1", tenant="t"), UnknownTurnError, "read of a forgotten turn")

    @law()
    async def test_a_deleted_conversation_takes_its_turns_along(self, store: JournalingStore) -> None:
        """With their steps, but for one that is running; those of others stay."""
        await _done(store, "a1")
        await _begun(store, "a2", DEAD, owner="dead")
        await _begun(store, "a3")
        await _begun(store, "b1", conversation="d")
        await _begun(store, "b2", tenant="u")
        await store.delete("c", tenant="t")
        rest = {one.id for tenant in "tu" for one in await store.journal.list(tenant=tenant)}
        require(rest == {"a3", "b1", "b2"}, f"running, or of others, are a3, b1 and b2; left are {sorted(rest)}")
        await refused(store.journal.read("a1", tenant="t"), UnknownTurnError, "read of a deleted turn")

    @law()
    async def test_a_deleted_conversation_does_not_come_back(self, store: JournalingStore) -> None:
        """What ends of it afterwards is added nowhere, not even to a new conversation of that name."""
        for renewed in (False, True):
            prefix = "b" if renewed else "a"
            await store.append("c", turn_of(f"{prefix}0"), tenant="t")
            others = await _begun(store, f"{prefix}8", tenant="u"), await _begun(store, f"{prefix}9")
            await store.append("c", turn_of(f"{prefix}9"), tenant="t", end=ending(others[1], "done", 2))
            begun = await _begun(store, f"{prefix}1")
            await store.delete("c", tenant="t")
            await store.journal.write(begun, entries(2), lease_s=None)
            await store.journal.add_events(begun, new_events(1))
            if renewed:
                await store.append("c", turn_of("new"), tenant="t")
            end = store.append("c", turn_of(begun.id), tenant="t", end=ending(begun, "done", 3))
            await refused(end, UnknownConversationError, "the end of a turn of a deleted conversation")
            record, steps = await store.journal.read(begun.id, tenant="t")
            came = (record.state, record.conversation, record.message, [*steps])
            require(came == ("done", "", "", []), f"a turn without its conversation came back as {show(came)}")
            await store.journal.add_events(begun, new_events(2))
            again = store.append("c", turn_of(begun.id), tenant="t", end=ending(begun, "done", 3))
            await refused(again, LostTurnError, "a second end of that turn")
            if renewed:
                expect(await _turn_ids(store), ["new"], "the turns of the new conversation")
            else:
                await refused(store.turns("c", tenant="t"), UnknownConversationError, "turns after that")
            await store.append("c", turn_of(others[0].id), tenant="u", end=ending(others[0], "done", 2))
        require(len(await store.turns("c", tenant="u")) == 2, "another tenant's conversation of that name stays")

    @law()
    async def test_a_turn_whose_conversation_is_gone_does_not_begin_it_again(self, store: JournalingStore) -> None:
        """A conversation deleted before the turn wrote its first step; a new conversation does begin."""
        for first, after, is_kept in (("a1", "a0", False), ("a2", None, True), ("a3", "a2", True)):
            step = attrs.evolve(entries(1)[0], data={"after": after})
            begun = turn(first)
            if first == "a1":
                end = attrs.evolve(ending(begun, "done", lease_s=LIVES), entries=(step,))
            else:
                await store.journal.write(begun, [step], lease_s=LIVES)
                end = ending(begun, "done", 2)
            appended = store.append("c", turn_of(first), tenant="t", end=end)
            if is_kept:
                await appended
            else:
                await refused(appended, UnknownConversationError, "a turn after one that is gone")
        expect(await _turn_ids(store), ["a2", "a3"], "the turns that are kept")

    @law()
    async def test_a_turn_of_a_deleted_conversation_is_not_taken_up(self, store: JournalingStore) -> None:
        """Once its owner is dead, or has given it up, there is no such turn."""
        await store.append("c", turn_of("a0"), tenant="t")
        begun = [await _begun(store, id) for id in ("a1", "a2")]
        await store.delete("c", tenant="t")
        await _check_state(store, "a1", "running")
        await store.journal.release(begun[0])
        store.journal.renew("o", DEAD)
        for id in ("a1", "a2"):
            await refused(store.journal.read(id, tenant="t"), UnknownTurnError, "read of a turn that is gone")
            take = store.journal.acquire(id, tenant="t", owner="p", lease_s=LIVES)
            await refused(take, UnknownTurnError, "take of a turn that is gone")
        rest = [*await store.journal.list_resumable(limit=9), *await store.journal.list(tenant="t")]
        require(rest == [], f"no turn is left, got {show(rest)}")

    @law()
    async def test_deleting_what_is_not_there_changes_no_turn(self, store: JournalingStore) -> None:
        """The first turn of a conversation, whose conversation is not there yet, is kept when it ends."""
        begun = await _begun(store, "a1")
        await refused(store.delete("c", tenant="t"), UnknownConversationError, "delete of what is not there")
        await store.append("c", turn_of("a1"), tenant="t", end=ending(begun, "done", 2))
        require(await _turn_ids(store) == ["a1"], "the first turn is kept")

    @law()
    async def test_what_was_left_is_told_to_all(self, store: JournalingStore) -> None:
        """The interrupted turns of all tenants, oldest first, but for those that cannot go on."""
        for id, tenant in (("d1", "t"), ("b1", "u"), ("c1", "t")):
            await _begun(store, id, DEAD, owner="dead", tenant=tenant)
        await _begun(store, "a1")
        for id, error in (("e1", ""), ("f1", "the rule is gone")):
            await store.journal.release(await _begun(store, id), error=error)

        async def ids(limit: int = 10) -> list[str]:
            return [one.id for one in await store.journal.list_resumable(limit=limit)]

        require(await ids() == ["d1", "b1", "c1", "e1"], f"left are d1, b1, c1 and e1; got {await ids()}")
        require(await ids(2) == ["d1", "b1"], f"the first two are d1 and b1; got {await ids(2)}")
        resumed = await store.journal.acquire("f1", tenant="t", owner="p", lease_s=LIVES)
        require(resumed.error == "", "who takes up a turn that could not go on thinks that it can")
        await store.journal.release(resumed)
        require("f1" in await ids(), "a turn that was taken up since can go on")

    @law()
    async def test_a_key_stands_for_one_turn(self, store: JournalingStore) -> None:
        """The first that is bound to it, of however many at once, until it is replaced; and of one tenant alone."""

        async def bound(turn: str, key: str = "k", tenant: str = "t", **rest: Any) -> tuple[str, str]:
            rest = {"keep_s": 600.0, "digest": f"d{turn}", **rest}
            came = await store.journal.bind(key, tenant=tenant, turn=turn, **rest)
            require((came.key, came.tenant) == (key, tenant), f"key and tenant came back as {show(came)}")
            require(not came.begun, f"a key whose turn has not begun is {show(came)}")
            return came.turn, came.digest

        came = await asyncio.gather(*(bound(f"a{n}") for n in range(10)))
        require(len(set(came)) == 1, f"ten turns were bound to one key at once: it stands for {show(set(came))}")
        first = came[0][0]
        expected = TurnKey(key="k", tenant="t", turn=first, digest="")
        never = attrs.evolve(expected, turn="b9")
        for others in ({}, {"digest": "other"}, {"instead_of": never}):
            require(await bound("b1", **others) == came[0], "a key goes on to stand for what it stood for")
        require(await bound("b1", tenant="u") == ("b1", "db1"), "another tenant's key is another key")
        require(await bound("c1", instead_of=expected) == ("c1", "dc1"), "the turn of a key is replaced")
        require(await bound("d1", instead_of=expected) == ("c1", "dc1"), "of two that replace a turn, one does")
        await asyncio.sleep(0.005)  # rows hold milliseconds
        require(await bound("e1", keep_s=0.0) == ("e1", "de1"), "a key whose time is over is free")

    @law()
    async def test_a_turn_with_a_key_marks_it_as_begun(self, store: JournalingStore) -> None:
        """With its first step, or its end if that is the first; and it does not begin if its key is another's."""
        for key, others in (("k", "a2"), ("l", "b2")):
            id = f"{others[0]}1"
            await store.journal.bind(key, tenant="t", turn=id, digest="d", keep_s=600.0)
            mine = attrs.evolve(turn(id), key=key)
            wrong = attrs.evolve(turn(others), key=key)
            await refused(store.journal.write(wrong, entries(1), lease_s=LIVES), LostTurnError, "another's key")
            require(others not in await _listed(store), "it began all the same")
            if key == "k":
                await store.journal.write(mine, entries(1), lease_s=LIVES)
            else:
                await store.append("c", turn_of(id), tenant="t", end=ending(mine, "done", 1, lease_s=LIVES))
            record, _ = await store.journal.read(id, tenant="t")
            require(record.key == key, f"the turn's key came back as {record.key!r}")
            came = await store.journal.bind(key, tenant="t", turn="c1", digest="e", keep_s=600.0)
            require((came.turn, came.begun) == (id, True), f"the key of a turn that has begun is {show(came)}")
            key_before = attrs.evolve(came, begun=False)
            came = await store.journal.bind(key, tenant="t", turn="c1", digest="e", keep_s=600.0, instead_of=key_before)
            require(came.turn == id, "a turn that has begun since somebody looked is replaced")
        await store.delete("c", tenant="t")
        came = await store.journal.bind("l", tenant="t", turn="c1", digest="e", keep_s=600.0)
        require((came.turn, came.begun) == ("b1", True), f"the key of a turn that was deleted is {show(came)}")

    @law()
    async def test_events_come_back_in_order(self, store: JournalingStore) -> None:
        """Each once, after a number, of a turn that runs or has ended; up to a number they are deleted."""
        begun = await _begun(store, "a1")
        await store.journal.add_events(begun, new_events(2, 3), forget=0)
        await store.journal.add_events(begun, [JournaledEvent(3, "other", "{}"), *new_events(4)])
        for after, expected in ((0, [2, 3, 4]), (2, [3, 4]), (4, [])):
            record, came = await store.journal.events("a1", tenant="t", after=after)
            require([*came] == new_events(*expected), f"after {after} come {show([*came])}")
            require((record.id, record.state) == ("a1", "running"), f"the turn came back as {show(record)}")
        await store.append("c", turn_of("a1"), tenant="t", end=ending(begun, "done", 2))
        await store.journal.add_events(begun, new_events(5), forget=3)
        record, came = await store.journal.events("a1", tenant="t")
        require((record.state, [*came]) == ("done", new_events(4, 5)), f"of an ended turn come {show([*came])}")
        for n, text in enumerate(TEXTS):
            await store.journal.add_events(begun, [JournaledEvent(10 + n, "text", text)])

    @law()
    async def test_events_belong_to_a_turn(self, store: JournalingStore) -> None:
        """Only its owner adds any, all or none; none of them outlives it; and its whole id is asked for."""
        first = await _begun(store, "abc", DEAD)
        await store.journal.add_events(first, new_events(1))
        second = await store.journal.acquire("abc", tenant="t", owner="p", lease_s=LIVES)
        for late in (first, turn("b9")):
            await refused(store.journal.add_events(late, new_events(2)), LostTurnError, "events of a former owner")
        await store.journal.add_events(second, new_events(2))
        _, came = await store.journal.events("abc", tenant="t")
        require([*came] == new_events(1, 2), f"the events of two owners are {show([*came])}")
        for id, tenant in (("ab", "t"), ("abc", "u"), ("", "t")):
            await refused(store.journal.events(id, tenant=tenant), UnknownTurnError, f"events of {id!r}")
        await store.append("c", turn_of("abc"), tenant="t", end=ending(second, "done", 2))
        await asyncio.sleep(0.005)  # rows hold milliseconds
        forgotten = await store.journal.forget(older_than_s=3600, events_older_than_s=0)
        _, came = await store.journal.events("abc", tenant="t")
        require((forgotten, [*came]) == (0, []), f"events may be forgotten before the turn; left are {show(came)}")

    @law("durable")
    async def test_what_was_written_is_there_when_it_is_opened_again(self, folder: Path) -> None:
        """Turns, steps, and the leases of those who live."""
        async with self.opened(folder) as store:
            await _begun(store, "a1")
            await _begun(store, "b1", DEAD, owner="dead")
            await store.journal.write(turn("a1"), entries(2), lease_s=None)
        async with self.opened(folder) as store:
            for id, state in (("a1", "running"), ("b1", "interrupted")):
                await _check_state(store, id, state)
            require(await _steps(store, "a1") == [1, 2], "the steps are there after opening again")
            await store.journal.write(turn("a1"), entries(3), lease_s=None)

    @law("shared")
    async def test_two_that_share_it_agree(self, folder: Path) -> None:
        """Of the turns that both resume at once, each has one owner, and both read what either writes."""
        async with self.opened(folder) as one, self.opened(folder) as two:
            for n in range(10):
                await _begun(one, f"{n:02}", DEAD, owner="dead")
            takes = [
                store.journal.acquire(f"{n:02}", tenant="t", owner=owner, lease_s=LIVES)
                for n in range(10)
                for store, owner in ((one, "a"), (two, "b"))
            ]
            outcomes = await asyncio.gather(*takes, return_exceptions=True)
            for n in range(10):
                pair = outcomes[2 * n : 2 * n + 2]
                yours = [index for index, came in enumerate(pair) if isinstance(came, JournaledTurn)]
                require(len(yours) == 1, f"two took a turn at once, and it came to {show(pair)}")
                store, other = (one, two) if yours == [0] else (two, one)
                await store.journal.write(pair[yours[0]], entries(2), lease_s=None)  # type: ignore[arg-type]
                require(await _steps(other, f"{n:02}") == [1, 2], "what one writes the other reads")


def turn(
    id: str, *, tenant: str = "t", conversation: str = "c", owner: str = "o", message: str = "hello"
) -> JournaledTurn:
    """Return a turn as it begins."""
    return JournaledTurn(id=id, tenant=tenant, conversation=conversation, state="running", message=message, owner=owner)


def entries(*numbers: int) -> list[JournalEntry]:
    """Return steps with these numbers."""
    at = "2026-01-02T03:04:05.678+00:00"
    kinds = {1: "started"}
    return [JournalEntry(number=n, kind=kinds.get(n, "phase"), data={"n": n, "x": [None, "é"]}, at=at) for n in numbers]


def new_events(*numbers: int) -> list[JournaledEvent]:
    """Create events with these numbers."""
    return [JournaledEvent(number, "text", f'{{"n": {number}}}') for number in numbers]


def ending(begun: JournaledTurn, state: Any, *numbers: int, error: str = "", lease_s: float | None = None) -> TurnEnd:
    """Create the end of a turn, with steps of these numbers."""
    return TurnEnd(turn=begun, entries=tuple(entries(*numbers)), state=state, error=error, lease_s=lease_s)


def turn_of(id: str) -> ConversationTurn:
    """Create the entry of a turn in its conversation."""
    return ConversationTurn(id=id, messages=(UserMessage(content="hello"),), at="2026-01-02T03:04:05+00:00")


async def _begun(store: JournalingStore, id: str, lease_s: float = LIVES, **rest: Any) -> JournaledTurn:
    begun = turn(id, **rest)
    await store.journal.write(begun, entries(1), lease_s=lease_s)
    return begun


async def _done(store: JournalingStore, id: str, **rest: Any) -> None:
    begun = await _begun(store, id, **rest)
    await store.append("c", turn_of(id), tenant="t", end=ending(begun, "done", 2))


async def _turn_ids(store: JournalingStore) -> list[str]:
    return [one.id for one in await store.turns("c", tenant="t")]


async def _listed(store: JournalingStore) -> list[str]:
    return [one.id for one in await store.journal.list(tenant="t")]


async def _steps(store: JournalingStore, id: str) -> Sequence[int]:
    return [step.number for step in (await store.journal.read(id, tenant="t"))[1]]


async def _check_state(store: JournalingStore, id: str, expected: str) -> None:
    """Check that read, list and waiting report the same state of a turn."""
    record, _ = await store.journal.read(id, tenant="t")
    (listed,) = [one for one in await store.journal.list(tenant="t", limit=100) if one.id == id]
    waits = id in await store.journal.list_interrupted(record.conversation, tenant="t")
    came = (record.state, listed.state, waits)
    expect(came, (expected, expected, expected == "interrupted"), "read, list and waiting")


def _circle() -> dict[str, Any]:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    return circle
