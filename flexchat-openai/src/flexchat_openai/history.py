"""What the writers of both APIs share: a message is encoded once and its bytes stay with it (``message.memo``).

A request in a long conversation is put together from such pieces, and from a turn's tools array, encoded once too.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs
from flexchat.http.wire_json import finite, to_bytes, to_text, utf8
from flexchat.plugin import (
    AssistantMessage,
    ChatOptions,
    Message,
    ProviderData,
    ProviderRequestError,
    SystemMessage,
    ToolCall,
    ToolMessage,
)

from .tool_choice import shown_tools, tool_name

OPENAI_HOST = "api.openai.com"

# A message's bytes, and what they depend on beside the message: an assistant's calls by our id and the server's, or
# the id a tool message answers.
Entry = tuple[bytes, Any]
# Of our own ids; Chat Completions takes 40 characters, the Responses API 64.
_LONGEST_ID = 40


class HistoryWriter(ABC):
    """Writes requests for one server in one API, which a subclass knows.

    Args:
        origin: scheme://host[:port] of the server; what it once said goes back to it as it said it.
        scope: The API: see ProviderData.
        extra: Merged into every body.
    """

    _history_field: str

    def __init__(
        self,
        origin: str,
        scope: str,
        *,
        system_role: Literal["system", "developer"] = "system",
        parallel_tool_calls: bool | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._origin = origin
        self._scope = scope
        self._system_role = system_role
        self._parallel_tool_calls = parallel_tool_calls
        self._extra = dict(extra or {})
        self._is_openai = origin.partition("://")[2] == OPENAI_HOST
        # Mistral takes no other ids than nine letters and digits.
        self._short_ids = origin.endswith("mistral.ai")
        self._memo_key = f"{scope} {origin} {system_role}"
        self._tools: dict[tuple[int, tuple[str, ...] | None], tuple[tuple[Mapping[str, Any], ...], bytes]] = {}

    def body(
        self, messages: Sequence[Message], model: str, options: ChatOptions, *, stream: bool
    ) -> tuple[bytes, tuple[str, ...]]:
        """Return the body and what could not be honoured, one sentence each.

        Raises:
            ProviderRequestError: Something in it cannot be said in this API.
        """
        start, instructions = _leading_instructions(messages)
        try:
            fields, warnings = self._fields(instructions, model, options, stream)
            parts = [to_bytes(fields)[:-1]]
            if self._history_field not in fields:
                history = self._history(messages, start, instructions)
                parts += (b',"', self._history_field.encode(), b'":[', b",".join(history), b"]")
            if options.tools and "tools" not in fields:
                names = shown_tools(options, self._is_openai) if options.allowed_tools else None
                parts += (b',"tools":', self._tools_array(options.tools, names))
            parts.append(b"}")
            return b"".join(parts), warnings
        except (TypeError, ValueError, RecursionError) as error:
            text = f"the request cannot be written as JSON: {error}"
            raise ProviderRequestError(text, model=model) from error

    def messages(self, messages: Sequence[Message]) -> list[bytes]:
        """Return the elements of the array the conversation goes into."""
        return self._history(messages, *_leading_instructions(messages))

    @abstractmethod
    def _fields(
        self, instructions: str, model: str, options: ChatOptions, stream: bool
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Return all but the conversation and the tools, and what could not be honoured."""

    @abstractmethod
    def _history(self, messages: Sequence[Message], start: int, instructions: str) -> list[bytes]:
        """Return the conversation; instructions are the text of the first start messages."""

    @abstractmethod
    def _encoded(self, message: Message) -> Entry:
        """Encode a message that is no ToolMessage; an assistant's with its calls' wire ids, by our ids."""

    @abstractmethod
    def _answered(self, message: ToolMessage, wire_id: str) -> Entry:
        """Encode the answer to the call of that wire id."""

    def _pieces(self, messages: Sequence[Message], start: int, *, renaming: bool = False) -> list[bytes]:
        """Return the messages from start on, encoded.

        Args:
            renaming: Calls whose ids came before get ours; set where that is found out.
        """
        key = self._memo_key
        pieces: list[bytes] = []
        calls: dict[str, str] = {}
        used: set[str] = set()
        for message in messages[start:] if start else messages:
            entry: Entry | None = message.memo.get(key)
            if type(message) is ToolMessage:
                wire_id = calls.get(message.tool_call_id) or self._own_id(message.tool_call_id)
                if entry is None or entry[1] != wire_id:
                    entry = message.memo[key] = self._answered(message, wire_id)
            elif entry is None:
                entry = message.memo[key] = self._encoded(message)
            if type(message) is AssistantMessage and entry[1]:
                if renaming and not used.isdisjoint(entry[1].values()):
                    entry = self._renamed(message)
                calls.update(entry[1])
                used.update(entry[1].values())
            if entry[0]:
                pieces.append(entry[0])
        if not renaming and len(used) < len(calls):
            return self._pieces(messages, start, renaming=True)
        return pieces

    def _renamed(self, message: AssistantMessage) -> Entry:
        """Encode a message with our ids for its calls: some servers count from 0 in every answer."""
        key = self._memo_key + " own ids"
        entry: Entry | None = message.memo.get(key)
        if entry is None:
            parts = [attrs.evolve(p, wire_id=None) if type(p) is ToolCall else p for p in message.parts]
            entry = message.memo[key] = self._encoded(AssistantMessage(parts=tuple(parts)))
        return entry

    def _tools_array(self, tools: tuple[Mapping[str, Any], ...], names: tuple[str, ...] | None = None) -> bytes:
        """Return the tools of those names, None for all, encoded: a turn's requests all bring the same tuple."""
        key = id(tools), names
        found = self._tools.get(key)
        if found is None or found[0] is not tools:
            if len(self._tools) >= 16:
                self._tools.clear()
            shown = tools if names is None else [tool for tool in tools if tool_name(tool) in names]
            # The tuple is held, so that its id cannot come to belong to another.
            found = self._tools[key] = (tools, to_bytes(shown))
        return found[1]

    def _wire_id(self, call: ToolCall) -> str:
        if call.wire_id and self._is_ours(call.provider_data):
            return call.wire_id
        return self._own_id(call.id)

    def _own_id(self, call_id: str) -> str:
        if self._short_ids:
            return hashlib.sha256(utf8(call_id)).hexdigest()[:9]
        if len(call_id) > _LONGEST_ID:
            return "call_" + hashlib.sha256(utf8(call_id)).hexdigest()[:32]
        return call_id

    def _is_ours(self, data: ProviderData | None) -> bool:
        return data is not None and data.scope == self._scope and data.origin == self._origin

    def _arguments(self, call: ToolCall) -> str:
        """Return a call's arguments: the model's own spelling, right or wrong, if it spoke this API."""
        raw, data = call.raw_arguments, call.provider_data
        if raw is not None and data is not None and data.scope == self._scope:
            return raw if raw.strip() else "{}"
        if call.arguments is None:
            return "{}"
        try:
            return to_text(call.arguments)
        except ValueError:
            return to_text(finite(call.arguments))


def replayed(value: Mapping[str, Any]) -> bytes:
    """Return as JSON what a server may have said: null for numbers that are no JSON, which some servers write."""
    try:
        return to_bytes(value)
    except ValueError:
        return to_bytes(finite(value))


def _leading_instructions(messages: Sequence[Message]) -> tuple[int, str]:
    """Return how many system messages stand at the start, and their text: some servers take only one."""
    texts: list[str] = []
    count = 0
    for message in messages:
        if type(message) is not SystemMessage:
            break
        count += 1
        if message.content:
            texts.append(message.content)
    return count, "\n\n".join(texts)
