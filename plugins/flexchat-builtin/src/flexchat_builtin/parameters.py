"""Reads the parameters of the builtin handlers. A schema has usually checked them; a tool's own schema may be laxer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .errors import ParameterError

MAX_TEXT = 100_000
"""Characters of a text that a tool takes or gives."""


def text(params: Mapping[str, Any], name: str, *, default: str | None = None, most: int = MAX_TEXT) -> str:
    """Return a text parameter.

    Raises:
        ParameterError: Absent (and no default), not a text, or too long.
    """
    value = params.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise ParameterError(f"'{name}' must be a text, got {_kind(value)}")
    if len(value) > most:
        raise ParameterError(f"'{name}' has {len(value)} characters, {most} are allowed")
    return value


def flag(params: Mapping[str, Any], name: str) -> bool:
    """Return a truth value; absent means false.

    Raises:
        ParameterError: Something else.
    """
    value = params.get(name)
    if value is not None and not isinstance(value, bool):
        raise ParameterError(f"'{name}' must be true or false, got {_kind(value)}")
    return bool(value)


def whole_number(params: Mapping[str, Any], name: str, *, default: int) -> int:
    """Return a whole number from 0; the default if absent.

    Raises:
        ParameterError: Something else.
    """
    value = params.get(name)
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise ParameterError(f"'{name}' must be a whole number from 0, got {_kind(value)}")
    return value


def choice(params: Mapping[str, Any], name: str, options: Mapping[str, Any]) -> Any:
    """Return what one of the options stands for.

    Raises:
        ParameterError: None of them.
    """
    value = params.get(name)
    if not isinstance(value, str) or value not in options:
        raise ParameterError(f"'{name}' must be one of: {', '.join(options)}")
    return options[value]


def _kind(value: Any) -> str:
    kinds = {type(None): "nothing", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object")
