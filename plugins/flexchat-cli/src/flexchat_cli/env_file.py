"""A .env file, read only if it is named; python-dotenv parses quotes, ``export``, comments and ${…}."""

from __future__ import annotations

import io
import os
import re
from collections import ChainMap
from pathlib import Path
from typing import TYPE_CHECKING

from flexchat.errors import ConfigError, Problem
from flexchat.files import located, read_file
from flexchat.installing import how_to_install

if TYPE_CHECKING:
    from dotenv.parser import Binding

MAX_BYTES = 64 * 1024
"""Bytes of a file: python-dotenv takes time in proportion to its square."""
_MAX_CHARS = 1024 * 1024
"""Characters of all values, with their ${…} replaced."""
_MAX_REFERENCES = 1_000
"""In one value: each may be looked at up to the value's end."""

_NAME = re.compile(r"[^\s=\"'#\0]+")


def use_env_file(file: str | Path) -> dict[str, str]:
    """Add a file's variables to the environment, except those that are set already; return those added.

    Raises:
        ConfigError: The file cannot be read, or one of its lines cannot; the text has its number. Nothing is added.
        PathError: The system does not accept the name.
    """
    variables = read_env_file(file)
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    return added


def read_env_file(file: str | Path) -> dict[str, str]:
    """Return a file's variables. Raises as use_env_file does."""
    try:
        from dotenv import parser, variables
    except ImportError:
        raise ConfigError(
            [_problem(file, f"a .env file needs a package: {how_to_install('flexchat-cli', 'dotenv')}")]
        ) from None
    try:
        text = read_file(located(file), most=MAX_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise ConfigError([_problem(file, f"cannot be read: {error.strerror or error}")]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ConfigError([_problem(file, "is not UTF-8 text", line)]) from None
    problems: list[Problem] = []
    bindings = list(parser.parse_stream(io.StringIO(text)))
    for binding in bindings:
        # Never the line itself: it may contain a key.
        if binding.error or (binding.key is not None and not _NAME.fullmatch(binding.key)):
            problems.append(_problem(file, 'cannot be read: a line is NAME=value or NAME="value"', _line(binding)))
        elif binding.key is not None and binding.value is None:
            problems.append(_problem(file, "has a name without a value: write NAME=value", _line(binding)))
        elif "\0" in (binding.value or ""):
            problems.append(_problem(file, "has a NUL character, which no variable can have", _line(binding)))
        elif (binding.value or "").count("${") > _MAX_REFERENCES:
            problems.append(_problem(file, f"has a value with more than {_MAX_REFERENCES:,} ${{", _line(binding)))
    if problems:
        raise ConfigError(problems)
    values: dict[str, str] = {}
    environment, room = ChainMap(values, dict(os.environ)), _MAX_CHARS
    for binding in bindings:
        if binding.key and binding.value is not None:
            # As python-dotenv does it, but lines that double each other do not fill the memory.
            parts = [atom.resolve(environment) for atom in variables.parse_variables(binding.value)]
            room -= sum(map(len, parts))
            if room < 0:
                text = f"the values are larger than {_MAX_CHARS // 1024 // 1024} MiB with their ${{…}} replaced"
                raise ConfigError([_problem(file, text, _line(binding))])
            values[binding.key] = "".join(parts)
    return values


def _line(binding: Binding) -> int:
    """Return the line where a statement begins; python-dotenv counts the empty lines before it as part of it."""
    text = binding.original.string
    blank = text[: len(text) - len(text.lstrip())]
    return binding.original.line + blank.count("\n")


def _problem(file: str | Path, text: str, line: int | None = None) -> Problem:
    return Problem(path="", text=text, source=str(file), line=line)
