"""Our messages as the ``messages`` of a request.

A message is encoded once and its blocks stay with it (``message.memo``): a request in a long conversation is put
together from pieces.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import attrs
from flexchat.plugin import ToolCall
from flexchat.provider import (
    AssistantMessage,
    MediaPart,
    Message,
    OpaquePart,
    ProviderData,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    finite,
    to_bytes,
    utf8,
)

SCOPE = "anthropic"
"""Who may get back what this dialect received: see ProviderData."""

GO_ON = "Go on."
"""Said by the user where a model does not go on with an assistant's message by itself."""

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_THINKING = (b'{"type":"thinking"', b'{"type":"redacted_thinking"')
# Blocks of ours, in which a mark for the cache may stand; what the service said goes back as it was.
_MARKABLE = (b'{"type":"text"', b'{"type":"tool_result"', b'{"type":"image"', b'{"type":"document"')


class _Said(NamedTuple):
    """An assistant's message: its blocks, and its calls' ids by ours."""

    blocks: tuple[bytes, ...]
    ids: dict[str, str]


@attrs.define
class _Turn:
    """Everything one side says in a row. Results come first, or the service finds them missing."""

    role: str
    results: list[bytes] = attrs.field(factory=list)
    blocks: list[bytes] = attrs.field(factory=list)


def instructions_of(messages: Sequence[Message]) -> str:
    """Return all system messages' texts: they stand beside the conversation, wherever they stood in it."""
    return "\n\n".join([m.content for m in messages if type(m) is SystemMessage and m.content.strip()])


def container_of(messages: Sequence[Message], origin: str) -> str | None:
    """Return the container in which the service's code waits for the results of this conversation's last answer."""
    for message in reversed(messages):
        if type(message) is UserMessage:
            return None
        if type(message) is AssistantMessage:
            found = _of_message(message, origin).get("container")
            return found if isinstance(found, str) else None
    return None


def lacks_thinking(messages: Sequence[Message], origin: str) -> bool:
    """Say whether the tools' results at the end are for an answer that does not begin with thinking of this server.

    With thinking.type = "enabled" the service refuses that ("Expected `thinking` …, but found `tool_use`").
    """
    for message in reversed(messages):
        if type(message) is AssistantMessage:
            first = next((p for p in message.parts if not (type(p) is TextPart and not p.text.strip())), None)
            return not (type(first) is ReasoningPart and _is_ours(first.provider_data, origin))
        if type(message) is not ToolMessage:
            return False
    return False


class MessagesWriter:
    """Writes messages for one server.

    Args:
        origin: scheme://host[:port] of the server; what it once said goes back to it as it said it.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin

    def messages(
        self,
        messages: Sequence[Message],
        *,
        thinking: bool = True,
        prefill: bool = True,
        mark: Mapping[str, Any] | None = None,
    ) -> tuple[bytes, tuple[str, ...]]:
        """Return the JSON array, and what could not be honoured.

        Neighbours of one role are one message. An answer that was refused is left out, with its calls' results.

        Args:
            thinking: Whether thinking goes back to where it was thought.
            prefill: Whether the model goes on with an assistant's message at the end.
            mark: The ``cache_control`` of the last block; None for none.
        """
        turns: list[_Turn] = []
        ids: dict[str, str] = {}
        taken: set[str] = set()
        refused: set[str] = set()
        is_paused = False
        for message in messages:
            match message:
                case SystemMessage():
                    continue
                case ToolMessage():
                    if message.tool_call_id not in refused:
                        wire_id = ids.get(message.tool_call_id) or legal_id(message.tool_call_id)
                        _turn(turns, "user").results.append(_result(message, wire_id))
                case UserMessage():
                    is_paused = False
                    if blocks := self._user(message):
                        _turn(turns, "user").blocks += blocks
                case AssistantMessage():
                    stop = _of_message(message, self._origin).get("stop_reason")
                    if stop == "refusal":
                        refused.update(call.id for call in message.tool_calls)
                        continue
                    is_paused = stop == "pause_turn"
                    said = self._assistant(message, thinking, taken)
                    ids.update(said.ids)
                    taken.update(said.ids.values())
                    if said.blocks:
                        _turn(turns, "assistant").blocks += said.blocks
                case _:
                    assert_never(message)
        warnings = () if is_paused else _end(turns, prefill)
        if mark and turns:
            _mark(turns[-1], mark)
        return b"[" + b",".join(map(_encoded, turns)) + b"]", warnings

    def _user(self, message: UserMessage) -> tuple[bytes, ...]:
        blocks: tuple[bytes, ...] | None = message.memo.get(SCOPE)
        if blocks is None:
            made = [_media(part) for part in message.media]  # before the text, where the models read them best
            made += [{"type": "text", "text": message.content}] if message.content.strip() else []
            blocks = message.memo[SCOPE] = tuple(map(to_bytes, made))
        return blocks

    def _assistant(self, message: AssistantMessage, thinking: bool, taken: set[str]) -> _Said:
        key = f"{SCOPE} {self._origin} {thinking}"
        said: _Said | None = message.memo.get(key)
        if said is None:
            said = message.memo[key] = self._encode(message, thinking, ())
        if not taken.isdisjoint(said.ids.values()):
            # Other servers count from 0 in every answer; here ids are unique in a conversation.
            said = self._encode(message, thinking, taken)
        return said

    def _encode(self, message: AssistantMessage, thinking: bool, taken: Collection[str]) -> _Said:
        blocks: list[dict[str, Any]] = []
        ids: dict[str, str] = {}
        for part in message.parts:
            ours = _is_ours(part.provider_data, self._origin)
            if isinstance(part, ToolCall):
                ids[part.id] = wire_id = _wire_id(part, ours, {*taken, *ids.values()})
                rest = _block(part.provider_data) if ours else {}
                said = {"type": "tool_use", "id": wire_id, "name": part.name, "input": dict(part.arguments or {})}
                blocks.append(_and_rest(said, rest))
            elif (found := _said(part, ours, thinking)) is not None:
                blocks.append(found)
        return _Said(tuple(map(_block_bytes, blocks)), ids)


def legal_id(id: str) -> str:
    """Return an id of another provider's as the service takes it: the same always, and another for another."""
    return id if _LEGAL_ID.fullmatch(id) else "call_" + hashlib.sha256(utf8(id)).hexdigest()[:32]


