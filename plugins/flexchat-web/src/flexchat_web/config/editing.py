"""Changes one place in a configuration's text; comments, order and spelling of everything else stay."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit
from flexchat import ConfigError
from flexchat.host import KeyPath, parse_document
from flexchat_sdk import changed_yaml
from tomlkit.exceptions import TOMLKitError

from ..problems import ApiError
from .file import format_of


def edit(text: str, source: str, changes: Sequence[Mapping[str, Any]]) -> str:
    """Return a text with changes made, one after the other.

    Args:
        source: Name of the file: .toml, .yaml or .json.
        changes: ``{path, value}`` sets; ``{path, remove: true}`` removes; ``{path, insert, before?}`` adds to a list;
            ``{path, move_to}`` moves an item within its list.

    Raises:
        ApiError: 422: a path leads nowhere, or the value cannot be written.
        ConfigError: The text cannot be read.
    """
    for number, change in enumerate(changes):
        text = _changed(text, source, change, f"changes[{number}]")
    return text


def set_values(text: str, source: str, values: Mapping[KeyPath, Any]) -> str:
    """Return a text with other values at some existing places.

    Raises:
        ConfigError: The text cannot be read.
    """
    source = source or "flexchat.toml"
    data = copy.deepcopy(parse_document(text, source).data)
    for place, value in values.items():
        _container(data, place, "")[place[-1]] = value

    def write(document: Any) -> None:
        for place, value in values.items():
            _container(document, place, "")[place[-1]] = value

    return _edited(text, source, data, write)


def _changed(text: str, source: str, change: Mapping[str, Any], where: str) -> str:
    place: KeyPath = tuple(change["path"])
    data = copy.deepcopy(parse_document(text, source).data)
    if not place:
        raise ApiError(422, f"{where}: the path is empty")
    if format_of(source) == "toml":
        for name in ("value", "insert"):
            null = _null(change[name], name) if name in change else ""
            if null:
                raise ApiError(422, f"{where}: TOML has no null ({null}); remove the key instead")
    _apply(data, place, change, where)
    return _edited(text, source, data, lambda document: _apply(document, place, change, where))


def _edited(text: str, source: str, data: Any, write: Any) -> str:
    """Format the wanted data as text, by editing *text* if possible, which keeps comments; otherwise anew."""
    if format_of(source) == "json":
        return json.dumps(data, indent=_indent(text), ensure_ascii=False) + "\n"
    if format_of(source) == "yaml":
        return _written_yaml(text, source, data, write)
    try:
        document = tomlkit.parse(text)
        write(document)
        changed = tomlkit.dumps(document)
        if parse_document(changed, source).data == data:
            return changed
    except (TOMLKitError, ConfigError, ApiError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        pass  # what it cannot change in place
    try:
        return tomlkit.dumps(data)
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ApiError(422, f"this cannot be written as TOML: {error}") from None


def _written_yaml(text: str, source: str, data: Any, write: Any) -> str:
    with contextlib.suppress(ConfigError, ApiError, LookupError, TypeError, ValueError, AttributeError, RecursionError):
        changed = changed_yaml(text, write)
        if parse_document(changed, source).data == data:
            return changed
    # Written anew it would lose its comments, and what stands for several places with an anchor.
    raise ApiError(
        422, "this cannot be changed in place, perhaps because an alias (*) stands there: edit the file by hand"
    )


def _apply(data: Any, place: KeyPath, change: Mapping[str, Any], where: str) -> None:
    if "value" in change:
        container = _container(data, place, where, make=True)
        key = place[-1]
        if isinstance(container, list):
            _index(container, key, place, where)
        elif not isinstance(key, str):
            raise _nowhere(place, where, "a table's keys are text")
        container[key] = copy.deepcopy(change["value"])
        return
    if "insert" in change:
        items = _listed(data, place, where)
        before = change.get("before", len(items))
        if not 0 <= before <= len(items):
            raise ApiError(422, f"{where}: the list has {len(items)} items, so there is no item {before}")
        items.insert(before, copy.deepcopy(change["insert"]))
        return
    container, key = _container(data, place, where), place[-1]
    if "move_to" in change:
        if not isinstance(container, list):
            raise _nowhere(place, where, "only list items can be moved")
        _index(container, key, place, where)
        if not 0 <= change["move_to"] < len(container):
            raise ApiError(
                422, f"{where}: the list has {len(container)} items, so there is no item {change['move_to']}"
            )
        container.insert(change["move_to"], container.pop(int(key)))
        return
    if isinstance(container, list):
        _index(container, key, place, where)
    elif key not in container:
        raise _nowhere(place, where, "there is no such key")
    del container[key]


def _container(data: Any, place: KeyPath, where: str, *, make: bool = False) -> Any:
    """Return the table or list that holds a place, created if missing."""
    for depth, key in enumerate(place[:-1]):
        if isinstance(data, list):
            _index(data, key, place[: depth + 1], where)
        elif not isinstance(data, dict) or not isinstance(key, str):
            raise _nowhere(place[:depth], where, "this is not a table")
        elif key not in data:
            if not make:
                raise _nowhere(place[: depth + 1], where, "there is no such key")
            data[key] = {}
        data = data[key]
    if not isinstance(data, (dict, list)):
        raise _nowhere(place[:-1], where, "this is not a table")
    return data


def _listed(data: Any, place: KeyPath, where: str) -> Any:
    container, key = _container(data, place, where, make=True), place[-1]
    if isinstance(container, list):
        _index(container, key, place, where)
    elif not isinstance(key, str):
        raise _nowhere(place, where, "a table's keys are text")
    elif key not in container:
        container[key] = []
    items = container[key]
    if not isinstance(items, list):
        raise _nowhere(place, where, "this is not a list")
    return items


def _index(items: Any, key: Any, place: KeyPath, where: str) -> None:
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < len(items):
        raise _nowhere(place, where, f"the list has {len(items)} items, counted from 0")


def _nowhere(place: KeyPath, where: str, text: str) -> ApiError:
    location = ".".join(map(str, place))[:120] or "the whole"
    return ApiError(422, f"{where}: {location}: {text}")


def _null(value: Any, place: str) -> str:
    """Return where null stands in a value; empty if nowhere."""
    if value is None:
        return place
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    return next((where for key, item in items if (where := _null(item, f"{place}.{key}"))), "")


def _indent(text: str) -> int:
    """Detect the indentation of a JSON text, in spaces."""
    line = next((line for line in text.splitlines()[1:] if line.strip()), "  ")
    return min(max(len(line) - len(line.lstrip(" ")), 1), 8) if line.startswith(" ") else 2
