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

from .kept_samples import LIVES, effect
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
        is_settled: Whether a person has settled it.
        handle: The handle that its tool has stored.
    """

    state: str
    owner: str
    fence: int
    digest: str
    runs: int = 0
    is_settled: bool = False
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

        new, row = attrs.evolve(effect(name), digest=digest), self.known.get(name)
        claim = self._do(self.ledger.claim(new, owner=owner, lease_s=LIVES, take_over=take_over))
        expected = self._expected(row, digest, take_over)
        require(claim.outcome == expected, f"a claim of {row} came to {claim.outcome}, not {expected}")
        if expected == "yours":
            fence = 1 if row is None else row.fence + 1
            require(claim.effect.fence == fence, f"the fence of a claim is {claim.effect.fence}, not {fence}")
            handle = row.handle if row is not None and row.owner else None
            require(claim.effect.handle == handle, f"a claim of {row} has the handle {claim.effect.handle}")
            self.known[name] = Known("claimed", owner, fence, digest, handle=handle)
            self.alive[owner] = True
            self.held.append(Held(name, owner, fence))

    def _expected(self, row: Known | None, digest: str, take_over: bool) -> str:
        if row is None or not row.owner:
            return "yours"
        if row.digest != digest:
            return "other"
        if row.state == "unknown" and row.handle is not None and take_over:
            return "yours"
        if row.state != "claimed":
            return "ended"
        if self.alive[row.owner]:
            return "running"
        return "yours" if take_over else "lost"

    @precondition(lambda self: any(not hold.began and not hold.ended for hold in self.held))
    @rule(data=st.data())
    def begin(self, data: Any) -> None:
        """A process starts the tool that it has claimed, unless it has learned that its lease is over."""
        hold = data.draw(st.sampled_from([hold for hold in self.held if not hold.began and not hold.ended]))
        row = self.known[hold.name]
        if row.fence == hold.fence and self.alive[hold.owner] and row.state == "claimed":
            row.runs += 1
            hold.began = True
            require(row.runs == 1, f"the tool of {hold} was started {row.runs} times under one claim")

    @precondition(lambda self: any(hold.began for hold in self.held))
    @rule(data=st.data(), handle=st.sampled_from(["1", '{"job": 2}']))
    def remember(self, data: Any, handle: str) -> None:
        """A tool that was started has started a job: in time, too late, or for the second time."""
        hold = data.draw(st.sampled_from([hold for hold in self.held if hold.began]))
        row = self.known[hold.name]
        counts = row.fence == hold.fence and row.state in ("claimed", "unknown") and bool(row.owner)
        is_written = self._do(self.ledger.remember(self._key(hold.name), hold.fence, handle=handle))
        require(is_written is counts, f"remember of {hold}, where it is {row}, returned {is_written}")
        if counts:
            row.handle = handle

    @precondition(lambda self: self.held)
    @rule(data=st.data(), state=STATES)
    def finish(self, data: Any, state: Any) -> None:
        """A process records how its claim ended: in time, too late, or for the second time."""
        hold = data.draw(st.sampled_from(self.held))
        row = self.known[hold.name]
        counts = row.fence == hold.fence and row.state in ("claimed", "unknown") and bool(row.owner)
        is_written = self._do(self.ledger.finish(self._key(hold.name), hold.fence, state=state, result=None))
        require(is_written is counts, f"finish of {hold}, where it is {row}, returned {is_written}")
        hold.ended = True
        if counts:
            row.state = state

    @precondition(lambda self: any(not hold.began for hold in self.held))
    @rule(data=st.data())
    def release(self, data: Any) -> None:
        """A process releases a claim whose tool it has not started."""
        hold = data.draw(st.sampled_from([hold for hold in self.held if not hold.began]))
        row = self.known[hold.name]
        counts = row.fence == hold.fence and row.state == "claimed" and row.handle is None
        is_written = self._do(self.ledger.release(self._key(hold.name), hold.fence, note=""))
        require(is_written is counts, f"release of {hold}, where it is {row}, returned {is_written}")
        hold.ended = True
        if counts:
            row.state, row.owner = "failed", ""

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
        row = self.known.get(name)
        if row is None:
            return
        lost = row.state == "claimed" and not self.alive[row.owner]
        may = row.state == "unknown" or lost
        try:
            self._do(self.ledger.settle(self._key(name), tenant="t", state=state, by="ann"))
        except CannotSettleError:
            require(not may, f"settle was refused, where it is {row}")
        else:
            require(may, f"settle was not refused, where it is {row}")
            row.state, row.is_settled = state, True

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
        for name, model in self.known.items():
            row = rows[self._key(name)]
            lost = model.state == "claimed" and not self.alive[model.owner]
            came = (row.state, row.owner, row.fence, bool(row.settled_by), row.handle)
            expected = ("unknown" if lost else model.state, model.owner, model.fence, model.is_settled, model.handle)
            require(came == expected, f"effect {name} is {came}, not {expected}")
            require((row.key in unknown) == (expected[0] == "unknown"), f"effect {name} is listed wrongly")

    def _key(self, name: str) -> str:

        return effect(name).key
