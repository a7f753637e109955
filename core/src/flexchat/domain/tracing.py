"""W3C trace contexts: the headers traceparent and tracestate, which join what several services do for one request.

Source: W3C Trace Context, sections 3.2 and 3.3 (https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import os
import re

MAX_CHARS = 512
"""Of a context of a later version, which may have further fields."""

MAX_VENDORS = 32
"""In a tracestate."""

_VENDOR = re.compile(r"[a-z0-9][a-z0-9_*/@-]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}")
_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")


def is_traceparent(text: object) -> bool:
    """Return whether a trace context can be joined; one of version 00 has no further fields."""
    if not isinstance(text, str) or len(text) > MAX_CHARS or (match := _FORM.fullmatch(text)) is None:
        return False
    return match[1] is None or not text.startswith("00-")


def usable_tracestate(text: str) -> str:
    """Return a tracestate in one line of at most MAX_CHARS; empty if it cannot be passed on."""
    members = [each.strip(" \t") for each in text.split(",") if each.strip(" \t")]
    if len(members) > MAX_VENDORS or not all(map(_VENDOR.fullmatch, members)):
        return ""
    state = ",".join(members)
    return state if len(state) <= MAX_CHARS else ""


def new_traceparent() -> str:
    """Return the context of a new trace, with a random id; services may record what they do for it."""
    digits = os.urandom(24).hex()
    return f"00-{digits[:32]}-{digits[32:]}-01"
