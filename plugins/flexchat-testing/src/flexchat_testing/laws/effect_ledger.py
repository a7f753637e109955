"""The laws of a ledger of effects."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, ClassVar

import attrs
from flexchat.store import CannotSettleError, Claim, EffectCall, EffectLedger, UnknownEffectError

from .kept_samples import DEAD, LIVES, TEXTS, effect
from .law import Conformance, expect, law, opened_in, refused, require, show

_ENDS: tuple[Any, ...] = ("done", "failed", "unknown")


class LedgerConformance(Conformance):
    """What every ledger must do: of all who claim one key, one runs the tool, and no row is ever lost.

    Write make_ledger and ``supports``.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "durable": "make_ledger with a closed ledger's folder opens the same rows again",
        "shared": "two ledgers with one folder may be open at once, as in two processes, and see each other's claims",
    }

    def make_ledger(self, folder: Path) -> EffectLedger:
        """Return a ledger; an empty one for every new folder. Same folder, same rows."""
        raise NotImplementedError(f"{type(self).__name__} must write make_ledger")

    def opened(self, folder: Path | None = None) -> AbstractAsyncContextManager[EffectLedger]:
        """Open a ledger for the length of a law: an empty one, or that of a folder."""
        return opened_in(self.make_ledger, folder)

    @law()
    async def test_of_many_claims_one_is_yours(self, ledger: EffectLedger) -> None:
        """Whoever claims, and however many at once."""
        for same in (True, False):
            expected = effect(f"key {same}")
            claims = await asyncio.gather(
                *[ledger.claim(expected, owner="a" if same else f"o{n}", lease_s=LIVES) for n in range(20)]
            )
            outcomes = sorted(claim.outcome for claim in claims)
            wanted_outcomes = ["running"] * 19 + ["yours"]
            require(outcomes == wanted_outcomes, f"of 20 claims of one key one is yours: got {outcomes}")

    @law()
    async def test_a_claim_comes_back_whole(self) -> None:
        """With every field that was given, and what is known of it: claimed, its owner, fence 1, when."""
        for conversation in ("c", None):
            expected = attrs.evolve(effect("k"), conversation=conversation, arguments='{"amount": 5}')
            async with self.opened() as ledger:
                claim = await ledger.claim(expected, owner="a", lease_s=LIVES)
                for row in (claim.effect, await ledger.get(expected.key, tenant="t")):
                    for field in attrs.fields(EffectCall):
                        was, now = getattr(expected, field.name), getattr(row, field.name)
                        require(was == now, f"{field.name} was {show(was)} and came back as {show(now)}")
                    state = (row.state, row.owner, row.fence, row.result, row.ended_at, row.settled_by)
                    require(state == ("claimed", "a", 1, None, "", ""), f"a new claim is not {state}")
                    require("T" in row.claimed_at, f"claimed_at is an ISO 8601 time, not {row.claimed_at!r}")

    @law()
    async def test_what_has_ended_is_told(self, ledger: EffectLedger) -> None:
        """With state, result and note, to everybody who claims it again, whatever its owner does."""
        for state in _ENDS:
            claim = await _claimed(ledger, state)
            is_written = await ledger.finish(claim.effect.key, 1, state=state, result='{"r": 1}', note="why")
            require(is_written is True, f"finish of a claim must return True, got {is_written!r}")
            for owner in ("a", "b"):
                again = await ledger.claim(effect(state), owner=owner, lease_s=DEAD, take_over=True)
                row = again.effect
                came = (again.outcome, row.state, row.result, row.note, row.owner, row.fence)
                require(came == ("ended", state, '{"r": 1}', "why", "a", 1), f"a finished claim came back as {came}")
                require("T" in row.ended_at, f"ended_at is an ISO 8601 time, not {row.ended_at!r}")

    @law()
    async def test_another_call_does_not_get_the_key(self, ledger: EffectLedger) -> None:
        """A key cannot be used with another tool, other arguments or another tenant: the claim is refused."""
        others = (
            attrs.evolve(effect("k"), tool="other"),
            attrs.evolve(effect("k"), digest="other"),
            attrs.evolve(effect("k"), tenant="other"),
        )
        claim = await _claimed(ledger, "k", DEAD)
        for step in ("claimed", "ended"):
            for other in others:
                outcome = (await ledger.claim(other, owner="b", lease_s=LIVES, take_over=True)).outcome
                require(outcome == "other", f"a claim of another call under a key that is {step} is {outcome}")
            await ledger.finish(claim.effect.key, 1, state="done", result=None)

    @law()
    async def test_a_dead_owners_claim_is_lost_until_somebody_takes_it_over(self, ledger: EffectLedger) -> None:
        """A take-over gets the next fence, and writes under the previous one are refused."""
        first = await _claimed(ledger, "k", DEAD)
        for owner in ("a", "b"):
            outcome = (await ledger.claim(effect("k"), owner=owner, lease_s=LIVES)).outcome
            require(outcome == "lost", f"a claim whose owner is dead is lost, got {outcome}")
        for name in "abcdk":  # owners without a lease: a ledger may have to wait to see that one is alive
            if name != "k":
                await _claimed(ledger, name, DEAD)
            takes = [ledger.claim(effect(name), owner=f"{name}{n}", lease_s=LIVES, take_over=True) for n in range(10)]
            yours = [claim for claim in await asyncio.gather(*takes) if claim.outcome == "yours"]
            require(len(yours) == 1, f"one of ten takes it over, not {len(yours)}")
        require(yours[0].effect.fence == 2, f"the fence goes on to 2, got {yours[0].effect.fence}")
        late = await ledger.finish(first.effect.key, 1, state="done", result=None)
        require(late is False, "a claim that was taken over can no longer be finished: finish returns False")
        require(await ledger.finish(first.effect.key, 2, state="done", result=None), "the newest claim is finished")

    @law()
    async def test_an_owner_that_renews_lives_with_all_its_claims(self, ledger: EffectLedger) -> None:
        """From a thread, while the event loop is blocked."""
        await _claimed(ledger, "j", DEAD)
        await _claimed(ledger, "k", DEAD)
        renewing = threading.Thread(target=ledger.renew, args=("a", LIVES), daemon=True)
        renewing.start()
        renewing.join(10)
        require(not renewing.is_alive(), "renew must not wait for the event loop: it is called in a thread")
        for key in ("j", "k"):
            outcome = (await ledger.claim(effect(key), owner="b", lease_s=LIVES, take_over=True)).outcome
            require(outcome == "running", f"a claim of an owner that has renewed is running, got {outcome}")

    @law()
    async def test_a_late_answer_settles_what_was_unknown(self, ledger: EffectLedger) -> None:
        """It replaces neither a person's verdict nor a result that is done or failed."""
        for name, first in zip("dfu", _ENDS, strict=True):
            key = (await _claimed(ledger, name)).effect.key
            await ledger.finish(key, 1, state=first, result=None)
            late = await ledger.finish(key, 1, state="done", result='{"late": true}')
            require(late is (first == "unknown"), f"finish of what is {first} returned {late}")
        key = (await _claimed(ledger, "p")).effect.key
        await ledger.finish(key, 1, state="unknown", result=None)
        await ledger.settle(key, tenant="t", state="failed", by="ann")
        require(not await ledger.finish(key, 1, state="done", result=None), "a person's word stands")
        require((await ledger.get(key, tenant="t")).state == "failed", "a person's word stands")

    @law()
    async def test_what_is_given_back_may_be_claimed_again(self, ledger: EffectLedger) -> None:
        """Also for another call, since nothing has run; the fence goes on, so that the one before is out."""
        key = (await _claimed(ledger, "k")).effect.key
        require(await ledger.release(key, 1, note="refused"), "release of a claim returns True")
        row = await ledger.get(key, tenant="t")
        require((row.state, row.owner, row.note) == ("failed", "", "refused"), f"a released row is {show(row)}")
        other = attrs.evolve(effect("k"), digest="other")
        claim = await ledger.claim(other, owner="b", lease_s=LIVES)
        came = (claim.outcome, claim.effect.fence, claim.effect.digest, claim.effect.owner, claim.effect.state)
        require(came == ("yours", 2, "other", "b", "claimed"), f"a claim after release came to {came}")
        require(not await ledger.finish(key, 1, state="done", result=None), "the claim before it is out")
        require(not await ledger.release(key, 1, note=""), "the claim before it is out")
        await ledger.finish(key, 2, state="done", result=None)
        require(not await ledger.release(key, 2, note=""), "what has ended cannot be given back")

    @law()
    async def test_a_handle_stays_with_its_effect(self, ledger: EffectLedger) -> None:
        """Through an unknown end, its owner's death and a take-over; who holds the claim no more cannot write it."""
        for name, owner, lease_s in (("dead", "dead", DEAD), ("unknown", "a", LIVES)):
            key = (await _claimed(ledger, name, lease_s, owner=owner)).effect.key
            for handle in ('{"job": 16}', '{"job": 17}'):
                require(await ledger.remember(key, 1, handle=handle), "remember of a claim returns True")
            require(not await ledger.release(key, 1, note=""), "a claim with a handle cannot be given back")
            if name == "unknown":
                await ledger.finish(key, 1, state="unknown", result=None, note="a timeout")
                require(await ledger.remember(key, 1, handle='{"job": 17}'), "what is unknown takes a handle, too")
            claim = await ledger.claim(effect(name), owner="b", lease_s=LIVES)
            came = (claim.outcome, claim.effect.handle)
            expected = ("lost" if name == "dead" else "ended", '{"job": 17}')
            require(came == expected, f"a claim of an effect that is {name} and has a handle came to {came}")
            takes = [ledger.claim(effect(name), owner=f"o{n}", lease_s=LIVES, take_over=True) for n in range(5)]
            yours = [claim.effect for claim in await asyncio.gather(*takes) if claim.outcome == "yours"]
            require(len(yours) == 1, f"one of five takes it over, not {len(yours)}")
            stored = await ledger.get(key, tenant="t")
            for row in (*yours, stored):
                fields = (row.state, row.fence, row.handle, row.note, row.ended_at)
                require(fields == ("claimed", 2, '{"job": 17}', "", ""), f"what was taken over is {fields}")
            require(not await ledger.remember(key, 1, handle="1"), "the claim before it is out")
            require(await ledger.finish(key, 2, state="done", result=None), "the newest claim is finished")
            require(not await ledger.remember(key, 2, handle="1"), "what is done takes no handle")
            again = await ledger.claim(effect(name), owner="c", lease_s=LIVES, take_over=True)
            require(again.outcome == "ended", f"what is done is not taken over, got {again.outcome}")
        key = (await _claimed(ledger, "k")).effect.key
        await ledger.release(key, 1, note="")
        require(not await ledger.remember(key, 1, handle="1"), "what was given back takes no handle")
        require(not await ledger.remember("f" * 64, 1, handle="1"), "remember of no effect returns False")

    @law()
    async def test_a_person_settles_what_is_unknown_or_lost(self, ledger: EffectLedger) -> None:
        """And nothing else: what is known or still running is refused, with what it is now."""
        lost = (await _claimed(ledger, "lost", DEAD, owner="dead")).effect.key
        listed = [row.key for row in await ledger.list(tenant="t", states=["unknown"])]
        require(listed == [lost], f"a claim whose owner is dead is listed as unknown; listed are {listed}")
        require((await ledger.get(lost, tenant="t")).state == "unknown", "and it is told as unknown by get")
        unknown = (await _claimed(ledger, "unknown")).effect.key
        await ledger.finish(unknown, 1, state="unknown", result=None, note="a timeout")
        for key, state in ((lost, _ENDS[1]), (unknown, _ENDS[0])):
            row = await ledger.settle(key, tenant="t", state=state, by="ann", note="I asked", result='{"r": 2}')
            for copy in (row, await ledger.get(key, tenant="t")):
                came = (copy.state, copy.settled_by, copy.note, copy.result)
                require(came == (state, "ann", "I asked", '{"r": 2}'), f"a settled effect came back as {came}")
            what = "settle of a settled effect"
            await refused(ledger.settle(key, tenant="t", state="done", by="bob"), CannotSettleError, what)
        running = (await _claimed(ledger, "running")).effect.key
        what = "settle of a running effect"
        await refused(ledger.settle(running, tenant="t", state="done", by="ann"), CannotSettleError, what)

    @law()
    async def test_an_effect_is_found_by_the_beginning_of_its_key(self, ledger: EffectLedger) -> None:
        """One that fits several, none, or another tenant's, is refused."""
        for number in range(20):
            await ledger.claim(attrs.evolve(effect("x"), key=f"{number:02x}" * 32), owner="a", lease_s=LIVES)
        key = "0a" * 32
        for beginning in (key, key[:8], key[:2]):
            expect((await ledger.get(beginning, tenant="t")).key, key, f"get of '{beginning}'")
        for wrong in ("0", "", "ff", key + "0", "%", "_", "0A", "\0", "\ud83d", "zzz"):
            text = str(await refused(ledger.get(wrong, tenant="t"), UnknownEffectError, f"get of {wrong!r}"))
            require(wrong != "0" or key in text or "00" in text, f"several fit, and none is named: {text}")
        await refused(ledger.get(key, tenant="other"), UnknownEffectError, "get of another tenant's effect")
        what = "settle of another tenant's effect"
        await refused(ledger.settle(key, tenant="other", state="done", by="x"), UnknownEffectError, what)

    @law()
    async def test_a_list_is_the_newest_first(self, ledger: EffectLedger) -> None:
        """By state, by conversation, page by page; of one tenant alone."""
        for number in range(9):
            expected = attrs.evolve(effect(f"{number}"), conversation="c" if number % 2 else None)
            await ledger.claim(expected, owner="a", lease_s=LIVES)
            if number % 3:
                await ledger.finish(expected.key, 1, state="unknown" if number % 3 == 1 else "done", result=None)
        await ledger.claim(attrs.evolve(effect("theirs"), tenant="other"), owner="a", lease_s=LIVES)
        newest = [effect(f"{number}").key for number in reversed(range(9))]

        async def listed(**rest: Any) -> list[str]:
            return [row.key for row in await ledger.list(tenant="t", **rest)]

        for came, wanted_keys in (
            (await listed(), newest),
            (await listed(limit=2), newest[:2]),
            (await listed(limit=2, before=newest[1]), newest[2:4]),
            (await listed(before=newest[-1]), []),
            (await listed(states=["unknown"]), newest[1::3]),
            (await listed(states=["unknown", "claimed"], limit=3), [newest[1], newest[2], newest[4]]),
            (await listed(states=[]), []),
            (await listed(conversation="c"), newest[1::2]),
            (await listed(limit=0), []),
        ):
            require(came == wanted_keys, f"listed {came}, wanted {wanted_keys}")
        await refused(listed(before="0" * 64), UnknownEffectError, "list before an unknown key")

    @law()
    async def test_any_text_can_be_kept(self, ledger: EffectLedger) -> None:
        """Arguments, notes, results: what a database does not take may be left out, but nothing fails."""
        for number, text in enumerate(TEXTS):
            for state in ("done", "unknown"):
                expected = attrs.evolve(effect(f"{number} {state}"), arguments=text)
                claim = await ledger.claim(expected, owner="a", lease_s=LIVES)
                require(claim.outcome == "yours", f"a claim with arguments {text!r:.40} is {claim.outcome}")
                await ledger.finish(expected.key, 1, state=state, result=None, note=text)
                row = await ledger.get(expected.key, tenant="t")
                plain = text if text.isprintable() or len(text) > 1000 else row.note
                require(row.note == plain, f"the note {text!r:.40} came back as {row.note!r:.40}")

    @law()
    async def test_forgetting_takes_texts_and_leaves_what_is_needed(self, ledger: EffectLedger) -> None:
        """State, tool and digest stay, so that a repeated call is recognised; unknown effects stay complete."""
        for name, state in zip("dfu", _ENDS, strict=True):
            expected = attrs.evolve(effect(name), arguments="said")
            await ledger.claim(expected, owner="a", lease_s=LIVES)
            await ledger.remember(expected.key, 1, handle="7")
            await ledger.finish(expected.key, 1, state=state, result='{"r": 1}', note="why")
        await ledger.forget(older_than_s=3600)
        row = await ledger.get(effect("d").key, tenant="t")
        require((row.arguments, row.result) == ("said", '{"r": 1}'), "nothing younger is forgotten")
        await asyncio.sleep(0.005)  # timestamps have milliseconds
        await ledger.forget(older_than_s=0)
        for name, state in (("d", "done"), ("f", "failed"), ("u", "unknown")):
            row = await ledger.get(effect(name).key, tenant="t")
            texts = ("said", '{"r": 1}', "why", "7") if state == "unknown" else ("", None, "", None)
            expect((row.state, row.arguments, row.result, row.note, row.handle), (state, *texts), "after forget it")
            outcome = (await ledger.claim(effect(name), owner="a", lease_s=LIVES)).outcome
            require(outcome == "ended", f"a forgotten effect still counts, got {outcome}")

    @law()
    async def test_a_conversation_is_forgotten_alone(self, ledger: EffectLedger) -> None:
        """The texts of all its effects go, unknown ones included; those of other conversations and tenants stay."""
        for name, conversation, tenant in (("a", "c", "t"), ("b", "d", "t"), ("c", None, "t"), ("d", "c", "u")):
            expected = attrs.evolve(effect(name), conversation=conversation, tenant=tenant, arguments="said")
            await ledger.claim(expected, owner="a", lease_s=LIVES)
            await ledger.remember(expected.key, 1, handle="7")
            await ledger.finish(expected.key, 1, state="unknown", result='{"r": 1}', note="why")
        await ledger.forget_conversation("c", tenant="t")
        for name, tenant in (("a", "t"), ("b", "t"), ("c", "t"), ("d", "u")):
            row = await ledger.get(effect(name).key, tenant=tenant)
            came = (row.state, row.arguments, row.result, row.note, row.handle)
            texts = ("", None, "", None) if name == "a" else ("said", '{"r": 1}', "why", "7")
            require(came == ("unknown", *texts), f"effect {name} after forgetting another's conversation: {came}")

    @law()
    async def test_what_waits_ends_with_its_conversation(self, ledger: EffectLedger) -> None:
        """As failed, or as unknown if a job has been started, with the deletion as its note; elsewhere it waits on.

        Also if the conversation is deleted just before it waits, while its tool is running.
        """
        for name, conversation, handle in (("a", "c", None), ("b", "c", "7"), ("c", "d", "7"), *_RUNNING):
            expected = attrs.evolve(effect(name), conversation=conversation, arguments="said")
            await ledger.claim(expected, owner="a", lease_s=LIVES)
            if handle is not None:
                await ledger.remember(expected.key, 1, handle=handle)
            if len(name) == 1:
                await ledger.release(expected.key, 1, note="it waits", is_pending=True)
        await ledger.forget_conversation("c", tenant="t")
        for name, _, handle in _RUNNING:
            row = await ledger.get(effect(name).key, tenant="t")
            came = (row.state, row.arguments, row.handle)
            require(came == ("claimed", "", handle), f"a running call goes on without its arguments: {came}")
            await ledger.release(effect(name).key, 1, note="it waits", is_pending=True)
        for name in ("a", "b", "ra", "rb"):
            state, again = ("failed", "yours") if name[-1] == "a" else ("unknown", "ended")
            row = await ledger.get(effect(name).key, tenant="t")
            require(row.state == state, f"a deleted call that waited is {row.state}, not {state}")
            require("its conversation was deleted" in row.note, f"its note names the deletion, not {row.note!r}")
            require((row.arguments, row.handle) == ("", None) and "T" in row.ended_at, f"it ends without texts: {row}")
            call = attrs.evolve(effect(name), conversation="c", arguments="said")
            outcome = (await ledger.claim(call, owner="b", lease_s=LIVES)).outcome
            require(outcome == again, f"a claim of a deleted call, {state}, is {outcome}, not {again}")
        row = await ledger.get(effect("c").key, tenant="t")
        came = (row.state, row.note, row.handle)
        require(came == ("pending", "it waits", "7"), f"another conversation's call waits on: {came}")

    @law("durable")
    async def test_what_was_written_is_there_when_it_is_opened_again(self, folder: Path) -> None:
        """Rows, and the leases of those who live."""
        async with self.opened(folder) as ledger:
            await _claimed(ledger, "lives")
            await _claimed(ledger, "dead", DEAD, owner="dead")
            key = (await _claimed(ledger, "done")).effect.key
            await ledger.finish(key, 1, state="done", result='{"r": 1}')
            await ledger.remember(effect("dead").key, 1, handle="7")
        async with self.opened(folder) as ledger:
            require((await ledger.get(effect("dead").key, tenant="t")).handle == "7", "its handle is there, too")
            for name, expected in (("lives", "running"), ("dead", "lost"), ("done", "ended")):
                claim = await ledger.claim(effect(name), owner="b", lease_s=LIVES)
                require(claim.outcome == expected, f"{name}: {claim.outcome} after opening again, not {expected}")
            require(claim.effect.result == '{"r": 1}', "the result is there after opening again")

    @law("shared")
    async def test_two_that_share_it_agree(self, folder: Path) -> None:
        """Of what both claim at once, each key is one's."""
        async with self.opened(folder) as one, self.opened(folder) as two:
            claims = await asyncio.gather(
                *[
                    ledger.claim(effect(f"{n}"), owner=owner, lease_s=LIVES)
                    for n in range(20)
                    for ledger, owner in ((one, "a"), (two, "b"))
                ]
            )
            outcomes = [sorted(claim.outcome for claim in claims[n : n + 2]) for n in range(0, 40, 2)]
            require(outcomes == [["running", "yours"]] * 20, f"two claims each of 20 keys came to {outcomes}")

    @law()
    async def test_only_a_call_made_with_a_key_may_be_repeated_with_it(self, ledger: EffectLedger) -> None:
        """A row keeps whether its first call had a key: only then may an unknown effect be claimed again."""
        for name, first, outcome in (("with", True, "yours"), ("without", False, "ended")):
            call = attrs.evolve(effect(name), honours_key=first)
            claim = await ledger.claim(call, owner="a", lease_s=LIVES)
            require(claim.effect.honours_key is first, f"honours_key={first} is kept, got {claim.effect}")
            await ledger.finish(call.key, claim.effect.fence, state="unknown", result=None)
            again = attrs.evolve(call, honours_key=True)
            reclaim = await ledger.claim(again, owner="b", lease_s=LIVES, take_over=True)
            require(reclaim.outcome == outcome, f"{name} key: {outcome} was expected, got {reclaim.outcome}")
            require(reclaim.effect.honours_key is first, "a repetition does not change how the first call was made")

    @law()
    def test_whatever_happens_each_effect_happens_once(self) -> None:
        """Owners claim, begin, die, take over, answer late and release, and people settle, in any order."""
        from .ledger_machine import run_machine

        run_machine(self.make_ledger, examples=25)


_RUNNING = (("ra", "c", None), ("rb", "c", "7"))
"""Calls that are running while their conversation is deleted: name, conversation, handle."""


async def _claimed(ledger: EffectLedger, name: str, lease_s: float = LIVES, *, owner: str = "a") -> Claim:
    claim = await ledger.claim(effect(name), owner=owner, lease_s=lease_s)
    require(claim.outcome == "yours", f"a claim of a new key is yours, got {claim.outcome}")
    return claim
