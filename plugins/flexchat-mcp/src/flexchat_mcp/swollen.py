"""Which messages have too many parts for the SDK, which checks each: 1 MB of wrong ones takes 2 s, and 1 GB. Pure."""

from __future__ import annotations

from typing import Any

MAX_PARTS = 100_000
"""Values in a message, those aside that are handed on as they are: the SDK takes half a second for so many."""

_HANDED_ON = {"structuredContent", "inputSchema", "outputSchema", "_meta"}


def is_swollen(message: Any) -> bool:
    """Whether a message has more than MAX_PARTS."""
    budget, waiting = MAX_PARTS, [message]
    while waiting:
        part = waiting.pop()
        budget -= len(part)
        if budget < 0:
            return True
        if isinstance(part, dict):
            waiting += [each for name, each in part.items() if name not in _HANDED_ON and isinstance(each, dict | list)]
        else:
            waiting += [each for each in part if isinstance(each, dict | list)]
    return False
