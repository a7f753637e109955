"""Text from outside, made fit to be sent and stored."""

from __future__ import annotations


def scrub(text: str) -> str:
    """Return the text without lone surrogates, which no provider accepts and no database stores."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def storable(text: str) -> str:
    """Return the text as every database takes it: without lone surrogates and NUL."""
    return scrub(text).replace("\0", "")
