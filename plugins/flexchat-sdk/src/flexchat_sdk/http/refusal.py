"""Extracts the body of a refusal for an error: JSON data or text, shortened, and without keys."""

from __future__ import annotations

from collections.abc import Callable

from .wire_json import from_bytes

MAX_TEXT_CHARS = 500
MAX_CODE_CHARS = 200
"""How many characters of a service's error code are kept."""


def refusal_data(body: bytes) -> object:
    """Return an error's body as JSON data, or as text if it is not JSON."""
    try:
        return from_bytes(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def refusal_text(text: str, mask: Callable[[str], str], longest: int = MAX_TEXT_CHARS) -> str:
    """Return a service's text in one line of at most ``longest`` characters, without keys.

    It is masked before it is cut to that length, so that no cut goes through a key; and cut roughly before that,
    because masking is slow on a long page.
    """
    return mask(" ".join(text[: 4 * longest].split()))[:longest]
