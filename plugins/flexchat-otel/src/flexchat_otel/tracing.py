"""Spans of turns: what surrounds a turn, its event hooks, and the step around its tool calls."""

from __future__ import annotations

import contextvars
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import attrs
from flexchat import ChatOptions, Embeddings, Message, PhaseRecord, Turn, TurnInfo
from flexchat.host import call_error_kind, current_traceparent, current_turn
from flexchat.plugin import AppInfo, Call, CallSuspended, ChatResult, Rest, ServiceRequest, Stage, ToolResult, hookimpl
from opentelemetry import context as otel
from opentelemetry import metrics, trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer, TraceState

from .content import Content
from .conventions import conventions, server_of
from .ending import ENDING
from .metrics import OTHER, Metrics
from .settings import Kind, Telemetry

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])

_current: contextvars.ContextVar[TurnSpans | None] = contextvars.ContextVar("flexchat_otel", default=None)
_ERROR = Status(StatusCode.ERROR)


def traceparent_of(context: SpanContext) -> str:
    """Return a span's context as the header traceparent; empty for that of no span."""
    if not context.is_valid:
        return ""
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def context_of(traceparent: str, tracestate: str = "") -> SpanContext | None:
    """Return the span's context in a usable traceparent; None for an empty one."""
    if not traceparent:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")[:4]
    state = TraceState.from_header([tracestate]) if tracestate else None
    return SpanContext(int(trace_id, 16), int(span_id, 16), True, TraceFlags(int(flags, 16)), state)


def _parent(traceparent: str, tracestate: str = "") -> otel.Context:
    """Return the context for a span: that of the code around it, unless the traceparent is of another trace."""
    given, here = context_of(traceparent, tracestate), trace.get_current_span().get_span_context()
    if given is None or given.trace_id == here.trace_id:
        return otel.get_current()
    return trace.set_span_in_context(trace.NonRecordingSpan(given))


Surroundings = tuple[otel.Context, str]
"""What was current around a span: OpenTelemetry's context, and the traceparent that is passed on."""


def _surroundings() -> Surroundings:
    return otel.get_current(), current_traceparent.get()


def _enter(span: Span, traceparent: str = "") -> Surroundings:
    """Make it the current span, and return what was current before."""
    before = _surroundings()
    otel.attach(trace.set_span_in_context(span, before[0]))
    if traceparent := traceparent or traceparent_of(span.get_span_context()):
        current_traceparent.set(traceparent)
    return before


def _leave(before: Surroundings) -> None:
    # Not by a token: a phase or a request may end in another task than it began in.
    otel.attach(before[0])
    current_traceparent.set(before[1])


def _error_type(error: BaseException) -> str:
    """Return the code of a service's error, else the name of its class."""
    return getattr(error, "code", None) or type(error).__name__


class TurnSpans:
    """The span of one turn, and those of its phase and its request that are open. A TurnTrace."""

    def __init__(self, observer: Observer, info: TurnInfo, earlier_runs: Sequence[str]) -> None:
        self.observer, self.info = observer, info
        earlier = [context for each in earlier_runs if (context := context_of(each)) is not None]
        caller = trace.get_current_span()
        self.began = time.time_ns()
        facts = {"operation": "invoke_agent", "conversation": info.conversation, "provider": "flexchat"}
        own: dict[str, Any] = {"flexchat.turn.id": info.id, "flexchat.tenant": info.tenant}
        own["flexchat.turn.is_resumed"] = bool(earlier_runs)
        if earlier:  # tools that import no links have it from here
            own["flexchat.turn.earlier_runs"] = [f"{each.span_id:016x}" for each in earlier]
        self.span = observer.tracer.start_span(
            "invoke_agent",
            context=_parent(info.traceparent, info.tracestate),
            attributes={**observer.names.attributes("invoke_agent", facts), **own},
            links=[Link(each, {"flexchat.link": "earlier_run"}) for each in earlier],
            start_time=self.began,
        )
        self.traceparent = traceparent_of(self.span.get_span_context())
        if info.parent is not None and caller.is_recording():
            caller.add_link(self.span.get_span_context(), {"flexchat.link": "nested_turn"})
        self.records = self.span.is_recording()
        self.rule: str | None = None
        self.own: dict[str, Any] = {}  # set in one go at the end: each setting costs
        self.phase: tuple[Span, Surroundings] | None = None
        self.request: tuple[Span | None, Surroundings, dict[str, Any]] | None = None
        self.status = ""

    def __enter__(self) -> None:
        """Make it the current span."""
        self._token = _current.set(self)
        self._before = _enter(self.span, self.traceparent)

    def __exit__(self, *error: object) -> None:
        """End what is open: a turn that was explained, or whose end no event reported, ends here."""
        _leave(self._before)
        _current.reset(self._token)
        now = time.time_ns()
        if not self.records:
            return
        self.span.set_attributes(self.own)
        for span in (self.request and self.request[0], self.phase and self.phase[0], self.span):
            if span is not None:
                ENDING.add(span, now)


