"""Parses response headers about retrying."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

from flexchat.errors import MAX_RETRY_AFTER_S


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the delay before a retry in seconds, from 0 to MAX_RETRY_AFTER_S; None without a usable header.

    ``retry-after-ms`` wins; ``retry-after`` is seconds, possibly with a fraction, or an HTTP date.

    Args:
        headers: Names in lower case.
        now: Seconds since 1970, for HTTP dates; None for the clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return bounded_wait(milliseconds / 1000)
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
    return bounded_wait(seconds)


def should_retry(headers: Mapping[str, str]) -> bool | None:
    """Parse ``x-should-retry``; None if the header is missing or neither true nor false."""
    return {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())


def bounded_wait(seconds: float) -> float:
    """Return a wait in seconds, limited to 0 to MAX_RETRY_AFTER_S."""
    return min(max(0.0, seconds), MAX_RETRY_AFTER_S)


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return None if math.isnan(value) else value
