"""Copies of what a caller passes in: changing the original later must not change what we keep."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import attrs


def copied(value: Any) -> Any:
    """Return a deep copy of tables and lists, as plain dicts and lists.

    Raises:
        RecursionError: They are nested too deeply.
    """
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, (list, tuple)) else value


def with_own_tables(value: Any) -> Any:
    """Return a value with its tables, lists and records (attrs instances) copied; tuples stay tuples.

    What is not data (a function, a connection) stays the same object.

    Raises:
        RecursionError: It is nested too deeply.
    """
    if isinstance(value, Mapping):
        return {key: with_own_tables(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)([with_own_tables(item) for item in value])
    if isinstance(value, type) or not attrs.has(type(value)):
        return value
    own = copy.copy(value)
    for field in attrs.fields(type(value)):
        # Bypasses __init__ and frozen: converters have already run, and nobody else has this copy yet.
        object.__setattr__(own, field.name, with_own_tables(getattr(value, field.name)))
    return own
