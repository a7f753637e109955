"""Rules that can never answer: their conditions are contradictory, or an earlier rule takes all their messages.

It reports only conclusions from the configuration alone: "never" means that no message at all could reach the rule.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Any

from .patterns import PatternError, compile_pattern

_MAX_SEARCHES = 100_000  # pattern searches in all rules together; half a second
_MAX_COMPARISONS = 300_000  # comparisons of rules, all together; also half a second


def contradiction(match: Mapping[str, Any]) -> str | None:
    """Return the reason no profile can meet all these conditions; None if one may."""
    for key, value in match.items():
        field = field_of(key)
        exact = match.get(field)
        if key == field or not (isinstance(exact, str) and isinstance(value, str)):
            continue
        if _implies(field, exact, key, value) is False:
            return f"{field} cannot be {exact!r} and fit {key} = {value!r}"
    if match.get("rag_results") == "none":
        for field in ("service", "collection"):
            if any(field_of(key) == field for key in match):
                return f"without a document (rag_results = 'none') there is no {field}"
    return None


class EarlierRules:
    """The earlier rules in order, to find the one that takes all messages of a later rule.

    A rule takes only what passes its first condition: rules are indexed by that, so that a thousand of them
    are not all compared pairwise.
    """

    def __init__(self) -> None:
        self._matches: list[Mapping[str, Any]] = []
        self._unconditional: list[int] = []
        self._alike: dict[str, list[int]] = {}
        self._of_field: dict[str, list[int]] = {}
        self._searches_left = _MAX_SEARCHES
        self._comparisons_left = _MAX_COMPARISONS

    def add(self, match: Mapping[str, Any]) -> None:
        """Add the conditions of the next rule."""
        index = len(self._matches)
        self._matches.append(match)
        for key, value in match.items():
            self._alike.setdefault(repr((key, value)), []).append(index)
            if key != field_of(key) or (key == "rag_results" and value == "any"):  # others follow only from themselves
                self._of_field.setdefault(field_of(key), []).append(index)
            return
        self._unconditional.append(index)

    def taking(self, match: Mapping[str, Any]) -> int | None:
        """Return the index of the first rule that fits whenever these conditions hold.

        None if there is none, or if finding it would take too long.
        """
        lists = [self._unconditional[:1]]
        for key, value in match.items():
            lists += self._alike.get(repr((key, value)), []), self._of_field.get(field_of(key), [])
        self._comparisons_left -= sum(map(len, lists))
        if self._comparisons_left < 0:
            return None
        for index in sorted({*itertools.chain(*lists)}):
            other = self._matches[index]
            if any(key.endswith("_regexp") for key in other):
                if not self._searches_left:
                    continue
                self._searches_left -= 1
            if all(_follows(match, key, condition) for key, condition in other.items()):
                return index
        return None


def impossible_intent(key: str, wanted: str, categories: Collection[str], stores: Collection[str]) -> bool:
    """Return whether no intent can meet a condition on it, with the key intent, intent_contains or intent_regexp.

    Intents are the configured categories, "other", and "service/collection".
    """
    if stores:  # a store's collections are not known here
        head, slash, _ = wanted.partition("/")
        if key != "intent" or (slash and head in stores) or wanted in stores:
            return False
    possible = {*categories, "other"} if categories else set()
    return not any(_implies("intent", name, key, wanted) is not False for name in possible)


def _follows(match: Mapping[str, Any], key: str, wanted: Any) -> bool:
    """Return whether a condition holds whenever match does."""
    for known_key, value in match.items():
        if known_key == key and value == wanted:
            return True
        if not isinstance(value, str) or not isinstance(wanted, str):
            continue
        field = field_of(key)
        if key == "rag_results" and wanted == "any":
            if known_key == "rag_results" and value in ("match", "partial"):
                return True
        elif known_key == field and not (field == "rag_results" and value == "any"):
            if _implies(field, value, key, wanted) is True:
                return True
        elif known_key == f"{field}_contains" and key == known_key and wanted in value:
            return True
    return False


def _implies(field: str, value: str, key: str, wanted: str) -> bool | None:
    """Return whether a field with this value meets a condition on it; None if unknown."""
    if field == "rag_results" and value == "any":
        return None
    if key == f"{field}_contains":
        return wanted in value
    if key == f"{field}_regexp":
        try:
            pattern = compile_pattern(wanted)
        except PatternError:
            return None
        return pattern.found_in(value) if pattern.linear else None  # checking many rules must not wait for each
    return value == wanted


def field_of(key: str) -> str:
    """Return the profile's field a condition is about."""
    return key.removesuffix("_contains").removesuffix("_regexp")
