"""A conversation in a service's words, and the one home of what is remembered of it.

A request in a long conversation is put together from pieces: a message is encoded once, and its bytes stay with it
(``message.memo``); a turn's tools are encoded once too. A memo is not part of a message's value, and dies with it.

Why they stay: the body of a request of Chat Completions behind 10, 50 and 100 tool iterations takes 15, 43 and 81 µs;
with every message encoded anew 164, 735 and 1,540; five tools encoded anew take some 20 more (CPython 3.11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..domain.messages import AssistantMessage, Message, ProviderData, SystemMessage, ToolCall, ToolMessage
from ..http.wire_json import finite, to_bytes, to_text, utf8
from .body import not_json

# Of our own ids; OpenAI's Chat Completions takes 40 characters, other services more.
_LONGEST_ID = 40

Said = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""What a message is in a service's words: an object of the array, several of them, or None for nothing."""
# The bytes of a message and what they depend on beside it: the ids of an assistant's calls there, by ours, or the id
# that a tool message answers.
_Entry = tuple[bytes, Any]


def short_id(call_id: str) -> str:
    """Return an id of ours in at most 40 characters."""
    if len(call_id) > _LONGEST_ID:
        return "call_" + hashlib.sha256(utf8(call_id)).hexdigest()[:32]
    return call_id


class Ids:
    """The ids of calls in one message, and what of it the service said itself.

    Args:
        scope, origin: Of the History.
        answered: For a ToolMessage, the id of the call it answers.
        renamed: The service's ids are not used: an earlier message of the conversation has the same.
    """

    def __init__(
        self, scope: str, origin: str, own_id: Callable[[str], str], *, answered: str = "", renamed: bool = False
    ) -> None:
        self._scope, self._origin, self._own_id, self._renamed = scope, origin, own_id, renamed
        self.answered = answered
        """The id of the call that this ToolMessage answers, in the service's words."""
        self.sent: dict[str, str] = {}
        """The ids of this message's calls, by ours."""

    def of(self, call: ToolCall, wire_id: str | None = None) -> str:
        """Return the id of a call: the one the service gave it, else ours.

        Args:
            wire_id: The id to use; None for the one above.
        """
        if wire_id is None:
            known = None if self._renamed else call.wire_id
            wire_id = known if known and self.is_ours(call.provider_data) else self._own_id(call.id)
        self.sent[call.id] = wire_id
        return wire_id

    def is_ours(self, data: ProviderData | None) -> bool:
        """Say whether data comes from this service."""
        return data is not None and data.scope == self._scope and data.origin == self._origin

    def ours(self, data: ProviderData | None) -> Mapping[str, Any]:
        """Return the data if it comes from this service, to which alone it goes back; else an empty table."""
        return data.data if data is not None and self.is_ours(data) else {}

    def arguments(self, call: ToolCall) -> str:
        """Return a call's arguments as text: the model's own spelling, right or wrong, if it spoke this API."""
        raw, data = call.raw_arguments, call.provider_data
        if raw is not None and data is not None and data.scope == self._scope:
            return raw if raw.strip() else "{}"
        if call.arguments is None:
            return "{}"
        try:
            return to_text(call.arguments)
        except ValueError:
            return to_text(finite(call.arguments))


