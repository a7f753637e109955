"""The laws of a journal's questions, of turns that are suspended, accepted or cancelled, and of approvals."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Protocol, cast

import attrs
from flexchat.store import (
    Approval,
    CannotSettleError,
    ClosedQuestionError,
    EffectLedger,
    FlexChatError,
    JournaledTurn,
    JournalEntry,
    JournalingStore,
    LostTurnError,
    PendingQuestion,
    Question,
    Reply,
    SendingJournal,
    StorageError,
    TurnNotWaitingError,
    UnknownEffectError,
    UnknownQuestionError,
    UnknownTurnError,
)

from .kept_samples import DEAD, LIVES, TEXTS, effect
from .law import Conformance, expect, law, opened_in, refused, require, show
from .turn_journal import ending, entries, new_events, turn, turn_of

YES = Reply(action="accept", content={"amount": 5, "é": [None, "\u202e"]})
NO = Reply(action="decline", why="too much")
HOUR_S = 3600.0


class _KeepingStore(JournalingStore, Protocol):
    def ledger(self) -> EffectLedger: ...


class PendingConformance(Conformance):
    """The laws of every journal that keeps questions: the first reply counts, none is lost, an approval is used once.

    Define make_store and ``supports``.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "durable": "make_store with a closed store's folder opens the same questions again",
        "shared": "two stores with one folder may be open at once, as in two processes, and see each other's changes",
        "ledger": "the store has ledger(), whose claims use up approvals: holds_questions is True",
        "sending": "its journal is a SendingJournal",
    }

    def make_store(self, folder: Path) -> JournalingStore:
        """Return a store with a journal; an empty one for every new folder. Same folder, same questions."""
        raise NotImplementedError(f"{type(self).__name__} must write make_store")

    def opened(self, folder: Path | None = None) -> AbstractAsyncContextManager[JournalingStore]:
        """Open a store for the length of a law: an empty one, or that of a folder."""
        return opened_in(self.make_store, folder)

    @law()
    async def test_a_question_comes_back_whole(self, store: JournalingStore) -> None:
        """With everything it was written with; and again with its reply."""
        for n, text in enumerate(TEXTS):
            schema = {"type": "object", "properties": {text: {"enum": [text, None, 1.5]}}}
            details, url = {text: [text]}, "https://a/?b"
            written = _question(f"q{n}", f"a{n}", text or "?", schema=schema, details=details, url=url)
            await _asking(store, written)
            for came in (await store.journal.question(f"q{n}", tenant="t"), await _only(store, f"a{n}")):
                expect(came, written, "a question that was written")
            reply = attrs.evolve(YES, content={text: [text]}, why=text)
            replied = await store.journal.answer(f"q{n}", tenant="t", reply=reply, by="ann")
            require("T" in replied.replied_at, f"replied_at is an ISO 8601 time, not {replied.replied_at!r}")
            at = replied.replied_at
            expected = attrs.evolve(written, state="replied", reply=reply, replied_by="ann", replied_at=at)
            for came in (replied, await store.journal.question(f"q{n}", tenant="t"), await _only(store, f"a{n}")):
                expect(came, expected, "a question with its reply")

    @law()
    async def test_questions_are_written_with_their_step(self, store: JournalingStore) -> None:
        """Both or neither; and one that is there is left out, with the reply it has by now."""
        await _asking(store, _question("q1", "a1"))
        circle: dict[str, Any] = {}
        circle["again"] = circle
        bad = _question("q3", "a1", details=circle)
        for steps, questions in (
            (entries(3), [_question("q2", "a1"), bad]),
            ([attrs.evolve(entries(3)[0], data=circle)], [_question("q2", "a1")]),
        ):
            writing = store.journal.write(turn("a1"), steps, lease_s=None, questions=questions)
            await refused(writing, StorageError, "a question, or a step, that is no JSON data")
            expect(await _ids(store), ["q1"], "the questions after a write that failed")
            expect(len((await store.journal.read("a1", tenant="t"))[1]), 2, "the steps after a write that failed")
        late = attrs.evolve(turn("a1"), fence=7)
        writing = store.journal.write(late, entries(3), lease_s=None, questions=[_question("q2", "a1")])
        await refused(writing, LostTurnError, "a question of a former owner")
        await store.journal.answer("q1", tenant="t", reply=YES, by="ann")
        again = [_question("q1", "a1"), _question("q2", "a1")]
        await store.journal.write(turn("a1"), entries(2, 3), lease_s=None, questions=again)
        expect(await _ids(store), ["q2", "q1"], "the questions after they were written again")
        expect((await store.journal.question("q1", tenant="t")).reply, YES, "its reply after it was written again")

    @law()
    async def test_a_question_is_withdrawn_with_the_step_that_asks_another(self, store: JournalingStore) -> None:
        """It can have no reply from then on; one that has a reply keeps it."""
        await _asking(store, _question("q1", "a1"), _question("q2", "a1"))
        replied = await store.journal.answer("q2", tenant="t", reply=YES, by="ann")
        withdrawn = [attrs.evolve(_question(id, "a1"), state="withdrawn") for id in ("q1", "q2")]
        questions = [*withdrawn, _question("q3", "a1")]
        await store.journal.write(turn("a1"), entries(3), lease_s=None, questions=questions)
        states = [(await store.journal.question(id, tenant="t")).state for id in ("q1", "q2", "q3")]
        expect(states, ["withdrawn", "replied", "open"], "the questions afterwards")
        expect(await store.journal.question("q2", tenant="t"), replied, "the question with a reply")
        answering = store.journal.answer("q1", tenant="t", reply=YES, by="ann")
        await refused(answering, ClosedQuestionError, "a reply to a question that was withdrawn")

    @law()
    async def test_of_ten_replies_the_first_counts(self, store: JournalingStore) -> None:
        """For the others, the question is closed, with the name of the first."""
        await _suspended(store, _question("q1", "a1"))
        answers = [
            store.journal.answer("q1", tenant="t", reply=attrs.evolve(YES, content={"n": n}), by=f"p{n}")
            for n in range(10)
        ]
        came = await asyncio.gather(*answers, return_exceptions=True)
        first = [one for one in came if isinstance(one, PendingQuestion)]
        closed = [one for one in came if isinstance(one, ClosedQuestionError)]
        require((len(first), len(closed)) == (1, 9), f"ten replied, and it came to {show(came)}")
        by = first[0].replied_by
        require(first[0].reply == attrs.evolve(YES, content={"n": int(by[1:])}), f"the reply is {show(first[0].reply)}")
        for each in closed:
            require((each.state, each.by) == ("replied", by), f"closed by {by}, and refused with {each}")
        expect(await store.journal.question("q1", tenant="t"), first[0], "the question afterwards")

    @law()
    async def test_a_suspended_turn_has_no_owner(self, store: JournalingStore) -> None:
        """Nobody's lease changes it, its former owner can only add events, and whoever acquires it runs it."""
        begun = await _suspended(store, _question("q1", "a1"))
        for lease_s in (DEAD, LIVES):
            store.journal.renew("o", lease_s)
            await _check_state(store, "a1", "suspended")
        record, steps = await store.journal.read("a1", tenant="t")
        came = (record.owner, record.suspensions, [step.number for step in steps])
        require(came == ("", 1, [1, 2, 3]), f"a suspended turn came back as {came}")
        await store.journal.add_events(begun, new_events(1))
        for late in (
            store.journal.write(begun, entries(4), lease_s=None),
            store.journal.suspend(begun, entries(4)),
            store.append("c", turn_of("a1"), tenant="t", end=ending(begun, "done", 4)),
        ):
            await refused(late, LostTurnError, "a late write by the owner that has suspended it")
        await store.journal.release(begun, error="late")
        await _check_state(store, "a1", "suspended")
        takes = [store.journal.acquire("a1", tenant="t", owner=f"o{n}", lease_s=LIVES) for n in range(5)]
        outcomes = await asyncio.gather(*takes, return_exceptions=True)
        (row,) = [one for one in outcomes if isinstance(one, JournaledTurn)]
        expect((row.state, row.fence, row.suspensions), ("running", 2, 1), "a suspended turn that was acquired")
        await store.journal.write(row, entries(4), lease_s=None)
        require(await store.journal.suspend(row, entries(5)), "its question is still open")
        expect((await store.journal.read("a1", tenant="t"))[0].suspensions, 2, "the count of suspensions")

    @law()
    async def test_a_reply_lets_a_suspended_turn_go_on(self, store: JournalingStore) -> None:
        """It is interrupted at once, whatever the reply is; a turn of another is left alone."""
        for n in range(3):
            await _suspended(store, _question(f"q{n}", f"a{n}", conversation=f"c{n}"))
        for n, reply in enumerate((YES, NO, Reply(action="cancel"))):
            await _check_state(store, f"a{n}", "suspended")
            await store.journal.answer(f"q{n}", tenant="t", reply=reply, by="ann")
            await _check_state(store, f"a{n}", "interrupted")
            resumable = [one.id for one in await store.journal.list_resumable(limit=9)]
            expect(resumable, [f"a{each}" for each in range(n + 1)], "the turns that can go on")
        row = await store.journal.acquire("a0", tenant="t", owner="p", lease_s=LIVES)
        expect((row.fence, row.suspensions), (2, 1), "fence and suspensions")
        await store.journal.write(row, [_reply_step(4, "q0")], lease_s=None)

    @law()
    async def test_a_turn_with_a_reply_is_not_suspended(self, store: JournalingStore) -> None:
        """It stays its owner's, with the steps; once its journal has the reply, it can be suspended."""
        begun = await _asking(store, _question("q1", "a1"), _question("q2", "a1"))
        await store.journal.answer("q1", tenant="t", reply=NO, by="ann")
        await _check_state(store, "a1", "running")
        require(not await store.journal.suspend(begun, entries(3)), "suspend of a turn with a reply returns False")
        await _check_state(store, "a1", "running")
        record, steps = await store.journal.read("a1", tenant="t")
        expect((len(steps), record.suspensions, record.owner), (3, 0, "o"), "steps, suspensions and owner")
        expect([*await store.journal.list_commands("o")], ["a1"], "the turns with a reply that was not noted")
        expect([*await store.journal.list_commands("p")], [], "another owner's turns with such a reply")
        require(await store.journal.suspend(begun, [_reply_step(4, "q1")]), "the journal has the reply by now")
        expect([*await store.journal.list_commands("o")], [], "a suspended turn has no owner to command")
        await store.journal.answer("q2", tenant="t", reply=YES, by="ann")
        await _check_state(store, "a1", "interrupted")

    @law()
    async def test_a_late_question_expires(self, store: JournalingStore) -> None:
        """By its time, marked or not: it can have no reply, and a suspended turn goes on once it is marked."""
        begun = await _asking(store, _question("q1", "a1", expires_in_s=-1))
        require(not await store.journal.suspend(begun, entries(3)), "suspend with an expired question returns False")
        suspended, lasts_s = False, 0.05
        while not suspended:  # a slow database needs more time than a fast one
            at = f"b{lasts_s:g}".replace(".", "")
            late = _question(f"q{at}", at, conversation=at, expires_in_s=lasts_s)
            suspended = await store.journal.suspend(await _asking(store, late), entries(3))
            lasts_s *= 4
        await _asking(store, _question("q9", "c9", conversation="c9"))
        while datetime.now(UTC).isoformat() < late.expires_at:  # noqa: ASYNC110  a clock has no event
            await asyncio.sleep(0.01)
        for marked in (False, True):
            expect((await store.journal.question("q1", tenant="t")).state, "expired", f"marked: {marked}; its state")
            expect(await _ids(store, states=["open"]), ["q9"], f"marked: {marked}; the open questions")
            require({"q1", late.id} <= {*await _ids(store, states=["expired"])}, f"marked: {marked}; not in the list")
            for id in ("q1", late.id):
                answering = store.journal.answer(id, tenant="t", reply=YES, by="ann")
                error = await refused(answering, ClosedQuestionError, "a late reply")
                expect(error.state, "expired", "the state of a question with a late reply")
            if not marked:
                require(await store.journal.expire_questions() >= 2, "the count of questions that have expired")
        expect(await store.journal.expire_questions(), 0, "the count of questions that have expired since")
        await _check_state(store, at, "interrupted")
        expect((await store.journal.question("q9", tenant="t")).state, "open", "a question whose time has not passed")

    @law()
    async def test_open_questions_are_withdrawn_with_their_turn(self, store: JournalingStore) -> None:
        """However it ends; replies stay."""
        states: tuple[Any, ...] = ("done", "failed", "cancelled")
        for n, state in enumerate(states):
            questions = _question(f"q{n}", f"a{n}"), _question(f"r{n}", f"a{n}")
            begun = await _asking(store, *questions)
            await store.journal.answer(f"r{n}", tenant="t", reply=YES, by="ann")
            await store.append("c", turn_of(f"a{n}"), tenant="t", end=ending(begun, state, 3))
            expect((await store.journal.question(f"r{n}", tenant="t")).state, "replied", f"after a turn is {state}")
            expect((await store.journal.question(f"q{n}", tenant="t")).state, "withdrawn", f"after a turn is {state}")
            answering = store.journal.answer(f"q{n}", tenant="t", reply=YES, by="ann")
            error = await refused(answering, ClosedQuestionError, "a reply after the turn has ended")
            expect(error.state, "withdrawn", "the state of the question")
        expect(await store.journal.expire_questions(), 0, "withdrawn questions do not expire")

    @law()
    async def test_a_question_is_found_by_the_beginning_of_its_id(self, store: JournalingStore) -> None:
        """One that fits several, or none, is refused; an id that is whole is found."""
        ids = ("call_zY1", "call_zY-", "call_z", "call-_x", "Call_Q~")
        await _asking(store, *(_question(id, "a1") for id in ids))
        journal = store.journal
        for beginning, id in (("call_zY1", ids[0]), ("call_z", ids[2]), ("call-", ids[3]), ("Call", ids[4])):
            expect((await journal.question(beginning, tenant="t")).id, id, f"question {beginning!r}")
        for wrong in ("call_zY", "call", "", "CALL_Z", "%", "call__", "_", "call_z0", "\0", "\ud83d", "'; --"):
            for asking in (
                journal.question(wrong, tenant="t"),
                journal.answer(wrong, tenant="t", reply=YES, by="ann"),
                journal.revoke(wrong, tenant="t"),
            ):
                await refused(asking, UnknownQuestionError, f"question {wrong!r}")
        expect((await journal.answer("Call", tenant="t", reply=YES, by="")).id, ids[4], "a reply to 'Call'")
        expect(await _ids(store, states=["open"]), [*ids[3::-1]], "the other questions are open")

    @law()
    async def test_questions_are_listed_newest_first(self, store: JournalingStore) -> None:
        """By state, by conversation, by turn, by what is remembered; page by page, also if asked in one moment."""
        for n in range(3):
            batch = [_question(f"q{n}{m}", f"a{n}", conversation="cd"[n % 2], remember={"x": f"k{m}"}) for m in "abc"]
            await _asking(store, *(attrs.evolve(each, asked_at="2026-01-02T03:04:05.678+00:00") for each in batch))
            for m, scope in (("a", "x"), ("b", ""), ("b", "x")):
                if n and (m, scope) != ("b", "x"):
                    reply = attrs.evolve(YES, remember=scope)
                    await store.journal.answer(f"q{n}{m}", tenant="t", reply=reply, by="ann")
        newest = [f"q{n}{m}" for n in (2, 1, 0) for m in "cba"]
        for came, expected in (
            (await _ids(store), newest),
            (await _ids(store, limit=2), newest[:2]),
            (await _ids(store, limit=2, before="q2b"), newest[2:4]),
            (await _ids(store, before="q0a"), []),
            (await _ids(store, states=["open"]), ["q2c", "q1c", "q0c", "q0b", "q0a"]),
            (await _ids(store, states=["replied", "open"], limit=2), newest[:2]),
            (await _ids(store, states=["withdrawn"]), []),
            (await _ids(store, states=[]), []),
            (await _ids(store, conversation="d"), newest[3:6]),
            (await _ids(store, turn="a1", states=["replied"]), ["q1b", "q1a"]),
            (await _ids(store, remembered=""), ["q2a", "q1a"]),
            (await _ids(store, remembered="ka", conversation="d"), ["q1a"]),
            (await _ids(store, remembered="kb"), []),
            (await _ids(store, limit=0), []),
        ):
            require(came == expected, f"listed {came}, wanted {expected}")
        await refused(_ids(store, before="ff"), UnknownQuestionError, "questions before an unknown one")

    @law()
    async def test_a_reply_may_be_remembered_and_revoked(self, store: JournalingStore) -> None:
        """Under the key of the scope that it names; and it is still the reply to its question when revoked."""
        scopes = {"conversation": "k1", "tenant": "k2"}
        questions = [_question(f"q{n}", "a1", remember=scopes) for n in range(4)]
        await _asking(store, *questions)
        for id, scope, key in (("q0", "", ""), ("q1", "tenant", "k2"), ("q2", "conversation", "k1"), ("q3", "x", "")):
            replied = await store.journal.answer(id, tenant="t", reply=attrs.evolve(YES, remember=scope), by="ann")
            expect(replied.remembered, key, f"remembered, of a reply that names {scope!r}")
            expect((await store.journal.question(id, tenant="t")).remembered, key, "remembered, when it is read")
        for came in (
            await store.journal.revoke("q1", tenant="t"),
            await store.journal.question("q1", tenant="t"),
            await store.journal.revoke("q1", tenant="t"),
        ):
            expect((came.remembered, came.state, came.reply), ("", "replied", attrs.evolve(YES, remember="tenant")), "")
        expect(await _ids(store, remembered=""), ["q2"], "what is remembered after one was revoked")
        await _asking(store, *(_question(id, "a2", remember={"": "k3", "tenant": "k2"}) for id in ("q4", "q5")))
        for id, reply, key in (("q4", YES, "k3"), ("q5", NO, "")):
            replied = await store.journal.answer(id, tenant="t", reply=reply, by="ann")
            expect(replied.remembered, key, f"remembered, of {reply}, which names no scope")

    @law()
    async def test_an_approval_is_used_once(self, store: JournalingStore) -> None:
        """By one of many; only by a call with its digest; only if the reply accepts; only for its tenant."""
        questions = [_question(id, "a1", digest=f"d{id}") for id in ("yes", "no", "open", "cancel")]
        await _asking(store, *questions)
        for id, reply in (("yes", YES), ("no", NO), ("cancel", Reply(action="cancel"))):
            await store.journal.answer(id, tenant="t", reply=reply, by="ann")

        async def used(id: str, digest: str = "", by: str = "b", **rest: Any) -> bool:
            rest = {"tenant": "t", **rest}
            return await store.journal.use_approval(Approval(id, digest or f"d{id}"), by=by, **rest)

        for id, rest in (
            *((id, {}) for id in ("no", "open", "cancel", "none", "", "ye", "\0")),
            ("yes", {"digest": "dno"}),
            ("yes", {"tenant": "u"}),
        ):
            require(not await used(id, **rest), f"use_approval of {id!r} with {rest} returned True")
        expect((await store.journal.question("yes", tenant="t")).used_by, "", "used_by of what was not used")
        outcomes = await asyncio.gather(*(used("yes", by=f"b{n}", may_repeat=n % 2 == 0) for n in range(10)))
        expect(sum(outcomes), 1, "how many of ten used the approval")
        by = f"b{outcomes.index(True)}"
        expect((await store.journal.question("yes", tenant="t")).used_by, by, "used_by")
        for who, may_repeat in ((by, True), (by, False), ("b10", True)):
            expect(await used("yes", by=who, may_repeat=may_repeat), (who, may_repeat) == (by, True), "used again")

    @law()
    async def test_a_question_without_a_digest_approves_nothing(self, store: JournalingStore) -> None:
        """An accepting reply to it is no approval of any call."""
        await _asking(store, _question("q1", "a1"))
        await store.journal.answer("q1", tenant="t", reply=YES, by="ann")
        for digest in ("", "d"):
            using = store.journal.use_approval(Approval("q1", digest), tenant="t", by="b")
            require(not await using, f"a question without a digest approved {digest!r}")

    @law("ledger")
    async def test_a_claim_uses_up_its_approval(self, store: _KeepingStore) -> None:
        """In one transaction: without an approval there is no row, and without a row no approval is used."""
        ledger = store.ledger()
        require(ledger.holds_questions is True, "holds_questions must be True")  # type: ignore[attr-defined]
        await _approved(store, "q1", "q2")
        wrong = Approval("q1", "other"), Approval("none", "dq1"), Approval("", ""), Approval("q2", "dq1")
        for approval in wrong:
            expect(await _claimed(ledger, "k1", approval), ("unapproved", 1), "a claim with a wrong approval")
            await refused(ledger.get(effect("k1").key, tenant="t"), UnknownEffectError, "an unapproved effect")
        theirs = attrs.evolve(effect("k1"), tenant="u")
        claim = await ledger.claim(theirs, owner="a", lease_s=LIVES, approval=Approval("q1", "dq1"))
        expect(claim.outcome, "unapproved", "a claim with another tenant's approval")
        claims = await asyncio.gather(*(_claimed(ledger, f"k{n}", Approval("q1", "dq1")) for n in range(10)))
        expect(sorted(claims), [("unapproved", 1)] * 9 + [("yours", 1)], "ten effects with one approval")
        key = effect(f"k{claims.index(('yours', 1))}").key
        expect((await store.journal.question("q1", tenant="t")).used_by, key, "used_by")
        same = await asyncio.gather(*(_claimed(ledger, "m", Approval("q2", "dq2")) for _ in range(10)))
        expect(sorted(same), [("running", 1)] * 9 + [("yours", 1)], "one effect, claimed ten times with its approval")
        expect((await store.journal.question("q2", tenant="t")).used_by, effect("m").key, "used_by")

    @law("ledger")
    async def test_a_claim_that_is_not_yours_uses_nothing(self, store: _KeepingStore) -> None:
        """What runs, has ended or is another call's is reported, whatever the approval."""
        ledger = store.ledger()
        await _approved(store, "q1", "q2", "q3")
        mine = Approval("q1", "dq1")
        for name, outcome in (("running", "running"), ("done", "ended")):
            await ledger.claim(effect(name), owner="a", lease_s=LIVES)
            if name == "done":
                await ledger.finish(effect(name).key, 1, state="done", result=None)
            expect(await _claimed(ledger, name, mine), (outcome, 1), f"a claim of what is {name}")
        other = attrs.evolve(effect("running"), digest="other")
        expect((await ledger.claim(other, owner="a", lease_s=LIVES, approval=mine)).outcome, "other", "another call")
        expect((await store.journal.question("q1", tenant="t")).used_by, "", "used_by of what was not used")
        lost = Approval("q2", "dq2")
        await ledger.claim(effect("lost"), owner="dead", lease_s=DEAD, approval=lost)
        expect(await _claimed(ledger, "lost", lost), ("lost", 1), "a claim whose owner is dead")
        for approval, outcome in ((Approval("q3", "dq2"), "unapproved"), (lost, "yours")):
            takeover = await ledger.claim(effect("lost"), owner="b", lease_s=LIVES, take_over=True, approval=approval)
            expect(takeover.outcome, outcome, "a takeover, with the approval of the first claim or with a wrong one")
        expect(takeover.effect.fence, 2, "the fence after a takeover that was approved")

    @law("ledger")
    async def test_a_released_claim_leaves_its_approval_usable(self, store: _KeepingStore) -> None:
        """By the same effect, also once it waits for a reply; never by two."""
        ledger = store.ledger()
        await _approved(store, "q1", "q2")
        for id, is_pending in (("q1", False), ("q2", True)):
            approval, key = Approval(id, f"d{id}"), effect(id).key
            for fence in (1, 2, 3):
                expect(await _claimed(ledger, id, approval), ("yours", fence), "a claim after a release")
                expect((await store.journal.question(id, tenant="t")).used_by, key, "used_by of a claim")
                expect(await _claimed(ledger, f"other {id}", approval), ("unapproved", 1), "another effect's claim")
                if fence < 3:
                    released = await ledger.release(key, fence, note="", is_pending=is_pending)
                    require(released, "release of a claim returns True")
            require(await ledger.finish(key, 3, state="done", result=None), "the last claim is finished")

    @law("ledger")
    async def test_a_pending_effect_is_claimed_again_with_its_handle(self, store: _KeepingStore) -> None:
        """By the same call, under the next fence, by one of many; meanwhile nothing can end or settle it."""
        ledger, key = store.ledger(), effect("k").key
        await ledger.claim(effect("k"), owner="a", lease_s=DEAD)
        await ledger.remember(key, 1, handle='{"state": 1}')
        require(await ledger.release(key, 1, note="a question", is_pending=True), "release to pending returns True")
        row = await ledger.get(key, tenant="t")
        came = (row.state, row.owner, row.note, row.handle, row.fence)
        require(came == ("pending", "", "a question", '{"state": 1}', 1), f"a pending row is {came}")
        expect([each.key for each in await ledger.list(tenant="t", states=["pending"])], [key], "the pending effects")
        expect([*await ledger.list(tenant="t", states=["unknown", "failed"])], [], "the unknown and failed effects")
        settling = ledger.settle(key, tenant="t", state="done", by="ann")
        await refused(settling, CannotSettleError, "settle of what is pending")
        for late in (
            await ledger.finish(key, 1, state="done", result=None),
            await ledger.remember(key, 1, handle="1"),
            await ledger.release(key, 1, note=""),
            await ledger.release(key, 1, note="", is_pending=True),
        ):
            require(late is False, "the claim before it is out: it returns False")
        await ledger.forget(older_than_s=0)
        other = attrs.evolve(effect("k"), digest="other")
        expect((await ledger.claim(other, owner="b", lease_s=LIVES)).outcome, "other", "another call's claim of it")
        claims = [ledger.claim(effect("k"), owner=f"o{n}", lease_s=LIVES) for n in range(5)]
        yours = [claim.effect for claim in await asyncio.gather(*claims) if claim.outcome == "yours"]
        results = [(each.state, each.fence, each.handle, each.note, each.ended_at) for each in yours]
        expect(results, [("claimed", 2, '{"state": 1}', "", "")], "the claims of a pending effect that are yours")
        require(not await ledger.release(key, 2, note=""), "a claim with a handle is released only to pending")
        require(await ledger.release(key, 2, note="", is_pending=True), "a claim with a handle is released to pending")

    @law()
    async def test_accepted_turns_are_acquired_in_order(self, store: JournalingStore) -> None:
        """Within their conversation, each once no other turn of it is unfinished; of many that acquire one, one."""
        begun = await _asking(store, _question("q0", "a0"))
        for n in (1, 2):
            await _accepted(store, f"a{n}")
            record, _ = await store.journal.read(f"a{n}", tenant="t")
            expect((record.state, record.owner, record.fence), ("accepted", "", 0), "an accepted turn")
        await _accepted(store, "b1", conversation="d")
        await _accepted(store, "u1", tenant="u")
        store.journal.renew("o", DEAD)  # of no influence on what has no owner
        require(not await store.journal.list_interrupted("d", tenant="t"), "an accepted turn is not interrupted")
        for end in ("running", "suspended", "ended"):
            store.journal.renew("o", LIVES)
            if end == "suspended":
                require(await store.journal.suspend(begun, entries(3)), "suspend returns True")
            if end == "ended":
                begun = await store.journal.acquire("a0", tenant="t", owner="o", lease_s=LIVES)
                await store.append("c", turn_of("a0"), tenant="t", end=ending(begun, "done", 4))
                break
            for id in ("a1", "a2"):
                taking = store.journal.acquire(id, tenant="t", owner="p", lease_s=LIVES)
                error = await refused(taking, TurnNotWaitingError, f"acquire after a turn that is {end}")
                expect(error.state, "accepted", "the state of a turn behind another")
            expect(await _resumable(store), ["b1", "u1"], f"what can go on while the turn before is {end}")
        expect(await _resumable(store), ["a1", "b1", "u1"], "what can go on after the turn before has ended")
        takes = [store.journal.acquire("a1", tenant="t", owner=f"o{n}", lease_s=LIVES) for n in range(5)]
        outcomes = await asyncio.gather(*takes, return_exceptions=True)
        (row,) = [one for one in outcomes if isinstance(one, JournaledTurn)]
        expect((row.state, row.fence, row.message), ("running", 1, "hello"), "an accepted turn when acquired")
        taking = store.journal.acquire("a2", tenant="t", owner="p", lease_s=LIVES)
        await refused(taking, TurnNotWaitingError, "acquire of the second while the first runs")
        await store.journal.write(row, entries(2), lease_s=None)
        await store.append("c", turn_of("a1"), tenant="t", end=ending(row, "failed", 3))
        expect((await store.journal.acquire("a2", tenant="t", owner="p", lease_s=LIVES)).fence, 1, "the second's fence")

    @law()
    async def test_an_accepted_turn_comes_back_whole(self, store: JournalingStore) -> None:
        """With its steps, key, time and priority; a second write of them changes nothing, acquired or not."""
        await store.journal.bind("k", tenant="t", turn="a1", digest="d", keep_s=600.0)
        expected = await _accepted(store, "a1", due_at=_at(-HOUR_S), priority=-3, key="k")
        record, steps = await store.journal.read("a1", tenant="t")
        for field in ("state", "owner", "fence", "key", "due_at", "priority", "message", "cancelled_by", "suspensions"):
            expect(getattr(record, field), getattr(expected, field), f"{field} of an accepted turn")
        expect([step.data for step in steps], [entries(1)[0].data], "its steps")
        bound = await store.journal.bind("k", tenant="t", turn="b1", digest="e", keep_s=600.0)
        expect((bound.turn, bound.begun), ("a1", True), "the key of an accepted turn")
        await store.journal.write(expected, entries(1), lease_s=None)
        expect([one.id for one in await store.journal.list(tenant="t", states=["accepted"])], ["a1"], "those accepted")
        row = await store.journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)
        expect((row.key, row.priority), ("k", -3), "key and priority when acquired")
        await _check_state(store, "a1", "running")

    @law()
    async def test_what_can_go_on_is_listed_in_order(self, store: JournalingStore) -> None:
        """What is interrupted first; then what is accepted and due, by priority and age."""
        for id, rest in (
            ("a1", {}),
            ("b1", {"priority": 2}),
            ("c1", {"due_at": _at(HOUR_S), "priority": 9}),
            ("d1", {"due_at": _at(-HOUR_S)}),
            ("e1", {"priority": 2}),
            ("f1", {"priority": -1}),
        ):
            await _accepted(store, id, conversation=id, **rest)
        await _suspended(store, _question("q1", "s1", conversation="s1"))
        await _suspended(store, _question("q2", "s2", conversation="s2"))
        await store.journal.answer("q2", tenant="t", reply=YES, by="ann")
        expected = ["s2", "b1", "e1", "a1", "d1", "f1"]
        expect(await _resumable(store), expected, "what can go on")
        expect(await _resumable(store, 3), expected[:3], "the first three that can go on")
        row = await store.journal.acquire("b1", tenant="t", owner="p", lease_s=LIVES)
        await store.journal.release(row, error="its rule is gone")
        expect(await _resumable(store), ["s2", "e1", "a1", "d1", "f1"], "without what is stuck")
        row = await store.journal.acquire("e1", tenant="t", owner="p", lease_s=LIVES)
        await store.journal.release(row)
        expect(await _resumable(store), ["e1", "s2", "a1", "d1", "f1"], "with what was released")

    @law()
    async def test_a_cancellation_is_requested_of_the_owner(self, store: JournalingStore) -> None:
        """Whoever acquires the turn next gets it as well; a suspended one is interrupted; an ended one stays."""
        begun = await _asking(store, _question("q1", "a1"))
        for id in ("a", "a1"):
            row = await store.journal.request_cancel(id, tenant="t", by="ann")
            expect((row.id, row.state, row.cancelled_by), ("a1", "running", "ann"), "the turn, when requested")
        expect([*await store.journal.list_commands("o")], ["a1"], "the owner's turns to cancel")
        require(not await store.journal.suspend(begun, entries(3)), "suspend of a turn to be cancelled returns False")
        store.journal.renew("o", DEAD)
        row = await store.journal.acquire("a1", tenant="t", owner="p", lease_s=LIVES)
        expect(row.cancelled_by, "ann", "cancelled_by, when acquired")
        expect([*await store.journal.list_commands("p")], ["a1"], "the next owner's turns to cancel")
        await store.append("c", turn_of("a1"), tenant="t", end=ending(row, "cancelled", 4))
        await store.journal.request_cancel("a1", tenant="t", by="bob")
        await _check_state(store, "a1", "cancelled")
        expect([*await store.journal.list_commands("p")], [], "an ended turn is not to be cancelled")
        await _suspended(store, _question("q2", "b1", conversation="b"))
        await store.journal.request_cancel("b1", tenant="t", by="ann")
        await _check_state(store, "b1", "interrupted")
        expect((await store.journal.question("q2", tenant="t")).state, "open", "its question, until it is closed")
        await _accepted(store, "c1", conversation="c1")
        await store.journal.request_cancel("c1", tenant="t", by="ann")
        row = await store.journal.acquire("c1", tenant="t", owner="p", lease_s=LIVES)
        expect((row.fence, row.cancelled_by), (1, "ann"), "an accepted turn that is to be cancelled")
        await refused(store.journal.request_cancel("zz", tenant="t", by="ann"), UnknownTurnError, "cancel of no turn")

    @law()
    async def test_tenants_never_meet(self, store: JournalingStore) -> None:
        """None reads, lists, replies to, revokes or uses another's question, or cancels another's turn."""
        await _suspended(store, _question("q1", "a1", digest="d", remember={"tenant": "k"}))
        journal = store.journal
        theirs: Any = {"tenant": "u"}
        for asking in (
            journal.question("q1", **theirs),
            journal.answer("q1", reply=YES, by="eve", **theirs),
            journal.revoke("q1", **theirs),
            journal.questions(before="q1", **theirs),
        ):
            await refused(asking, UnknownQuestionError, "another tenant's question")
        await refused(journal.request_cancel("a1", by="eve", **theirs), UnknownTurnError, "cancel of another's turn")
        await _check_state(store, "a1", "suspended")
        await journal.answer("q1", tenant="t", reply=attrs.evolve(YES, remember="tenant"), by="ann")
        filters: Any = ({}, {"conversation": "c"}, {"turn": "a1"}, {"remembered": "k"}, {"remembered": ""})
        for rest in filters:
            expect([*await journal.questions(**theirs, **rest)], [], f"another tenant's questions with {rest}")
        require(not await journal.use_approval(Approval("q1", "d"), by="b", **theirs), "another tenant's approval")

    @law()
    async def test_a_deleted_conversation_takes_its_questions_along(self, store: JournalingStore) -> None:
        """With its suspended and accepted turns; those of others stay."""
        for tenant, conversation in (("t", "c"), ("t", "d"), ("u", "c")):
            name = f"{tenant}{conversation}"
            await store.append(conversation, turn_of(f"{name}0"), tenant=tenant)
            rest: Any = {"conversation": conversation, "tenant": tenant}
            await _suspended(store, _question(f"q{name}", f"{name}1", **rest))
            await _accepted(store, f"{name}2", **rest)
        await _suspended(store, _question("qe", "e1", conversation="e"))  # which has only this turn, its first
        running = await _asking(store, _question("qrun", "run"))
        for conversation in ("c", "e"):
            await store.delete(conversation, tenant="t")
        for id in ("qtc", "qe", "qrun"):
            answering = store.journal.answer(id, tenant="t", reply=YES, by="ann")
            await refused(answering, (UnknownQuestionError, ClosedQuestionError), "a reply after the deletion")
        for id in ("tc1", "tc2"):
            taking = store.journal.acquire(id, tenant="t", owner="p", lease_s=LIVES)
            await refused(taking, UnknownTurnError, "acquire of a turn of a deleted conversation")
        expect(await _ids(store), ["qtd"], "the tenant's questions after the deletion")
        expect(await _ids(store, tenant="u"), ["quc"], "another tenant's questions")
        expect(await _resumable(store), [], "what can go on")
        with contextlib.suppress(FlexChatError):  # it may be refused
            await store.journal.suspend(running, entries(3))
        store.journal.renew("o", DEAD)
        taking = store.journal.acquire("run", tenant="t", owner="p", lease_s=LIVES)
        await refused(taking, UnknownTurnError, "acquire of a turn that was suspended after the deletion")
        await store.journal.answer("qtd", tenant="t", reply=YES, by="ann")
        await _check_state(store, "td1", "interrupted")

    @law()
    async def test_forgetting_leaves_what_is_needed(self, store: JournalingStore) -> None:
        """Questions of turns that have not ended, and remembered replies; the others go with their turns."""
        for id in ("a1", "b1"):
            questions = [_question(f"{id}{n}", id, conversation=id, remember={"tenant": "k"}) for n in range(2)]
            begun = await _asking(store, *questions)
            await store.journal.answer(f"{id}0", tenant="t", reply=attrs.evolve(YES, remember="tenant"), by="ann")
            if id == "b1":
                await store.append(id, turn_of(id), tenant="t", end=ending(begun, "done", 3))
        await _suspended(store, _question("s", "s1"))
        await store.journal.forget(older_than_s=HOUR_S, events_older_than_s=HOUR_S)
        expect(len(await _ids(store)), 5, "nothing younger is forgotten: the count of questions")
        await asyncio.sleep(0.005)  # rows hold milliseconds
        await store.journal.forget(older_than_s=0, events_older_than_s=0)
        expect(await _ids(store), ["s", "b10", "a11", "a10"], "the questions that stay")
        expect(await _ids(store, remembered="k"), ["b10", "a10"], "what is remembered")
        expect((await store.journal.question("b10", tenant="t")).question.remember, {"tenant": "k"}, "whole")
        await _check_state(store, "s1", "suspended")
        await store.journal.revoke("b10", tenant="t")
        await store.journal.forget(older_than_s=0, events_older_than_s=0)
        expect(await _ids(store), ["s", "a11", "a10"], "the questions that stay once one was revoked")

    @law("durable")
    async def test_what_was_written_is_there_when_it_is_opened_again(self, folder: Path) -> None:
        """Questions, replies, uses, requests to cancel; what is suspended, and what is accepted."""
        async with self.opened(folder) as store:
            await _suspended(store, _question("q1", "a1", digest="d"))
            await _asking(store, _question("q2", "b1", digest="d", conversation="b"))
            await store.journal.answer("q2", tenant="t", reply=YES, by="ann")
            require(await store.journal.use_approval(Approval("q2", "d"), tenant="t", by="b"), "it is used")
            await store.journal.request_cancel("b1", tenant="t", by="bob")
            await _accepted(store, "c1", conversation="c1", priority=3)
            before = [await store.journal.question(id, tenant="t") for id in ("q1", "q2")]
        async with self.opened(folder) as store:
            expect([await store.journal.question(id, tenant="t") for id in ("q1", "q2")], before, "the questions")
            await _check_state(store, "a1", "suspended")
            expect((await store.journal.read("b1", tenant="t"))[0].cancelled_by, "bob", "cancelled_by")
            require(not await store.journal.use_approval(Approval("q2", "d"), tenant="t", by="x"), "it was used")
            expect((await store.journal.read("c1", tenant="t"))[0].priority, 3, "the priority")
            await store.journal.answer("q1", tenant="t", reply=YES, by="ann")
            expect(await _resumable(store), ["a1", "c1"], "what can go on")

    @law("shared")
    async def test_two_that_share_it_agree(self, folder: Path) -> None:
        """One reply counts, one call is approved, and no moment has a reply while the turn is suspended."""
        async with self.opened(folder) as one, self.opened(folder) as two:
            for n in range(5):
                id = f"q{n}"
                await _suspended(one, _question(id, f"a{n}", digest="d", conversation=id))
                answers = [s.journal.answer(id, tenant="t", reply=YES, by=f"{n}") for s in (one, two) for n in "ab"]
                looking = asyncio.create_task(_look(two, id, f"a{n}"))
                came = await asyncio.gather(*answers, return_exceptions=True)
                require(sum(isinstance(each, PendingQuestion) for each in came) == 1, f"it came to {show(came)}")
                await looking
                uses = [s.journal.use_approval(Approval(id, "d"), tenant="t", by=f"{s is one}") for s in (one, two)]
                expect(sorted(await asyncio.gather(*uses)), [False, True], "two that use an approval at once")
                takes = [s.journal.acquire(f"a{n}", tenant="t", owner=f"{s is one}", lease_s=LIVES) for s in (one, two)]
                outcomes = await asyncio.gather(*takes, return_exceptions=True)
                require(sum(isinstance(each, JournaledTurn) for each in outcomes) == 1, f"it came to {show(outcomes)}")

    @law("shared")
    async def test_a_reply_and_a_suspension_meet_in_any_order(self, folder: Path) -> None:
        """Either the turn is not suspended, or the reply interrupts it: none stays suspended with a reply."""
        async with self.opened(folder) as one, self.opened(folder) as two:
            for n in range(20):
                id = f"a{n}"
                begun = await _asking(one, _question(f"q{n}", id, conversation=id))
                suspending = one.journal.suspend(begun, entries(3))
                answering = two.journal.answer(f"q{n}", tenant="t", reply=YES, by="ann")
                both = (suspending, answering) if n % 2 else (answering, suspending)
                outcomes = await asyncio.gather(*both)
                await _check_state(one, id, "interrupted" if True in outcomes else "running")

    @law("shared")
    async def test_one_that_watches_sees_the_others_changes(self, folder: Path) -> None:
        """A question, a reply, events, a request to cancel, the end: soon, by the turn's id or an empty one."""
        async with self.opened(folder) as one, self.opened(folder) as two, _watching(two) as notices:
            for n in range(200):  # until the watch has begun
                await _accepted(one, f"w{n}", conversation=f"w{n}")
                await one.journal.request_cancel(f"w{n}", tenant="t", by="ann")
                if await _is_seen(notices, 0, f"w{n}", 0.05):
                    break
            for n in range(3):
                conversation = f"c{n}"
                begun = await _asking(one, _question(f"q{n}", f"a{n}", conversation=conversation))
                end = ending(begun, "done", 3)
                changes: dict[str, Callable[[], Awaitable[Any]]] = {
                    "a reply": partial(one.journal.answer, f"q{n}", tenant="t", reply=NO, by="ann"),
                    "an event": partial(one.journal.add_events, begun, new_events(1)),
                    "a request to cancel": partial(one.journal.request_cancel, f"a{n}", tenant="t", by="ann"),
                    "an end": partial(one.append, conversation, turn_of(f"a{n}"), tenant="t", end=end),
                }
                for what, change in changes.items():
                    before = len(notices)
                    await change()
                    require(await _is_seen(notices, before, f"a{n}", 10), f"{what} is not seen: {notices[before:]}")

    @law("sending")
    async def test_an_open_question_is_due_until_it_is_sent(self, store: JournalingStore) -> None:
        """At once, and after a while again; never when it is sent or closed. Of two that take it, one gets it."""
        journal = cast(SendingJournal, store.journal)
        for n in range(6):
            await _suspended(store, _question(f"q{n}", f"a{n}", tenant=f"t{n}", conversation=f"c{n}"))
        await _asking(store, _question("q8", "a8", conversation="c8", expires_in_s=-1))
        await _asking(store, _question("q9", "a9", conversation="c9"))
        await journal.answer("q9", tenant="t", reply=NO, by="ann")
        first = await journal.take_unsent(limit=1, again_s=HOUR_S)
        expect([one.id for one in first], ["q0"], "the question that is due for longest")
        several = await asyncio.gather(*(journal.take_unsent(limit=2, again_s=HOUR_S) for _ in range(5)))
        due_ids = sorted(one.id for each in several for one in each)
        expect(due_ids, [f"q{n}" for n in range(1, 6)], "the others, taken at once by several")
        for n in range(3):
            await _suspended(store, _question(f"r{n}", f"b{n}", tenant="t", conversation=f"d{n}"))
        expect({one.id for one in await journal.take_unsent(limit=9, again_s=0)}, {"r0", "r1", "r2"}, "what is new")
        await journal.mark_sent("r0", tenant="t")
        await journal.mark_sent("r2", tenant="t1")
        await journal.mark_sent("r3", tenant="t")
        await journal.answer("r1", tenant="t", reply=NO, by="ann")
        due: set[str] = set()
        until = time.monotonic() + 10
        while not due and time.monotonic() < until:
            due |= {one.id for one in await journal.take_unsent(limit=9, again_s=0)}
            await asyncio.sleep(0.01)
        expect(due, {"r2"}, "what is due again: not what is sent or closed, or due in an hour")


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat(timespec="milliseconds")


