"""The differences between two versions of a source's tool, place by place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs
from flexchat.domain.sourced import SourcedTool

MISSING: Final = object()
"""Stands for a value that is not there."""


@attrs.frozen(kw_only=True)
class Difference:
    """One place in which two versions of a tool differ.

    Attributes:
        place: The keys that lead there: "parameters.properties.city.type".
        before, now: The values; MISSING where there is none.
    """

    place: str
    before: Any = MISSING
    now: Any = MISSING

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data; a value that is not there is left out."""
        values = {"before": self.before, "now": self.now}
        return {"place": self.place, **{key: value for key, value in values.items() if value is not MISSING}}


def differences(before: SourcedTool, now: SourcedTool) -> list[Difference]:
    """Return every place in which a tool is another one now, the smallest there are."""
    return [*_of(before.to_dict(), now.to_dict(), "")]


def _of(before: Any, now: Any, place: str) -> Iterator[Difference]:
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in {**before, **now}:
            yield from _of(before.get(key, MISSING), now.get(key, MISSING), f"{place}.{key}" if place else str(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for index, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from _of(old, new, f"{place}[{index}]")
    elif type(before) is not type(now) or before != now:
        yield Difference(place=place, before=before, now=now)
