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
    UserMessage,
)
from ..domain.events import TURN_EVENTS
from ..domain.history import repair_history, repair_slice
from ..errors import RequestRefusedError
from .call import Call, PluginStep
from .foreign import contained, error_text

log = logging.getLogger(__name__)

BEFORE_MODEL_REQUEST = "flexchat_before_model_request"
TRACE_TURN = "flexchat_trace_turn"
BEFORE_TURN = "flexchat_before_turn"
FIT_HISTORY = "flexchat_fit_history"
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
        system: The system prompt; empty if there is none.
        messages: The conversation, without the system prompt.
        all_messages: The conversation with the system prompt in front.
        options: Everything else; its ``tools`` are in the service's own format.
    """

    info: TurnInfo
    llm: str
    model: str
    system: str = ""
    messages: tuple[Message, ...]
    options: ChatOptions
    all_messages: tuple[Message, ...] = attrs.field(init=False, eq=False, repr=False)

    @all_messages.default
    def _with_prompt(self) -> tuple[Message, ...]:
        return (_prompt_message(self.system),) + self.messages if self.system else self.messages  # noqa: RUF005

    @classmethod
    def from_messages(cls, messages: tuple[Message, ...], **rest: Any) -> ModelRequest:
        """Make a request of a conversation that may begin with the system prompt."""
        first = messages[0] if messages else None
        if type(first) is SystemMessage and first.content:
            return cls(system=first.content, messages=messages[1:], **rest)
        return cls(messages=messages, **rest)


@functools.lru_cache(maxsize=64)
def _prompt_message(system: str) -> SystemMessage:
    """Return the message of a prompt: the same one each time, so that its encodings are remembered."""
    return SystemMessage(content=system)


@attrs.frozen(kw_only=True)
class HistoryRequest:
    """A request for an answer whose messages are still to be chosen; see flexchat_fit_history.

    Attributes:
        request: The request with all messages of the conversation.
        llm: The entry of llms, opened: its ``find_price`` has the model's window.
        rule: Index of the rule that answers, and the rule (ResponseRule).
        own_from: Index of the turn's first own message: what comes before is history.
        rounds: The turn's answers so far (Round); each has the ``history`` that was recorded for it.
        can_read_on: Whether the model is offered ``read_result``, and its history is kept.
        earlier_rounds: Returns the answers of the conversation's last turn, from its store; none without one.
        recorded: The record of this very request, if the turn was interrupted after it was written; else None.
        is_too_long: Whether the service has refused the last, larger request as too long.
        ask: Asks a model: ``await ask(llm, model, messages, max_tokens)`` returns its ChatResult. None
            if nothing may be sent, for a preview.
    """

    request: ModelRequest
    llm: Any
    rule: tuple[int, Any]
    own_from: int
    rounds: Sequence[Any] = ()
    can_read_on: bool = False
    recorded: Mapping[str, Any] | None = None
    is_too_long: bool = False
    ask: Callable[..., Awaitable[Any]] | None = attrs.field(eq=False, repr=False)
    earlier_rounds: Callable[[], Awaitable[Sequence[Any]]] = attrs.field(eq=False, repr=False)


@attrs.frozen(kw_only=True)
class FittedHistory:
    """The messages that are sent of a conversation.

    Attributes:
        messages: In place of ``HistoryRequest.request.messages``.
        record: JSON data, kept with the answer and in the turn's journal: what was left out, and all that is needed to
            choose the same messages again. None for nothing.
    """

    messages: tuple[Message, ...]
    record: Mapping[str, Any] | None = None


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
        fits_history: Whether a plugin chooses what is sent of a conversation.
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
        self.fits_history = FIT_HISTORY in self._calls
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

    async def fit_history(self, history: HistoryRequest) -> FittedHistory | None:
        """Return the first plugin's choice of messages; see flexchat_fit_history.

        Raises:
            RequestRefusedError: One could not choose.
        """
        for call in self.of(FIT_HISTORY):
            fitted = await _ask_gate(call, FIT_HISTORY, "request", SimpleNamespace(history=history))
            if isinstance(fitted, FittedHistory | None):
                if fitted is not None:
                    return fitted
                continue
            wrong = f"returned {type(fitted).__name__} instead of a FittedHistory"
            raise RequestRefusedError(f"plugin {call.plugin} {wrong}; the request was not sent")
        return None

    async def before_model_request(self, request: ModelRequest) -> tuple[ModelRequest, tuple[str, ...]]:
        """Ask the plugins what to send; return it with a warning for each repair. See flexchat_before_model_request.

        Raises:
            RequestRefusedError: One refused it, or could not decide.
        """
        warnings: list[str] = []
        for call in self._calls.get(BEFORE_MODEL_REQUEST, ()):
            answer = await _ask_gate(call, BEFORE_MODEL_REQUEST, "request", SimpleNamespace(request=request))
            if answer is not None:
                wrong = _why_unusable(answer, request)
                if wrong:
                    log.error("plugin %s: %s %s; the request is refused", call.plugin, BEFORE_MODEL_REQUEST, wrong)
                    raise RequestRefusedError(f"plugin {call.plugin} {wrong}; the request was not sent")
                messages, notes = repair_slice(tuple(answer.messages), request.messages)
                warnings += [f"plugin {call.plugin}: {note.removeprefix('history: ')}" for note in notes]
                request = attrs.evolve(answer, info=request.info, messages=messages)
        return request, tuple(warnings)


def _why_unusable(answer: Any, request: ModelRequest) -> str:
    """Find the fault of a gate's answer; empty if it can be sent."""
    if not isinstance(answer, ModelRequest):
        return f"returned {type(answer).__name__} instead of a ModelRequest"
    if answer.llm != request.llm:
        return f"moved the request from '{request.llm}' to {answer.llm!r}, which no gate may do"
    if not isinstance(answer.model, str):
        return f"returned a request whose model is {type(answer.model).__name__}, not a text"
    if not isinstance(answer.system, str):
        return f"returned a request whose system prompt is {type(answer.system).__name__}, not a text"
    if request.system.strip() and not answer.system.strip():
        return "returned a request without its system prompt"
    messages: Any = answer.messages
    if not isinstance(messages, Sequence) or not all(isinstance(each, Message) for each in messages):
        return "returned a request whose messages are not messages"
    if not isinstance(answer.options, ChatOptions):
        return f"returned a request whose options are {type(answer.options).__name__}, not ChatOptions"
    return "" if messages is request.messages else _why_not_a_conversation(messages, request.messages)


def _why_not_a_conversation(messages: Sequence[Message], before: Sequence[Message]) -> str:
    """Find the fault of a gate's messages that no repair mends; empty if they can be sent."""
    if any(isinstance(message, UserMessage) for message in before):
        is_whole = any(isinstance(message, UserMessage) for message in messages)
        return "" if is_whole else "returned a request without a message of the user"
    rest, _ = repair_history(tuple(messages))
    is_empty = all(isinstance(message, SystemMessage) for message in rest)
    return "returned a request without a message to answer" if is_empty else ""


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
