"""A conversation in a service's format, and the only place where its encoding is cached.

A request in a long conversation is assembled from pieces: each message is encoded once, and its bytes stay with it
(``message.memo``); so are a turn's tools. A memo is not part of a message's value, and is freed with the message.

Why cache: building a Chat Completions body after 10, 50 and 100 tool iterations takes 15, 43 and 81 µs; re-encoding
every message takes 164, 735 and 1,540 µs; re-encoding five tools adds some 20 µs (CPython 3.11).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import attrs
from flexchat.domain.media import describe_media, with_accepted_media
from flexchat.domain.messages import (
    AssistantMessage,
    MediaPart,
    Message,
    ProviderData,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from .body import not_json
from .http.pieces import Json, encode_with_media, join
from .http.wire_json import finite, to_bytes, to_text, utf8

# Of our own ids; OpenAI's Chat Completions accepts 40 characters, other services more.
_MAX_ID_CHARS = 40
# What every service accepts in a history.
LEGAL_NAME = r"[A-Za-z0-9_-]{1,64}"

WireMessage = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None
"""A message in a service's format: an object of the array, several of them, or None for nothing."""
Entry = tuple[Any, Any]
"""A message in JSON, b"" for nothing (or what ``encode`` made of it), and what else that depends on: for an assistant's
message, the service's ids of its calls, by ours; for a tool message, the id of the call it answers."""


def short_id(call_id: str) -> str:
    """Return one of our ids shortened to at most 40 characters."""
    if len(call_id) > _MAX_ID_CHARS:
        return "call_" + hashlib.sha256(utf8(call_id)).hexdigest()[:32]
    return call_id


def replayed(message: WireMessage) -> Json:
    """Encode data a service sent, to send it back; numbers that JSON lacks, such as NaN, become null.

    Media in it, as Base64, are encoded while they are sent.
    """
    if message is None:
        return b""
    if not isinstance(message, Mapping):
        return join(b",", [replayed(each) for each in message])
    try:
        return to_bytes(message)
    except (TypeError, ValueError):
        return encode_with_media(finite(message))