def _question(
    id: str,
    turn_id: str,
    message: str = "May it?",
    *,
    conversation: str = "c",
    tenant: str = "t",
    expires_in_s: float = HOUR_S,
    **rest: Any,
) -> PendingQuestion:
    return PendingQuestion(
        question=Question(id=id, message=message, tool="pay", call_id=f"call_{id}", **rest),
        tenant=tenant,
        conversation=conversation,
        turn=turn_id,
        asked_at=_at(0),
        expires_at=_at(expires_in_s),
    )


async def _asking(store: JournalingStore, *questions: PendingQuestion) -> JournaledTurn:
    """Begin a turn that runs and has asked these questions."""
    first = questions[0]
    begun = turn(first.turn, tenant=first.tenant, conversation=first.conversation)
    await store.journal.write(begun, entries(1), lease_s=LIVES)
    await store.journal.write(begun, entries(2), lease_s=None, questions=questions)
    return begun


async def _suspended(store: JournalingStore, *questions: PendingQuestion) -> JournaledTurn:
    begun = await _asking(store, *questions)
    require(await store.journal.suspend(begun, entries(3)), "suspend of a turn with an open question returns True")
    return begun


async def _accepted(store: JournalingStore, id: str, *, tenant: str = "t", conversation: str = "c", **rest: Any) -> Any:
    accepted = JournaledTurn(
        id=id, tenant=tenant, conversation=conversation, state="accepted", message="hello", fence=0, **rest
    )
    await store.journal.write(accepted, entries(1), lease_s=None)
    return accepted


