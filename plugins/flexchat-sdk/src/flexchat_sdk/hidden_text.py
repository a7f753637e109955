"""Invisible characters in texts that others define: models read them, and terminals change their display by them.

Source: Unicode's tag characters (U+E0000 to U+E007F), bidirectional controls (UAX 9) and variation selectors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MAX_CHARS = 16_384  # characters of a description that a model is shown

# Controls, zero width, bidirectional, tags; a carriage return, after which a terminal writes over the line; and
# variation selectors in a row, which spell bytes.
_HIDDEN = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\uffff\U000e0000-\U000e0fff]"
)
_SELECTORS = re.compile("(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]")


def find_hidden(text: str) -> list[str]:
    """Return the invisible characters of a text."""
    return [*_HIDDEN.findall(text), *_SELECTORS.findall(_HIDDEN.sub("", text))]


def remove_hidden(text: str) -> str:
    """Return a text without its invisible characters."""
    return _SELECTORS.sub("", _HIDDEN.sub("", text))


def clean_text(text: str) -> str:
    """Return a text without its invisible characters, cut to MAX_CHARS."""
    plain = remove_hidden(text)
    return plain if len(plain) <= MAX_CHARS else plain[: MAX_CHARS - 1] + "…"


def clean_schema(schema: Any) -> Any:
    """Return a schema whose descriptions and titles are cleaned; all else stays, because a service compares it."""
    if isinstance(schema, Mapping):
        return {
            key: clean_text(item) if key in ("description", "title") and isinstance(item, str) else clean_schema(item)
            for key, item in schema.items()
        }
    return [clean_schema(item) for item in schema] if isinstance(schema, list) else schema


def find_hidden_places(value: Any, place: str) -> Iterator[tuple[str, int]]:
    """Yield each place in JSON data whose text or key has invisible characters, with their number."""
    for where, text in texts_in(value, place):
        if not (text.isascii() and text.isprintable()) and (found := find_hidden(text)):
            yield where, len(found)


def texts_in(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield every text and every key of JSON data, each with its place: ``parameters.properties.city``."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            inner = f"{place}.{remove_hidden(str(key))}"
            yield inner, str(key)
            yield from texts_in(item, inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from texts_in(item, f"{place}[{index}]")
