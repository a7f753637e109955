"""Every hook a FlexChat plugin may implement: the whole plugin surface on one page.

There are two kinds.

flexchat_register_*   Called once, while the app is built. Yield records; FlexChat keeps them and calls what they
                      hold. A name that two plugins offer can be used by neither until one of them is blocked.
                      flexchat_register_chat_hooks is called for each chat, with its config.
flexchat_before_*     Gates: called before a turn begins, a request goes to a model or a tool runs; they may refuse it.
flexchat_around_*     One that raises refuses. A step (flexchat_register_steps) can do more with a tool call.
all others            Events: watch, log, measure. One that raises is logged under its plugin's name and the turn
                      continues. Their arguments are the fields of the class of that name in domain/events.py.

An implementation names only the arguments it wants. Event hooks are `def` or `async def`; they run on the event
loop, one after the other, so they must not block.

docs/hooks.md has an example of each, which core/tests/plugin/test_hookspecs.py runs.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from ..domain import (
        ChatOptions,
        ChatRequest,
        ChatResult,
        Message,
        PhaseRecord,
        ToolCall,
        ToolCallRecord,
        ToolDefinition,
        ToolResult,
        Turn,
        TurnInfo,
    )
    from ..domain.questions import Question, Reply
    from .call import Call, Step
    from .contracts import (
        ConfigCheck,
        ConfigTable,
        ConversationStoreType,
        DocumentStoreType,
        FetcherType,
        ImplementationType,
        ProviderType,
        RerankerType,
        ToolHandler,
    )
    from .hooks import AppInfo, FittedHistory, HistoryRequest, ModelRequest, ServiceRequest, TurnTrace
    from .tool_sources import SourceLoaderType, ToolSourceType

hookspec = pluggy.HookspecMarker("flexchat")
"""Marks a hook that plugins may implement: for a package that defines its own hooks."""
hookimpl = pluggy.HookimplMarker("flexchat")
"""Marks a function or method as a plugin's implementation of a hook."""


class ProvisionalHookWarning(PendingDeprecationWarning):
    """A plugin implements a hook that may change before 1.0. Shown by pytest and with -W, not to users.

    A plugin that names the API it was written for, ``FLEXCHAT_API = (0, 1)``, gets none: it is checked when it loads.
    """


_PROVISIONAL = ProvisionalHookWarning(
    "this hook may change before 1.0 (docs/hooks.md, Stability): FLEXCHAT_API = (0, 1) says that the plugin knows"
)


@hookspec
def flexchat_register_providers() -> Iterable[ProviderType]:  # type: ignore[empty-body]
    """Offer kinds of LLM service: values of `provider` in an llms entry."""


@hookspec
def flexchat_register_tools() -> Iterable[ToolDefinition]:  # type: ignore[empty-body]
    """Offer ready-made tools, which a config switches on just by name."""


@hookspec
def flexchat_register_tool_handlers() -> Iterable[ToolHandler]:  # type: ignore[empty-body]
    """Offer functions that tools may name as their handler."""


@hookspec
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:  # type: ignore[empty-body]
    """Offer ways to run a tool: values of `implementation.type`."""


@hookspec(warn_on_impl=_PROVISIONAL)
def flexchat_register_tool_sources() -> Iterable[ToolSourceType]:  # type: ignore[empty-body]
    """Offer kinds of tool source, which bring whole lists of tools: `[[tools.NAME]]` tables of a config."""


@hookspec(warn_on_impl=_PROVISIONAL)
def flexchat_register_source_loaders() -> Iterable[SourceLoaderType]:  # type: ignore[empty-body]
    """Offer what reads the tables of tool sources and keeps what was accepted of them. flexchat-sdk has one."""


@hookspec
def flexchat_register_document_stores() -> Iterable[DocumentStoreType]:  # type: ignore[empty-body]
    """Offer kinds of document store: values of `provider` in a stores entry."""


@hookspec
def flexchat_register_rerankers() -> Iterable[RerankerType]:  # type: ignore[empty-body]
    """Offer kinds of reranker: values of `rerank` in a stores entry."""


