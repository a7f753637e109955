"""Phases 1 to 5: from a message to the rule that answers it, with a record of how it went."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..config.model import Config, ResponseRule, RuleTools
from ..domain import ChatRequest, CollectionChoice, PhaseFinished, PhaseRecord, PhaseStarted, Profile, RagResults
from ..domain.codec import value_from_dict, value_to_dict
from ..domain.masking import Mask
from ..errors import NoMatchingRuleError, NotPermittedError, StuckTurnError
from ..plugin.contracts import Retriever
from ..tools.registry import ToolRegistry
from .active import ActiveTurn, end_replay
from .detection import IntentDetector, PhaseNotes, Prompter, Topic, TopicDetector
from .documents import DocumentCollector
from .matching import match_response_rule, needs_of, topic_model

_NOTHING = PhaseNotes()
NOT_ASKED = PhaseNotes(skipped="no rule asks for it")
NOT_CHOSEN = PhaseNotes(skipped="no collection is chosen")


class Router:
    """Takes a message to its rule. ``usual_thresholds`` (match, partial) suit an embedder, by its name."""

    def __init__(
        self,
        config: Config,
        stores: Mapping[str, Retriever],
        usual_thresholds: Mapping[str, tuple[float, float]] | None = None,
        mask: Mask | None = None,
    ) -> None:
        self._mask = mask or Mask()
        self.rules = config.responses
        self._needs = needs_of(config, stores)
        timeout_s = config.limits.phase_timeout_ms / 1000
        self._topics = TopicDetector(topic_model(config), config.topic.prompt, config.topic.max_tokens)
        self._documents = DocumentCollector(stores, config.stores, usual_thresholds or {}, timeout_s=timeout_s)
        self._intents = IntentDetector(config.intent.choice, config.intent.detection, config.intent.max_tokens)

    async def route(self, turn: ActiveTurn) -> None:
        """Run phases 1 to 5: afterwards the turn has its profile and its rule.

        Raises TurnTimeoutError, and NoMatchingRuleError if no rule fits.
        """
        await self.profile(turn)
        if turn.journal is not None and (chosen := turn.journal.rule) is not None:
            if turn.journal.is_closed:
                # A closed turn asks no model, so the rule may be gone from the config by now.
                turn.rule = (chosen["index"], ResponseRule(llm=chosen["outcome"]["llm"], tools=RuleTools()))
            else:
                # The recorded choice stands, even if the profile would now lead to another rule: its prompt and tools
                # are what the recorded answers refer to.
                turn.rule = find_recorded_rule(self.rules, chosen, turn.info.id)
                if (why := turn.parts.hooks.refusal(turn.info, turn.rule[1])) is not None:
                    raise NotPermittedError(f"the turn cannot go on: {why}")
                await _open_tools(turn, turn.rule[1])
            await end_phase(turn, "response matching", turn.rule, chosen["outcome"])
            return
        # A new step: a turn that is only closed ends here, since the rules of now say nothing about it.
        await end_replay(turn)
        refused = refused_rules(turn, self.rules)
        try:
            index, rule, passed_over = match_response_rule(turn.profile, self.rules, refused)
        except NoMatchingRuleError:
            if refused:
                raise NotPermittedError(f"no rule that fits is permitted: {'; '.join({*refused.values()})}") from None
            raise
        await self.choose(turn, index, passed_over)
        own = await _open_tools(turn, rule)
        if turn.journal is not None:
            offered, outcome = own.list(), turn.phases[-1].outcome
            sources = {tool.name: tool.source for tool in offered if tool.source}
            names = [tool.name for tool in offered]
            turn.journal.add("rule", index=index, outcome=outcome, tools=names, sources=sources)

    async def profile(self, turn: ActiveTurn) -> None:
        """Run phases 1 to 4. Failures become warnings in the phase's record; a TurnTimeoutError is raised."""
        topic = await self._topic(turn)
        turn.rag = await self._rag(turn, topic)
        intent = await self._intent(turn, topic)
        turn.clock.check()
        profile = turn.profile = _build_profile(turn.request, topic, turn.rag, intent)
        names = "rag_results", "intent", "service", "collection"
        printable = {**{name: getattr(profile, name) for name in names}, "documents": len(profile.documents)}
        await end_phase(turn, "profile building", profile, printable)

    async def choose(self, turn: ActiveTurn, index: int, passed_over: Sequence[str]) -> None:
        """End phase 5 with a rule; ``passed_over`` is that of match_response_rule."""
        rule = self.rules[index]
        outcome = {"rule": index, **_name_entry(rule), "match": dict(rule.match), "llm": rule.llm}
        if passed_over:
            outcome["passed_over"] = [
                {"rule": at, **_name_entry(self.rules[at]), "failed": failed} for at, failed in enumerate(passed_over)
            ]
        turn.rule = (index, rule)
        await end_phase(turn, "response matching", turn.rule, outcome)

    def _needs_documents(self, turn: ActiveTurn) -> bool:
        return self._needs.documents if turn.request.collections is None else bool(turn.request.collections)

    async def _topic(self, turn: ActiveTurn) -> Topic:
        if (entry := _replay_phase(turn, "topic detection")) is not None:
            return Topic(entry["topic"], entry["status"])
        request, notes = turn.request, NOT_ASKED
        topic = Topic(request.user_message, "new_topic")
        searches = self._needs_documents(turn) or self._needs.categories
        if self._needs.topic or (searches and (request.history or request.topic)):
            notes = await self._begin_phase(turn, "topic detection")
            topic = await self._topics.detect(request, Prompter(turn, notes), notes)
        printable = {"topic": topic.text, "status": topic.status}
        await _record_phase(turn, "topic detection", topic.text, printable, notes, **printable)
        return topic

    async def _rag(self, turn: ActiveTurn, topic: Topic) -> RagResults:
        if (entry := _replay_phase(turn, "rag collection")) is not None:
            rag = value_from_dict(RagResults, entry["rag"])
            if turn.parts.hooks.restricts and not (turn.journal is not None and turn.journal.is_closed):
                _check_permitted(turn, rag)
            return rag
        rag, notes = turn.rag, NOT_ASKED if turn.request.collections is None else NOT_CHOSEN
        if self._needs_documents(turn):
            notes = await self._begin_phase(turn, "rag collection")
            rag = await self._documents.collect(turn.request, topic, notes)
        await _record_phase(turn, "rag collection", rag, _rag(rag), notes, rag=rag)
        return rag

    async def _intent(self, turn: ActiveTurn, topic: Topic) -> str | None:
        if (entry := _replay_phase(turn, "intent detection")) is not None:
            recorded: str | None = entry["intent"]
            return recorded
        rag, intent, notes = turn.rag, None, NOT_ASKED
        if self._needs.intent or (self._needs.place and rag.hits):
            notes = await self._begin_phase(turn, "intent detection")
            intent = await self._intents.detect(turn.request.user_message, topic, rag, Prompter(turn, notes), notes)
        elif rag.result == "match":
            intent, notes = rag.hits[0].category, PhaseNotes(skipped="a document matches")
        await _record_phase(turn, "intent detection", intent, intent, notes, intent=intent)
        return intent

    async def _begin_phase(self, turn: ActiveTurn, phase: str) -> PhaseNotes:
        await end_replay(turn)
        turn.clock.check()
        turn.clock.activity = phase
        await begin_phase(turn, phase)
        return PhaseNotes(mask=self._mask, remaining_s=turn.clock.remaining_s)


