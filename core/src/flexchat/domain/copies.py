"""Copies of callers' data: a later change of the original must not change ours."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import attrs

_SCALARS = frozenset((str, int, float, bool, type(None)))


def copied(value: Any) -> Any:
    """Return tables and lists as plain dicts and lists; raise RecursionError if they are nested too deeply."""
    # Most arguments of tools are flat, and then no item has to be looked at in Python.
    if isinstance(value, dict) and _SCALARS.issuperset(map(type, value.values())):
        return dict(value)
    if isinstance(value, Mapping):
        return {key: item if type(item) in _SCALARS else copied(item) for key, item in value.items()}
    return [copied(item) for item in value] if isinstance(value, (list, tuple)) else value


def with_own_tables(value: Any) -> Any:
    """Return a value with its tables, lists and records (attrs instances) copied; tuples stay tuples.

    An object that is not data (a function, a connection) is shared, not copied. Raises as copied.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict and _SCALARS.issuperset(map(type, value.values())):
        return dict(value)
    if isinstance(value, Mapping):
        return {key: with_own_tables(item) for key, item in value.items()}
    if kind in (list, tuple):
        return kind([with_own_tables(item) for item in value])
    if isinstance(value, type) or not attrs.has(kind):
        return value
    own = copy.copy(value)
    for field in attrs.fields(kind):
        item = getattr(value, field.name)
        if type(item) not in _SCALARS:
            # Bypasses __init__ and frozen: converters have already run, and no other thread holds this copy yet.
            object.__setattr__(own, field.name, with_own_tables(item))
    return own


def read_only(value: Any) -> Any:
    """Copy JSON data into dicts and lists that raise TypeError when changed; ``copied`` gives plain ones again.

    Raises:
        RecursionError: It is nested too deeply.
    """
    if isinstance(value, dict):
        if _SCALARS.issuperset(map(type, value.values())):
            return ReadOnlyDict(value)
        return ReadOnlyDict({key: read_only(item) for key, item in value.items()})
    return ReadOnlyList([read_only(item) for item in value]) if isinstance(value, list) else value


def _refuse_change(self: object, *args: object, **kwargs: object) -> Any:
    raise TypeError("these arguments are checked and cannot be changed: a step passes others to call.again")


class _ReadOnly:
    """Copies and pickles of a read-only dict or list are plain ones, which may be changed."""

    __slots__ = ()

    def __deepcopy__(self, memo: object) -> Any:
        return copied(self)

    def __reduce__(self) -> Any:
        return copied, (copied(self),)


class ReadOnlyDict(_ReadOnly, dict[str, Any]):
    """A dict that cannot be changed; equal to, and serialized like, a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _refuse_change


class ReadOnlyList(_ReadOnly, list[Any]):
    """A list that cannot be changed; equal to, and serialized like, a plain one."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = append = clear = extend = _refuse_change
    insert = pop = remove = reverse = sort = _refuse_change
