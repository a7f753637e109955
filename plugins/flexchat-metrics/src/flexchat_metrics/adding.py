"""From the steps of a turn to the sums of its hour: the one pass over the journal that all figures come from.

The values of an hour are counts by "KIND\\tNAME\\tMEASURE", so that adding up hours is adding up numbers. Their kinds:
turn (with tools, without tools), rule, model ("LLM/MODEL") and tool. Times are whole milliseconds, costs trillionths of
a dollar.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

import attrs
from flexchat import Round
from flexchat.host import call_error_kind
from flexchat.store import JournaledTurn, JournalEntry
from flexchat_cli import rounds_of

from .histogram import bucket_of

OTHER = "other"
"""Counts names beyond MAX_NAMES, and tools that do not exist: models invent their names."""

NO_RULE = "none"

MAX_NAMES = 200
"""Of each kind, and of the arguments of a tool, in an hour."""

MAX_NAME_CHARS = 100
MAX_VALUE_CHARS = 60


@attrs.frozen
class TurnAdder:
    """Adds turns to sums; an AddTurn of flexchat.store.

    Attributes:
        argument_values: Patterns of tools whose arguments are counted with their values.
        mask: Removes secrets from those.
    """

    argument_values: Sequence[str] = ()
    mask: Callable[[str], str] = str

    def __call__(self, values: dict[str, int], turn: JournaledTurn, steps: Sequence[JournalEntry]) -> None:
        """Add a turn to the values of its hour. Steps that cannot be read are left out."""
        rule, is_at_limit, requests = NO_RULE, False, 0
        answers: list[Round] = []
        phase_rounds: list[Round] = []
        records: list[Mapping[str, Any]] = []
        offered: set[str] = set()
        for step in steps:
            try:
                match step.kind:
                    case "rule":
                        rule = str(step.data["outcome"].get("name") or step.data["index"] + 1)
                        offered = {*step.data["tools"]}
                    case "request":
                        requests += 1
                        _Series(values, "model", f"{step.data['llm']}/{step.data['model']}").add(n=1)
                    case "answer":
                        answers += rounds_of(step)
                    case "phase":
                        phase_rounds += rounds_of(step)
                    case "tool":
                        records.append(step.data["record"])
                    case "limit":
                        is_at_limit = True
            except (LookupError, TypeError, ValueError, AttributeError):
                continue
        for one in phase_rounds:
            _of_model(values, one).add(n=1)
        for one in (*answers, *phase_rounds):
            _add_round(_of_model(values, one), one)
        models = [_of_model(values, one) for one in answers]
        if models:
            models[-1].add(turns=1, at_limit=is_at_limit, **{f"depth:{len(answers)}": 1})
        tool_ms = 0
        for record in records:
            tool_ms += self._add_call(values, record, models, offered)
        took = datetime.fromisoformat(turn.ended_at) - datetime.fromisoformat(turn.began_at)
        shared = {"n": 1, turn.state: 1, "at_limit": is_at_limit, "tool_ms": tool_ms, f"depth:{len(answers)}": 1}
        of_rule = _Series(values, "rule", rule)
        for cause in _causes(records, requests - len(answers)) if turn.state == "failed" else ():
            of_rule.add_named("cause", cause)
        for series in (_Series(values, "turn", "with tools" if records else "without tools"), of_rule):
            series.add(**shared)
            series.add_time(took.total_seconds() * 1000)
            for one in (*answers, *phase_rounds):
                series.add(model_ms=round(one.elapsed_ms))
                series.add_usage(one)

    def _add_call(
        self, values: dict[str, int], record: Mapping[str, Any], models: Sequence[_Series], offered: set[str]
    ) -> int:
        """Add a call to its tool, and to the model that asked for it; return how long it took, in milliseconds."""
        result, tool, asked_by = record["result"], str(record["tool"]), record["iteration"] - 1
        kind = "" if result["success"] else call_error_kind(result.get("error") or "")
        name = OTHER if kind == "not_found" and tool not in offered else tool
        series, took = _Series(values, "tool", name), int(result.get("execution_time_ms", 0))
        outcome = {f"error:{kind}": 1} if kind else {"ok": 1}
        series.add(n=1, **outcome)
        series.add_time(took)
        if 0 <= asked_by < len(models):
            models[asked_by].add(calls=1, **({f"error:{kind}": 1} if kind else {}))
        params = record.get("params")
        if not kind and isinstance(params, Mapping):
            has_values = any(fnmatchcase(tool, pattern) for pattern in self.argument_values)
            for argument, value in params.items():
                series.add_named("argument", f"{argument}={self._text(value)}" if has_values else str(argument))
        return took

    def _text(self, value: object) -> str:
        text = self.mask(json.dumps(value, ensure_ascii=False, default=str))
        return text if len(text) <= MAX_VALUE_CHARS else f"{text[: MAX_VALUE_CHARS - 1]}…"


class _Series:
    """The measures of one name, in the values of an hour."""

    def __init__(self, values: dict[str, int], kind: str, name: str) -> None:
        self._values = values
        limited = _limited(values, f"{kind}\t", name, end="\tn")
        self._prefix = f"{kind}\t{limited}\t"

    def add(self, **counts: int) -> None:
        """Add to its measures; zeros leave no trace."""
        for measure, count in counts.items():
            if count:
                self._values[self._prefix + measure] = self._values.get(self._prefix + measure, 0) + int(count)

    def add_time(self, ms: float) -> None:
        """Add a duration; a clock that was set back shows none."""
        self.add(ms=round(max(ms, 0)), **{f"ms:{bucket_of(ms)}": 1})

    def add_usage(self, one: Round) -> None:
        """Add the tokens and the cost of an answer."""
        amount, gap = one.cost.summand
        self.add(cost=amount or 0, unpriced=gap)
        if one.usage is not None:
            self.add(input=one.usage.input_tokens or 0, output=one.usage.output_tokens or 0)

    def add_named(self, measure: str, name: str) -> None:
        """Count a name of a measure."""
        self.add(**{f"{measure}:{_limited(self._values, f'{self._prefix}{measure}:', name)}": 1})


def _of_model(values: dict[str, int], one: Round) -> _Series:
    return _Series(values, "model", f"{one.llm}/{one.model}")


def _add_round(series: _Series, one: Round) -> None:
    series.add(ok=1)
    series.add_time(one.elapsed_ms)
    series.add_usage(one)


def _causes(records: Sequence[Mapping[str, Any]], unanswered: int) -> list[str]:
    """List likely causes of a failure: calls that failed, else a request without an answer, else the turn."""
    failed = [(each["tool"], each["result"]) for each in records if not each["result"]["success"]]
    kinds = [(tool, call_error_kind(result.get("error") or "")) for tool, result in failed]
    return [f"{tool}: {kind}" for tool, kind in kinds if kind != "refused"] or ["model" if unanswered > 0 else "turn"]


def _limited(values: dict[str, int], start: str, name: str, *, end: str = "") -> str:
    """Return a name as part of the key START NAME END, which it has from then on: OTHER beyond MAX_NAMES of them."""
    name = " ".join(name.split())[:MAX_NAME_CHARS] or OTHER
    key, count = f"{start}{name}{end}", f"names\t{start}"
    if key not in values and name != OTHER:
        if values.get(count, 0) >= MAX_NAMES:
            return OTHER
        values[key], values[count] = 0, values.get(count, 0) + 1
    return name
