"""-p NAME VALUE, or --var NAME=VALUE: what prompts show as {{NAME}}, given on the command line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click
from flexchat.config.own_variables import variable_problem

from .parameters import TEXT
from .usage import UsageError

variables_option = click.option(
    "--var",
    "-p",
    "--param",
    "variables",
    metavar="NAME=VALUE",
    type=TEXT,
    multiple=True,
    callback=lambda ctx, param, words: read_variables(words),
    help="what prompts show as {{NAME}}: a text, or a list or table as JSON; also -p NAME VALUE; repeatable",
)
"""The option that sets prompt variables; the command gets them by name, as ``variables``."""


def read_variables(words: Sequence[str]) -> dict[str, Any]:
    """Return the variables by name: a list or a table if the value is one in JSON, otherwise the text as typed.

    Raises:
        UsageError: One has no name or value, is given twice, or has a name no prompt can show.
    """
    variables: dict[str, Any] = {}
    for word in words:
        name, separator, text = word.partition("=")
        if not separator or not name:
            raise UsageError(f"--var {word}: NAME=VALUE is expected")
        if name in variables:
            raise UsageError(f'--var {name} is given twice; a list is one JSON value: {name}=\'["a", "b"]\'')
        variables[name] = _value(text)
        problem = variable_problem(name, variables[name])
        if problem:
            raise UsageError(f"--var: {problem}")
    return variables


def _value(text: str) -> Any:
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass  # a text that starts with a bracket
    return text