def _wire_id(call: ToolCall, ours: bool, taken: Collection[str]) -> str:
    wire_id = legal_id(call.wire_id if ours and call.wire_id else call.id)
    if wire_id in taken:
        wire_id = legal_id(call.id)
    number = 1
    while wire_id in taken:
        number += 1
        wire_id = legal_id(f"{call.id}_{number}")
    return wire_id


def _said(
    part: TextPart | ReasoningPart | RefusalPart | MediaPart | OpaquePart, ours: bool, thinking: bool
) -> dict[str, Any] | None:
    """Return a part of the model's; None for one that does not go to this server."""
    rest = _block(part.provider_data) if ours else {}
    match part:
        case TextPart():
            citations = {"citations": [*part.citations]} if ours and part.citations else {}
            said = {"type": "text", "text": part.text, **citations}
            return _and_rest(said, rest) if part.text.strip() else None
        case ReasoningPart():
            if not (ours and thinking):
                return None
            is_data = part.redacted and rest.get("type") == "redacted_thinking"
            return rest if is_data else _and_rest({"type": "thinking", "thinking": part.text}, rest)
        case RefusalPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case MediaPart():
            return None  # an assistant's message takes none
        case OpaquePart():
            return rest or None
        case _:
            assert_never(part)


def _is_ours(data: ProviderData | None, origin: str) -> bool:
    return data is not None and data.scope == SCOPE and data.origin == origin


def _of_message(message: AssistantMessage, origin: str) -> Mapping[str, Any]:
    data = message.provider_data
    return data.data if data is not None and _is_ours(data, origin) else {}


def _block(data: ProviderData | None) -> dict[str, Any]:
    """Return what a block holds beyond what we read of it; of an opaque one, all."""
    found = data.data.get("block") if data is not None else None
    return dict(found) if isinstance(found, Mapping) else {}


def _and_rest(said: dict[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    return said | {name: value for name, value in rest.items() if name not in said} if rest else said


def _block_bytes(block: dict[str, Any]) -> bytes:
    try:
        return to_bytes(block)
    except ValueError:
        return to_bytes(finite(block))


def _result(message: ToolMessage, wire_id: str) -> bytes:
    held: tuple[str, bytes] | None = message.memo.get(SCOPE)
    if held is None or held[0] != wire_id:
        block: dict[str, Any] = {"type": "tool_result", "tool_use_id": wire_id}
        block |= {"content": message.content} if message.content.strip() else {}
        block |= {"is_error": True} if message.is_error else {}
        held = message.memo[SCOPE] = (wire_id, to_bytes(block))
    return held[1]


def _turn(turns: list[_Turn], role: str) -> _Turn:
    """Return the turn that role speaks in; the other's is over then."""
    if turns and turns[-1].role != role:
        _close(turns)
    if not turns or turns[-1].role != role:
        turns.append(_Turn(role))
    return turns[-1]


def _close(turns: list[_Turn]) -> None:
    """Take thinking from the end of an answer: the service refuses it as last block."""
    last = turns[-1]
    while last.role == "assistant" and last.blocks and last.blocks[-1].startswith(_THINKING):
        last.blocks.pop()
    if not (last.results or last.blocks):
        turns.pop()


def _end(turns: list[_Turn], prefill: bool) -> tuple[str, ...]:
    """Make the end right: an answer that is to be gone on with ends in a letter."""
    if turns:
        _close(turns)
    last = turns[-1] if turns else None
    if last is None or last.role != "assistant" or not last.blocks[-1].startswith(b'{"type":"text"'):
        return ()
    if not prefill:
        _turn(turns, "user").blocks.append(to_bytes({"type": "text", "text": GO_ON}))
        return (f"the model does not go on with an assistant's message: it is asked to ({GO_ON!r})",)
    block = json.loads(last.blocks[-1])
    last.blocks[-1] = to_bytes({**block, "text": block["text"].rstrip()})
    return ()


def _mark(turn: _Turn, mark: Mapping[str, Any]) -> None:
    held = turn.blocks or turn.results
    if held[-1].startswith(_MARKABLE):
        held[-1] = held[-1][:-1] + b',"cache_control":' + to_bytes(mark) + b"}"


_HEADS = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}


def _encoded(turn: _Turn) -> bytes:
    return _HEADS[turn.role] + b",".join([*turn.results, *turn.blocks]) + b"]}"


def _media(part: MediaPart) -> dict[str, Any]:
    if part.kind not in ("image", "document"):
        raise ProviderRequestError(f"the Messages API takes no {part.kind}", kind="unsupported_feature")
    source: dict[str, Any]
    if part.data is None:
        source = {"type": "url", "url": part.url}
    elif part.mime_type == "text/plain":
        source = {"type": "text", "media_type": "text/plain", "data": part.data.decode("utf-8", "replace")}
    else:
        data = base64.b64encode(part.data).decode("ascii")
        source = {"type": "base64", "media_type": part.mime_type, "data": data}
    title = {"title": part.name} if part.name and part.kind == "document" else {}
    return {"type": part.kind, "source": source, **title}
