"""Keeps keys out of errors, headers that cannot be sent out of requests, and long refusals out of texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from flexchat.domain.masking import MASK, Mask

from .wire_json import from_bytes

# The parts services quote of a key they refuse: "sk-abc", "sk-ab********wxyz". Shorter than what Mask looks for.
_QUOTED_KEY = re.compile(r"\b(?:sk|pk|rk|gsk|xai|org)-[\w*-]*|(?<![\w-])[\w-]*\*{3,}[\w-]*", re.ASCII)


def key_mask(secrets: Iterable[str] = ()) -> Callable[[str], str]:
    """Return a function that removes from a text the secrets, and anything that looks like a key or part of one."""
    mask = Mask(secrets)
    return lambda text: _QUOTED_KEY.sub(MASK, mask(text))


def header_problem(headers: Mapping[str, str]) -> str | None:
    """Return which header cannot be sent, and why, without its value; None if all can.

    A key copied with a line break or a typographic dash is the usual cause.
    """
    for name, value in headers.items():
        if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name):
            return f"{name!r} is not a header name"
        for at, char in enumerate(value):
            if char != "\t" and not (" " <= char <= "~" or "\xa0" <= char <= "\xff"):
                kind = "a line break" if char in "\r\n" else f"U+{ord(char):04X}"
                return f"the value for header {name!r} contains {kind} at character {at + 1}: copy it again"
    return None


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
