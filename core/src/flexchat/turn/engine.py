"""What all turns of one chat share."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from ..calls.manager import ToolManager
from ..config.model import Config, LimitsTable, ResponseFormatTable, ResponseRule
from ..domain import ChatRequest, Profile, StreamEvent, TurnInfo
from ..domain.masking import Mask
from ..domain.prices import Cost
from ..domain.questions import OnQuestion
from ..errors import ChatRequestError, StuckTurnError, ToolClashError
from ..events.feed import Feed
from ..events.log import EventLog
from ..events.sink import Listener, Sink
from ..llms.llm import Llms
from ..plugin.contracts import Retriever, TurnJournal
from ..plugin.current import current_call, place_within
from ..plugin.hooks import Hooks
from ..schema.answer_format import AnswerFormat, answer_format
from ..tools.registry import ToolRegistry
from .active import ActiveTurn, new_turn_id, outer_turn
from .clock import Clock
from .journal import Journal
from .keeping import Keeper
from .routing import Router, rule_as_recorded

log = logging.getLogger(__name__)


class TurnEngine:
    """Starts turns, and holds no state of them.

    Attributes:
        llms: The models that can be asked.
        tools: The tools' registry, executor and limits.
        keeper: Keeps conversations; None if none are kept.
        phase_timeout_s: Seconds each of phases 1 to 3 may take.
        spent: What the turns that have ended cost, by tenant.
    """

    def __init__(
        self,
        config: Config,
        llms: Llms,
        tools: ToolManager,
        *,
        hooks: Hooks | None = None,
        stores: Mapping[str, Retriever] | None = None,
        usual_thresholds: Mapping[str, tuple[float, float]] | None = None,
        keeper: Keeper | None = None,
        mask: Mask | None = None,
    ) -> None:
        self.llms = llms
        self.tools = tools
        self.hooks = hooks or Hooks()
        self.keeper = keeper
        self.mask = mask or Mask()
        self.limits: LimitsTable = config.limits
        self.phase_timeout_s = config.limits.phase_timeout_ms / 1000
        self.router = Router(config, stores or {}, usual_thresholds, mask)
        self.explaining = asyncio.Lock()
        self.spent: dict[str, Cost] = {}
        self._forms: dict[int, tuple[ResponseFormatTable, AnswerFormat]] = {}

    def begin(
        self,
        request: ChatRequest,
        *,
        feed: Feed | None = None,
        log: EventLog[StreamEvent] | None = None,
        listeners: Sequence[Listener] = (),
        is_whole: bool = False,
    ) -> ActiveTurn:
        """Return a turn ready to run; its clock starts when it does.

        Args:
            feed: Where its reader gets the events; None if nobody reads them.
            log: Keeps its events, for readers who come later.
            listeners: Also get every event.
            is_whole: Its answers are passed on only once they are complete.

        Raises:
            NestedTurnError: It would run inside too many others.
            ChatRequestError: The response_format is invalid, or no conversations are kept.
        """
        if request.conversation is not None and self.keeper is None:
            raise ChatRequestError("no conversations are kept: add a table 'conversations' to the config")
        outer = outer_turn()
        if outer is not None:  # its calls need the same approval, and the same person is there to give it
            request = attrs.evolve(
                request,
                approve=request.approve or outer.request.approve,
                on_question=request.on_question or outer.request.on_question,
            )
        info = TurnInfo(
            id=new_turn_id() if request.conversation is not None else new_turn_id(outer, place_within()),
            conversation=request.conversation,
            tenant=request.tenant,
            parent=None if outer is None else outer.info.id,
        )
        journal = None if self.keeper is None else self.keeper.journal_of(info, request.user_message, request.key)
        return self._active(
            info, request, Sink(info, self.hooks, feed, listeners, log=log, is_whole=is_whole), outer, journal
        )

    async def take_up(
        self,
        id: str,
        *,
        tenant: str,
        context: Any = None,
        on_question: OnQuestion | None = None,
        feed: Feed | None = None,
        log: EventLog[StreamEvent] | None = None,
        is_closed: bool = False,
        is_unasked: bool = False,
    ) -> ActiveTurn:
        """Take up an interrupted turn, and return it: run, it goes on where it stopped.

        Args:
            id: The turn's id, or the beginning of it.
            context, on_question: In place of those its request had, which are kept nowhere.
            feed, log: As in begin; what happened before is not reported again.
            is_closed: It does not go on: run, it fails with InterruptedTurnError, and is kept as far as it came.
            is_unasked: Nobody asked for this turn: it must be certain that this configuration is to answer it.

        Raises:
            ChatRequestError: No journal is kept.
            StuckTurnError: The configuration does not fit it.
            UnknownTurnError, TurnNotWaitingError, StorageError: It cannot be taken up.
        """
        outer, _ = outer_turn(), self.journal
        assert self.keeper is not None
        journal, request = await self.keeper.take(id, tenant=tenant)
        journal.is_closed = is_closed
        try:
            if is_unasked and journal.is_undecided_elsewhere:
                why = "it began with another configuration, and no rule had been chosen"
                raise StuckTurnError(journal.turn.id, why)
            if not is_closed:
                self._see_that_it_fits(journal)
        except StuckTurnError as error:
            await journal.release(error.why)
            raise
        info = TurnInfo(id=journal.turn.id, conversation=journal.turn.conversation, tenant=journal.turn.tenant)
        journal.loud = Sink(info, self.hooks, feed, log=log)
        return self._active(
            info, attrs.evolve(request, context=context, on_question=on_question), Sink(info, Hooks()), outer, journal
        )

    @property
    def journal(self) -> TurnJournal:
        """Where turns of kept conversations are written.

        Raises:
            ChatRequestError: No conversations are kept, or their store keeps no journal.
        """
        if self.keeper is None:
            raise ChatRequestError("no conversations are kept: add a table 'conversations' to the config")
        if self.keeper.journal is None:
            raise ChatRequestError("the store of the conversations keeps no journal of turns")
        return self.keeper.journal

    def _see_that_it_fits(self, journal: Journal) -> None:
        if journal.rule is None:
            return
        _, rule = rule_as_recorded(self.router.rules, journal.rule, journal.turn.id)
        try:
            known = self.tools.offer_to(rule)
        except ToolClashError as error:
            raise StuckTurnError(journal.turn.id, str(error)) from None
        sources = journal.rule.get("sources")  # absent in old journals
        for name in map(known.name_of, journal.waiting_calls()):
            if name not in journal.rule["tools"]:
                continue
            tool, of = known.get(name), "" if sources is None or name not in sources else f" of '{sources[name]}'"
            if tool is None or (sources is not None and tool.source != sources.get(name)):
                text = f"the tool {name}{of} it was calling is gone from the configuration, or from the rule"
                raise StuckTurnError(journal.turn.id, text)

    def _active(
        self, info: TurnInfo, request: ChatRequest, sink: Sink, outer: ActiveTurn | None, journal: Journal | None
    ) -> ActiveTurn:
        return ActiveTurn(
            info=info,
            engine=self,
            request=request,
            clock=Clock(self.limits.turn_timeout_ms, None if outer is None else outer.clock.until),
            sink=sink,
            outer=outer,
            within=None if outer is None else current_call.get(),
            form=None if request.response_format is None else answer_format(request.response_format),
            profile=Profile(topic=request.topic or "", user_message=request.user_message),
            journal=journal,
        )

    def offered_to(self, rule: ResponseRule, offer: ToolRegistry | None = None) -> tuple[str, ...]:
        """Return the names of the tools offered to this rule's model; none means the standard flow (RG-8, RG-12)."""
        names = self.tools.offered_to(rule) if offer is None else offer.names()
        if not names and rule.tools is not None and rule.tools.enabled and self.tools.is_enabled():
            log.warning("no tool is available to this rule; answering without tools")
        return names

    def form_of(self, rule: ResponseRule) -> AnswerFormat | None:
        """Return the form a rule's answers must have; None for any text."""
        table = rule.response_format
        if table is None:
            return None
        found = self._forms.get(id(table))
        if found is None:
            found = self._forms[id(table)] = (table, answer_format(table.wanted()))
        return found[1]
