"""Regular expressions of schemas, run by RE2: its time is linear in the length of the text, with any pattern.

Python's own engine needs 6.4 s for ``^(a+)+$`` on 28 characters. RE2 comes with the extra flexchat-core[regex] and is
imported with the first pattern.
"""

from __future__ import annotations

import functools
from typing import Any

from ..installing import how_to_install

NOT_BLANK = "[^\\s\x0b\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff]"
"""Matches text that is not blank, the same in RE2, Python and ECMA-262: their \\S differ."""


def problem_of(pattern: str) -> str | None:
    """Return the reason the pattern cannot be used, and the remedy; None if it can."""
    try:
        import re2
    except ImportError:
        return f"patterns need RE2: {how_to_install('flexchat-core', 'regex')}, or remove the pattern"
    try:
        _compiled(pattern)
    except UnicodeEncodeError:
        return "the pattern contains half of a surrogate pair"
    except re2.error as error:
        reason = error.args[0]
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        return f"RE2 does not run this pattern ({reason}); it has no back-references, look-around or \\u escapes"
    return None


def search(pattern: str, text: str) -> bool:
    """Search the text for a pattern that problem_of accepts; ``$``, as in ECMA-262, matches only at the very end."""
    try:
        return _compiled(pattern).search(text) is not None
    except UnicodeEncodeError:  # a model can write half of a surrogate pair as a JSON escape
        return _compiled(pattern).search(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) is not None


@functools.lru_cache(maxsize=1024)
def _compiled(pattern: str) -> Any:
    import re2

    options = re2.Options()
    options.log_errors = False  # otherwise a refused pattern is also written to stderr
    return re2.compile(pattern, options)
