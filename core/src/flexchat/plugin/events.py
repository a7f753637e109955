"""The event hooks as typed methods: what the floors above see of the plugins during a turn."""

from __future__ import annotations

import contextvars
import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from ..domain import ChatOptions, ChatResponse, ChatResult, Message, ToolResult
from .call import Call, PluginStep
from .foreign import contained, told

log = logging.getLogger(__name__)

current_turn: contextvars.ContextVar[str] = contextvars.ContextVar("flexchat_turn", default="")
"""Id of the turn this code runs in."""


@attrs.frozen
class Watcher:
    """One plugin's implementation of one event hook."""

    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]

    async def call(self, facts: Mapping[str, Any]) -> Any:
        """Call it with the facts it names, and await what it returns if that is needed.

        Raises:
            Exception: Whatever it raises; a ForeignError for what is no Exception.
        """
        with contained():
            answer = self.function(*[facts[name] for name in self.arguments])
            return await answer if inspect.isawaitable(answer) else answer


class EventHooks:
    """Tells the plugins what happens. Costs next to nothing where no plugin listens.

    Attributes:
        steps: What plugins put into the list of every tool call, in order; see flexchat_register_steps.
    """

    def __init__(
        self, watchers: Mapping[str, Sequence[Watcher]] | None = None, steps: Sequence[PluginStep] = ()
    ) -> None:
        self._watchers = {hook: tuple(found) for hook, found in (watchers or {}).items() if found}
        self.steps = tuple(steps)

    def watchers(self, hook: str) -> tuple[Watcher, ...]:
        """Return who implements a hook, in the order they are asked."""
        return self._watchers.get(hook, ())

    def followed_by(self, others: EventHooks) -> EventHooks:
        """Return both together; the others come last."""
        hooks = dict.fromkeys([*self._watchers, *others._watchers])
        return EventHooks(
            {hook: self.watchers(hook) + others.watchers(hook) for hook in hooks}, self.steps + others.steps
        )

    async def _tell(self, hook: str, **facts: Any) -> None:
        facts.setdefault("turn_id", current_turn.get())
        for watcher in self._watchers[hook]:
            try:
                await watcher.call(facts)
            except Exception as error:
                log.exception("plugin %s: %s failed: %s", watcher.plugin, hook, told(error))

    async def turn_started(self, user_message: str) -> None:
        """See flexchat_turn_started."""
        if "flexchat_turn_started" in self._watchers:
            await self._tell("flexchat_turn_started", user_message=user_message)

    async def phase_finished(self, phase: str, outcome: object, elapsed_ms: float) -> None:
        """See flexchat_phase_finished."""
        if "flexchat_phase_finished" in self._watchers:
            await self._tell("flexchat_phase_finished", phase=phase, outcome=outcome, elapsed_ms=elapsed_ms)

    async def before_chat(self, service: str, model: str, messages: tuple[Message, ...], options: ChatOptions) -> None:
        """See flexchat_before_chat."""
        if "flexchat_before_chat" in self._watchers:
            await self._tell("flexchat_before_chat", service=service, model=model, messages=messages, options=options)

    async def after_chat(self, service: str, model: str, result: ChatResult, elapsed_ms: float) -> None:
        """See flexchat_after_chat."""
        if "flexchat_after_chat" in self._watchers:
            await self._tell("flexchat_after_chat", service=service, model=model, result=result, elapsed_ms=elapsed_ms)

    async def tool_call(self, call: Call, result: ToolResult | None) -> None:
        """See flexchat_after_tool_call. That a call begins (no result yet) is told to no hook."""
        if result is not None and "flexchat_after_tool_call" in self._watchers:
            await self._tell(
                "flexchat_after_tool_call",
                turn_id=call.turn.id,
                call_id=call.id,
                tool=call.tool,
                params=call.arguments,
                result=result,
            )

    async def turn_finished(self, response: ChatResponse, elapsed_ms: float) -> None:
        """See flexchat_turn_finished."""
        if "flexchat_turn_finished" in self._watchers:
            await self._tell("flexchat_turn_finished", response=response, elapsed_ms=elapsed_ms)

    async def turn_failed(self, error: Exception, elapsed_ms: float) -> None:
        """See flexchat_turn_failed."""
        if "flexchat_turn_failed" in self._watchers:
            await self._tell("flexchat_turn_failed", error=error, elapsed_ms=elapsed_ms)
