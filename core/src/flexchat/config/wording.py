"""Paths and values as errors name them: readable, short, and without secrets."""

from __future__ import annotations

import datetime
import itertools
import json
import math
import re
from typing import Any

from .positions import KeyPath

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_SECRET_WORDS = {"apikey", "authorization", "cookie", "credential", "credentials", "passphrase", "passwd", "password"}
_SECRET_WORDS |= {"passwords", "pwd", "secret", "secrets", "token"}

# Invisible although Unicode counts them as printable: fillers and variation selectors, which can carry a hidden text.
_BLANK = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")


def format_path(path: KeyPath) -> str:
    """Return a path in readable form: ``responses[1].tools.allowed_tools[0]``."""
    text = ""
    for key in path:
        is_bare = isinstance(key, str) and _BARE.fullmatch(key) and len(key) <= 80
        text += f".{key}" if is_bare else f"[{key}]" if isinstance(key, int) else f".{quoted(key)}"
    return text.removeprefix(".")


def describe_value(value: Any) -> str:
    """Return a value as named in errors, cut to 80 characters."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {quoted(value)}"
        case float() if math.isfinite(value):
            return f"the number {value!r}"
        case int() if abs(value) < 10**80:
            return f"the number {value}"
        case int():
            return "a number of more than 80 digits"
        case _:
            return describe_type(value)


def format_literal(value: Any) -> str:
    """Return a value as a configuration writes it: true, 5, 'text'."""
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def describe_type(value: Any) -> str:
    """Return the kind of a value, without the value."""
    kinds: dict[type, str] = {dict: "a table", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    kinds |= {int: "a number", float: "a number"}
    if isinstance(value, (datetime.date, datetime.time)):
        return "a date or time"
    return kinds.get(type(value), f"a Python {type(value).__name__}")


def quoted(text: str, limit: int = 80) -> str:
    """Return a text in quotes, on one line and cut to a limit; unprintable characters are escaped."""
    return '"' + shortened(text, limit).replace('"', '\\"') + '"'


def shortened(text: str, limit: int = 80) -> str:
    """Return a text on one line, cut to a limit; unprintable characters are escaped."""
    return printable(text if len(text) <= limit else text[: limit - 1] + "…")


def printable(text: str) -> str:
    """Return the text with line ends, control characters and the like escaped."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def visible(text: str) -> str:
    """Return the text with each invisible character but the line end as JSON escapes it: controls, bidirectional."""
    return "".join(c if c == "\n" or (c.isprintable() and not _BLANK.match(c)) else json.dumps(c)[1:-1] for c in text)


def is_secret_name(name: str) -> bool:
    """Return whether a key's name marks its value as secret: api_key, token, password; not max_tokens."""
    words = [word.lower() for word in _WORDS.findall(name)]
    pairs = itertools.pairwise(words)
    return not _SECRET_WORDS.isdisjoint(words) or any(
        b in {"key", "keys"} and a in {"api", "access", "private"} for a, b in pairs
    )


def is_secret_path(path: KeyPath) -> bool:
    """Return whether a path is, or is inside, something whose name marks it as secret."""
    return any(isinstance(key, str) and is_secret_name(key) for key in path)