@hookspec
def flexchat_register_conversation_stores() -> Iterable[ConversationStoreType]:  # type: ignore[empty-body]
    """Offer places to keep conversations: values of `provider` in the conversations table."""


@hookspec(warn_on_impl=_PROVISIONAL)
def flexchat_register_fetchers() -> Iterable[FetcherType]:  # type: ignore[empty-body]
    """Offer the client with which tools send requests: `ToolContext.fetcher`. flexchat-sdk offers a guarded one."""


@hookspec(warn_on_impl=_PROVISIONAL)
def flexchat_register_steps() -> Iterable[Step]:  # type: ignore[empty-body]
    """Offer steps that every tool call goes through: a budget, an approval, an audit. See docs/tool-calls.md.

    A step runs at one of the stages report, look up, arguments, authorize, approve, reserve and claim. If it raises
    before the tool has started, the call is refused. A stage that does not exist, or a name that another step has,
    prevents FlexChat from starting.
    """


@hookspec
def flexchat_register_config_tables() -> Iterable[ConfigTable]:  # type: ignore[empty-body]
    """Offer your own top-level tables of a config. Once read, they are in ``chat.config.tables``, by name."""


@hookspec
def flexchat_register_checks() -> Iterable[ConfigCheck]:  # type: ignore[empty-body]
    """Offer checks of a config: for problems, or things worth noting, that a table's class alone cannot know."""


@hookspec
def flexchat_register_chat_hooks(  # type: ignore[empty-body]
    tables: Mapping[str, Any], plugins: Any, history_policy: Any
) -> Iterable[object]:
    """Offer hooks of one chat, made from its config: gates, steps and event hooks that have settings.

    Asked once for each chat that is made. Each object has @hookimpl methods, as those of ``FlexChat.from_config(…,
    hooks=[…])``. If it raises, the chat does not start.

    Args:
        tables: What was read of the tables of plugins, by name, as in ``chat.config.tables``. A chat made without a
            config has none.
        plugins: The chat's plugins: to call hooks that you have defined, with ``plugins.ask``.
        history_policy: The function given to FlexChat.from_config; None for none.
    """


@hookspec(warn_on_impl=_PROVISIONAL)
def flexchat_add_hookspecs() -> Iterable[object]:  # type: ignore[empty-body]
    """Define your own hooks, which other plugins may implement: yield modules or objects that hold them.

    Call them with ``host.ask("acme_words", language="en")``. Implementers need not import your package: the hook is
    known by its name, and ``@hookimpl(optionalhook=True)`` lets the plugin load even if your package is not installed.
    """


@hookspec
def flexchat_app_opened(app: AppInfo) -> Awaitable[None] | None:
    """A FlexChat comes into use: it was entered, or its first turn or call of a tool begins."""


@hookspec
def flexchat_app_closed(app: AppInfo) -> Awaitable[None] | None:
    """An opened FlexChat is about to close its connections."""


@hookspec
def flexchat_trace_turn(info: TurnInfo, earlier_runs: Sequence[str]) -> TurnTrace | None:
    """A turn is about to be run, accepted or explained: open a trace for it, or return None.

    Called while the turn is made, before any event; the first trace that is returned counts, and is entered around the
    turn and its events. If it raises, the turn runs without it.

    Args:
        info: Its ``traceparent`` is the caller's, or empty; of a resumed turn, that of its first run.
        earlier_runs: The traceparents of a resumed turn's runs so far, the first being that of its acceptance if it
            was accepted; none for a new turn.
    """


@hookspec
def flexchat_turn_started(info: TurnInfo, user_message: str) -> Awaitable[None] | None:
    """A user's message has arrived; no phase has run yet.

    Args:
        info: Which turn: ``info.id``, the same in all its events; its conversation, tenant, and the turn whose tool
            started it.
    """


@hookspec
def flexchat_turn_resumed(info: TurnInfo, user_message: str) -> Awaitable[None] | None:
    """A turn whose process ended before it did goes on; what happened before is not reported again."""


@hookspec
def flexchat_phase_started(info: TurnInfo, phase: str) -> Awaitable[None] | None:
    """A phase that has something to wait for begins: 1 to 3 if they are needed, and 6.

    Args:
        phase: "topic detection", "rag collection", "intent detection", "profile building",
            "response matching" or "response generation".
    """


