"""W3C trace contexts: the header traceparent, which joins what several services do for one request.

Source: W3C Trace Context, section 3.2 (https://www.w3.org/TR/trace-context/).
"""

from __future__ import annotations

import os
import re

MAX_CHARS = 512
"""Of a context of a later version, which may have further fields."""

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-[!-~]*)?")


def is_traceparent(text: object) -> bool:
    """Return whether a trace context can be joined; one of version 00 has no further fields."""
    if not isinstance(text, str) or len(text) > MAX_CHARS or (match := _FORM.fullmatch(text)) is None:
        return False
    return match[1] is None or not text.startswith("00-")


def new_traceparent() -> str:
    """Return the context of a new trace, with a random id; services may record what they do for it."""
    digits = os.urandom(24).hex()
    return f"00-{digits[:32]}-{digits[32:]}-01"