class Ids:
    """The ids of calls in one message, and which data in it came from the service itself.

    Args:
        scope, origin: Those of the History.
        answered: For a ToolMessage, how its answer refers to the call.
        taken: The ids of earlier messages, if one of this message's is among them; then the service's are not used.
    """

    def __init__(
        self,
        scope: str,
        origin: str,
        own_id: Callable[[str], str],
        *,
        answered: Any = "",
        used: Collection[Hashable] = (),
    ) -> None:
        self._scope, self._origin, self._own_id, self._renamed = scope, origin, own_id, bool(used)
        self.answered = answered
        """The service's reference to the call this ToolMessage answers: its id, or what was passed to ``note``."""
        self.sent: dict[str, Hashable] = {}  # the ids of this message's calls, or what was noted for them, by our ids
        self.taken = {*used}  # ids that another call already has, in this message or an earlier one

    def of(self, call: ToolCall) -> str:
        """Return the id of a call: the one the service gave it, or else ours."""
        service_id = None if self._renamed else call.wire_id
        wire_id = service_id if service_id and self.is_ours(call.provider_data) else self._own_id(call.id)
        self.note(call, wire_id)
        return wire_id

    def note(self, call: ToolCall, reference: Hashable) -> None:
        """Store a reference to use instead of a call's id in its answer; no two calls have the same."""
        self.sent[call.id] = reference
        self.taken.add(reference)

    def is_ours(self, data: ProviderData | None) -> bool:
        """Return whether data comes from this service."""
        return data is not None and data.scope == self._scope and data.origin == self._origin

    def ours(self, data: ProviderData | None) -> Mapping[str, Any]:
        """Return the data if it comes from this service, the only one it goes back to; otherwise an empty table."""
        return data.data if data is not None and self.is_ours(data) else {}

    def arguments(self, call: ToolCall) -> str:
        """Return a call's arguments as text: as the model wrote them, right or wrong, if it used this API."""
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
    """Converts conversations to a service's format.

    Args:
        scope: The API: see ProviderData.
        origin: scheme://host[:port] of the service; its own data is sent back to it unchanged.
        say: Converts one message to the service's format.
        variant: Other values that the conversion depends on, such as a setting.
        own_id: Converts one of our ids into one the service accepts.
        encode: Converts the result of ``say`` into the cached form, for a service whose messages are not one array.
        legal_name: Pattern of the call names that the service accepts in a history; None for any. An invented name is
            reduced to letters, digits, _ and -.
    """

    def __init__(
        self,
        scope: str,
        origin: str,
        say: Callable[[Message, Ids], WireMessage],
        *,
        variant: str = "",
        own_id: Callable[[str], str] = short_id,
        encode: Callable[[WireMessage], Any] = replayed,
        legal_name: str | None = LEGAL_NAME,
    ) -> None:
        self._legal_name = None if legal_name is None else re.compile(legal_name)
        self._scope, self._origin, self._say, self._own_id, self._encode = scope, origin, say, own_id, encode
        self._key = f"{scope} {origin} {variant}"

    def array(self, messages: Sequence[Message]) -> Json:
        """Return a conversation as a request's JSON array.

        Raises:
            ProviderRequestError: It cannot be expressed.
        """
        return b"[" + join(b",", self.pieces(messages)) + b"]"

    def pieces(self, messages: Sequence[Message]) -> list[Any]:
        """Return the encoded messages, the empty ones left out. Raises the same as array."""
        return [piece for piece, _ in self.entries(messages) if piece]

    def entries(self, messages: Sequence[Message], *, renaming: bool = False) -> list[Entry]:
        """Return each message's entry, for a service that wants them grouped. Raises the same as array.

        Args:
            renaming: Whether calls whose ids occurred before get new ones; set once that is found to be so.
        """
        key = self._key
        entries: list[Entry] = []
        calls: dict[str, Hashable] = {}
        references: list[Hashable] = []
        used: set[Hashable] = set()
        for message in messages:
            entry: Entry | None = message.memo.get(key)
            if type(message) is ToolMessage:
                answered = calls.get(message.tool_call_id) or self._own_id(message.tool_call_id)
                if entry is None or entry[1] != answered:
                    entry = message.memo[key] = self._encoded(message, self._ids(answered=answered))
            elif entry is None:
                entry = message.memo[key] = self._encoded(message, self._ids())
            if type(message) is AssistantMessage and (ids := entry[1]):
                if renaming:
                    if not used.isdisjoint(ids.values()):
                        entry = self._renamed(message, used)
                        ids = entry[1]
                    used.update(ids.values())
                calls.update(ids)
                references += ids.values()
            entries.append(entry)
        if not renaming and len(set(references)) < len(references):
            return self.entries(messages, renaming=True)
        return entries

    def _renamed(self, message: AssistantMessage, used: set[Hashable]) -> Entry:
        """Encode a message with our ids for its calls: some servers count from 0 in every answer."""
        key = self._key + " own ids"
        entry: Entry | None = message.memo.get(key)
        if entry is None or not used.isdisjoint(entry[1].values()):
            entry = message.memo[key] = self._encoded(message, self._ids(used=used))
        return entry

    def _encoded(self, message: Message, ids: Ids) -> Entry:
        try:
            message_to_send = message if self._legal_name is None else _with_legal_names(message, self._legal_name)
            return self._encode(self._say(message_to_send, ids)), ids.answered or ids.sent
        except (TypeError, ValueError, RecursionError) as error:
            raise not_json(error) from error

    def _ids(self, **options: Any) -> Ids:
        return Ids(self._scope, self._origin, self._own_id, **options)


def _with_legal_names(message: Message, legal: re.Pattern[str]) -> Message:
    """Return a message whose calls have names that the service accepts: a model may invent "f<|channel|>"."""

    def make_legal(name: str) -> str:
        return name if legal.fullmatch(name) else re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "_"

    if type(message) is AssistantMessage:
        if not all(legal.fullmatch(call.name) for call in message.tool_calls):
            parts = [attrs.evolve(p, name=make_legal(p.name)) if isinstance(p, ToolCall) else p for p in message.parts]
            return attrs.evolve(message, parts=tuple(parts))
    elif type(message) is ToolMessage and not legal.fullmatch(message.name):
        return attrs.evolve(message, name=make_legal(message.name))
    return message


