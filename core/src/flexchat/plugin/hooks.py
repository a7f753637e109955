"""The plugins' event hooks and gates, as the layers above call them."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Protocol, TypeVar

import attrs

from ..domain import (
    ChatOptions,
    Message,
    SystemMessage,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
    ToolFinished,
    ToolResult,
    ToolStarted,
    TurnEvent,
    TurnInfo,
)
from ..domain.events import TURN_EVENTS
from ..domain.history import repair_history
from ..errors import RequestRefusedError
from .call import Call, PluginStep
from .foreign import contained, error_text

log = logging.getLogger(__name__)

BEFORE_MODEL_REQUEST = "flexchat_before_model_request"
TRACE_TURN = "flexchat_trace_turn"
BEFORE_TURN = "flexchat_before_turn"
AROUND_REQUEST = "flexchat_around_request"
REFUSAL = "flexchat_refusal"

Answer = TypeVar("Answer")


def hook_of(kind: type[TurnEvent]) -> str:
    """Return the name of the hook for a kind of event: flexchat_turn_started for TurnStarted."""
    return "flexchat" + re.sub(r"([A-Z])", r"_\1", kind.__name__).lower()


@attrs.frozen
class HookCall:
    """One plugin's implementation of one hook."""

    plugin: str
    function: Callable[..., Any]
    arguments: tuple[str, ...]

    async def __call__(self, facts: object) -> Any:
        """Call it with the attributes of the facts it names, and await what it returns if necessary.

        Raises:
            Exception: Whatever it raises; a ForeignError for anything that is not an Exception.
        """
        with contained():
            answer = self.function(*[getattr(facts, name) for name in self.arguments])
            return await answer if answer is not None and inspect.isawaitable(answer) else answer

    def call_sync(self, **facts: Any) -> Any:
        """Call one that is not async with the facts it names. Raises as calling it."""
        with contained():
            return self.function(*[facts[name] for name in self.arguments])


@attrs.frozen(kw_only=True)
class AppInfo:
    """A FlexChat being opened or closed.

    Attributes:
        llms: The package that talks to each of its services, by the service's name: "flexchat-openai 0.1.0".
        tools: Names of its tools.
        chat: The FlexChat, for plugins that work beside its turns: its config, its journal.
    """

    llms: Mapping[str, str]
    tools: tuple[str, ...]
    chat: Any = attrs.field(default=None, eq=False, repr=False)


@attrs.frozen(kw_only=True)
class ToolGate:
    """What flexchat_before_tool_call is asked about."""

    info: TurnInfo
    call_id: str
    tool: ToolDefinition
    params: Mapping[str, Any]
    call: Call


@attrs.frozen(kw_only=True)
class ModelRequest:
    """A request about to go to a model.

    Attributes:
        llm: Name of the model's entry in llms.
        messages: The whole conversation, the system prompt first.
        options: Everything else; its ``tools`` are in the service's own format.
    """

    info: TurnInfo
    llm: str
    model: str
    messages: tuple[Message, ...]
    options: ChatOptions


class TurnTrace(Protocol):
    """The trace of one turn: entered before its first event, left after its last.

    Attributes:
        traceparent: The W3C trace context in which the turn runs: kept with it, and passed on; empty to leave it.
    """

    traceparent: str

    def __enter__(self) -> Any:
        """Begin: in the turn's own context, which is restored when this is left."""

    def __exit__(self, *error: object) -> None:
        """End."""


@attrs.frozen(kw_only=True)
class ServiceRequest:
    """One attempt to send a request to a model's service.

    Attributes:
        info: The turn it belongs to; without an id outside turns.
        root: The turn, or the outermost one around it.
        llm: The entry of llms, opened: its ``name``, its ``find_price``.
        messages, options: Of a request for an answer; otherwise empty, and None.
        texts: To be turned into vectors; otherwise empty.
        rule: Index and name of the rule that answers the turn; None before there is one.
    """

    info: TurnInfo
    root: TurnInfo
    llm: Any
    model: str
    messages: tuple[Message, ...] = ()
    options: ChatOptions | None = None
    texts: Sequence[str] = ()
    rule: tuple[int, str | None] | None = None


