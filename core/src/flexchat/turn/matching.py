"""Phase 5: the first response rule whose conditions all hold, and the phases before it that the rules need."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs

from ..config.model import Config, ModelChoice, ResponseRule
from ..config.patterns import MAX_PATTERN_MS, compile_pattern
from ..config.reach import field_of
from ..config.wording import format_literal
from ..domain import Profile
from ..errors import NoMatchingRuleError
from .template import variables_of

MAX_PASSED_OVER = 1_000
"""How many rules a turn records the mismatch of; ``explain`` reports all of them."""

_SHOWN = 60
_MIN_SEARCH_S = 0.001  # what a pattern gets when others have used up the time: enough unless it is slow
_MAX_GIVEN_UP = 50  # after this many searches that took too long, no more are started


@attrs.frozen
class RuleVerdict:
    """Why a rule (by index) fits a profile, or does not: a sentence for each condition that does not hold."""

    rule: int
    failed: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether all conditions hold."""
        return not self.failed


class Conditions:
    """Checks whether conditions hold for one profile. All pattern searches share one time limit."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._values: dict[str, str] = {}
        # One budget for all patterns, because their number is the config's and the text is the user's.
        self._left_s = MAX_PATTERN_MS / 1000
        self._given_up = 0

    def hold(self, key: str, expected: Any) -> bool | None:
        """Return whether a condition holds; None if its pattern took too long, which counts as a failure."""
        field, _, kind = key.rpartition("_")
        if kind == "contains" and field:
            value = getattr(self.profile, field, None)
            return isinstance(value, str) and str(expected) in value
        if kind == "regexp" and field:
            value = getattr(self.profile, field, None)
            return isinstance(value, str) and self._search(str(expected), value)
        if key == "rag_results" and expected == "any":
            return self.profile.rag_results in ("match", "partial")
        value = getattr(self.profile, key, None)
        return value is not None and type(value) is type(expected) and bool(value == expected)

    def failures(self, rule: ResponseRule) -> Iterator[str]:
        """Yield a sentence for each condition of a rule that fails."""
        for key, expected in rule.match.items():
            holds = self.hold(key, expected)
            if not holds:
                yield self._sentence(key, expected) + (", and the pattern took too long on it" if holds is None else "")

    def _search(self, pattern: str, text: str) -> bool | None:
        if self._given_up >= _MAX_GIVEN_UP:
            return None
        started = time.perf_counter()
        is_match = compile_pattern(pattern).found_in(text, max(self._left_s, _MIN_SEARCH_S))
        self._left_s -= time.perf_counter() - started
        self._given_up += is_match is None
        return is_match

    def _sentence(self, key: str, expected: Any) -> str:
        field, _, kind = key.rpartition("_")
        base = field if kind in ("contains", "regexp") and field else key
        if base not in self._values:  # the same for each rule, of which there may be thousands
            self._values[base] = _format_value(getattr(self.profile, base, None))
        return f"{key} = {_format_value(expected)}: {base} is {self._values[base]}"


def match_response_rule(
    profile: Profile, rules: Sequence[ResponseRule], refused: Mapping[int, str] | None = None
) -> tuple[int, ResponseRule, tuple[str, ...]]:
    """Return the first rule that fits, its index, and the first failed condition of each rule before it (up to 1,000).

    A rule without conditions always fits. ``FIELD`` compares, ``FIELD_contains`` looks for a part of the text,
    ``FIELD_regexp`` searches with a pattern (``/body/flags`` or the body alone), and ``rag_results = "any"`` means a
    full or a partial match. A field missing from the profile never equals anything.

    Args:
        refused: Why the turn's principal may not use some rules, by index; they are passed over.

    Raises:
        NoMatchingRuleError: None fits.

    Source: the original's rule matching.
    """
    conditions, passed_over = Conditions(profile), list[str]()
    for index, rule in enumerate(rules):
        if refused and index in refused:
            passed_over += [refused[index]] if index < MAX_PASSED_OVER else []
            continue
        if index >= MAX_PASSED_OVER:
            if all(conditions.hold(key, expected) for key, expected in rule.match.items()):
                return index, rule, tuple(passed_over)
            continue
        failed = next(conditions.failures(rule), None) if rule.match else None
        if failed is None:
            return index, rule, tuple(passed_over)
        passed_over.append(failed)
    raise NoMatchingRuleError(profile.topic)


def each_verdict(profile: Profile, rules: Sequence[ResponseRule]) -> Iterator[RuleVerdict]:
    """Yield every failed condition of each rule."""
    conditions = Conditions(profile)
    for index, rule in enumerate(rules):
        yield RuleVerdict(index, tuple(conditions.failures(rule)))


def _format_value(value: Any) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else format_literal(value)
    text = " ".join(text[: 4 * _SHOWN].split())  # a message may be long, and there may be a thousand rules
    if isinstance(value, str):
        text = f'"{text}"'
    return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…"'


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
    """Find the phases that a configuration's rules depend on, given the names of the document stores."""
    used: set[str] = set()
    of_stores = False
    for rule in config.responses:
        for key, expected in rule.match.items():
            field = field_of(key)
            used.add(field)
            of_stores = of_stores or (field == "intent" and _of_store(key, str(expected), config, stores))
        used.update(variables_of(rule.prompt))
    return Needs(
        topic="topic" in used or config.topic.llm is not None or config.topic.prompt is not None,
        documents=bool(stores) and (of_stores or not used.isdisjoint(_OF_DOCUMENTS)),
        intent="intent" in used,
        categories="intent" in used and config.intent.llm is not None and bool(config.intent.detection),
        place=not used.isdisjoint({"service", "collection"}),
    )


def _of_store(key: str, expected: str, config: Config, stores: Collection[str]) -> bool:
    """Return whether a condition on the intent refers to a store's collection, as in "docs/faq".

    A condition on part of it refers to the categories if it fits one, unless it names a store.
    """
    if key == "intent":
        return any(expected == name or expected.startswith(f"{name}/") for name in stores)
    if any(name in expected for name in stores):
        return True
    return not any(Conditions(Profile(topic="", intent=name)).hold(key, expected) for name in config.intent.detection)


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
