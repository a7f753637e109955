"""Validation of handler parameters, and errors whose texts are written for a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexchat.plugin import ToolError


class MathError(ToolError, ValueError):
    """An expression that is invalid or has no result (requirement TC-64).

    Attributes:
        reason: The reason, without the specified prefix.
    """

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        self.reason = reason
        super().__init__(f"Math evaluation failed: {reason}", hint=hint)


class ParameterError(ValueError):
    """A handler's parameters are invalid."""


MAX_TEXT = 100_000  # maximum length of a text parameter or result


def text(params: Mapping[str, Any], name: str, *, default: str | None = None, most: int = MAX_TEXT) -> str:
    """Return a string parameter.

    Raises:
        ParameterError: It is absent without a default, not a string, or too long.
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
    """Return a boolean parameter; False if absent.

    Raises:
        ParameterError: It is not a boolean.
    """
    value = params.get(name)
    if value is not None and not isinstance(value, bool):
        raise ParameterError(f"'{name}' must be true or false, got {_kind(value)}")
    return bool(value)


def whole_number(params: Mapping[str, Any], name: str, *, default: int) -> int:
    """Return a non-negative integer parameter; the default if absent.

    Raises:
        ParameterError: It is not a non-negative integer.
    """
    value = params.get(name)
    if value is None:
        return default
    if type(value) is not int or value < 0:
        raise ParameterError(f"'{name}' must be a whole number from 0, got {_kind(value)}")
    return value


def choice(params: Mapping[str, Any], name: str, options: Mapping[str, Any]) -> Any:
    """Return the value that *options* maps the parameter to.

    Raises:
        ParameterError: It is not one of the options.
    """
    value = params.get(name)
    if not isinstance(value, str) or value not in options:
        raise ParameterError(f"'{name}' must be one of: {', '.join(options)}")
    return options[value]


def _kind(value: Any) -> str:
    kinds = {type(None): "nothing", bool: "a truth value", int: "a number", float: "a number", list: "a list"}
    return kinds.get(type(value), "an object")
