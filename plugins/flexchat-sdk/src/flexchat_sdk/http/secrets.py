"""Keeps keys out of errors, and headers that cannot be sent out of requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from flexchat.domain.masking import MASK, Mask

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
