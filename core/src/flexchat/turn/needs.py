"""Which of the first three phases the rules need: a phase nothing needs is not run."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from ..config.model import Config, ModelChoice
from ..config.reach import field_of
from ..domain import Profile
from .matching import Conditions
from .template import variables_of

_OF_DOCUMENTS = frozenset({"rag_results", "service", "collection", "rag_context", "documents"})


@attrs.frozen(kw_only=True)
class Needs:
    """What a configuration needs from the first three phases.

    Attributes:
        topic: Always, even for the first message.
        documents, intent: Always.
        categories: A model chooses the intent even if no document is found. This or documents makes the topic
            needed once anything precedes the message: a follow-up question is ambiguous without it.
        place: Service and collection: the intent if documents are found.
    """

    topic: bool = False
    documents: bool = False
    intent: bool = False
    categories: bool = False
    place: bool = False


def needs_of(config: Config, stores: Collection[str]) -> Needs:
    """Find the phases that a configuration's rules depend on.

    Args:
        stores: Names of the existing document stores.
    """
    used: set[str] = set()
    of_stores = False
    for rule in config.responses:
        for key, wanted in rule.match.items():
            field = field_of(key)
            used.add(field)
            of_stores = of_stores or (field == "intent" and _of_store(key, str(wanted), config, stores))
        used.update(variables_of(rule.prompt))
    return Needs(
        topic="topic" in used or config.topic.llm is not None or config.topic.prompt is not None,
        documents=bool(stores) and (of_stores or not used.isdisjoint(_OF_DOCUMENTS)),
        intent="intent" in used,
        categories="intent" in used and config.intent.llm is not None and bool(config.intent.detection),
        place=not used.isdisjoint({"service", "collection"}),
    )


def _of_store(key: str, wanted: str, config: Config, stores: Collection[str]) -> bool:
    """Return whether a condition on the intent refers to a store's collection, as in "docs/faq".

    A condition on part of it refers to the categories if it fits one, unless it names a store.
    """
    if key == "intent":
        return any(wanted == name or wanted.startswith(f"{name}/") for name in stores)
    if any(name in wanted for name in stores):
        return True
    return not any(Conditions(Profile(topic="", intent=name)).hold(key, wanted) for name in config.intent.detection)


def topic_model(config: Config) -> ModelChoice | None:
    """Return the model that detects topics: topic.llm, or intent.llm, or that of the first rule without conditions.

    Source: the original's topic detection.
    """
    configured = config.topic.choice or config.intent.choice
    if configured is not None:
        return configured
    for rule in config.responses:
        if not rule.match:
            return ModelChoice(llm=rule.llm, model=rule.model)
    return None
