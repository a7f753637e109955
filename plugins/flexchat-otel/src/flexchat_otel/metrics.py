"""The conventions' metrics, and FlexChat's own."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flexchat import Usage
    from opentelemetry.metrics import Histogram, Meter

    from .conventions import Conventions

log = logging.getLogger(__name__)

OTHER = "_OTHER"
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS = (1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216, 67_108_864)
_FREE = ("agent", "tool", "model", "response_model", "address", "provider", "error")
"""Labels whose values come from outside: a model invents names of tools."""


class Metrics:
    """Records measurements, with at most ``max_values`` values of each label."""

    def __init__(self, meter: Meter, conventions: Conventions, max_values: int) -> None:
        self._conventions, self._max_values = conventions, max_values
        self._seen: dict[str, set[str]] = {}

        def histogram(name: str, unit: str, bounds: tuple[float, ...]) -> Histogram:
            return meter.create_histogram(name, unit=unit, explicit_bucket_boundaries_advisory=bounds)

        named = conventions.metric
        self._requests, self._turns, self._tools = (
            histogram(named(each), "s", _SECONDS) for each in ("request", "turn", "tool")
        )
        self._tokens = histogram(named("tokens"), "{token}", _TOKENS)
        self._waits = histogram("flexchat.wait.duration", "s", _SECONDS)
        self._cost = meter.create_counter("flexchat.turn.cost", unit="{USD}")
        self._capped = meter.create_counter("flexchat.telemetry.capped", unit="{value}")

    def request(self, seconds: float, usage: Usage | None, facts: Mapping[str, Any]) -> None:
        """Record how long a request took, and its tokens."""
        facts, labels = self._limited(facts), self._conventions.labels
        self._requests.record(seconds, labels("request", "chat", facts))
        if usage is not None:
            own = labels("tokens", "chat", facts)
            for token_type, count in (("input", usage.input_tokens), ("output", usage.output_tokens)):
                if count is not None and (token_type == "input" or facts["operation"] != "embeddings"):
                    own[self._conventions.token_type] = token_type
                    self._tokens.record(count, own.copy())

    def tool(self, seconds: float, facts: Mapping[str, Any]) -> None:
        """Record how long a call of a tool took."""
        self._tools.record(seconds, self._conventions.labels("tool", "execute_tool", self._limited(facts)))

    def turn(self, seconds: float, status: str, cost: float | None, facts: Mapping[str, Any]) -> None:
        """Record how long a turn took, how it ended, and what it cost."""
        facts = self._limited(facts)
        labels = self._conventions.labels("turn", "invoke_agent", facts)
        self._turns.record(seconds, {**labels, "flexchat.turn.status": status})
        if cost:
            self._cost.add(cost, {"flexchat.turn.status": status, "flexchat.rule": facts["agent"] or ""})

    def wait(self, reason: str, seconds: float) -> None:
        """Record what a turn has waited for."""
        self._waits.record(seconds, {"flexchat.wait.reason": reason})

    def limited(self, label: str, value: str) -> str:
        """Return a value, or _OTHER if the label has too many."""
        seen = self._seen.setdefault(label, set())
        if value in seen:
            return value
        if len(seen) < self._max_values:
            seen.add(value)
            return value
        if OTHER not in seen:
            seen.add(OTHER)
            text = "telemetry.max_values: over %d values of '%s'; further ones are counted as %s"
            log.warning(text, self._max_values, label, OTHER)
        self._capped.add(1, {"flexchat.label": label})
        return OTHER

    def _limited(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        return {
            fact: self.limited(fact, value) if fact in _FREE and isinstance(value, str) else value
            for fact, value in facts.items()
        }