async def _approved(store: JournalingStore, *ids: str) -> None:
    """Ask for approvals of the digests "d" and the id, and give them."""
    await _asking(store, *(_question(id, "a1", digest=f"d{id}") for id in ids))
    for id in ids:
        await store.journal.answer(id, tenant="t", reply=YES, by="ann")


async def _claimed(ledger: EffectLedger, name: str, approval: Approval) -> tuple[str, int]:
    claim = await ledger.claim(effect(name), owner="a", lease_s=LIVES, approval=approval)
    return claim.outcome, claim.effect.fence


def _reply_step(number: int, question: str) -> JournalEntry:
    data = {"iteration": 1, "index": 0, "id": question, "reply": {"action": "decline"}}
    return JournalEntry(number=number, kind="reply", data=data, at=_at(0))


async def _only(store: JournalingStore, turn_id: str) -> PendingQuestion:
    (only,) = await store.journal.questions(tenant="t", turn=turn_id)
    return only


async def _ids(store: JournalingStore, *, tenant: str = "t", **rest: Any) -> Sequence[str]:
    return [one.id for one in await store.journal.questions(tenant=tenant, **rest)]


async def _resumable(store: JournalingStore, limit: int = 20) -> Sequence[str]:
    return [one.id for one in await store.journal.list_resumable(limit=limit)]