class History:
    """Puts conversations into a service's words.

    Args:
        scope: The API: see ProviderData.
        origin: scheme://host[:port] of the service; what it once said goes back to it as it said it.
        say: Puts one message into the service's words.
        variant: What the words depend on beside the message and these: a setting.
        own_id: Makes an id of ours into one the service takes.
    """

    def __init__(
        self,
        scope: str,
        origin: str,
        say: Callable[[Message, Ids], Said],
        *,
        variant: str = "",
        own_id: Callable[[str], str] = short_id,
    ) -> None:
        self._scope, self._origin, self._say, self._own_id = scope, origin, say, own_id
        self._key = f"{scope} {origin} {variant}"

    def array(self, messages: Sequence[Message]) -> bytes:
        """Return a conversation as the JSON array of a request.

        Raises:
            ProviderRequestError: It cannot be said.
        """
        try:
            return b"[" + b",".join(self.pieces(messages)) + b"]"
        except (TypeError, ValueError, RecursionError) as error:
            raise not_json(error) from error

    def pieces(self, messages: Sequence[Message], *, renaming: bool = False) -> list[bytes]:
        """Return what goes between the brackets, message by message; what says nothing is left out.

        Args:
            renaming: Calls whose ids came before get ours; set where that is found out.
        """
        key = self._key
        pieces: list[bytes] = []
        calls: dict[str, str] = {}
        used: set[str] = set()
        for message in messages:
            entry: _Entry | None = message.memo.get(key)
            if type(message) is ToolMessage:
                answered = calls.get(message.tool_call_id) or self._own_id(message.tool_call_id)
                if entry is None or entry[1] != answered:
                    entry = message.memo[key] = self._encoded(message, self._ids(answered=answered))
            elif entry is None:
                entry = message.memo[key] = self._encoded(message, self._ids())
            if type(message) is AssistantMessage and entry[1]:
                if renaming and not used.isdisjoint(entry[1].values()):
                    entry = self._renamed(message)
                calls.update(entry[1])
                used.update(entry[1].values())
            if entry[0]:
                pieces.append(entry[0])
        if not renaming and len(used) < len(calls):
            return self.pieces(messages, renaming=True)
        return pieces

    def _renamed(self, message: AssistantMessage) -> _Entry:
        """Encode a message with our ids for its calls: some servers count from 0 in every answer."""
        key = self._key + " own ids"
        entry: _Entry | None = message.memo.get(key)
        if entry is None:
            entry = message.memo[key] = self._encoded(message, self._ids(renamed=True))
        return entry

    def _encoded(self, message: Message, ids: Ids) -> _Entry:
        return replayed(self._say(message, ids)), ids.answered or ids.sent

    def _ids(self, **given: Any) -> Ids:
        return Ids(self._scope, self._origin, self._own_id, **given)


class WireTools:
    """The tools array of a turn, encoded once: all its requests bring the same tuple.

    Args:
        name_of: Returns the name of a tool in the wire format.
    """

    def __init__(self, name_of: Callable[[Mapping[str, Any]], object] = lambda tool: tool.get("name")) -> None:
        self._name_of = name_of
        self._made: dict[tuple[int, Sequence[str] | None], tuple[Sequence[Mapping[str, Any]], bytes]] = {}

    def array(self, tools: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None) -> bytes:
        """Return the tools of those names, None for all, as JSON.

        Raises:
            ProviderRequestError: They cannot be said.
        """
        key = id(tools), names
        found = self._made.get(key)
        if found is None or found[0] is not tools:
            if len(self._made) >= 16:
                self._made.clear()
            shown = tools if names is None else [tool for tool in tools if self._name_of(tool) in names]
            try:
                # The tuple is held, so that its id cannot come to belong to another.
                found = self._made[key] = (tools, to_bytes(shown))
            except (TypeError, ValueError, RecursionError) as error:
                raise not_json(error) from error
        return found[1]


def leading_instructions(messages: Sequence[Message]) -> tuple[int, str]:
    """Return how many system messages stand at the start, and their text: some services take only one."""
    texts: list[str] = []
    count = 0
    for message in messages:
        if type(message) is not SystemMessage:
            break
        count += 1
        if message.content:
            texts.append(message.content)
    return count, "\n\n".join(texts)


def replayed(said: Said) -> bytes:
    """Return as JSON what a service may have said: null for numbers that are no JSON, which some write."""
    if said is None:
        return b""
    if not isinstance(said, Mapping):
        return b",".join([replayed(each) for each in said])
    try:
        return to_bytes(said)
    except ValueError:
        return to_bytes(finite(said))
