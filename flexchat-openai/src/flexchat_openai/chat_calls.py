"""Assembles tool calls from the fragments of a stream, including every known way of sending them wrong.

Regular: the key is ``index``; id and name come once, in the first fragment; arguments are concatenated.
"""

from __future__ import annotations

import json
from typing import Any

from flexchat_sdk import WrongShape, finite, known_text, number_in, object_in, text_in, to_text

FUNCTION_CALL = "function_call"
"""Our type for a call in the form that preceded ``tool_calls``: one per message, without an id."""

_OTHER_TYPES = ("custom", FUNCTION_CALL)
_KNOWN = frozenset(("id", "type", "function", "custom", "index"))


class CallDraft:
    """A call being written.

    Attributes:
        position: Index of its part; -1 until it has one.
        index: Its place among the calls, if the server numbers them.
        is_named: Whether a name has come, even an empty one.
        is_whole: Whether its arguments came as an object: nothing can follow.
        pieces: Pieces of the arguments, none of them empty.
        extra: What came with the call and goes back with it.
    """

    __slots__ = ("announced", "extra", "id", "index", "is_named", "is_whole", "name", "pieces", "position")

    def __init__(self) -> None:
        self.position = -1
        self.id: str | None = None
        self.index: int | None = None
        self.name = ""
        self.is_named = self.is_whole = False
        self.pieces: list[str] = []
        self.extra: dict[str, Any] = {}
        self.announced = False

    @property
    def arguments(self) -> str:
        """Return the arguments written so far."""
        return "".join(self.pieces)

    def is_complete(self) -> bool:
        """Whether the arguments are a whole JSON object, which nothing can follow."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False

    def is_open(self) -> bool:
        """Whether the arguments are the beginning of a JSON object."""
        return self.arguments.lstrip().startswith("{") and not self.is_complete()

    def goes_on_with(self, text: str) -> bool:
        """Whether a piece of arguments sent as another call's may belong to this call: it does not begin an object."""
        begins_object = text.lstrip().startswith("{")
        return bool(text.strip()) and not begins_object and self.is_open()

    def add_name(self, name: str) -> None:
        """Take a name or a piece of one. Some servers repeat it, whole or in part, in every fragment."""
        if name.startswith(self.name):
            self.name = name
        else:
            self.name += name

    def check_single(self, path: str) -> None:
        """Check at the end that this is a single call, if its arguments cannot be read as one object.

        Raises:
            WrongShape: Its arguments belong to several calls.
        """
        text = self.arguments.lstrip()
        if not text.startswith("{"):
            return
        try:
            end = _decoder.raw_decode(text)[1]
        except (ValueError, RecursionError):
            return
        if text[end:].lstrip().startswith("{"):
            raise WrongShape(f"{path}.function.arguments", "one object", [])