async def _open_tools(turn: ActiveTurn, rule: ResponseRule) -> ToolRegistry:
    """Fix the tools of the turn: those of its rule, which are returned, and those that its caller runs."""
    turn.warnings += await turn.parts.tools.ready_for(rule)
    turn.tools = own = turn.parts.tools.offer_to(rule)
    if turn.request.caller_tools:
        turn.tools = own.beside(turn.request.caller_tools)
    return own


async def begin_phase(turn: ActiveTurn, phase: str) -> None:
    """Report that a phase with something to do begins."""
    if turn.sink.has_receiver(PhaseStarted):
        await turn.sink.emit(PhaseStarted(info=turn.info, phase=phase))


async def end_phase(
    turn: ActiveTurn, phase: str, outcome: Any, printable: Any, notes: PhaseNotes | None = None
) -> None:
    """Record that a phase is done, and report it: its outcome to the plugins, ``printable`` in its record."""
    notes = notes or _NOTHING
    # Each phase is timed from the end of the one before, so that their times add up to the turn's.
    since, turn.phase_began = turn.phase_began, time.perf_counter()
    record = PhaseRecord(
        phase=phase,
        outcome=printable,
        elapsed_ms=(turn.phase_began - since) * 1000,
        input=notes.input,
        skipped=notes.skipped,
        warnings=tuple(notes.warnings),
        usage=notes.usage,
        rounds=tuple(notes.rounds),
    )
    turn.phases.append(record)
    if turn.sink.has_receiver(PhaseFinished):
        await turn.sink.emit(PhaseFinished(info=turn.info, record=record, outcome=outcome))


