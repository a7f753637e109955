"""A machine that does to a ledger what processes, threads and people do, in any order, and counts the effects."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs
from flexchat.store import CannotSettleError, EffectLedger
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from .effect_samples import LIVES, effect
from .law import require

KEYS = st.sampled_from(["a", "b"])
OWNERS = st.sampled_from(["one", "two", "three"])
STATES = st.sampled_from(["done", "failed", "unknown"])


@attrs.define
class Held:
    """A claim that was "yours": what a process believes it holds, whether or not it still does.

    Attributes:
        began: Whether its tool was started.
    """

    name: str
    owner: str
    fence: int
    began: bool = False
    ended: bool = False


@attrs.define
class Known:
    """The expected state of a key, derived from the operations by an independent model.

    Attributes:
        runs: The starts of its tool without a take-over between.
        said: Whether a person has settled it.
        handle: The handle that its tool has stored.
    """

    state: str
    owner: str
    fence: int
    digest: str
    runs: int = 0
    said: bool = False
    handle: str | None = None


def run_machine(make: Callable[[Path], EffectLedger], *, examples: int) -> None:
    """Run the machine on new ledgers.

    Raises:
        AssertionError: A ledger has let an effect happen twice, lost one, or reported a wrong state.
    """

    class Machine(LedgerMachine):
        make_ledger = staticmethod(make)

    config = settings(
        max_examples=examples,
        stateful_step_count=30,
        phases=(Phase.generate,),  # not shrunk: with a ledger on a disk that takes minutes
        deadline=None,
        database=None,
        derandomize=True,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Machine, settings=config)


class LedgerMachine(RuleBasedStateMachine):
    """See run_machine. Time does not pass: an owner dies when its lease is made to end."""

    make_ledger: Callable[[Path], EffectLedger]

    def __init__(self) -> None:
        super().__init__()
        self._closing = contextlib.ExitStack()
        self._runner = self._closing.enter_context(asyncio.Runner())
        folder = self._closing.enter_context(tempfile.TemporaryDirectory())
        self.ledger = type(self).make_ledger(Path(folder))
        self.known: dict[str, Known] = {}
        self.held: list[Held] = []
        self.alive: dict[str, bool] = {}

    def teardown(self) -> None:
        """Close the ledger."""
        self._do(self.ledger.aclose())
        self._closing.close()

    def _do(self, work: Any) -> Any:
        return self._runner.run(work)

    @rule(name=KEYS, owner=OWNERS, digest=st.sampled_from(["d", "d", "d", "e"]), take_over=st.booleans())
    def claim(self, name: str, owner: str, digest: str, take_over: bool) -> None:
        """A process claims an effect; where it takes over, the target takes keys, so that its tool may run again."""

        wanted, known = attrs.evolve(effect(name), digest=digest), self.known.get(name)
        claim = self._do(self.ledger.claim(wanted, owner=owner, lease_s=LIVES, take_over=take_over))
        expected = self._expected(known, digest, take_over)
        require(claim.outcome == expected, f"a claim of {known} came to {claim.outcome}, not {expected}")
        if expected == "yours":
            fence = 1 if known is None else known.fence + 1
            require(claim.effect.fence == fence, f"the fence of a claim is {claim.effect.fence}, not {fence}")
            handle = known.handle if known is not None and known.owner else None
            require(claim.effect.handle == handle, f"a claim of {known} has the handle {claim.effect.handle}")
            self.known[name] = Known("claimed", owner, fence, digest, handle=handle)
            self.alive[owner] = True
            self.held.append(Held(name, owner, fence))

    def _expected(self, known: Known | None, digest: str, take_over: bool) -> str:
        if known is None or not known.owner:
            return "yours"
        if known.digest != digest:
            return "other"
        if known.state == "unknown" and known.handle is not None and take_over:
            return "yours"
        if known.state != "claimed":
            return "ended"
        if self.alive[known.owner]:
            return "running"
        return "yours" if take_over else "lost"

    @precondition(lambda self: any(not held.began and not held.ended for held in self.held))
    @rule(data=st.data())
    def begin(self, data: Any) -> None:
        """A process starts the tool that it has claimed, unless it has learned that its lease is over."""
        held = data.draw(st.sampled_from([held for held in self.held if not held.began and not held.ended]))
        known = self.known[held.name]
        if known.fence == held.fence and self.alive[held.owner] and known.state == "claimed":
            known.runs += 1
            held.began = True
            require(known.runs == 1, f"the tool of {held} was started {known.runs} times under one claim")

    @precondition(lambda self: any(held.began for held in self.held))
    @rule(data=st.data(), handle=st.sampled_from(["1", '{"job": 2}']))
    def remember(self, data: Any, handle: str) -> None:
        """A tool that was started has started a job: in time, too late, or for the second time."""
        held = data.draw(st.sampled_from([held for held in self.held if held.began]))
        known = self.known[held.name]
        counts = known.fence == held.fence and known.state in ("claimed", "unknown") and bool(known.owner)
        written = self._do(self.ledger.remember(self._key(held.name), held.fence, handle=handle))
        require(written is counts, f"remember of {held}, where it is {known}, returned {written}")
        if counts:
            known.handle = handle

    @precondition(lambda self: self.held)
    @rule(data=st.data(), state=STATES)
    def finish(self, data: Any, state: Any) -> None:
        """A process records how its claim ended: in time, too late, or for the second time."""
        held = data.draw(st.sampled_from(self.held))
        known = self.known[held.name]
        counts = known.fence == held.fence and known.state in ("claimed", "unknown") and bool(known.owner)
        written = self._do(self.ledger.finish(self._key(held.name), held.fence, state=state, result=None))
        require(written is counts, f"finish of {held}, where it is {known}, returned {written}")
        held.ended = True
        if counts:
            known.state = state

    @precondition(lambda self: any(not held.began for held in self.held))
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        """A process releases a claim whose tool it has not started."""
        held = data.draw(st.sampled_from([held for held in self.held if not held.began]))
        known = self.known[held.name]
        counts = known.fence == held.fence and known.state == "claimed" and known.handle is None
        written = self._do(self.ledger.release(self._key(held.name), held.fence, note=""))
        require(written is counts, f"release of {held}, where it is {known}, returned {written}")
        held.ended = True
        if counts:
            known.state, known.owner = "failed", ""

    @rule(owner=OWNERS)
    def die(self, owner: str) -> None:
        """A process is killed, and its lease ends."""
        self.ledger.renew(owner, 0.0)
        self.alive[owner] = False

    @rule(owner=OWNERS)
    def renew(self, owner: str) -> None:
        """A process that was only slow is heard of again."""

        self.ledger.renew(owner, LIVES)
        self.alive[owner] = True

    @rule(name=KEYS, state=st.sampled_from(["done", "failed"]))
    def settle(self, name: str, state: Any) -> None:
        """A person records how an effect ended."""
        known = self.known.get(name)
        if known is None:
            return
        lost = known.state == "claimed" and not self.alive[known.owner]
        may = known.state == "unknown" or lost
        try:
            self._do(self.ledger.settle(self._key(name), tenant="t", state=state, by="ann"))
        except CannotSettleError:
            require(not may, f"settle was refused, where it is {known}")
        else:
            require(may, f"settle was not refused, where it is {known}")
            known.state, known.said = state, True

    @rule()
    def forget(self) -> None:
        """Old texts go."""
        self._do(self.ledger.forget(older_than_s=86_400))

    @invariant()
    def nothing_is_lost(self) -> None:
        """Every effect is listed in its state; those with an unknown outcome as unknown."""
        rows = {row.key: row for row in self._do(self.ledger.list(tenant="t"))}
        require(rows.keys() == {self._key(name) for name in self.known}, f"listed are {rows.keys()}")
        unknown = {row.key for row in self._do(self.ledger.list(tenant="t", states=["unknown"]))}
        for name, known in self.known.items():
            row = rows[self._key(name)]
            lost = known.state == "claimed" and not self.alive[known.owner]
            came = (row.state, row.owner, row.fence, bool(row.settled_by), row.handle)
            wanted = ("unknown" if lost else known.state, known.owner, known.fence, known.said, known.handle)
            require(came == wanted, f"effect {name} is {came}, not {wanted}")
            require((row.key in unknown) == (wanted[0] == "unknown"), f"effect {name} is listed wrongly")

    def _key(self, name: str) -> str:

        return effect(name).key
