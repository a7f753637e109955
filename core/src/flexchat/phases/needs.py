"""Which of the first three phases the rules need: one that nothing needs is not run."""

from __future__ import annotations

import re
from collections.abc import Collection

import attrs

from ..config.model import Config, ModelChoice

_VARIABLE = re.compile(r"\{\{\s*(\w+)")
_OF_DOCUMENTS = frozenset({"rag_results", "service", "collection", "rag_context", "documents"})


@attrs.frozen(kw_only=True)
class Needs:
    """What a configuration asks of the first three phases.

    Attributes:
        topic: Always, also for the first message.
        documents, intent: Always. Either makes the topic needed as soon as there is a history: a follow-up question
            says little without it.
    """

    topic: bool = False
    documents: bool = False
    intent: bool = False


def needs_of(config: Config, stores: Collection[str]) -> Needs:
    """Return what the rules of a configuration look at.

    Args:
        stores: Names of the document stores there are.
    """
    used: set[str] = set()
    intents: list[str] = []
    for rule in config.responses:
        for key, wanted in rule.match.items():
            field = key.removesuffix("_contains").removesuffix("_regexp")
            used.add(field)
            if field == "intent":
                intents.append(str(wanted))
        used.update(_VARIABLE.findall(rule.prompt))
    # An intent may be a store's collection: "docs/faq".
    of_stores = any(name in wanted for wanted in intents for name in stores)
    return Needs(
        topic="topic" in used or config.topic.provider is not None or config.topic.prompt is not None,
        documents=bool(stores) and (of_stores or not used.isdisjoint(_OF_DOCUMENTS)),
        intent=not used.isdisjoint({"intent", "service", "collection"}),
    )


def topic_model(config: Config) -> ModelChoice | None:
    """Return who detects topics: topic.provider, else intent.provider, else the model of the first rule that answers
    everything.

    Source: the original's topic detection.
    """
    configured = config.topic.provider or config.intent.provider
    if configured is not None:
        return configured
    for rule in config.responses:
        if not rule.match:
            return ModelChoice(llm=rule.llm, model=rule.model)
    return None
