"""Phase 5: the first response rule whose conditions all hold."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..config.model import ResponseRule
from ..config.patterns import compile_pattern
from ..domain import Profile
from ..errors import NoMatchingRuleError


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
        if all(_holds(profile, key, wanted) for key, wanted in rule.match.items()):
            return index, rule
    raise NoMatchingRuleError(profile.topic)


def _holds(profile: Profile, key: str, wanted: Any) -> bool:
    field, _, kind = key.rpartition("_")
    if kind == "contains" and field:
        value = getattr(profile, field, None)
        return isinstance(value, str) and str(wanted) in value
    if kind == "regexp" and field:
        value = getattr(profile, field, None)
        return isinstance(value, str) and _pattern(str(wanted)).search(value) is not None
    if key == "rag_results" and wanted == "any":
        return profile.rag_results in ("match", "partial")
    value = getattr(profile, key, None)
    return value is not None and type(value) is type(wanted) and bool(value == wanted)


_pattern = functools.lru_cache(maxsize=512)(compile_pattern)