@hookspec
def flexchat_phase_finished(info: TurnInfo, record: PhaseRecord, outcome: object) -> Awaitable[None] | None:
    """One of the six phases is done.

    Args:
        record: How it went: its phase, elapsed_ms, warnings, why it was skipped …
        outcome: What the phase returned, in the order above: the topic (str), RagResults, the intent (str or None),
            Profile, the rule as (index, ResponseRule), ChatResponse. A phase that did not run returns what it would
            have without a model or a store.
    """


@hookspec
def flexchat_before_model_request(request: ModelRequest) -> Awaitable[ModelRequest | None] | ModelRequest | None:
    """A request is about to go to a model: for the answer, or for phase 1 or 3.

    Return None to let it pass, or a ModelRequest to send instead (``attrs.evolve(request, messages=…)``): without
    personal data, or with a cheaper model of the same service. ``request.system`` is the prompt, ``request.messages``
    the conversation. Messages are repaired like a caller's history, with a warning of the turn: results without their
    call are left out, calls without a result get an error. Without the prompt, or a message of the user, the request is
    refused. What is kept of the turn does not change. Raise RequestRefusedError to refuse it: the turn fails with that
    error; phases 1 and 3 continue without an answer. The plugin registered last is asked first, and the next one sees
    what it returned. If an implementation raises anything else, the request is refused: a gate that breaks stays shut.
    """


@hookspec(warn_on_impl=_PROVISIONAL)
def flexchat_fit_history(history: HistoryRequest) -> Awaitable[FittedHistory | None] | FittedHistory | None:
    """Choose what is sent of a conversation, for each request for an answer; None sends all of it.

    Called before media are prepared and before flexchat_before_model_request, not for requests that a resumed turn
    replays. The first choice counts. If an implementation raises, the request is refused.
    """


@hookspec
def flexchat_before_turn(info: TurnInfo, request: ChatRequest) -> Awaitable[None] | None:
    """A turn is about to begin: no phase has run, and no request has been sent. Not called for a resumed turn.

    Return None to let it begin. Raise RequestRefusedError, or its CeilingReachedError, to refuse it: the turn fails
    with that error. If an implementation raises anything else, the turn is refused: a gate that breaks stays shut.
    """


@hookspec
def flexchat_refusal(info: TurnInfo, subject: Any) -> str | None:
    """Return the reason that keeps the principal of *info* from using something; None if it may.

    ``subject`` is a ToolDefinition, a rule of the config (ResponseRule), a collection of a document store
    (CollectionChoice) or the name of a permission: "approve", "edit", "view_costs", "view_others". Asked before each
    call, for each listing of tools, wherever it is shown, for each rule that might answer, and for each search and
    listing of documents. Not async, and quick: decide from the facts alone, so that what is listed and what runs are
    the same. If an implementation raises, the answer is a refusal.
    """


