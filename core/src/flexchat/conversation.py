"""One turn: the six phases, in order."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import attrs

from .config.model import ResponseRule
from .domain import ChatRequest, ChatResponse, PhaseRecord, StreamEvent, Turn, TurnEnd
from .phases.phase1_topic import detect_topic
from .phases.phase2_retrieval import collect_rag_results
from .phases.phase3_intent import detect_intent
from .phases.phase4_profile import build_profile
from .phases.phase5_matching import match_response_rule
from .phases.phase6_generation import ResponseGenerator
from .plugin.events import EventHooks, current_turn
from .schema.answer_form import AnswerForm


class Conversation:
    """Takes a message through the six phases. Keeps nothing between turns: the history is part of the request."""

    def __init__(self, rules: Sequence[ResponseRule], generator: ResponseGenerator, events: EventHooks) -> None:
        self._rules = tuple(rules)
        self._generator = generator
        self._events = events

    async def respond(self, request: ChatRequest, form: AnswerForm | None = None) -> Turn:
        """Answer a message.

        Args:
            form: What the answer must be; None for what the rule says.

        Raises:
            NoMatchingRuleError, UnknownServiceError, TurnTimeoutError, ProviderError, ResponseFormatError: The turn
                failed.
        """
        turn_id = secrets.token_hex(16)
        token = current_turn.set(turn_id)
        try:
            async with contextlib.aclosing(self._events_of(turn_id, request, form, streamed=False)) as events:
                async for event in events:
                    if isinstance(event, TurnEnd):
                        return event.turn
        finally:
            current_turn.reset(token)
        raise AssertionError("a turn ends with TurnEnd")

    async def stream(self, request: ChatRequest, form: AnswerForm | None = None) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message and yield what happens; the last event is the TurnEnd.

        Raises:
            The same as respond, out of the generator.
        """
        turn_id = secrets.token_hex(16)
        events = self._events_of(turn_id, request, form, streamed=True)
        # A generator runs in the context of whoever asks for its next event, which may be another task each time:
        # the turn is current only while it runs.
        try:
            while True:
                token = current_turn.set(turn_id)
                try:
                    event = await events.__anext__()
                except StopAsyncIteration:
                    return
                finally:
                    current_turn.reset(token)
                yield event
        finally:
            token = current_turn.set(turn_id)
            try:
                await events.aclose()
            finally:
                current_turn.reset(token)

    async def _events_of(
        self, turn_id: str, request: ChatRequest, form: AnswerForm | None, *, streamed: bool
    ) -> AsyncGenerator[StreamEvent, None]:
        started = time.perf_counter()
        phases = _Phases(self._events, started)
        try:
            await self._events.turn_started(request.user_message)
            topic = await phases.done("topic detection", await detect_topic(request))
            documents = await phases.done("rag collection", await collect_rag_results(request, topic))
            intent = await phases.done("intent detection", await detect_intent(topic, documents))
            profile = await phases.done("profile building", build_profile(request, topic, documents, intent))
            index, rule = await phases.done("response matching", match_response_rule(profile, self._rules))
            response: ChatResponse | None = None
            flow = self._generator.events(
                profile, rule, request.user_message, request.history, streamed=streamed, form=form
            )
            async with contextlib.aclosing(flow):
                async for event in flow:
                    if isinstance(event, ChatResponse):
                        response = event
                    elif streamed:
                        yield event
            assert response is not None, "a generation ends with its response"
            await phases.done("response generation", response)
            turn = Turn(
                id=turn_id,
                profile=profile,
                rule=index,
                response=response,
                phases=tuple(phases.records),
                elapsed_ms=(time.perf_counter() - started) * 1000,
            )
            await self._events.turn_finished(response, turn.elapsed_ms)
        except Exception as error:
            await self._events.turn_failed(error, (time.perf_counter() - started) * 1000)
            raise
        yield TurnEnd(turn)


@attrs.define
class _Phases:
    """Measures the phases, remembers them, and tells the plugins."""

    events: EventHooks
    since: float
    records: list[PhaseRecord] = attrs.field(factory=list)

    async def done(self, phase: str, outcome: Any) -> Any:
        now = time.perf_counter()
        elapsed_ms, self.since = (now - self.since) * 1000, now
        self.records.append(PhaseRecord(phase=phase, outcome=_printable(outcome), elapsed_ms=elapsed_ms))
        await self.events.phase_finished(phase, outcome, elapsed_ms)
        return outcome


def _printable(outcome: Any) -> Any:
    """Return what a person is shown of a phase's outcome, as JSON data."""
    match outcome:
        case ChatResponse():
            return {"service": outcome.service, "model": outcome.model, "tool_calls": len(outcome.tool_calls or ())}
        case (int() as index, ResponseRule() as rule):
            return {"rule": index, "match": dict(rule.match), "llm": rule.llm}
        case None | str():
            return outcome
        case tuple():
            return {"documents": len(outcome)}
    return {"rag_results": outcome.rag_results, "intent": outcome.intent}
