"""Changes one place in a configuration's text; comments, order and spelling of everything else stay."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Mapping, Sequence
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

    def write(data: Any) -> None:
        for place, value in values.items():
            _container(data, place, "")[place[-1]] = value

    return _edited(text, source or "flexchat.toml", write)


def _changed(text: str, source: str, change: Mapping[str, Any], where: str) -> str:
    place: KeyPath = tuple(change["path"])
    if not place:
        raise ApiError(422, f"{where}: the path is empty")
    if format_of(source) == "toml":
        null = next(filter(None, (_null(change[name], name) for name in ("value", "insert") if name in change)), "")
        if null:
            raise ApiError(422, f"{where}: TOML has no null ({null}); remove the key instead")
    return _edited(text, source, lambda data: _apply(data, place, change, where))


def _edited(text: str, source: str, write: Callable[[Any], None]) -> str:
    """Return a text after ``write`` has changed its data: edited if possible, which keeps comments; otherwise anew."""
    data = copy.deepcopy(parse_document(text, source).data)
    write(data)
    if format_of(source) == "json":
        return json.dumps(data, indent=_indent(text), ensure_ascii=False) + "\n"
    is_yaml = format_of(source) == "yaml"
    with contextlib.suppress(
        TOMLKitError, ConfigError, ApiError, LookupError, TypeError, ValueError, AttributeError, RecursionError
    ):
        if is_yaml:
            changed = changed_yaml(text, write)
        else:
            document = tomlkit.parse(text)
            write(document)
            changed = tomlkit.dumps(document)
        if parse_document(changed, source).data == data:
            return changed
    if is_yaml:  # written anew it would lose its comments, and what stands for several places with an anchor
        raise ApiError(
            422, "this cannot be changed in place, perhaps because an alias (*) stands there: edit the file by hand"
        )
    try:
        return tomlkit.dumps(data)
    except (TOMLKitError, TypeError, ValueError) as error:
        raise ApiError(422, f"this cannot be written as TOML: {error}") from None


def _apply(data: Any, place: KeyPath, change: Mapping[str, Any], where: str) -> None:
    container, key = _container(data, place, where, make="value" in change or "insert" in change), place[-1]
    if "move_to" in change and not isinstance(container, list):
        raise _nowhere(place, where, "only list items can be moved")
    if "insert" in change and isinstance(container, dict) and isinstance(key, str):
        container.setdefault(key, [])
    if isinstance(container, list):
        _index(container, key, place, where)
    elif ("value" in change or "insert" in change) and not isinstance(key, str):
        raise _nowhere(place, where, "a table's keys are text")
    elif "value" not in change and key not in container:
        raise _nowhere(place, where, "there is no such key")
    if "value" in change:
        container[key] = copy.deepcopy(change["value"])
    elif "insert" in change:
        items = container[key]
        if not isinstance(items, list):
            raise _nowhere(place, where, "this is not a list")
        before = change.get("before", len(items))
        _check_position(before, len(items) + 1, items, where)
        items.insert(before, copy.deepcopy(change["insert"]))
    elif "move_to" in change:
        _check_position(change["move_to"], len(container), container, where)
        container.insert(change["move_to"], container.pop(int(key)))
    else:
        del container[key]


def _check_position(position: int, end: int, items: Any, where: str) -> None:
    if not 0 <= position < end:
        raise ApiError(422, f"{where}: the list has {len(items)} items, so there is no item {position}")


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
