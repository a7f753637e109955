"""--var NAME=VALUE: what prompts show as {{NAME}}, given on the command line."""

from __future__ import annotations

import argparse
import json
from typing import Any

from ..config.own_variables import variable_problem
from .arguments import spoken
from .usage import UsageError


def add_variables_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that sets prompt variables."""
    parser.add_argument(
        "--var",
        metavar="NAME=VALUE",
        dest="variables",
        action="append",
        default=[],
        help="what prompts show as {{NAME}}: a text, or a list or table as JSON; repeatable",
    )


def read_variables(args: argparse.Namespace) -> dict[str, Any]:
    """Return the variables by name: a list or a table if the value is one in JSON, otherwise the text as typed.

    Raises:
        UsageError: One has no name or value, is given twice, or has a name no prompt can show.
    """
    variables: dict[str, Any] = {}
    for word in args.variables:
        name, separator, text = word.partition("=")
        if not separator or not name:
            raise UsageError(f"--var {word}: NAME=VALUE is expected")
        if name in variables:
            raise UsageError(f'--var {name} is given twice; a list is one JSON value: {name}=\'["a", "b"]\'')
        variables[name] = _value(spoken([text]))
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