T = TypeVar("T")


class PerTools(Generic[T]):
    """A cache of values computed from a turn's tools; all requests of a turn pass the same tuple.

    Args:
        make: Computes the value from the tools and the other arguments of ``of``.
    """

    def __init__(self, make: Callable[..., T]) -> None:
        self._make = make
        self._cache: dict[tuple[Hashable, ...], tuple[Sequence[Mapping[str, Any]], T]] = {}

    def of(self, tools: Sequence[Mapping[str, Any]], *more: Hashable) -> T:
        """Return the cached value for these tools, computing it on first use.

        Args:
            more: Other values it depends on, passed to ``make``.

        Raises:
            ProviderRequestError: The tools cannot be expressed in the service's format.
        """
        key = (id(tools), *more)
        entry = self._cache.get(key)
        if entry is None or entry[0] is not tools:
            if len(self._cache) >= 16:
                self._cache.clear()
            try:
                # The tuple is held so that its id cannot be reused for another.
                entry = self._cache[key] = (tools, self._make(tools, *more))
            except (TypeError, ValueError, RecursionError) as error:
                raise not_json(error) from error
        return entry[1]


class WireTools:
    """The tools array of a turn, encoded once.

    Args:
        name_of: Returns the name of a tool in the wire format.
    """

    def __init__(self, name_of: Callable[[Mapping[str, Any]], object] = lambda tool: tool.get("name")) -> None:
        self._name_of = name_of
        self._arrays = PerTools(self._encoded)

    def array(self, tools: Sequence[Mapping[str, Any]], names: Sequence[str] | None = None) -> bytes:
        """Return the tools with these names, None for all, as JSON. Raises the same as PerTools.of."""
        return self._arrays.of(tools, names)

    def _encoded(self, tools: Sequence[Mapping[str, Any]], names: Sequence[str] | None) -> bytes:
        return to_bytes(tools if names is None else [tool for tool in tools if self._name_of(tool) in names])


def media_behind_results(messages: Sequence[Message], takes: Callable[[MediaPart], bool]) -> Sequence[Message]:
    """Move the media of tool results into a user message that follows all results of an answer.

    For services whose results are text. The message names the tool that returned each part.

    Args:
        takes: Whether a user message may hold a part; other parts are described in the result.
    """
    if not [message for message in messages if type(message) is ToolMessage and message.media]:
        return messages
    sent: list[Message] = []
    waiting: list[ToolMessage] = []
    for message in messages:
        if type(message) is ToolMessage and message.media:
            message = with_accepted_media(message, takes)
            waiting += [message] if message.media else []
        elif waiting and type(message) is not ToolMessage:
            sent.append(_media_of(waiting))
            waiting = []
        sent.append(message)
    return [*sent, _media_of(waiting)] if waiting else sent


def _media_of(results: Sequence[ToolMessage]) -> UserMessage:
    """Return the message, made once for the same results."""
    entry: tuple[Sequence[ToolMessage], UserMessage] | None = results[0].memo.get("media behind results")
    others = results[1:]  # without the one that holds it: a cycle would keep all of them
    if entry is None or len(entry[0]) != len(others) or any(a is not b for a, b in zip(entry[0], others, strict=True)):
        descriptions = [f"{result.name}: {describe_media(part)}" for result in results for part in result.media]
        lines = [f"{number}. {each}" for number, each in enumerate(descriptions, 1)]
        text = "\n".join(["[Not from the user: what the tools returned, in this order]", *lines])
        media = tuple([part for result in results for part in result.media])
        entry = results[0].memo["media behind results"] = (others, UserMessage(content=text, media=media))
    return entry[1]


def leading_instructions(messages: Sequence[Message]) -> tuple[int, str]:
    """Join the leading system messages, for services that accept one; return their number and the text."""
    texts: list[str] = []
    count = 0
    for message in messages:
        if type(message) is not SystemMessage:
            break
        count += 1
        if message.content:
            texts.append(message.content)
    return count, "\n\n".join(texts)
