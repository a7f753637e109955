"""One turn: the six phases, in order."""

from __future__ import annotations

import contextlib
import contextvars
import secrets
import time
from collections.abc import AsyncGenerator
from typing import Any

import attrs

from .domain import ChatRequest, ChatResponse, PhaseRecord, Profile, StreamEvent, Turn, TurnEnd
from .phases.citations import citations_of
from .phases.phase5_matching import RuleVerdict, verdicts
from .phases.phase6_generation import ResponseGenerator
from .phases.routing import PhaseRecords, Router
from .phases.template import shows_documents
from .plugin.citing import Found, found_in_turn
from .plugin.events import EventHooks, current_turn
from .schema.answer_form import AnswerForm


@attrs.frozen(kw_only=True)
class Explanation:
    """Where a message would go, and why; it is not answered.

    Attributes:
        rule: Index of the response rule that would answer, from 0; None if none fits.
        verdicts: Of every rule, with all its conditions that fail.
        phases: Phases 1 to 4, and 5 if a rule fits.
    """

    profile: Profile
    rule: int | None
    verdicts: tuple[RuleVerdict, ...]
    phases: tuple[PhaseRecord, ...]


class Conversation:
    """Takes a message through the six phases. Keeps nothing between turns: the history is part of the request."""

    def __init__(self, router: Router, generator: ResponseGenerator, events: EventHooks) -> None:
        self._router = router
        self._generator = generator
        self._events = events

    async def explain(self, request: ChatRequest) -> Explanation:
        """Run the phases up to the choice of a rule, and say why it is chosen.

        The plugins are told of these phases and of the questions to models, under a turn_id of its own, but of no turn
        that starts, finishes or fails.

        A model or a store that does not answer is a warning of its phase.

        Raises:
            TurnTimeoutError: limits.turn_timeout_ms is over.
        """
        with _Turn():
            records = PhaseRecords(self._events)
            profile, _ = await self._router.profile(request, records)
            found = verdicts(profile, self._router.rules)
            fitting = next((verdict.rule for verdict in found if verdict.fits), None)
            if fitting is not None:
                await self._router.rule(profile, records)
        return Explanation(profile=profile, rule=fitting, verdicts=found, phases=tuple(records.records))

    async def respond(self, request: ChatRequest, form: AnswerForm | None = None) -> Turn:
        """Answer a message.

        Args:
            form: What the answer must be; None for what the rule says.

        Raises:
            NoMatchingRuleError, UnknownServiceError, TurnTimeoutError, ProviderError, ResponseFormatError: The turn
                failed.
        """
        with _Turn() as turn:
            async with contextlib.aclosing(self._events_of(turn, request, form, streamed=False)) as events:
                async for event in events:
                    if isinstance(event, TurnEnd):
                        return event.turn
        raise AssertionError("a turn ends with TurnEnd")

    async def stream(self, request: ChatRequest, form: AnswerForm | None = None) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message and yield what happens; the last event is the TurnEnd.

        Raises:
            The same as respond, out of the generator.
        """
        turn = _Turn()
        events = self._events_of(turn, request, form, streamed=True)
        # A generator runs in the context of whoever asks for its next event, which may be another task each time:
        # the turn is current only while it runs.
        try:
            while True:
                with turn:
                    try:
                        event = await events.__anext__()
                    except StopAsyncIteration:
                        return
                yield event
        finally:
            with turn:
                await events.aclose()

    async def _events_of(
        self, current: _Turn, request: ChatRequest, form: AnswerForm | None, *, streamed: bool
    ) -> AsyncGenerator[StreamEvent, None]:
        started = time.perf_counter()
        records = PhaseRecords(self._events, started)
        try:
            await self._events.turn_started(request.user_message)
            profile, rag = await self._router.profile(request, records)
            index, rule = await self._router.rule(profile, records)
            response: ChatResponse | None = None
            flow = self._generator.events(
                profile,
                rule,
                request.user_message,
                request.history,
                so_far=request.so_far,
                streamed=streamed,
                form=form,
                spent_s=time.perf_counter() - started,
            )
            async with contextlib.aclosing(flow):
                async for event in flow:
                    if isinstance(event, ChatResponse):
                        response = event
                    elif streamed:
                        yield event
            assert response is not None, "a generation ends with its response"
            if records.warnings:
                response = attrs.evolve(response, warnings=(*records.warnings, *response.warnings))
            await records.done("response generation", response, _printable(response), usage=response.usage)
            turn = Turn(
                id=current.id,
                profile=profile,
                rule=index,
                response=response,
                phases=tuple(records.records),
                elapsed_ms=(time.perf_counter() - started) * 1000,
                citations=citations_of(
                    response.content, rag, bool(rag.hits) and shows_documents(rule.prompt), current.found
                ),
            )
            await self._events.turn_finished(response, turn.elapsed_ms)
        except Exception as error:
            await self._events.turn_failed(error, (time.perf_counter() - started) * 1000)
            raise
        yield TurnEnd(turn)


class _Turn:
    """A turn while it runs: as a context manager it is the current one."""

    __slots__ = ("_tokens", "found", "id")

    def __init__(self) -> None:
        self.id = secrets.token_hex(16)
        self.found: list[Found] = []
        self._tokens: tuple[contextvars.Token[str], contextvars.Token[list[Found] | None]] | None = None

    def __enter__(self) -> _Turn:
        self._tokens = (current_turn.set(self.id), found_in_turn.set(self.found))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._tokens is not None
        current_turn.reset(self._tokens[0])
        found_in_turn.reset(self._tokens[1])


def _printable(response: ChatResponse) -> dict[str, Any]:
    """Return what a person is shown of phase 6's outcome, as JSON data."""
    return {"service": response.service, "model": response.model, "tool_calls": len(response.tool_calls or ())}
