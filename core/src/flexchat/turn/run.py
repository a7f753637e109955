"""One turn: the six phases, in order."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import attrs

from ..config.model import ResponseRule
from ..domain import ChatRequest, ChatResponse, PhaseRecord, Profile, StreamEvent, Turn, TurnEnd, UserMessage
from ..domain.masking import Mask
from ..errors import ProviderRequestError, StorageError
from ..plugin.citing import Found, found_in_turn
from ..plugin.events import EventHooks, current_turn
from ..schema.answer_form import AnswerForm
from .answer import ResponseGenerator
from .citations import citations_of
from .exchange import Generation
from .matching import RuleVerdict, each_verdict
from .routing import PhaseRecords, Router
from .template import shows_documents

log = logging.getLogger(__name__)

_AT_ONCE = 100  # rules that are explained before others are served

KEEPING_S = 2.5
"""How long a turn that is stopped waits for its being kept; then the store goes on by itself."""

Keep = Callable[[Turn], Awaitable[Turn]]
"""What is done with a turn that has ended, before its caller has it; see Place.keep."""


@attrs.frozen(kw_only=True)
class Explanation:
    """Where a message would go, and why; it is not answered.

    Attributes:
        rule: Index of the response rule that would answer, from 0; None if none fits.
        tools: Names of the tools its model would be offered.
        verdicts: Of every rule, with all its conditions that fail.
        phases: Phases 1 to 4, and 5 if a rule fits.
    """

    profile: Profile
    rule: int | None
    verdicts: tuple[RuleVerdict, ...]
    phases: tuple[PhaseRecord, ...]
    tools: tuple[str, ...] = ()


class Conversation:
    """Takes a message through the six phases. Keeps nothing between turns: the history is part of the request."""

    def __init__(
        self, router: Router, generator: ResponseGenerator, events: EventHooks, mask: Mask | None = None
    ) -> None:
        self._router = router
        self._generator = generator
        self._events = events
        self._mask = mask or Mask()
        self._explaining = asyncio.Lock()

    async def explain(self, request: ChatRequest) -> Explanation:
        """Run the phases up to the choice of a rule, and say why it is chosen.

        The plugins are told of these phases and of the questions to models, under a turn_id of its own, but of no turn
        that starts, finishes or fails.

        A model or a store that does not answer is a warning of its phase.

        Raises:
            TurnTimeoutError: limits.turn_timeout_ms is over.
        """
        with _Turn(request, self._events) as turn:
            records = turn.records
            profile, _ = await self._router.profile(request, records)
            found = await self._verdicts(profile)
            fitting = next((verdict.rule for verdict in found if verdict.fits), None)
            if fitting is not None:
                await self._router.rule(profile, records)
        tools = self._generator.offered_to(self._router.rules[fitting]) if fitting is not None else ()
        return Explanation(profile=profile, rule=fitting, verdicts=found, phases=tuple(records.records), tools=tools)

    async def _verdicts(self, profile: Profile) -> tuple[RuleVerdict, ...]:
        """Return what is said of each rule; others are served meanwhile, and of many who ask one at a time."""
        found: list[RuleVerdict] = []
        async with self._explaining:
            for verdict in each_verdict(profile, self._router.rules):
                found.append(verdict)
                if len(found) % _AT_ONCE == 0:
                    await asyncio.sleep(0)
        return tuple(found)

    async def respond(self, request: ChatRequest, form: AnswerForm | None = None, keep: Keep | None = None) -> Turn:
        """Answer a message.

        Args:
            form: What the answer must be; None for what the rule says.
            keep: Is given the turn, however it ends. What it raises goes to the caller if the turn is done.

        Raises:
            NoMatchingRuleError, UnknownServiceError, TurnTimeoutError, ProviderError, ResponseFormatError: The turn
                failed.
        """
        with _Turn(request, self._events) as turn:
            async with contextlib.aclosing(self._events_of(turn, form, keep, streamed=False)) as events:
                async for event in events:
                    if isinstance(event, TurnEnd):
                        return event.turn
        raise AssertionError("a turn ends with TurnEnd")

    async def stream(
        self, request: ChatRequest, form: AnswerForm | None = None, keep: Keep | None = None
    ) -> AsyncGenerator[StreamEvent, None]:
        """Answer a message and yield what happens; the last event is the TurnEnd.

        Raises:
            The same as respond, out of the generator.
        """
        turn = _Turn(request, self._events)
        events = self._events_of(turn, form, keep, streamed=True)
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
        self, turn: _Turn, form: AnswerForm | None, keep: Keep | None, *, streamed: bool
    ) -> AsyncGenerator[StreamEvent, None]:
        request, records = turn.request, turn.records
        try:
            await self._events.turn_started(request.user_message)
            turn.profile, rag = await self._router.profile(request, records)
            turn.rule = await self._router.rule(turn.profile, records)
            turn.generation = self._generator.begin(
                turn.profile,
                turn.rule[1],
                request.user_message,
                request.history,
                so_far=request.so_far,
                variables=request.variables,
                streamed=streamed,
                form=form,
                spent_s=turn.elapsed_s(),
            )
            response: ChatResponse | None = None
            async with contextlib.aclosing(self._generator.answer(turn.generation)) as flow:
                async for event in flow:
                    if isinstance(event, ChatResponse):
                        response = event
                    elif streamed:
                        yield event
            assert response is not None, "a generation ends with its response"
            if records.warnings:
                response = attrs.evolve(response, warnings=(*records.warnings, *response.warnings))
            await records.done("response generation", response, _printable(response), usage=response.usage)
            citations = citations_of(
                response.content, rag, bool(rag.hits) and shows_documents(turn.rule[1].prompt), turn.found
            )
            turn.done = turn.ended(response, citations=citations)
            if keep is not None:
                turn.done = await keep(turn.done)
            await self._events.turn_finished(response, turn.done.elapsed_ms)
        except (Exception, asyncio.CancelledError, GeneratorExit) as error:
            await self._broken_off(turn, error, keep)
            raise
        yield TurnEnd(turn.done)

    async def _broken_off(self, turn: _Turn, error: BaseException, keep: Keep | None) -> None:
        """End a turn that does not come to its end: keep what there is of it, and hand it over with the error."""
        ended = turn.done or self._unfinished(turn, error)
        if keep is not None and not (turn.done and isinstance(error, StorageError)):
            ended = await _kept_in_any_case(keep, ended)
        if not isinstance(error, GeneratorExit):  # that one is seen by nobody
            error.turn = ended  # type: ignore[attr-defined]  # CancelledError has no field for it
        if isinstance(error, Exception):
            await self._events.turn_failed(error, turn.elapsed_s() * 1000)

    def _unfinished(self, turn: _Turn, error: BaseException) -> Turn:
        if turn.generation is not None:
            response = self._generator.broken_off(turn.generation)
        else:
            asked = (UserMessage(content=turn.request.user_message), *turn.request.so_far)
            response = ChatResponse(content="", service="", model="", messages=asked)
        response = attrs.evolve(response, warnings=(*turn.records.warnings, *response.warnings))
        if not isinstance(error, Exception):
            return turn.ended(response, status="cancelled")
        said = self._mask(str(error) or type(error).__name__)
        return turn.ended(response, status="failed", error=said, replay=not isinstance(error, ProviderRequestError))


class _Turn:
    """A turn while it runs: what is known of it, and, as a context manager, the current one.

    Attributes:
        rule: The chosen one, with its index; None before.
        generation: Phase 6 of it; None before.
        done: The finished turn; None while it runs.
    """

    __slots__ = ("_tokens", "done", "found", "generation", "id", "profile", "records", "request", "rule")

    def __init__(self, request: ChatRequest, events: EventHooks) -> None:
        self.id = secrets.token_hex(16)
        self.request = request
        self.records = PhaseRecords(events)
        self.profile = Profile(topic=request.topic or "", user_message=request.user_message)
        self.rule: tuple[int, ResponseRule] | None = None
        self.generation: Generation | None = None
        self.done: Turn | None = None
        self.found: list[Found] = []
        self._tokens: tuple[contextvars.Token[str], contextvars.Token[list[Found] | None]] | None = None

    def __enter__(self) -> _Turn:
        self._tokens = (current_turn.set(self.id), found_in_turn.set(self.found))
        return self

    def __exit__(self, *_: object) -> None:
        assert self._tokens is not None
        current_turn.reset(self._tokens[0])
        found_in_turn.reset(self._tokens[1])

    def elapsed_s(self) -> float:
        """Return the seconds since it began."""
        return time.perf_counter() - self.records.started

    def ended(self, response: ChatResponse, **rest: Any) -> Turn:
        """Return it as it is handed out."""
        index, rule = self.rule or (None, None)
        return Turn(
            id=self.id,
            profile=self.profile,
            rule=index,
            rule_name=rule.name if rule is not None else None,
            response=response,
            phases=tuple(self.records.records),
            elapsed_ms=self.elapsed_s() * 1000,
            **rest,
        )


async def _kept_in_any_case(keep: Keep, turn: Turn) -> Turn:
    """Keep a turn that nobody waits for any more: whoever cancels it now cancels the waiting and not the keeping.

    It is waited for a moment, so that a program which ends now does not end before it.

    Raises:
        asyncio.CancelledError: Somebody cancelled it meanwhile.
    """
    keeping = asyncio.ensure_future(keep(turn))
    _KEEPING.add(keeping)
    keeping.add_done_callback(_KEEPING.discard)
    cancelled: asyncio.CancelledError | None = None
    until = time.monotonic() + KEEPING_S
    while not keeping.done() and (left := until - time.monotonic()) > 0:
        try:
            await asyncio.wait({keeping}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if keeping.done() and not keeping.cancelled() and keeping.exception() is None:
        turn = keeping.result()
    else:
        why = keeping.exception() if keeping.done() and not keeping.cancelled() else "the store takes too long"
        log.warning("the turn %s ended early and is not kept: %s", turn.id, why)
    if cancelled is not None:
        raise cancelled
    return turn


_KEEPING: set[asyncio.Future[Turn]] = set()


def _printable(response: ChatResponse) -> dict[str, Any]:
    """Return what a person is shown of phase 6's outcome, as JSON data."""
    return {"service": response.service, "model": response.model, "tool_calls": len(response.tool_calls or ())}