def _quiet(function: F) -> F:
    """Keep the faults of telemetry from everything else."""

    def call(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except Exception:
            log.exception("telemetry: %s failed", function.__name__)
            return None

    call.__wrapped__ = function  # type: ignore[attr-defined]  # pluggy reads the arguments' names from it
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call  # type: ignore[return-value]


class Observer:
    """The hooks of one chat."""

    def __init__(self, settings: Telemetry) -> None:
        self.settings, self.names = settings, conventions(settings.semconv)
        self.tracer: Tracer = trace.get_tracer("flexchat_otel")
        self.metrics = Metrics(metrics.get_meter("flexchat_otel"), self.names, settings.max_values)
        self.content = Content(settings.max_content_chars, lambda value: value)
        self._has_mask = False
        self.tools: frozenset[str] = frozenset()

    def shows(self, kind: Kind) -> bool:
        """Return whether spans of a kind carry content. Without the app's mask, none does."""
        return self._has_mask and kind in self.settings.content

    @hookimpl
    def flexchat_app_opened(self, app: AppInfo) -> None:
        """Use the app's mask for content."""
        self.content.mask, self._has_mask = app.chat.mask.data, True
        self.tools = frozenset(app.tools)

    @hookimpl
    def flexchat_app_closed(self, app: AppInfo) -> None:
        """Hand over what has ended, so that the SDK can export it."""
        ENDING.flush(1.0)

    @hookimpl
    def flexchat_register_steps(self) -> Sequence[Any]:
        """Offer the step around tool calls."""
        return [ToolSpans(self)]

    @hookimpl
    def flexchat_trace_turn(self, info: TurnInfo, earlier_runs: Sequence[str]) -> TurnSpans | None:
        """Open a turn's span."""
        return TurnSpans(self, info, earlier_runs)

    @hookimpl
    def flexchat_phase_started(self, phase: str) -> None:
        """Open the span of a phase."""
        if (turn := _current.get()) is None or not turn.records:
            return
        span = self.tracer.start_span(f"phase {phase}", attributes={"flexchat.phase": phase})
        turn.phase = span, _enter(span)

    @hookimpl
    def flexchat_phase_finished(self, record: PhaseRecord, outcome: Any) -> None:
        """Close it, with a retrieval span for the documents it searched."""
        if (turn := _current.get()) is None:
            return
        if record.phase == "response matching":
            index, rule = outcome
            self._name(turn, index, rule.name)
        if turn.phase is None:
            return
        (span, before), turn.phase = turn.phase, None
        if record.phase == "rag collection" and record.input:
            began = time.time_ns() - int(record.elapsed_ms * 1e6)
            searched = record.input.get("collections") or []
            self.retrieval(turn, began, record.input.get("query"), searched, outcome.hits)
        if record.warnings:
            span.set_attribute("flexchat.warnings", len(record.warnings))
        ENDING.add(span, time.time_ns())
        _leave(before)

    def _name(self, turn: TurnSpans, index: int, name: str | None) -> None:
        turn.rule, turn.own["flexchat.rule"] = name, name or str(index)
        if name:
            turn.span.update_name(f"invoke_agent {name}")

    def retrieval(
        self, turn: TurnSpans, began: int, query: str | None, collections: Sequence[str], hits: Sequence[Any]
    ) -> None:
        """Add the span of a search that has just ended."""
        source = collections[0] if len(collections) == 1 else None
        facts: dict[str, Any] = {"operation": "retrieval", "source": source}
        if self.shows("retrieval"):
            facts |= {"input": query and self.content.text(query), "output": self.content.documents(hits)}
        own = {
            "flexchat.retrieval.collections": list(collections),
            "flexchat.retrieval.documents": sum(len(each.documents) for each in hits),
        }
        name = f"retrieval {source}" if source else "retrieval"
        attributes = {**self.names.attributes("retrieval", facts), **own}
        ENDING.add(
            self.tracer.start_span(name, kind=SpanKind.CLIENT, attributes=attributes, start_time=began), time.time_ns()
        )

    @hookimpl
    async def flexchat_around_request(self, request: ServiceRequest, send: Callable[[], Awaitable[Any]]) -> Any:
        """Surround an attempt to get embeddings with a span; requests for answers have events."""
        if not request.texts:
            return await send()
        began, facts = time.time_ns(), self._embedding_facts(request)
        span = self._start_embeddings(request, began, facts)
        before, outcome = _surroundings() if span is None else _enter(span), None
        try:
            outcome = result = await send()
        except BaseException as error:
            outcome = error
            raise
        finally:
            self._end_embeddings(span, began, facts, outcome)
            _leave(before)
        return result

    def _embedding_facts(self, request: ServiceRequest) -> dict[str, Any]:
        address, port = server_of("" if request.llm.endpoint is None else request.llm.endpoint.name)
        facts = {"operation": "embeddings", "model": request.model or None, "address": address, "port": port}
        return {**facts, "provider": self.names.provider(request.llm.provider.name, address)}

    @_quiet
    def _start_embeddings(self, request: ServiceRequest, began: int, facts: Mapping[str, Any]) -> Span | None:
        if (turn := _current.get()) is not None and not turn.records:
            return None
        own = {"flexchat.llm": request.llm.name, "flexchat.embeddings.texts": len(request.texts)}
        return self.tracer.start_span(
            f"embeddings {request.model}" if request.model else "embeddings",
            kind=SpanKind.CLIENT,
            attributes={**self.names.attributes("embeddings", facts), **own},
            start_time=began,
        )

    @_quiet
    def _end_embeddings(self, span: Span | None, began: int, facts: dict[str, Any], outcome: Any) -> None:
        now, usage, more = time.time_ns(), None, dict[str, Any]()
        if isinstance(outcome, Embeddings):
            facts["response_model"], usage = outcome.model, outcome.usage
            more["input_tokens"] = None if usage is None else usage.input_tokens
            more["dimensions"] = len(outcome.vectors[0]) if outcome.vectors else None
        elif isinstance(outcome, BaseException):
            facts["error"] = _error_type(outcome)
        if span is not None:
            ends = {name: facts.get(name) for name in ("response_model", "error")}
            span.set_attributes(self.names.attributes("embeddings", {**ends, **more}))
            if facts.get("error"):
                span.set_status(_ERROR)
            ENDING.add(span, now)
        self.metrics.request((now - began) / 1e9, usage, facts)

    @hookimpl
    def flexchat_model_request_started(
        self,
        info: TurnInfo,
        llm: str,
        model: str,
        messages: tuple[Message, ...],
        options: ChatOptions,
        provider: str,
        endpoint: str,
        streams: bool,
    ) -> None:
        """Open the span of a request."""
        if (turn := _current.get()) is None:
            return
        address, port = server_of(endpoint)
        facts: dict[str, Any] = {"operation": "chat", "model": model or None, "address": address, "port": port}
        facts["provider"] = self.names.provider(provider, address)
        if not turn.records:
            turn.request = None, _surroundings(), facts
            return
        more: dict[str, Any] = {"max_tokens": options.max_tokens, "seed": options.seed}
        floats = {"temperature": options.temperature, "top_p": options.top_p}  # a config may have 0
        more |= {name: None if value is None else float(value) for name, value in floats.items()}
        more |= {"stop": options.stop or None, "stream": streams or None, "conversation": info.conversation}
        more["reasoning"] = options.reasoning.effort if options.reasoning else None
        more["output_type"] = "json" if options.response_format else None
        if self.shows("chat"):
            more["input"] = self.content.messages(messages)
        attributes = {**self.names.attributes("chat", {**facts, **more}), "flexchat.llm": llm}
        span = self.tracer.start_span(f"chat {model}" if model else "chat", kind=SpanKind.CLIENT, attributes=attributes)
        turn.request = span, _enter(span), facts

    @hookimpl
    def flexchat_model_request_finished(
        self, elapsed_ms: float, result: ChatResult | None, error: Exception | None, attempts: int
    ) -> None:
        """Close it, and record its duration and tokens."""
        if (turn := _current.get()) is None or turn.request is None:
            return
        (span, before, facts), turn.request = turn.request, None
        usage = result.usage if result is not None else None
        more: dict[str, Any] = {}
        more["response_model"] = result.model if result is not None else None
        more["error"] = None if error is None else _error_type(error)
        facts |= more
        if span is not None:
            if result is not None:
                more["response_id"] = result.response_id
                more["finish_reasons"] = [result.finish_reason] if result.finish_reason else None
                if self.shows("chat"):
                    more["output"] = self.content.messages([result.message])
            if usage is not None:
                names = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
                more |= {name: getattr(usage, name) for name in names}
            span.set_attributes({**self.names.attributes("chat", more), "flexchat.attempts": attempts})
            if error is not None:
                span.set_status(_ERROR)
            ENDING.add(span, time.time_ns())
        self.metrics.request(elapsed_ms / 1000, usage, facts)
        _leave(before)

    @hookimpl
    def flexchat_wait_ended(self, reason: str, elapsed_ms: float) -> None:
        """Record a wait, as a span that has just ended."""
        if (turn := _current.get()) is not None and turn.records:
            now = time.time_ns()
            attributes = {"flexchat.wait.reason": reason}
            began = now - int(elapsed_ms * 1e6)
            ENDING.add(self.tracer.start_span(f"wait {reason}", attributes=attributes, start_time=began), now)
        self.metrics.wait(reason, elapsed_ms / 1000)

    @hookimpl
    def flexchat_turn_finished(self, info: TurnInfo, turn: Turn) -> None:
        """State how the turn ended."""
        self._finish(info, turn, None)

    @hookimpl
    def flexchat_turn_failed(self, info: TurnInfo, turn: Turn, error: Exception) -> None:
        """State why it failed."""
        self._finish(info, turn, type(error).__name__)

    flexchat_turn_cancelled = flexchat_turn_suspended = flexchat_turn_finished

    @hookimpl
    def flexchat_turn_accepted(self, info: TurnInfo) -> None:
        """State that it begins later."""
        if (spans := _current.get()) is not None and spans.info.id == info.id:
            spans.own["flexchat.turn.status"] = "accepted"

    def _finish(self, info: TurnInfo, turn: Turn, error: str | None) -> None:
        spans = _current.get()
        if spans is None or spans.info.id != info.id or spans.status:
            return
        spans.status = turn.status
        if spans.rule is None and turn.rule is not None:  # chosen before the turn was resumed
            self._name(spans, turn.rule, turn.rule_name)
        cost, response = turn.cost.amount, turn.response
        facts: dict[str, Any] = {"agent": spans.rule, "error": error}
        if spans.records:
            more: dict[str, Any] = {"finish_reasons": [response.finish_reason] if response.finish_reason else None}
            if response.usage is not None:
                more |= {"input_tokens": response.usage.input_tokens, "output_tokens": response.usage.output_tokens}
            if self.shows("invoke_agent"):
                asked = {"role": "user", "parts": [{"type": "text", "content": turn.profile.user_message}]}
                answered = {"role": "assistant", "parts": [{"type": "text", "content": turn.content}]}
                more |= {"input": self.content.json([asked]), "output": self.content.json([answered])}
            spans.own |= {"flexchat.turn.status": turn.status, "flexchat.turn.tool_calls": len(turn.tool_calls)}
            if cost is not None:
                spans.own["flexchat.turn.cost_usd"] = float(cost)
            spans.span.set_attributes(self.names.attributes("invoke_agent", {**facts, **more}))
            if error is not None:
                spans.span.set_status(_ERROR)
        seconds = (time.time_ns() - spans.began) / 1e9
        self.metrics.turn(seconds, turn.status, None if cost is None else float(cost), facts)


@attrs.frozen
class ToolSpans:
    """The step around every tool call: its span, current while the call runs."""

    name: ClassVar[str] = "telemetry"
    stage: ClassVar[Stage] = "report"
    observer: Observer

    async def __call__(self, call: Call, rest: Rest) -> ToolResult:
        """Run the call in its span."""
        turn, began, cited = _current.get(), time.time_ns(), len(self._cited(call))
        facts = {"tool": self._tool(call), "type": "function", "agent": None if turn is None else turn.rule}
        span = self._start(call, turn, began, facts)
        before = _surroundings() if span is None else _enter(span)
        outcome: ToolResult | BaseException | None = None
        try:
            outcome = result = await rest()
        except BaseException as error:
            outcome = error
            raise
        finally:
            self._end(call, span, began, facts, outcome)
            if span is not None and turn is not None:
                self._add_retrieval(call, turn, began, cited)
            _leave(before)
        return result

    def _tool(self, call: Call) -> str:
        """Return the name of a tool that exists; what a model invents may be anything, a secret included."""
        offered = call.offer is not None and call.offer.get(call.name) is not None
        if call.tool is None and not offered and call.name not in self.observer.tools:
            return OTHER
        return self.observer.metrics.limited("tool", call.name)

    @_quiet
    def _start(self, call: Call, turn: TurnSpans | None, began: int, facts: Mapping[str, Any]) -> Span | None:
        if turn is not None and not turn.records:
            return None
        observer = self.observer
        more = {"operation": "execute_tool", "call_id": call.id, "conversation": call.turn.conversation}
        own = {"flexchat.tool.origin": call.origin, "flexchat.tool.call": call.path}
        own["flexchat.tenant"] = call.turn.tenant
        return observer.tracer.start_span(
            f"execute_tool {facts['tool']}",
            context=_parent(current_traceparent.get() if turn is None else ""),
            attributes={**observer.names.attributes("execute_tool", {**facts, **more}), **own},
            start_time=began,
        )

    @_quiet
    def _end(self, call: Call, span: Span | None, began: int, facts: dict[str, Any], outcome: Any) -> None:
        now, observer = time.time_ns(), self.observer
        if isinstance(outcome, ToolResult):
            facts["error"] = None if outcome.success else call_error_kind(outcome.error or "")
        elif not isinstance(outcome, CallSuspended):
            facts["error"] = type(outcome).__name__
        if span is not None:
            more: dict[str, Any] = {"error": facts.get("error")}
            own: dict[str, Any] = {"flexchat.attempts": call.attempts}
            if (name := self._tool(call)) != facts["tool"]:  # found meanwhile, at a source of tools
                facts["tool"] = more["tool"] = name
                span.update_name(f"execute_tool {name}")
            if call.tool is not None:
                more["description"] = call.tool.description
                own |= {"flexchat.tool.effect": call.tool.effect, "flexchat.tool.source": call.tool.source or ""}
            if observer.shows("execute_tool"):
                more["input"] = observer.content.json(call.arguments)
                if isinstance(outcome, ToolResult):
                    more["output"] = observer.content.json(outcome.result if outcome.success else outcome.error)
            span.set_attributes({**observer.names.attributes("execute_tool", more), **own})
            if facts.get("error") is not None:
                span.set_status(_ERROR)
            ENDING.add(span, now)
        observer.metrics.tool((now - began) / 1e9, facts)

    @_quiet
    def _add_retrieval(self, call: Call, turn: TurnSpans, began: int, cited: int) -> None:
        if found := [each for each in self._cited(call)[cited:] if each.tool == call.name]:
            stores = [*dict.fromkeys(each.store for each in found)]
            self.observer.retrieval(turn, began, None, stores, [each.hits for each in found])

    @staticmethod
    def _cited(call: Call) -> Sequence[Any]:
        turn = current_turn.get()
        return turn.cited if turn is not None and turn.info.id == call.turn.id else ()
