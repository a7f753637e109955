"""How values of arguments are shown in sentences about cases."""

from __future__ import annotations

import json
from typing import Any


def shorten(value: Any, limit: int = 80) -> str:
    """Format a value on one line of at most *limit* characters: texts in single quotes, everything else as JSON."""
    if isinstance(value, str):
        return f"'{_printable(_cut(value, limit))}'"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return f"a {type(value).__name__} that cannot be shown"
    return _printable(_cut(text, limit))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
