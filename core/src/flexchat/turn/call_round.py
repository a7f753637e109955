"""The calls of one answer while they run."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from ..domain import ToolCall, ToolCallRecord, ToolResult
from ..plugin.call import Call
from ..plugin.hooks import record_of
from ..tools.registry import ToolRegistry
from ..tools.results import json_facts

NOT_STARTED = "Not executed: the turn ended before the tool was started"
_BROKEN_OFF = "Interrupted: the turn ended while the tool was running, so what it did is unknown"


@attrs.define(eq=False)
class CallRound:
    """The calls of one answer while they run.

    Attributes:
        asked: The calls as the model wrote them.
        calls: The same calls running; None for one that has not started.
        records: The outcome of each; None while it runs.
    """

    asked: Sequence[ToolCall]
    iteration: int
    calls: list[Call | None] = attrs.field(init=False)
    records: list[ToolCallRecord | None] = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.calls, self.records = [None] * len(self.asked), [None] * len(self.asked)

    def broken_off(self, registry: ToolRegistry) -> list[ToolCallRecord]:
        """Return a record for each call of a turn that ends before all of them have a result."""
        return [record or self._lost(index, registry) for index, record in enumerate(self.records)]

    def _lost(self, index: int, registry: ToolRegistry) -> ToolCallRecord:
        asked, call = self.asked[index], self.calls[index]
        name = registry.name_of(asked.name)
        # Only a call whose tool was never started may be called not executed: a started one may have acted.
        if call is None:
            return record_of(asked, name, ToolResult.failed(name, NOT_STARTED), self.iteration, {})
        result, facts = (
            ToolResult.failed(name, _BROKEN_OFF if call.began else NOT_STARTED),
            json_facts(call.facts, name),
        )
        if call.begun_effect is not None:
            facts.setdefault("effect", {"key": call.begun_effect, "state": "unknown"})
        return record_of(asked, name, result, self.iteration, facts)