async def _check_state(store: JournalingStore, id: str, expected: str) -> None:
    """Check that read, list and list_interrupted report the same state of a turn."""
    record, _ = await store.journal.read(id, tenant="t")
    (listed,) = [one for one in await store.journal.list(tenant="t", limit=100) if one.id == id]
    waits = id in await store.journal.list_interrupted(record.conversation, tenant="t")
    came = (record.state, listed.state, waits)
    expect(came, (expected, expected, expected in ("interrupted", "suspended")), "read, list and list_interrupted")


async def _look(store: JournalingStore, question: str, turn_id: str) -> None:
    """Look until the question has a reply: the turn is not suspended then."""
    while (await store.journal.question(question, tenant="t")).state == "open":  # noqa: ASYNC110  as others see it
        await asyncio.sleep(0)
    state = (await store.journal.read(turn_id, tenant="t"))[0].state
    require(state != "suspended", "a question has a reply, and its turn is suspended")


@contextlib.asynccontextmanager
async def _watching(store: JournalingStore) -> AsyncIterator[list[str]]:
    """Collect what a watch yields."""
    notices: list[str] = []

    async def watch() -> None:
        async for id in store.journal.watch():
            notices.append(id)

    watching = asyncio.create_task(watch())
    try:
        yield notices
    finally:
        ended = watching.done()
        watching.cancel()
        outcome = (await asyncio.gather(watching, return_exceptions=True))[0]
        require(not ended, f"a watch never ends; it ended with {outcome!r}")


async def _is_seen(notices: list[str], since: int, id: str, within_s: float) -> bool:
    until = time.monotonic() + within_s
    while time.monotonic() < until:
        if {id, ""} & {*notices[since:]}:
            return True
        await asyncio.sleep(0.005)
    return False