class Hooks:
    """Notifies the plugins of events, and asks those that may refuse. Costs next to nothing if none listens.

    Args:
        calls: Implementations by hook name, in calling order.
        steps: The plugins' steps for every tool call, in order; see flexchat_register_steps.

    Attributes:
        wants: Returns whether a plugin listens to a kind of event.
        gates_requests: Whether a plugin wants to see requests to models before they are sent.
        traces: Whether a plugin traces turns.
        gates_turns: Whether a plugin may refuse turns.
        restricts: Whether a plugin decides what principals may use.
        around_request: The plugins through which each attempt to send a request goes, from the outside in.
    """

    def __init__(self, calls: Mapping[str, Sequence[HookCall]] | None = None, steps: Sequence[PluginStep] = ()) -> None:
        self._calls = {hook: tuple(functions) for hook, functions in (calls or {}).items() if functions}
        self.steps = tuple(steps)
        hooks = {kind: hook_of(kind) for kind in TURN_EVENTS}
        self._of = {kind: (hook, self._calls[hook]) for kind, hook in hooks.items() if hook in self._calls}
        self.wants: Callable[[type[TurnEvent]], bool] = self._of.__contains__
        self.gates_requests = BEFORE_MODEL_REQUEST in self._calls
        self.traces = TRACE_TURN in self._calls
        self.gates_turns = BEFORE_TURN in self._calls
        self.around_request = self.of(AROUND_REQUEST)
        self.restricts = REFUSAL in self._calls

    def of(self, hook: str) -> tuple[HookCall, ...]:
        """Return the implementations of a hook."""
        return self._calls.get(hook, ())

    def followed_by(self, others: Hooks) -> Hooks:
        """Return both combined; the others come last."""
        names = dict.fromkeys([*self._calls, *others._calls])
        return Hooks({hook: self.of(hook) + others.of(hook) for hook in names}, self.steps + others.steps)

    async def tell(self, event: TurnEvent) -> None:
        """Notify the listening plugins one after the other; one that fails is logged."""
        hook, calls = self._of.get(type(event), ("", ()))
        for call in calls:
            await _call_hook(call, hook, event)

    async def tell_call(self, call: Call, result: ToolResult | None) -> None:
        """Report that a call outside the tool loop begins (no result) or has ended."""
        if not self.wants(ToolStarted if result is None else ToolFinished):
            return
        request = ToolCall(id=call.id, name=call.name, arguments=call.arguments)
        if result is None:
            await self.tell(ToolStarted(info=call.turn, call=request))
        else:
            record = record_of(request, call.name, result, call.iteration, call.facts)
            await self.tell(ToolFinished(info=call.turn, record=record))

    def trace(self, info: TurnInfo, earlier_runs: Sequence[str] = ()) -> TurnTrace | None:
        """Return the trace of a turn that is being made; see flexchat_trace_turn."""
        for call in self.of(TRACE_TURN):
            try:
                trace: TurnTrace | None = call.call_sync(info=info, earlier_runs=earlier_runs)
            except Exception as error:
                log.exception("plugin %s: %s failed: %s", call.plugin, TRACE_TURN, error_text(error))
            else:
                if trace is not None:
                    return trace
        return None

    def refusal(self, info: TurnInfo, subject: Any) -> str | None:
        """Return the reason for which a principal may not use a tool or rule, or lacks a permission; None if it may."""
        for call in self.of(REFUSAL):
            try:
                why: str | None = call.call_sync(info=info, subject=subject)
            except Exception as error:
                log.exception("plugin %s: %s failed: %s; refused", call.plugin, REFUSAL, error_text(error))
                return f"plugin {call.plugin} could not decide about this"
            if why is not None:
                return str(why) or "not permitted"
        return None

    async def tell_app(self, hook: str, app: AppInfo) -> None:
        """Call flexchat_app_opened or flexchat_app_closed."""
        for call in self._calls.get(hook, ()):
            await _call_hook(call, hook, SimpleNamespace(app=app))

    async def before_turn(self, info: TurnInfo, request: Any) -> None:
        """Ask the plugins whether a turn may begin; see flexchat_before_turn.

        Raises:
            RequestRefusedError: One refused it, or could not decide.
        """
        for call in self.of(BEFORE_TURN):
            await _ask_gate(call, BEFORE_TURN, "turn", SimpleNamespace(info=info, request=request))

    async def send_around(self, request: ServiceRequest, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """Send a request through the plugins around it; see flexchat_around_request."""
        for call in reversed(self.around_request):
            send = functools.partial(call, SimpleNamespace(request=request, send=send))
        return await send()

    async def before_model_request(self, request: ModelRequest) -> ModelRequest:
        """Ask the plugins what to send; see flexchat_before_model_request.

        Raises:
            RequestRefusedError: One refused it, or could not decide.
        """
        for call in self._calls.get(BEFORE_MODEL_REQUEST, ()):
            answer = await _ask_gate(call, BEFORE_MODEL_REQUEST, "request", SimpleNamespace(request=request))
            if answer is not None:
                wrong = _why_unusable(answer, request)
                if wrong:
                    log.error("plugin %s: %s %s; the request is refused", call.plugin, BEFORE_MODEL_REQUEST, wrong)
                    raise RequestRefusedError(f"plugin {call.plugin} {wrong}; the request was not sent")
                request = attrs.evolve(answer, info=request.info, messages=tuple(answer.messages))
        return request


def _why_unusable(answer: Any, request: ModelRequest) -> str:
    """Find the fault of a gate's answer; empty if it can be sent."""
    if not isinstance(answer, ModelRequest):
        return f"returned {type(answer).__name__} instead of a ModelRequest"
    if answer.llm != request.llm:
        return f"moved the request from '{request.llm}' to {answer.llm!r}, which no gate may do"
    if not isinstance(answer.model, str):
        return f"returned a request whose model is {type(answer.model).__name__}, not a text"
    messages: Any = answer.messages
    if not isinstance(messages, Sequence) or not all(isinstance(each, Message) for each in messages):
        return "returned a request whose messages are not messages"
    if not isinstance(answer.options, ChatOptions):
        return f"returned a request whose options are {type(answer.options).__name__}, not ChatOptions"
    return "" if messages is request.messages else _why_not_a_conversation(messages, request.messages)


def _why_not_a_conversation(messages: Sequence[Message], before: Sequence[Message]) -> str:
    """Find the fault of a gate's messages, by the rules for a caller's history; empty if they can be sent."""
    if isinstance(before[0], SystemMessage) and not (messages and isinstance(messages[0], SystemMessage)):
        return "returned a request without its system prompt"
    if all(isinstance(message, SystemMessage) for message in messages):
        return "returned a request without a message to answer"
    _, notes = repair_history(tuple(messages))
    return f"returned messages that do not belong together: {notes[0].removeprefix('history: ')}" if notes else ""


def record_of(
    asked: ToolCall, name: str, result: ToolResult, iteration: int, facts: Mapping[str, Any]
) -> ToolCallRecord:
    """Return the outcome of a call, for the turn and for all listeners.

    Args:
        asked: The call as written; the steps may have changed its arguments since.
        name: The tool's own name, which is not always the one shown to the model.
        facts: JSON data added by steps.
    """
    return ToolCallRecord(
        tool=name,
        # what a provider reports as a call may be anything
        params=asked.arguments if isinstance(asked.arguments, Mapping) else {},
        result=result,
        iteration=iteration,
        call_id=asked.id,
        raw_arguments=asked.raw_arguments if asked.arguments is None else None,
        facts=facts,
    )


async def _ask_gate(call: HookCall, hook: str, what: str, facts: object) -> Any:
    try:
        return await call(facts)
    # A refusal is the gate's decision. Any other exception leaves it without one, and that refuses as well.
    except RequestRefusedError:
        raise
    except Exception as error:
        log.exception("plugin %s: %s failed: %s; the %s is refused", call.plugin, hook, error_text(error), what)
        raise RequestRefusedError(f"plugin {call.plugin} could not decide about this {what}") from error


async def _call_hook(call: HookCall, hook: str, facts: object) -> None:
    try:
        await call(facts)
    except Exception as error:
        log.exception("plugin %s: %s failed: %s", call.plugin, hook, error_text(error))