async def _record_phase(
    turn: ActiveTurn, phase: str, outcome: Any, printable: Any, notes: PhaseNotes, **state: Any
) -> None:
    """End a phase; its result goes into the journal, unless there was nothing to do."""
    await end_phase(turn, phase, outcome, printable, notes)
    if turn.journal is not None and not notes.skipped:
        state = {name: value_to_dict(value) if name == "rag" else value for name, value in state.items()}
        turn.journal.add("phase", record=value_to_dict(turn.phases[-1]), **state)


def _replay_phase(turn: ActiveTurn, phase: str) -> Mapping[str, Any] | None:
    entry = None if turn.journal is None else turn.journal.phases.get(phase)
    if entry is not None:
        turn.phases.append(value_from_dict(PhaseRecord, entry["record"]))
    return entry


def refused_rules(turn: ActiveTurn, rules: Sequence[ResponseRule]) -> dict[int, str]:
    """Return the reasons for which the turn's principal may not use some of the rules, by index."""
    if not turn.parts.hooks.restricts:
        return {}
    refusals = ((index, turn.parts.hooks.refusal(turn.info, rule)) for index, rule in enumerate(rules))
    return {index: why for index, why in refusals if why is not None}


def _check_permitted(turn: ActiveTurn, rag: RagResults) -> None:
    """Raise NotPermittedError if the turn has found documents that its principal may not search any more."""
    for hit in rag.hits:
        why = turn.parts.hooks.refusal(turn.info, CollectionChoice(store=hit.store, collection=hit.collection))
        if why is not None:
            raise NotPermittedError(f"the turn cannot go on: {why}")


def find_recorded_rule(rules: Sequence[ResponseRule], chosen: Mapping[str, Any], turn: str) -> tuple[int, ResponseRule]:
    """Return the rule that a turn was being answered by, found by its name or, without one, by its place.

    Raises StuckTurnError if it is gone.
    """
    outcome, index = chosen["outcome"], chosen["index"]
    name = outcome.get("name")
    for at, rule in enumerate(rules):
        if (rule.name == name) if name else (at == index and rule.name is None and rule.llm == outcome["llm"]):
            return at, rule
    raise StuckTurnError(turn, f"the rule {name or index + 1} it was answered by is gone from the configuration")


def _rag(rag: RagResults) -> Mapping[str, Any]:
    """Return phase 2's outcome as JSON data: the original's envelope, with titles instead of whole texts."""
    hits = [
        {
            "result": hit.result,
            "service": hit.store,
            "collection": hit.collection,
            "distance": round(hit.distance, 4),
            "documents": [document.title for document in hit.documents],
        }
        for hit in rag.hits
    ]
    return {"result": rag.result, "data": hits[0] if rag.result == "match" else hits or None}


def _build_profile(request: ChatRequest, topic: Topic, rag: RagResults, intent: str | None) -> Profile:
    """Return the profile the rules are matched against.

    It has a store and a collection if a document matches, or if the intent is that of a partial result.

    Source: the original's profile building; requirement C21.
    """
    hit = next((hit for hit in rag.hits if hit.category == intent or rag.result == "match"), None)
    return Profile(
        topic=topic.text,
        user_message=request.user_message,
        rag_results=rag.result,
        intent=intent,
        service=hit.store if hit else None,
        collection=hit.collection if hit else None,
        documents=tuple(document for hit in rag.hits for document in hit.documents),
    )


def _name_entry(rule: ResponseRule) -> dict[str, str]:
    return {"name": rule.name} if rule.name else {}