@hookspec
def flexchat_around_request(request: ServiceRequest, send: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:  # type: ignore[empty-body]
    """Send one attempt of a request to a model's service: an answer, or embeddings. Retries are attempts of their own.

    ``return await send()``: await it once, or not at all, and return its result unchanged. Raise RequestRefusedError to
    refuse it. In a turn that offers tools, raise LastRequestError to refuse only this: the turn then asks for its
    answer without tools. Whatever else is raised ends the request: a plugin that breaks sends nothing.
    """


@hookspec
def flexchat_model_request_started(
    info: TurnInfo,
    llm: str,
    model: str,
    messages: tuple[Message, ...],
    options: ChatOptions,
    provider: str,
    endpoint: str,
    streams: bool,
) -> Awaitable[None] | None:
    """A request goes to a model.

    Args:
        llm: Name of the LLM in the config.
        provider, endpoint, streams: The kind of service, its server's address, and whether the answer is streamed.
    """


@hookspec
def flexchat_model_request_finished(
    info: TurnInfo,
    llm: str,
    model: str,
    elapsed_ms: float,
    result: ChatResult | None,
    error: Exception | None,
    attempts: int,
) -> Awaitable[None] | None:
    """A model has answered, or its service has failed despite retries; another may be asked instead."""


@hookspec
def flexchat_before_tool_call(
    info: TurnInfo, call_id: str, tool: ToolDefinition, params: Mapping[str, Any], call: Call
) -> Awaitable[ToolResult | None] | ToolResult | None:
    """A tool is about to run, its parameters already checked. Runs at the stage "authorize"; see docs/tool-calls.md.

    Return a ToolResult to answer in the tool's place (refuse it, serve a cached value): the tool then does not run.
    Return None to let it run. ``await call.ask("…")`` asks the person behind the call first. The plugin registered last
    is asked first, and the first ToolResult wins. If an implementation raises, the call is refused: a gate that breaks
    stays shut.

    Args:
        params: The checked parameters, read-only. A step changes them with ``call.again``.
        call_id: The ToolCall's id. Calls of one answer run side by side: use it to pair before and after.
        call: Everything known about the call: who asks for it, the caller's context, the person to ask.
    """


@hookspec
def flexchat_tool_started(info: TurnInfo, call: ToolCall) -> Awaitable[None] | None:
    """A tool is called; nothing has been checked yet.

    Args:
        info: Its id is empty for a call outside turns.
    """


@hookspec
def flexchat_tool_progress(
    info: TurnInfo, call_id: str, tool: str, progress: float, total: float | None, message: str
) -> Awaitable[None] | None:
    """A running tool reports its progress, at most ten times a second.

    Args:
        total: None if unknown.
        message: Empty if the tool gives none.
    """


@hookspec
def flexchat_question_asked(info: TurnInfo, question: Question) -> Awaitable[None] | None:
    """A tool that runs asks the person behind the turn, who has not been asked yet.

    Args:
        question: Its tool and call_id identify the call that asks.
    """


@hookspec
def flexchat_question_answered(info: TurnInfo, question: Question, reply: Reply) -> Awaitable[None] | None:
    """A question of a tool has its reply, or will have none."""


@hookspec
def flexchat_tool_finished(info: TurnInfo, record: ToolCallRecord) -> Awaitable[None] | None:
    """A tool call has ended, in any way: the tool, or a plugin in its place, has succeeded or failed, or the call was
    refused, its arguments were wrong, or there is no such tool.

    Args:
        record: As the turn keeps it: tool, params (as the model wrote them), result, call_id …
    """


@hookspec
def flexchat_turn_finished(info: TurnInfo, turn: Turn) -> Awaitable[None] | None:
    """The turn is done, and saved if it is to be kept; it is about to be returned to the user."""


@hookspec
def flexchat_turn_failed(info: TurnInfo, error: Exception, turn: Turn) -> Awaitable[None] | None:
    """The turn ended in an error, which has not reached the caller yet.

    Args:
        turn: What exists of it by then.
    """


@hookspec
def flexchat_turn_cancelled(info: TurnInfo, turn: Turn) -> Awaitable[None] | None:
    """The turn was stopped: its caller left, closed the stream, or was cancelled. This hook gets one second.

    Args:
        turn: What exists of it by then.
    """


@hookspec
def flexchat_turn_accepted(info: TurnInfo, due_at: str, priority: int) -> Awaitable[None] | None:
    """A turn is kept, to begin later, in any process (``FlexChat.submit``). After a crash this may not be called.

    Args:
        due_at: When it may begin: ISO 8601, UTC; empty for at once.
        priority: Those with a higher one begin first.
    """


@hookspec
def flexchat_wait_ended(info: TurnInfo, reason: str, elapsed_ms: float) -> Awaitable[None] | None:
    """The turn has waited, for a millisecond or longer.

    Args:
        reason: "turn" (an earlier one of its conversation), "slot" (max_parallel), "retry", "person", "queue" (until it
            began), "lease" (until another process took it up).
    """


@hookspec
def flexchat_turn_suspended(info: TurnInfo, turn: Turn) -> Awaitable[None] | None:
    """The turn waits for replies to its questions, ``turn.pending``, and holds nothing meanwhile.

    A reply resumes it, here or in another process. This hook gets one second.
    """