class CallTable:
    """The calls of one answer, in order."""

    def __init__(self) -> None:
        self.calls: list[CallDraft] = []
        self._by_index: dict[int, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}

    def add(self, fragment: dict[str, Any], path: str, *, whole: bool = False) -> tuple[CallDraft, str] | None:
        """Take one element of ``tool_calls``; return its call and what it adds to the arguments.

        Args:
            path: Its place in the answer.
            whole: The element is a whole call, not a fragment.

        Raises:
            WrongShape: It cannot be read, or it is unclear which call it belongs to.
        """
        name, arguments = _name_and_arguments(fragment, path)
        text = arguments if isinstance(arguments, str) else arguments_text(arguments)
        call_id = _id(fragment.get("id"))
        if not (call_id or name or text or whole):
            return None
        index = None if whole else number_in(fragment, "index", path)
        call = None if whole else self._find(index, call_id, name, text, path)
        if call is None:
            call = CallDraft()
            self.calls.append(call)
        if index is not None:
            call.index = index
            self._by_index[index] = call
        # An id used for two calls of one answer would make the results ambiguous: the second call gets our own.
        if call_id and call.id is None and call_id not in self._by_id:
            call.id = call_id
        if call_id:
            self._by_id[call_id] = call
        if name is not None:
            call.is_named = True
            call.add_name(name)
        if text:
            if call.is_whole or (call.pieces and not isinstance(arguments, str)):
                raise WrongShape(f"{path}.function.arguments", "nothing after a complete object", arguments)
            call.pieces.append(text)
            call.is_whole = not isinstance(arguments, str)
        if fragment.get("type") in _OTHER_TYPES:
            call.extra["type"] = fragment["type"]
        # Gemini's layer refuses the next request unless everything that came with a call goes back.
        if len(fragment) > 3:
            call.extra.update({k: v for k, v in fragment.items() if k not in _KNOWN and v is not None})
        return call, text

    def _find(self, index: int | None, call_id: str | None, name: str | None, text: str, path: str) -> CallDraft | None:
        """Return the call that a fragment continues; None if it begins a new one."""
        call = self._by_index.get(index) if index is not None else None
        if call is not None and (not call_id or not call.id or call_id == call.id):
            return self._same(call, call_id, name, text, path)
        if call_id in self._by_id:
            same_id = self._by_id[call_id]
            if call is not None:
                return same_id
            # Some servers number the fragments, or repeat the name in each; others give every call the same id.
            if not name or same_id.goes_on_with(text):
                return same_id
            return None if index is not None else self._same(same_id, call_id, name, text, path)
        if not name and text.strip():
            return self._unnamed(call, index, call_id, text, path)
        if call is not None and call.goes_on_with(text):
            return call  # a new id for every piece
        return None

    def _same(self, call: CallDraft, call_id: str | None, name: str | None, text: str, path: str) -> CallDraft | None:
        """Return the call whose place a fragment names; None for a second call that a server puts in the same place."""
        if name and not (name.startswith(call.name) and not text) and call.is_complete():
            return None
        if name and call_id and not call.name.startswith(name) and not name.startswith(call.name):
            raise WrongShape(f"{path}.function.name", f"the name of the open call ({call.name})", name)
        return call

    def _unnamed(
        self, call: CallDraft | None, index: int | None, call_id: str | None, text: str, path: str
    ) -> CallDraft | None:
        """Return the call that arguments without a name belong to; they may have their own number or id."""
        last = call or (self.calls[-1] if self.calls else None)
        if last is None:
            return None
        if call is None and index is None and not call_id:
            # A numbered call may be continued by a fragment without a number if it is the only open one.
            if last.index is None or all(other.is_complete() for other in self.calls[:-1]):
                return last
        elif last.goes_on_with(text) or (not last.pieces and (call is not None or last.index is None or index is None)):
            return last
        raise WrongShape(f"{path}.index", "the number of an open call", index)


_decoder = json.JSONDecoder()


def _id(value: object) -> str | None:
    if type(value) is int:
        return str(value)
    return known_text(value)


def _name_and_arguments(fragment: dict[str, Any], path: str) -> tuple[str | None, str | dict[str, Any]]:
    """Return a fragment's name (None if missing) and its arguments: text, or the object some gateways send."""
    custom = object_in(fragment, "custom", path)
    if custom is not None:  # a tool whose input is free text
        place = f"{path}.custom"
        return _name(custom, place), text_in(custom, "input", place)
    function = object_in(fragment, "function", path, needed=True)
    if function is None:
        return None, ""
    place = f"{path}.function"
    arguments = function.get("arguments")
    if isinstance(arguments, dict):
        return _name(function, place), arguments
    return _name(function, place), text_in(function, "arguments", place)


def _name(function: dict[str, Any], place: str) -> str | None:
    return text_in(function, "name", place) if function.get("name") is not None else None


def arguments_text(arguments: object) -> str:
    """Return arguments that came as JSON data instead of text as text; an empty text for None."""
    if arguments is None:
        return ""
    try:
        return to_text(finite(arguments))
    except RecursionError:
        return "[]"  # not an object, and so not run
