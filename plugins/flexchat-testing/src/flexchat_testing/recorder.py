"""A plugin that remembers every event of every turn."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from flexchat.plugin import hookimpl, hookspecs

_NO_EVENTS = ("flexchat_register_", "flexchat_add_", "flexchat_around_", "flexchat_refusal", "flexchat_fit_")


@attrs.frozen
class RecordedEvent:
    """One event: the hook's name without ``flexchat_``, and its arguments."""

    name: str
    facts: Mapping[str, Any]


class RecordedEvents:
    """Register it with a PluginHost; afterwards it holds what happened, in order. It implements all hooks of turns that
    only watch, and the gates, which let everything pass.

    Attributes:
        events: What happened, oldest first.
    """

    def __init__(self) -> None:
        self.events: list[RecordedEvent] = []
        for name, spec in vars(hookspecs).items():
            if name.startswith("flexchat_") and not name.startswith(_NO_EVENTS):
                setattr(self, name, self._implement(name.removeprefix("flexchat_"), spec))

    def _implement(self, name: str, spec: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(spec)

        def record(*values: Any, **keywords: Any) -> None:
            self.events.append(RecordedEvent(name, signature.bind(*values, **keywords).arguments))

        record.__wrapped__ = spec  # type: ignore[attr-defined]  # pluggy passes the arguments that this one has
        return hookimpl(record)

    @property
    def names(self) -> list[str]:
        """The events' names, in order: "turn_started", "phase_started" …"""
        return [event.name for event in self.events]

    def of(self, name: str) -> list[Mapping[str, Any]]:
        """Return the arguments of all events of that name."""
        return [event.facts for event in self.events if event.name == name]
