"""A .env file, read only when somebody names one; python-dotenv knows its quotes, ``export``, comments and ${…}."""

from __future__ import annotations

import io
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigError, Problem
from ..files import located, read_file

if TYPE_CHECKING:
    from dotenv.parser import Binding

LARGEST = 1024 * 1024
"""Bytes."""

_NAME = re.compile(r"[^\s=\"'#\0]+")


def use_env_file(named: str | Path) -> dict[str, str]:
    """Add a file's variables to the process's environment; what is set there already stays. Return those added.

    Raises:
        ConfigError: The file cannot be read, or one of its lines cannot; the text has its number. Nothing is added.
        PathError: The system does not accept the name.
    """
    found = read_env_file(named)
    added = {name: value for name, value in found.items() if name not in os.environ}
    os.environ.update(added)
    return added


def read_env_file(named: str | Path) -> dict[str, str]:
    """Return a file's variables. Raises as use_env_file does."""
    try:
        from dotenv import dotenv_values
        from dotenv.parser import parse_stream
    except ImportError:
        raise ConfigError(
            [_problem(named, "a .env file needs a package: pip install 'flexchat-core[dotenv]'")]
        ) from None
    try:
        text = read_file(located(named), most=LARGEST).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([_problem(named, f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([_problem(named, "is not UTF-8 text", line)]) from None
    problems = []
    for binding in parse_stream(io.StringIO(text)):
        # Never the line itself: it may contain a key.
        if binding.error or (binding.key is not None and not _NAME.fullmatch(binding.key)):
            problems.append(_problem(named, 'cannot be read: a line is NAME=value or NAME="value"', _line(binding)))
        elif binding.key is not None and binding.value is None:
            problems.append(_problem(named, "has a name without a value: write NAME=value", _line(binding)))
        elif "\0" in (binding.value or ""):
            problems.append(_problem(named, "has a NUL character, which no variable can have", _line(binding)))
    if problems:
        raise ConfigError(problems)
    values = dotenv_values(stream=io.StringIO(text))
    return {name: value for name, value in values.items() if name and value is not None}


def _line(binding: Binding) -> int:
    """Return the line where a statement begins; python-dotenv counts the empty lines before it as part of it."""
    text = binding.original.string
    blank = text[: len(text) - len(text.lstrip())]
    return binding.original.line + blank.count("\n")


def _problem(named: str | Path, text: str, line: int | None = None) -> Problem:
    return Problem(path="", text=text, source=str(named), line=line)
