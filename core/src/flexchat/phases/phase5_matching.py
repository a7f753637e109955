"""Phase 5: the first response rule whose conditions all hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ..config.model import ResponseRule
from ..config.patterns import compile_pattern
from ..domain import Profile
from ..errors import NoMatchingRuleError

_SHOWN = 60


@attrs.frozen
class RuleVerdict:
    """Why a rule fits a profile, or does not.

    Attributes:
        rule: Its index, from 0.
        failed: The conditions that do not hold, a sentence each; none if it fits.
    """

    rule: int
    failed: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether all conditions hold."""
        return not self.failed


def match_response_rule(profile: Profile, rules: Sequence[ResponseRule]) -> tuple[int, ResponseRule]:
    """Return the first rule that fits, and its index.

    A rule without conditions fits always. ``FIELD`` compares, ``FIELD_contains`` looks for a part of the text,
    ``FIELD_regexp`` searches with a pattern (``/body/flags`` or the body alone), and ``rag_results = "any"`` means a
    full or a partial match. A field the profile does not have never equals anything.

    Raises:
        NoMatchingRuleError: None fits.

    Source: the original's rule matching.
    """
    for index, rule in enumerate(rules):
        if fits(profile, rule):
            return index, rule
    raise NoMatchingRuleError(profile.topic)


def fits(profile: Profile, rule: ResponseRule) -> bool:
    """Return whether all conditions of a rule hold."""
    return all(_holds(profile, key, wanted) for key, wanted in rule.match.items())


def first_failures(profile: Profile, rules: Sequence[ResponseRule]) -> Iterator[RuleVerdict]:
    """Yield for each rule the first of its conditions that fails; of one that fits, nothing failed."""
    for index, rule in enumerate(rules):
        failed = next((c for c in rule.match.items() if not _holds(profile, *c)), None)
        yield RuleVerdict(index, () if failed is None else (_sentence(profile, *failed),))


def verdicts(profile: Profile, rules: Sequence[ResponseRule]) -> tuple[RuleVerdict, ...]:
    """Return for each rule every condition that fails."""
    return tuple(
        RuleVerdict(
            index,
            tuple(_sentence(profile, k, wanted) for k, wanted in rule.match.items() if not _holds(profile, k, wanted)),
        )
        for index, rule in enumerate(rules)
    )


def _holds(profile: Profile, key: str, wanted: Any) -> bool:
    field, _, kind = key.rpartition("_")
    if kind == "contains" and field:
        value = getattr(profile, field, None)
        return isinstance(value, str) and str(wanted) in value
    if kind == "regexp" and field:
        value = getattr(profile, field, None)
        return isinstance(value, str) and compile_pattern(str(wanted)).found_in(value) is True
    if key == "rag_results" and wanted == "any":
        return profile.rag_results in ("match", "partial")
    value = getattr(profile, key, None)
    return value is not None and type(value) is type(wanted) and bool(value == wanted)


def _sentence(profile: Profile, key: str, wanted: Any) -> str:
    field, _, kind = key.rpartition("_")
    base = field if kind in ("contains", "regexp") and field else key
    value = getattr(profile, base, None)
    text = f"{key} = {_shown(wanted)}: {base} is {_shown(value)}"
    if kind == "regexp" and isinstance(value, str) and compile_pattern(str(wanted)).found_in(value) is None:
        return f"{text}, and the pattern took too long on it"
    return text


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    text = str(value) if not isinstance(value, str) else f'"{value}"'
    text = " ".join(text.split())
    return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…"'
