"""Regular expressions of match rules: ``/body/flags``, or the body alone, searched for in users' texts.

A user's text must not be able to block the program. RE2 takes time proportional to the text, with any pattern, and
decides wherever both engines agree. The other engine supports everything Python does, including look-around, back
references and letters of all scripts; it has a time limit, after which it gives up.
"""

from __future__ import annotations

import functools
import re
import warnings
from typing import Any

from ..domain.text import scrub
from ..installing import how_to_install

MAX_PATTERN_MS = 50  # milliseconds one search may take

MAX_PATTERN_CHARS = 10_000  # most characters of a pattern: one of a million takes seconds to compile

FLAGS = {"i": "i", "m": "m", "g": "", "u": "", "y": ""}  # the original's flags, and what they mean here

_NAMED_GROUP = re.compile(r"(?<!\\)\(\?<(?=[A-Za-z_])")
_SLASHED = re.compile(r"/(.*)/([gimuy]*)", re.DOTALL)


class PatternError(ValueError):
    """A pattern that is not a regular expression; the text names the fault."""


class NoEngineError(PatternError):
    """The regular-expression engine is not installed; the text gives the command that installs it."""


class Pattern:
    """A compiled pattern.

    Attributes:
        linear: Whether every search takes time proportional to its text.
    """

    def __init__(self, body: str, flags: str) -> None:
        try:
            import regex
        except ImportError as error:
            get_it = how_to_install("flexchat-core", "regex")
            raise NoEngineError(f"regular expressions need their engine: {get_it}") from error
        source = f"(?{flags}){body}" if flags else body
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about how a future Python will read it
                self._patient: Any = regex.compile(source)
        except (regex.error, OverflowError, RecursionError) as error:
            raise PatternError(str(error)) from None
        self._linear: Any = _re2(source)

    @property
    def linear(self) -> bool:
        """Whether RE2 supports it."""
        return self._linear is not None

    def found_in(self, text: str, longest_s: float = MAX_PATTERN_MS / 1000) -> bool | None:
        """Return whether it occurs in the text, ignoring line ends at its end; None if the search took too long."""
        text = scrub(text).rstrip("\r\n")
        if self._linear is not None and text.isascii():  # RE2 does not support other scripts' letters and word ends
            return self._linear.search(text) is not None
        try:
            return self._patient.search(text, timeout=longest_s) is not None
        except TimeoutError:
            return self._linear.search(text) is not None if self._linear is not None else None


@functools.lru_cache(maxsize=8192)  # enough for a whole configuration: each is used in every turn
def compile_pattern(text: str) -> Pattern:
    """Return the pattern of a match rule. Flags are g, i, m, u and y; with any other the slashes are literal.

    A named group may be written as in JavaScript, ``(?<name>…)``, or as in Python. Raises PatternError if it is not a
    regular expression, or no engine is installed.

    Source: the original's rule matching (FIELD_regexp).
    """
    if len(text) > MAX_PATTERN_CHARS:
        raise PatternError(f"it has {len(text):,} characters, at most {MAX_PATTERN_CHARS:,} are allowed")
    slashed = _SLASHED.fullmatch(text)
    body, letters = slashed.groups() if slashed is not None else (text, "")
    flags = "".join(sorted({FLAGS[letter] for letter in letters}))
    return Pattern(_NAMED_GROUP.sub("(?P<", body), flags)


def _re2(source: str) -> Any:
    try:
        import re2
    except ImportError:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(source, options)
    except (re2.error, UnicodeEncodeError):
        return None
