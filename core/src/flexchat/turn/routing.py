"""Phases 1 to 5: from a message to the rule that answers it, with a record of how it went."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import attrs

from ..config.model import Config, ResponseRule
from ..domain import ChatRequest, PhaseRecord, Profile, RagResults, Usage
from ..domain.masking import Mask
from ..errors import TurnTimeoutError
from ..llms.llm import Llms
from ..plugin.contracts import Retriever
from ..plugin.events import EventHooks
from .asking import Asker, PhaseNotes
from .documents import DocumentCollector
from .intent import IntentDetector
from .matching import match_response_rule
from .needs import needs_of, topic_model
from .profile import build_profile
from .topic import Topic, TopicDetector

NOT_ASKED = "no rule asks for it"
NOTHING = RagResults()


@attrs.define
class PhaseRecords:
    """Measures the phases of a turn, remembers them, and tells the plugins.

    Attributes:
        started, since: When the turn began, and when its last phase ended, by time.perf_counter().
    """

    events: EventHooks
    started: float = attrs.field(factory=time.perf_counter)
    since: float = attrs.field(init=False)
    records: list[PhaseRecord] = attrs.field(factory=list)

    def __attrs_post_init__(self) -> None:
        self.since = self.started

    async def done(
        self,
        phase: str,
        outcome: Any,
        printable: Any,
        notes: PhaseNotes | None = None,
        *,
        skipped: str = "",
        usage: Usage | None = None,
    ) -> None:
        """Note that a phase is done.

        Args:
            outcome: What the plugins are told.
            printable: The same as JSON data.
            notes: What it has to tell beside that; of one without any, skipped and usage.
        """
        now = time.perf_counter()
        elapsed_ms, self.since = (now - self.since) * 1000, now
        if notes is None:
            record = PhaseRecord(phase=phase, outcome=printable, elapsed_ms=elapsed_ms, skipped=skipped, usage=usage)
        else:
            record = PhaseRecord(
                phase=phase,
                outcome=printable,
                elapsed_ms=elapsed_ms,
                input=notes.input,
                skipped=notes.skipped,
                warnings=tuple(notes.warnings),
                usage=notes.usage,
            )
        self.records.append(record)
        await self.events.phase_finished(phase, outcome, elapsed_ms)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What went wrong in the phases so far."""
        return tuple(warning for record in self.records for warning in record.warnings)


class Router:
    """Takes a message to its rule."""

    def __init__(
        self,
        config: Config,
        llms: Llms,
        retrievers: Mapping[str, Retriever],
        events: EventHooks,
        usual_thresholds: Mapping[str, tuple[float, float]] | None = None,
        mask: Mask | None = None,
    ) -> None:
        self._turn_ms = config.limits.turn_timeout_ms
        self._mask = mask or Mask()
        timeout_s = config.limits.phase_timeout_ms / 1000
        asker = Asker(llms, events, timeout_s=timeout_s)
        self.rules = config.responses
        self._needs = needs_of(config, retrievers)
        self._topics = TopicDetector(asker, topic_model(config), config.topic.prompt, config.topic.max_tokens)
        self._documents = DocumentCollector(retrievers, config.rag_services, usual_thresholds, timeout_s=timeout_s)
        self._intents = IntentDetector(asker, config.intent.provider, config.intent.detection, config.intent.max_tokens)

    async def profile(self, request: ChatRequest, records: PhaseRecords) -> tuple[Profile, RagResults]:
        """Run phases 1 to 4. What goes wrong in them is a warning in their record.

        Raises:
            TurnTimeoutError: limits.turn_timeout_ms is over.
        """
        needs = self._needs
        wants_documents = needs.documents if request.collections is None else bool(request.collections)
        topic, rag, intent = Topic(request.user_message, "new_topic"), NOTHING, None
        notes, skipped = None, NOT_ASKED
        if needs.topic or ((wants_documents or needs.categories) and (request.history or request.topic)):
            notes = self._notes(records)
            topic = await self._topics.detect(request, notes)
        printable = {"topic": topic.text, "status": topic.status}
        await records.done("topic detection", topic.text, printable, notes, skipped=skipped)
        notes = None
        if wants_documents:
            notes = self._notes(records)
            rag = await self._documents.collect(request, topic, notes)
        elif request.collections is not None:
            skipped = "no collection is chosen"
        await records.done("rag collection", rag, _rag(rag), notes, skipped=skipped)
        notes, skipped = None, NOT_ASKED
        if needs.intent or (needs.place and rag.hits):
            notes = self._notes(records)
            intent = await self._intents.detect(request.user_message, topic, rag, notes)
        elif rag.result == "match":
            intent, skipped = rag.hits[0].category, "a document matches"
        await records.done("intent detection", intent, intent, notes, skipped=skipped)
        self._look_at_the_time(records)
        profile = build_profile(request, topic, rag, intent)
        await records.done("profile building", profile, _profile(profile))
        return profile, rag

    def _notes(self, records: PhaseRecords) -> PhaseNotes:
        return PhaseNotes(until=self._look_at_the_time(records), mask=self._mask)

    def _look_at_the_time(self, records: PhaseRecords) -> float:
        """Return when the turn's time is over, or raise TurnTimeoutError if that has been."""
        until = records.started + self._turn_ms / 1000
        if records.since >= until:
            raise TurnTimeoutError(self._turn_ms, records.records[-1].phase if records.records else "its start")
        return until

    async def rule(self, profile: Profile, records: PhaseRecords) -> tuple[int, ResponseRule]:
        """Run phase 5.

        Raises:
            NoMatchingRuleError: No rule fits.
        """
        index, rule, passed_over = match_response_rule(profile, self.rules)
        outcome = {"rule": index, **_named(rule), "match": dict(rule.match), "llm": rule.llm}
        if passed_over:
            outcome["passed_over"] = [
                {"rule": at, **_named(self.rules[at]), "failed": failed} for at, failed in enumerate(passed_over)
            ]
        await records.done("response matching", (index, rule), outcome)
        return index, rule


def _rag(rag: RagResults) -> Mapping[str, Any]:
    """Return phase 2's outcome as JSON data; the envelope of the original, with titles in place of whole texts."""
    hits = [
        {
            "result": hit.result,
            "service": hit.service,
            "collection": hit.collection,
            "distance": round(hit.distance, 4),
            "documents": [document.title for document in hit.documents],
        }
        for hit in rag.hits
    ]
    return {"result": rag.result, "data": hits[0] if rag.result == "match" else hits or None}


def _profile(profile: Profile) -> Mapping[str, Any]:
    return {
        "rag_results": profile.rag_results,
        "intent": profile.intent,
        "service": profile.service,
        "collection": profile.collection,
        "documents": len(profile.documents),
    }


def _named(rule: ResponseRule) -> dict[str, str]:
    return {"name": rule.name} if rule.name else {}
