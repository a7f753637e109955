"""Regular expressions as a configuration writes them: ``/body/flags``, or the body alone."""

from __future__ import annotations

import re

_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "g": 0, "u": 0, "y": 0}
_NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z_])")
_SLASHED = re.compile(r"/(.*)/([gimuy]*)", re.DOTALL)


def compile_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of a match rule. Flags are g, i, m, u and y; with any other the slashes are literal.

    A named group may be written as in JavaScript, ``(?<name>…)``, or as in Python.

    Raises:
        re.error: It is no regular expression.

    Source: the original's rule matching (FIELD_regexp).
    """
    slashed = _SLASHED.fullmatch(text)
    if slashed is None:
        return re.compile(_NAMED_GROUP.sub("(?P<", text))
    flags = 0
    for letter in slashed.group(2):
        flags |= _FLAGS[letter]
    return re.compile(_NAMED_GROUP.sub("(?P<", slashed.group(1)), flags)
