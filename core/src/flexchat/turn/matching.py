"""Phase 5: the first response rule whose conditions all hold."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import attrs

from ..config.model import ResponseRule
from ..config.patterns import MAX_PATTERN_MS, compile_pattern
from ..config.wording import format_literal
from ..domain import Profile
from ..errors import NoMatchingRuleError

MAX_PASSED_OVER = 1_000
"""How many rules a turn records the mismatch of; ``explain`` reports all of them."""

_SHOWN = 60
_MIN_S = 0.001  # what a pattern gets when others have used up the time: enough unless it is slow
_MAX_GIVEN_UP = 50  # after this many searches that took too long, no more are started


@attrs.frozen
class RuleVerdict:
    """Why a rule fits a profile, or does not.

    Attributes:
        rule: Its index, from 0.
        failed: The conditions that do not hold, one sentence each; empty if it fits.
    """

    rule: int
    failed: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether all conditions hold."""
        return not self.failed


class Conditions:
    """Checks whether conditions hold for one profile. All pattern searches share one time limit.

    A user's text can make a pattern slow, and a configuration can have many patterns.
    """

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._values: dict[str, str] = {}
        # One budget for all patterns, because their number is the config's and the text is the user's.
        self._left_s = MAX_PATTERN_MS / 1000
        self._given_up = 0

    def hold(self, key: str, wanted: Any) -> bool | None:
        """Return whether one holds; None if its pattern took too long, which counts as a failure."""
        field, _, kind = key.rpartition("_")
        if kind == "contains" and field:
            value = getattr(self.profile, field, None)
            return isinstance(value, str) and str(wanted) in value
        if kind == "regexp" and field:
            value = getattr(self.profile, field, None)
            return isinstance(value, str) and self._found(str(wanted), value)
        if key == "rag_results" and wanted == "any":
            return self.profile.rag_results in ("match", "partial")
        value = getattr(self.profile, key, None)
        return value is not None and type(value) is type(wanted) and bool(value == wanted)

    def failures(self, rule: ResponseRule) -> Iterator[str]:
        """Yield a sentence for each condition of a rule that fails."""
        for key, wanted in rule.match.items():
            held = self.hold(key, wanted)
            if not held:
                yield self._sentence(key, wanted) + (", and the pattern took too long on it" if held is None else "")

    def _found(self, pattern: str, text: str) -> bool | None:
        if self._given_up >= _MAX_GIVEN_UP:
            return None
        started = time.perf_counter()
        found = compile_pattern(pattern).found_in(text, max(self._left_s, _MIN_S))
        self._left_s -= time.perf_counter() - started
        self._given_up += found is None
        return found

    def _sentence(self, key: str, wanted: Any) -> str:
        field, _, kind = key.rpartition("_")
        base = field if kind in ("contains", "regexp") and field else key
        if base not in self._values:  # the same for each rule, of which there may be thousands
            self._values[base] = _shown(getattr(self.profile, base, None))
        return f"{key} = {_shown(wanted)}: {base} is {self._values[base]}"


def match_response_rule(profile: Profile, rules: Sequence[ResponseRule]) -> tuple[int, ResponseRule, tuple[str, ...]]:
    """Return the first rule that fits, its index, and the first failed condition of each rule before it.

    Failed conditions are reported for the first thousand rules only.

    A rule without conditions always fits. ``FIELD`` compares, ``FIELD_contains`` looks for a part of the text,
    ``FIELD_regexp`` searches with a pattern (``/body/flags`` or the body alone), and ``rag_results = "any"`` means a
    full or a partial match. A field missing from the profile never equals anything.

    Raises:
        NoMatchingRuleError: None fits.

    Source: the original's rule matching.
    """
    conditions, passed_over = Conditions(profile), list[str]()
    for index, rule in enumerate(rules):
        if index >= MAX_PASSED_OVER:
            if all(conditions.hold(key, wanted) for key, wanted in rule.match.items()):
                return index, rule, tuple(passed_over)
            continue
        failed = next(conditions.failures(rule), None) if rule.match else None
        if failed is None:
            return index, rule, tuple(passed_over)
        passed_over.append(failed)
    raise NoMatchingRuleError(profile.topic)


def verdicts(profile: Profile, rules: Sequence[ResponseRule]) -> tuple[RuleVerdict, ...]:
    """Return every failed condition of each rule."""
    return tuple(each_verdict(profile, rules))


def each_verdict(profile: Profile, rules: Sequence[ResponseRule]) -> Iterator[RuleVerdict]:
    """Yield every failed condition of each rule."""
    conditions = Conditions(profile)
    for index, rule in enumerate(rules):
        yield RuleVerdict(index, tuple(conditions.failures(rule)))


def _shown(value: Any) -> str:
    if value is None:
        return "not set"
    text = value if isinstance(value, str) else format_literal(value)
    text = " ".join(text[: 4 * _SHOWN].split())  # a message may be long, and there may be a thousand rules
    if isinstance(value, str):
        text = f'"{text}"'
    return text if len(text) <= _SHOWN else f'{text[:_SHOWN]}…"'
