"""Phase 6b: the calls of one answer, decided and run. What was asked before is remembered for the length of a turn."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence

import attrs

from ..calls.calls import Calls
from ..domain import ToolCall, ToolCallRecord, ToolFinished, ToolMessage, ToolResult, ToolStarted, TurnInfo
from ..plugin.call import Call, Origin
from ..plugin.events import current_turn
from ..tools.registry import ToolRegistry
from ..tools.results import for_the_model

log = logging.getLogger(__name__)

MAX_IDENTICAL_CALLS = 2  # the third is refused; if the model then asks for it again, the loop ends (C16)
_NOT_BEGUN = "Not executed: the turn ended before the tool was started"
_BROKEN_OFF = "Interrupted: the turn ended while the tool was running, so what it did is unknown"
_REPEATED = "This exact call was already made twice; use its earlier result instead of asking again"


@attrs.define
class ToolRound:
    """What one answer's calls came to: one record for each, in the order of the calls."""

    records: list[ToolCallRecord]

    def messages(self, calls: Sequence[ToolCall], max_result_chars: int) -> list[ToolMessage]:
        """Return the answers for the model, one for each call."""
        return [
            ToolMessage(
                tool_call_id=call.id,
                name=call.name,
                content=for_the_model(record.result, max_result_chars, call.name),
                is_error=not record.result.success,
            )
            for call, record in zip(calls, self.records, strict=True)
        ]


