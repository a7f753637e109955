"""Deferred tools: called, authorised and checked like all others, but left out of requests until they are found."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ..domain import AssistantMessage, Message, ToolCall, ToolMessage
from .registry import ToolRegistry

FINDER = "find_tools"
"""Name of the tool that finds deferred ones, which a package offers."""


class FoundTools:
    """The deferred tools that a conversation has found, read from its messages alone.

    So a resumed turn, and a caller who keeps the messages, lead to the same requests.

    Args:
        offer: The tools of the turn.
        max_found: How many are in a request; beyond that, the one that was not used for longest is left out again.
    """

    def __init__(self, offer: ToolRegistry, max_found: int) -> None:
        self._offer, self._max_found = offer, max_found
        # In the order in which they were found, which is that of the request; with the place of their last use.
        self._used: dict[str, tuple[int, int]] = {}
        self._read = 0

    def after(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """Return the names of the found tools after these messages, which continue those of the last time."""
        for place in range(self._read, len(messages)):
            message = messages[place]
            if type(message) is ToolMessage and message.loads:
                for rank, name in enumerate(message.loads):
                    if name in self._offer.deferred:
                        self._used[name] = place, -rank
            elif type(message) is AssistantMessage and self._used:
                for call in message.tool_calls:
                    if (name := self._offer.name_of(call.name)) in self._used:
                        self._used[name] = place, 0
            while len(self._used) > self._max_found:
                del self._used[min(self._used, key=self._used.__getitem__)]
        self._read = len(messages)
        return tuple(self._used)

    def in_request(self, messages: Sequence[Message]) -> tuple[str, ...]:
        """Return the names of the tools in the request with these messages; those that were found come last."""
        return self._offer.initial_names() + self.after(messages)

    def unfound(self, calls: Sequence[ToolCall], messages: Sequence[Message]) -> dict[int, str]:
        """Return the errors of calls whose tools the request did not have, by index: the schema, once for each tool."""
        found, reasons, names = self.after(messages), dict[int, str](), set[str]()
        for index, call in enumerate(calls):
            name = self._offer.name_of(call.name)
            if name not in self._offer.deferred or name in found:
                continue
            tool = self._offer.get(name)
            assert tool is not None
            schema = json.dumps(tool.parameters, ensure_ascii=False, default=repr)
            which = "that of the other call" if name in names else schema
            reasons[index] = f"Not executed: its parameters were not known. Call it again; their schema is {which}"
            names.add(name)
        return reasons
