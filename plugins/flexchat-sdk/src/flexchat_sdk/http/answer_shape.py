"""What a service's answer must look like: foreign JSON, read so that nothing is lost silently.

Two rules, for every wire format:

- Where text or calls may be, and on the path to them, a value of the wrong type is an error of the answer
  (``object_in``, ``list_in``, ``text_in``, ``number_in``, ``objects_of``): it raises WrongShape, naming the place.
- Everywhere else (usage, ids, models' names, unknown keys) a value of the wrong type counts as missing
  (``known_text``, ``known_count``): it never costs an answer.

Null counts as missing, because services write it for that; ``needed`` makes it an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

_NAMES = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}


class WrongShape(ValueError):
    """Something in an answer has the wrong type. The text: ``choices[0].delta: expected …, got …``.

    The reader of the bytes (``AnswerReader``, or a provider) turns it into a ProviderProtocolError.
    """

    def __init__(self, path: str, expected: str, value: object) -> None:
        super().__init__(f"{path}: expected {expected}, got {type_name(value)}")


def type_name(value: object) -> str:
    """Return a JSON value's type with its article, for error texts: "an object", "text", "null"."""
    return "null" if value is None else _NAMES.get(type(value), type(value).__name__)


def object_of(value: object, where: str) -> dict[str, Any]:
    """Return a value that must be an object: an answer as received.

    Raises:
        WrongShape: It is something else.
    """
    if type(value) is not dict:
        raise WrongShape(where, "an object", value)
    return value


def object_in(holder: Mapping[str, Any], key: str, where: str = "", *, needed: bool = False) -> dict[str, Any] | None:
    """Return the object at a key; None for null or a missing key.

    Args:
        where: The holder's place in the answer, for the error: "choices[0]".
        needed: Whether null is an error as well.

    Raises:
        WrongShape: It is something else.
    """
    value = holder.get(key)
    if type(value) is dict or (value is None and not (needed and key in holder)):
        return value
    raise WrongShape(_path(where, key), "an object", value)


def list_in(holder: Mapping[str, Any], key: str, where: str = "", *, needed: bool = False) -> list[Any]:
    """Return the list at a key; an empty one for null or a missing key. Otherwise the same as object_in."""
    value = holder.get(key)
    if type(value) is list:
        return value
    if value is None and not (needed and key in holder):
        return []
    raise WrongShape(_path(where, key), "a list", value)


def text_in(holder: Mapping[str, Any], key: str, where: str = "", *, needed: bool = False) -> str:
    """Return the text at a key; an empty one for null or a missing key. Otherwise the same as object_in."""
    value = holder.get(key)
    if type(value) is str:
        return value
    if value is None and not (needed and key in holder):
        return ""
    raise WrongShape(_path(where, key), "text", value)


def number_in(holder: Mapping[str, Any], key: str, where: str = "") -> int | None:
    """Return the index or position at a key; None for null or a missing key.

    Raises:
        WrongShape: It is something else; see known_number.
    """
    value = holder.get(key)
    number = known_number(value)
    if number is None and value is not None:
        raise WrongShape(_path(where, key), "a whole number", value)
    return number


def objects_of(items: list[Any], where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects of a list, each with its place: ``parts[0]``.

    Raises:
        WrongShape: An item is something else.
    """
    for at, item in enumerate(items):
        path = f"{where}[{at}]"
        if type(item) is not dict:
            raise WrongShape(path, "an object", item)
        yield path, item


class FirstAnswer:
    """Decides what belongs to the first answer, the only one read if a service sends several."""

    def __init__(self) -> None:
        self._is_guessing = self._has_others = False

    def includes(self, number: object, where: str) -> bool:
        """Return whether a piece with this number belongs to the first answer; an unreadable one does if it is alone.

        Args:
            where: The number's place, for the error.

        Raises:
            WrongShape: There are several answers, and it is unclear which one the piece belongs to.
        """
        if (index := known_number(number)) is None:
            self._is_guessing = True
        elif index:
            self._has_others = True
        if self._is_guessing and self._has_others:
            raise WrongShape(where, "the number of an answer", number)
        return not index


class WireIds:
    """The ids a service gave to the calls of one answer."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, value: object) -> str | None:
        """Return an id; None if there is none, or if an earlier call has it: its result would belong to both calls."""
        wire_id = known_text(value)
        if wire_id is None or wire_id in self._taken:
            return None
        self._taken.add(wire_id)
        return wire_id


def known_text(value: object) -> str | None:
    """Return a text describing an answer: an id, a model's name. None if it is empty or not text."""
    return value if type(value) is str and value else None


def known_number(value: object) -> int | None:
    """Return a whole number, even if written as ``"0"`` or ``0.0``, as some gateways do. None for anything else."""
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is str and value.isascii() and value.isdigit() and len(value) < 10:
        return int(value)
    return None


def known_count(table: object, key: str) -> int | None:
    """Return a count in a table, of tokens or the like. None if it is not a count, or there is no table."""
    value = table.get(key) if isinstance(table, Mapping) else None
    return int(value) if type(value) is int or (type(value) is float and value.is_integer()) else None


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key
