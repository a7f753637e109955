"""What all turns of one chat share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ..calls.manager import ToolManager
from ..config.model import Config
from ..domain import ChatRequest, Profile, StreamEvent, TurnInfo
from ..domain.journal import JOURNAL_FORMAT, MAX_RESUMES, JournalEntry
from ..domain.masking import Mask
from ..domain.questions import OnQuestion
from ..domain.tracing import is_traceparent, new_traceparent, usable_tracestate
from ..errors import ChatRequestError, StuckTurnError, ToolClashError
from ..events.log import EventLog
from ..events.sink import Feed, Sink
from ..llms.llm import Llms
from ..plugin.call import current_call, current_traceparent, current_tracestate, place_within
from ..plugin.contracts import Retriever, TurnJournal
from ..plugin.hooks import Hooks
from ..schema.answer_format import answer_format
from .active import ActiveTurn, TurnParts, new_turn_id, outer_turn
from .clock import Clock
from .journal import Journal, read_media
from .recording import ConversationRecorder
from .routing import Router, find_recorded_rule

log = logging.getLogger(__name__)


class TurnEngine:
    """Makes turns ready to run, and holds no state of them. ``recorder`` is None if no conversations are kept."""

    def __init__(
        self,
        config: Config,
        llms: Llms,
        tools: ToolManager,
        *,
        hooks: Hooks | None = None,
        stores: Mapping[str, Retriever] | None = None,
        usual_thresholds: Mapping[str, tuple[float, float]] | None = None,
        recorder: ConversationRecorder | None = None,
        mask: Mask | None = None,
    ) -> None:
        hooks, mask, store = hooks or Hooks(), mask or Mask(), recorder.store if recorder is not None else None
        self.parts = TurnParts(
            llms=llms,
            tools=tools,
            limits=config.limits,
            hooks=hooks,
            mask=mask,
            store=store,
            shrinks_media=config.media.shrink,
        )
        self.router = Router(config, stores or {}, usual_thresholds, mask)
        self.explaining = asyncio.Lock()
        self.questions, self.recorder = config.questions, recorder
        self.parts.questions.expires_s = config.questions.expires_s or 0.0
        self.parts.questions.refusal_of = hooks.refusal if hooks.restricts else None
        if recorder is not None:
            recorder.watch(self.parts.questions)

    def record_in(self, recorder: ConversationRecorder) -> None:
        """Record conversations with this recorder from now on."""
        self.recorder, self.parts.store = recorder, recorder.store
        recorder.watch(self.parts.questions)

    def create_turn(
        self, request: ChatRequest, receiver: Feed | EventLog[StreamEvent] | None = None, *, is_whole: bool = False
    ) -> ActiveTurn:
        """Return a turn ready to run; its clock starts when it does.

        Args:
            receiver: Carries its events to a reader, or keeps them for readers who come later; None without readers.
            is_whole: Its answers are passed on only once they are complete.

        Raises:
            NestedTurnError, ChatRequestError: It cannot begin.
        """
        if request.conversation is not None and self.recorder is None:
            raise ChatRequestError("no conversations are kept: add a table 'conversations' to the config")
        outer = outer_turn()
        if outer is not None:  # its calls need the same approval, and the same person is there to give it
            request = attrs.evolve(
                request,
                approve=request.approve or outer.request.approve,
                on_question=request.on_question or outer.request.on_question,
                # A tool cannot widen what its caller may do by naming another principal.
                principal=outer.request.principal or request.principal,
            )
        given, traces = request.traceparent or current_traceparent.get(), self.parts.hooks.traces
        is_usable = not given or is_traceparent(given)
        state = request.tracestate if request.traceparent or outer is None else outer.info.tracestate
        state = state or ("" if request.traceparent else current_tracestate.get())
        info = TurnInfo(
            id=new_turn_id() if request.conversation is not None else new_turn_id(outer, place_within()),
            conversation=request.conversation,
            tenant=request.tenant,
            parent=None if outer is None else outer.info.id,
            traceparent=given if given and is_usable else "" if traces else new_traceparent(),
            tracestate=usable_tracestate(state) if state and given and is_usable else "",
            principal=request.principal,
        )
        trace = self.parts.hooks.trace(info) if traces else None
        if traces:
            own = trace.traceparent if trace is not None else ""
            info = attrs.evolve(info, traceparent=own or info.traceparent or new_traceparent())
        recorder, key = self.recorder, request.idempotency_key
        journal = None if recorder is None else recorder.journal_of(info, request.user_message, key)
        turn = self._active(info, request, Sink(info, self.parts.hooks, receiver, is_whole), outer, journal)
        turn.trace = trace
        if not is_usable:
            turn.warnings.append("the traceparent cannot be used; a new trace was begun")
        return turn

    async def restore_turn(
        self,
        id: str,
        *,
        tenant: str,
        context: Any = None,
        on_question: OnQuestion | None = None,
        receiver: EventLog[StreamEvent] | None = None,
        is_closed: bool = False,
        is_unasked: bool = False,
        steps: Sequence[JournalEntry] = (),
    ) -> ActiveTurn:
        """Take up an interrupted turn, and return it: run, it goes on where it stopped.

        Args:
            id: The turn's id, or the beginning of it.
            context, on_question: In place of those its request had, which are kept nowhere.
            is_closed: It does not go on: run, it fails with InterruptedTurnError, and is kept as far as it came.
            is_unasked: No caller requested this turn: it must be certain that this configuration is to answer it.
            steps: Those that ``check_fit`` has read.

        Raises:
            ChatRequestError: No journal is kept.
            StuckTurnError: The configuration does not fit it.
            UnknownTurnError, TurnNotWaitingError, StorageError: It cannot be resumed.
        """
        # Both raise, if at all, before the turn is taken.
        outer, _ = outer_turn(), self.journal
        assert self.recorder is not None
        journal, request = await self.recorder.acquire(id, tenant=tenant, steps=steps)
        journal.is_closed = is_closed or bool(journal.turn.cancelled_by)
        try:
            if not journal.is_closed:
                self._check_configuration(journal, is_unasked=is_unasked)
        except StuckTurnError as error:
            # The turn is ours by now: released, it can be resumed by a program whose configuration fits it.
            await journal.release(error.why)
            raise
        info = TurnInfo(
            id=journal.turn.id,
            conversation=journal.turn.conversation,
            tenant=journal.turn.tenant,
            principal=request.principal,
            traceparent=request.traceparent or new_traceparent(),
            tracestate=request.tracestate,
        )
        sink = Sink(info, self.parts.hooks, receiver)
        if journal.is_resumed or journal.is_closed:
            # The turn starts with a silent sink: the steps that it replays have been reported before.
            journal.live_sink, sink = sink, Sink(info, Hooks())
        request = attrs.evolve(request, context=context, on_question=on_question)
        turn = self._active(info, request, sink, outer, journal)
        journal.info = info
        turn.trace = self.parts.hooks.trace(info, journal.runs or (info.traceparent,))
        if turn.trace is not None:
            journal.note_run(turn.trace.traceparent)
        turn.waits.append(journal.wait())
        return turn

    async def check_fit(self, id: str, *, tenant: str) -> Sequence[JournalEntry]:
        """Check that this configuration fits a turn, which does not change; return its steps.

        Raises:
            StuckTurnError: It does not, or the turn was interrupted too often; then it is left to a person.
            ChatRequestError, UnknownTurnError, StorageError: It cannot be read.
        """
        row, entries = await self.journal.read(id, tenant=tenant)
        assert self.recorder is not None
        if row.format > JOURNAL_FORMAT:
            raise StuckTurnError(row.id, "a newer FlexChat has begun it")
        if row.interruptions > MAX_RESUMES:
            why = f"it was interrupted {row.interruptions} times"
            await self.recorder.abandon(row, why)
            raise StuckTurnError(row.id, why)
        media = await read_media(self.journal, entries, tenant=tenant)
        self._check_configuration(self.recorder.open(row, entries, media), is_unasked=True)
        return entries

    @property
    def journal(self) -> TurnJournal:
        """Where turns of kept conversations are written. Raises ChatRequestError if there is none."""
        if self.recorder is None:
            raise ChatRequestError("no conversations are kept: add a table 'conversations' to the config")
        if self.recorder.journal is None:
            raise ChatRequestError("the store of the conversations keeps no journal of turns")
        return self.recorder.journal

    def _check_configuration(self, journal: Journal, *, is_unasked: bool) -> None:
        if is_unasked and journal.is_undecided_elsewhere:
            why = "it began with another configuration, and no rule had been chosen"
            raise StuckTurnError(journal.turn.id, why)
        if journal.rule is None:
            return
        _, rule = find_recorded_rule(self.router.rules, journal.rule, journal.turn.id)
        try:
            offer = self.parts.tools.offer_to(rule, is_whole=True)  # its calls are refused, or not, when they run
        except ToolClashError as error:
            raise StuckTurnError(journal.turn.id, str(error)) from None
        sources = journal.rule.get("sources")  # absent in old journals
        for name in map(offer.name_of, journal.unfinished_calls()):
            if name not in journal.rule["tools"]:
                continue
            tool, of = offer.get(name), "" if sources is None or name not in sources else f" of '{sources[name]}'"
            if tool is None or (sources is not None and tool.source != sources.get(name)):
                text = f"the tool {name}{of} it was calling is gone from the configuration, or from the rule"
                raise StuckTurnError(journal.turn.id, text)

    def _active(
        self, info: TurnInfo, request: ChatRequest, sink: Sink, outer: ActiveTurn | None, journal: Journal | None
    ) -> ActiveTurn:
        return ActiveTurn(
            info=info,
            parts=self.parts,
            request=request,
            clock=Clock(self.parts.limits.turn_timeout_ms, None if outer is None else outer.clock.until),
            sink=sink,
            tools=self.parts.tools.every_tool,
            outer=outer,
            outer_call=None if outer is None else current_call.get(),
            origin="model" if request.call is None else request.call.origin,  # type: ignore[arg-type]
            answer_format=None if request.response_format is None else answer_format(request.response_format),
            profile=Profile(topic=request.topic or "", user_message=request.user_message),
            journal=journal,
        )
