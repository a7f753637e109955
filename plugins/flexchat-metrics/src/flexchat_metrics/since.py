"""How far back figures go."""

from __future__ import annotations

import time

from flexchat.host import duration_s


def start_of(since: str) -> float:
    """Return the beginning of the hour that was a duration ago, in seconds since 1970. Raises ValueError."""
    start = time.time() - duration_s(since)
    return start - start % 3600