class ToolLoop:
    """Runs the tool calls of one turn.

    Args:
        offered: Names of the tools this turn's model was offered; nothing else runs.
        time_left: Seconds the turn may still take; None for no limit.
        per_answer, per_turn: How many calls are run at most; the others are answered with a refusal.
        origin: Who asks for the calls.

    Attributes:
        exhausted: Why the loop must end (a call repeated after it was refused, the budget used up); empty while it
            may go on.
        wrote: Whether a tool has been run whose effect must not happen twice.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        calls: Calls,
        offered: Sequence[str],
        *,
        time_left: Callable[[], float | None],
        per_answer: int,
        per_turn: int,
        origin: Origin = "model",
    ) -> None:
        self._registry = registry
        self._runner = calls
        self._origin = origin
        self._offered = frozenset(offered)
        self._time_left = time_left
        self._per_answer = per_answer
        self._per_turn = per_turn
        self._times_asked: Counter[str] = Counter()
        self._refused: set[str] = set()  # repeated calls, once the model has been told so
        self._run = 0
        self._calls: Sequence[ToolCall] = ()
        self._iteration = 0
        self._records: list[ToolCallRecord | None] = []
        self._under_way: dict[int, Call] = {}
        self.exhausted = ""
        self.wrote = False

    async def run(
        self, calls: Sequence[ToolCall], iteration: int
    ) -> AsyncGenerator[ToolStarted | ToolFinished | ToolRound, None]:
        """Give every call exactly one result; yield what happens and, last, the ToolRound.

        Refusals are settled first, one by one. The others run side by side, but for exclusive tools, which run alone.
        If the caller leaves early, everything that still runs is cancelled.
        """
        self._calls, self._iteration, self._under_way = calls, iteration, {}
        records = self._records = [None] * len(calls)
        refusals = [self._refusal(call, index) for index, call in enumerate(calls)]
        self._refused.update(_signature(c) for c, refusal in zip(calls, refusals, strict=True) if refusal == _REPEATED)
        for group in self._groups(calls, refusals):
            async with contextlib.aclosing(self._run_group(group, calls, refusals, iteration)) as events:
                async for event in events:
                    yield event
        yield ToolRound([record for record in records if record is not None])

    def broken_off(self) -> ToolRound:
        """Return what the last answer's calls came to, if the turn ends before all of them have a result."""
        return ToolRound([record or self._lost(index) for index, record in enumerate(self._records)])

    def _lost(self, index: int) -> ToolCallRecord:
        call, why = self._calls[index], _BROKEN_OFF if self._has_begun(index) else _NOT_BEGUN
        name = self._registry.name_of(call.name)
        return ToolCallRecord(
            tool=name,
            params=call.arguments or {},
            result=ToolResult.failed(name, why),
            iteration=self._iteration,
            call_id=call.id,
        )

    def _has_begun(self, index: int) -> bool:
        return index in self._under_way and self._under_way[index].began

    def _refusal(self, call: ToolCall, index: int) -> str | None:
        """Return why a call is not run; None if it is."""
        signature = _signature(call)
        self._times_asked[signature] += 1
        tool = self._registry.get(self._registry.name_of(call.name))
        if not (tool is not None and tool.repeatable) and self._times_asked[signature] > MAX_IDENTICAL_CALLS:
            log.warning("tool %s: the same call for the %d. time; refused", call.name, self._times_asked[signature])
            if signature in self._refused:
                self.exhausted = f"the model repeated one call of {call.name} after it had been refused"
            return _REPEATED
        if call.error is not None:
            log.error("tool %s: invalid tool arguments: %s", call.name, call.error)
            return f"Invalid tool arguments: {call.error}"
        if index >= self._per_answer:
            return f"Not executed: at most {self._per_answer} calls in one answer; ask for the others in the next"
        if self._run >= self._per_turn:
            self.exhausted = f"the budget of {self._per_turn} tool calls was used up"
            return f"Not executed: the budget of {self._per_turn} tool calls for this message is used up"
        self._run += 1
        return None

    def _groups(self, calls: Sequence[ToolCall], refusals: Sequence[str | None]) -> list[list[int]]:
        """Return the calls, by index, in groups that may run side by side, in order."""
        groups: list[list[int]] = []
        shared = False
        for index, call in enumerate(calls):
            tool = self._registry.get(self._registry.name_of(call.name))
            alone = refusals[index] is None and tool is not None and tool.exclusive
            if alone or not shared:
                groups.append([])
            groups[-1].append(index)
            shared = not alone
        return groups

    async def _run_group(
        self, group: Sequence[int], calls: Sequence[ToolCall], refusals: Sequence[str | None], iteration: int
    ) -> AsyncGenerator[ToolStarted | ToolFinished, None]:
        for index in group:
            yield ToolStarted(self._named(calls[index]))
        if len(group) == 1:
            index = group[0]
            yield ToolFinished(await self._record(index, calls[index], refusals[index], iteration))
            return
        tasks = {asyncio.create_task(self._record(i, calls[i], refusals[i], iteration)): i for i in group}
        pending = set(tasks)
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in sorted(done, key=tasks.__getitem__):
                    yield ToolFinished(task.result())
        finally:
            for task in pending:
                task.cancel()
            if pending:
                await asyncio.gather(*pending, return_exceptions=True)

    def _named(self, call: ToolCall) -> ToolCall:
        """Return a call under its tool's own name, which is not always the one its model was told."""
        name = self._registry.name_of(call.name)
        return call if name == call.name else attrs.evolve(call, name=name)

    async def _record(self, index: int, call: ToolCall, refusal: str | None, iteration: int) -> ToolCallRecord:
        asked = self._under_way[index] = Call(
            name=self._registry.name_of(call.name),
            arguments=call.arguments if call.arguments is not None else {},
            origin=self._origin,
            id=call.id,
            turn=TurnInfo(id=current_turn.get()),
            offered=self._offered,
            refusal=refusal,
            seconds_left=self._time_left,
            iteration=iteration,
            index=index,
            notes=[*call.notes],
        )
        result = await self._runner.run(asked)
        self.wrote = self.wrote or (asked.began and asked.tool is not None and asked.tool.effect == "write")
        record = self._records[index] = ToolCallRecord(
            tool=asked.name,
            # what a provider takes for a call may be anything
            params=call.arguments if isinstance(call.arguments, Mapping) else {},
            result=result,
            iteration=iteration,
            call_id=call.id,
            raw_arguments=call.raw_arguments if call.arguments is None else None,
            facts=asked.facts,
        )
        return record


_sorted_json = json.JSONEncoder(sort_keys=True, default=repr).encode


def _signature(call: ToolCall) -> str:
    """Return the same text for calls that differ only in the order of their arguments."""
    if call.error is not None:
        return f"{call.name} {call.raw_arguments}"
    try:
        return f"{call.name} {_sorted_json(call.arguments)}"
    except (TypeError, ValueError, RecursionError):  # keys that cannot be sorted, or nested too deeply to be walked
        return f"{call.name} {call.raw_arguments or call.id}"
