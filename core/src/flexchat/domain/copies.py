"""Copies of what a caller hands over: who changes his tables afterwards must not change what is kept of them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import attrs


def copied(value: Any) -> Any:
    """Return the same tables and lists, made anew: dicts and lists, whatever kind they were.

    Raises:
        RecursionError: They are nested too deeply.
    """
    if isinstance(value, Mapping):
        return {key: copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, (list, tuple)) else value


def with_own_tables(value: Any) -> Any:
    """Return a value with its tables, lists and records (of attrs classes) made anew, tuples staying tuples.

    What is no data (a function, a connection) stays the same object.

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
        # Past __init__ and past frozen: converters have run already, and nobody else has this copy yet.
        object.__setattr__(own, field.name, with_own_tables(getattr(value, field.name)))
    return own
