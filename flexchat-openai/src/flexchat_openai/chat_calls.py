"""Puts tool calls together from the fragments of a stream, for every known way of sending them wrong.

Regular: the key is ``index``; id and name come once, in the first fragment; arguments are concatenated.
"""

from __future__ import annotations

import json
from typing import Any

from flexchat.http.wire_json import finite, to_text

FUNCTION_CALL = "function_call"
"""The type, of ours, of a call in the form that was there before ``tool_calls``: one a message, without an id."""

_OTHER_TYPES = ("custom", FUNCTION_CALL)
_KNOWN = frozenset(("id", "type", "function", "custom", "index"))


class CallDraft:
    """A call being written.

    Attributes:
        pieces: Of the arguments, none of them empty.
        extra: What came beside the call, and goes back with it.
    """

    __slots__ = ("announced", "extra", "id", "name", "pieces", "position")

    def __init__(self, position: int) -> None:
        self.position = position
        self.id: str | None = None
        self.name = ""
        self.pieces: list[str] = []
        self.extra: dict[str, Any] = {}
        self.announced = False

    @property
    def arguments(self) -> str:
        """Return what has been written of the arguments."""
        return "".join(self.pieces)

    def is_complete(self) -> bool:
        """Whether the arguments are a whole JSON object, which nothing can follow."""
        if not self.pieces or not self.pieces[-1].rstrip().endswith("}"):
            return False
        try:
            return isinstance(json.loads(self.arguments), dict)
        except (ValueError, RecursionError):
            return False

    def add_name(self, name: str) -> None:
        """Take a name or a piece of one. Some servers repeat it, or what they have of it, in every fragment."""
        if name.startswith(self.name):
            self.name = name
        else:
            self.name += name


class CallTable:
    """The calls of one answer, in order."""

    def __init__(self) -> None:
        self.calls: list[CallDraft] = []
        self._by_index: dict[int, CallDraft] = {}
        self._by_id: dict[str, CallDraft] = {}

    def add(self, fragment: dict[str, Any], position: int, *, whole: bool = False) -> tuple[CallDraft, str] | None:
        """Take one element of ``tool_calls``; return its call and what it adds to the arguments.

        Args:
            position: Index the call's part would have, if the fragment begins a call.
            whole: The element is a whole call, not a fragment.
        """
        function, custom = fragment.get("function"), fragment.get("custom")
        if not isinstance(function, dict):
            function = {}
        call_id, name, arguments = fragment.get("id"), function.get("name"), function.get("arguments")
        if isinstance(custom, dict):  # a tool whose input is free text
            name, arguments = custom.get("name"), custom.get("input")
        call_id = str(call_id) if call_id or call_id == 0 else None
        name = name if isinstance(name, str) else ""
        # Some gateways send the object itself.
        text = arguments if isinstance(arguments, str) else arguments_text(arguments)
        if not (call_id or name or text):
            return None
        index = fragment.get("index")
        index = index if isinstance(index, int) else None
        call = None if whole else self._known(index, call_id, name, text)
        if call is None:
            call = CallDraft(position)
            self.calls.append(call)
        if index is not None:
            self._by_index[index] = call
        # The same id for a second call of one answer would make its results ambiguous: that call gets our own.
        if call_id and call.id is None and call_id not in self._by_id:
            call.id = call_id
            self._by_id[call_id] = call
        if name:
            call.add_name(name)
        if text:
            call.pieces.append(text)
        if fragment.get("type") in _OTHER_TYPES:
            call.extra["type"] = fragment["type"]
        # Gemini's layer refuses the next request if what came beside a call does not come back.
        if len(fragment) > 3:
            call.extra.update({k: v for k, v in fragment.items() if k not in _KNOWN and v is not None})
        return call, text

    def _known(self, index: int | None, call_id: str | None, name: str, text: str) -> CallDraft | None:
        """Return the call a fragment goes on with; None if it begins one."""
        if index is not None and index in self._by_index:
            call = self._by_index[index]
            if call_id and call.id and call_id != call.id:
                return self._by_id.get(call_id)
        elif call_id:
            if call_id not in self._by_id:
                return None
            call = self._by_id[call_id]
        elif index is not None or not self.calls or (name and self.calls[-1].pieces):
            return None
        else:
            call = self.calls[-1]
        # A second whole call under the first one's index or id.
        return None if name and text and call.is_complete() else call


def arguments_text(arguments: object) -> str:
    """Return arguments that came as JSON data, not as text, as text; none as an empty one."""
    if arguments is None:
        return ""
    try:
        return to_text(finite(arguments))
    except RecursionError:
        return "[]"  # no object, and so not run
