"""What a service says about asking again."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return how long to wait, in seconds, never negative; None if the service does not say.

    ``retry-after-ms`` wins; ``retry-after`` is seconds, also fractions, or an HTTP date.

    Args:
        headers: Names in lower case.
        now: Seconds since 1970, for HTTP dates; None for the clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return max(0.0, milliseconds / 1000)
    text = headers.get("retry-after")
    if text is None:
        return None
    seconds = _number(text)
    if seconds is None:
        try:
            date = parsedate_to_datetime(text).timestamp()
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = date - (time.time() if now is None else now)
    return max(0.0, seconds)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Return what ``x-should-retry`` says; None if it says nothing."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
