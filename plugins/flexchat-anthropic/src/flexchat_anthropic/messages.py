"""Conversion of messages to the ``messages`` of a request, where neighbours of one role become one message."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, assert_never

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    AssistantPart,
    Base64,
    History,
    Ids,
    Json,
    MediaLimits,
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
    WireMessage,
    join,
    replayed,
    sent_arguments,
    to_bytes,
    unshown,
    utf8,
    with_accepted_media,
)

from .dialects import LOOSE
from .models import traits_of

SCOPE = "anthropic"
"""Scope of what this dialect received and may get back: see ProviderData."""

# What a tool's result may hold besides text. Source: Anthropic's pages on vision ("5 MB per image", of its Base64) and
# on PDF support; its SDK's ToolResultBlockParam, Base64ImageSourceParam and DocumentBlockParam.
_IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_DOCUMENTS = frozenset({"application/pdf", "text/plain"})
_MAX_IMAGE_BYTES = 5 * 1024 * 1024 * 3 // 4
MAX_REQUEST_BYTES = 32_000_000 * 3 // 4 - 1_000_000  # of its media, before Base64; the rest is for texts
# Source: platform.claude.com/docs/en/build-with-claude/vision ("General limits") and pdf-support, November 2026. Models
# with a context of 200,000 tokens take 100 images and pages, all others 600.
_LIMITS = MediaLimits(
    types={**dict.fromkeys(sorted(_IMAGES), _MAX_IMAGE_BYTES), "application/pdf": None, "text/plain": None},
    max_count=100,
    max_total_bytes=MAX_REQUEST_BYTES,
    max_side=8000,
    many_images=20,
    max_side_of_many=2000,
    max_pages=100,
    source="https://platform.claude.com/docs/en/build-with-claude/vision",
)
_NO_MEDIA = MediaLimits(types={}, source=_LIMITS.source)

GO_ON = "Go on."
"""Said by the user where a model does not go on with an assistant's message by itself."""

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_THINKING = (b'{"type":"thinking"', b'{"type":"redacted_thinking"')
# Blocks that may carry a cache marker; blocks from the service are sent back unchanged.
_MARKABLE = (b'{"type":"text"', b'{"type":"tool_result"', b'{"type":"image"', b'{"type":"document"')


class _Blocks(NamedTuple):
    """A message, encoded."""

    role: str
    are_results: bool
    blocks: tuple[Json, ...]


@attrs.define
class _Turn:
    """Consecutive messages of one role. Results come first, because the service otherwise reports them as missing."""

    role: str
    results: list[Json] = attrs.field(factory=list)
    blocks: list[Json] = attrs.field(factory=list)


def instructions_of(messages: Sequence[Message]) -> str:
    """Return all system messages' texts: they stand beside the conversation, wherever they stood in it."""
    return "\n\n".join([m.content for m in messages if type(m) is SystemMessage and m.content.strip()])


def container_of(messages: Sequence[Message], origin: str) -> str | None:
    """Return the container in which the service's code waits for the results of this conversation's last answer."""
    for message in reversed(messages):
        if type(message) is UserMessage:
            return None
        if type(message) is AssistantMessage:
            container = _of_message(message, origin).get("container")
            return container if isinstance(container, str) else None
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


def fits_in_result(part: MediaPart) -> bool:
    """Return whether a tool's result may hold this part."""
    if part.data is None:
        return False
    return part.mime_type in _DOCUMENTS or (part.mime_type in _IMAGES and len(part.data) <= _MAX_IMAGE_BYTES)


def media_limits_of(model: str) -> MediaLimits:
    """Describe the media that a model accepts; see LimitedProvider."""
    traits = traits_of(model)
    if not traits.media:
        return _NO_MEDIA
    return attrs.evolve(_LIMITS, max_count=traits.max_media, max_pages=traits.max_media)


class MessagesWriter:
    """Writes messages for one server.

    Args:
        origin: scheme://host[:port] of the server; its own answers are sent back to it unchanged.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        history = functools.partial(History, SCOPE, origin, own_id=legal_id, encode=_in_blocks)
        self._history = history(functools.partial(_encode, thinking=True))
        self._without_thinking = history(functools.partial(_encode, thinking=False), variant="without thinking")

    def messages(
        self,
        messages: Sequence[Message],
        *,
        thinking: bool = True,
        prefill: bool = True,
        mark: Mapping[str, Any] | None = None,
    ) -> tuple[Json, tuple[str, ...]]:
        """Return the JSON array, and what could not be honoured.

        Neighbours of one role are one message. An answer that was refused is left out, with its calls' results.

        Args:
            thinking: Whether thinking goes back to where it was thought.
            prefill: Whether the model goes on with an assistant's message at the end.
            mark: The ``cache_control`` of the last block; None for none.
        """
        sent, is_paused = self._sent(messages)
        turns: list[_Turn] = []
        for role, are_results, blocks in (self._history if thinking else self._without_thinking).pieces(sent):
            turn = _turn(turns, role)
            if are_results:
                turn.results += blocks
            else:
                turn.blocks += blocks
        warnings = () if is_paused else _end(turns, prefill)
        if mark and turns:
            _mark(turns[-1], mark)
        return b"[" + join(b",", map(_encoded, turns)) + b"]", warnings

    def _sent(self, messages: Sequence[Message]) -> tuple[Sequence[Message], bool]:
        """Return the messages without refused answers and their results, and whether the last answer has paused."""
        sent: list[Message] = []
        refused: set[str] = set()
        is_paused = False
        for message in messages:
            if type(message) is ToolMessage and message.tool_call_id in refused:
                continue
            if type(message) is UserMessage:
                is_paused = False
            elif type(message) is AssistantMessage:
                stop = _of_message(message, self._origin).get("stop_reason")
                if stop == "refusal":
                    refused.update(call.id for call in message.tool_calls)
                    continue
                is_paused = stop == "pause_turn"
            sent.append(message)
        return sent, is_paused


def legal_id(id: str) -> str:
    """Return an id of another provider's as the service takes it: the same always, and another for another."""
    return id if _LEGAL_ID.fullmatch(id) else "call_" + hashlib.sha256(utf8(id)).hexdigest()[:32]


def _encode(message: Message, ids: Ids, *, thinking: bool) -> WireMessage:
    """Convert a single message to blocks.

    Args:
        thinking: Send thinking blocks back to the server they came from.
    """
    match message:
        case SystemMessage():
            return None  # see instructions_of
        case ToolMessage():
            block: dict[str, Any] = {"type": "tool_result", "tool_use_id": ids.answered}
            content = _result_content(message) if message.media else message.content
            block |= {"content": content} if not isinstance(content, str) or content.strip() else {}
            block |= {"is_error": True} if message.is_error else {}
            return {"role": "user", "content": [block]}
        case UserMessage():
            blocks = [_media(part) for part in message.media]  # before the text, where the models read them best
            blocks += [{"type": "text", "text": message.content}] if message.content.strip() else []
            return {"role": "user", "content": blocks}
        case AssistantMessage():
            encoded = [_part(part, ids, thinking) for part in message.parts]
            return {"role": "assistant", "content": [block for block in encoded if block is not None]}
        case _:
            assert_never(message)


def _part(part: AssistantPart, ids: Ids, thinking: bool) -> dict[str, Any] | None:
    """Return a part of the model's; None for one that does not go to this server."""
    ours = ids.is_ours(part.provider_data)
    rest = _block(part.provider_data) if ours else {}
    match part:
        case TextPart():
            wire: dict[str, Any] = {"type": "text", "text": part.text}
            wire |= {"citations": [*part.citations]} if ours and part.citations else {}
            return _and_rest(wire, rest) if part.text.strip() else None
        case ToolCall():
            wire_id = _wire_id(part, ids)
            ids.note(part, wire_id)
            wire = {
                "type": "tool_use",
                "id": wire_id,
                "name": part.name,
                "input": dict(sent_arguments(part.name, part.arguments or {}, LOOSE)),
            }
            return _and_rest(wire, rest)
        case ReasoningPart():
            if not (ours and thinking):
                return None
            is_data = part.redacted and rest.get("type") == "redacted_thinking"
            return rest if is_data else _and_rest({"type": "thinking", "thinking": part.text}, rest)
        case RefusalPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case MediaPart():
            return {"type": "text", "text": unshown(part)}  # an assistant's message takes no media
        case OpaquePart():
            return rest or None
        case _:
            assert_never(part)


def _wire_id(call: ToolCall, ids: Ids) -> str:
    """Return the id of a call, which no other call in the conversation has."""
    wire_id = legal_id(call.wire_id if call.wire_id and ids.is_ours(call.provider_data) else call.id)
    if wire_id in ids.taken:
        wire_id = legal_id(call.id)
    number = 1
    while wire_id in ids.taken:
        number += 1
        wire_id = legal_id(f"{call.id}_{number}")
    return wire_id


def _in_blocks(wire: WireMessage) -> _Blocks | None:
    """Encode a message block by block, for what comes before and behind it."""
    assert wire is None or isinstance(wire, Mapping)
    if wire is None or not wire["content"]:
        return None
    role, blocks = wire["role"], wire["content"]
    are_results = role == "user" and blocks[0]["type"] == "tool_result"
    return _Blocks(role, are_results, tuple(map(replayed, blocks)))


def _is_ours(data: ProviderData | None, origin: str) -> bool:
    return data is not None and data.scope == SCOPE and data.origin == origin


def _of_message(message: AssistantMessage, origin: str) -> Mapping[str, Any]:
    data = message.provider_data
    return data.data if data is not None and _is_ours(data, origin) else {}


def _block(data: ProviderData | None) -> dict[str, Any]:
    """Return a block's fields that are not represented in the part; all fields of an opaque one."""
    block = data.data.get("block") if data is not None else None
    return dict(block) if isinstance(block, Mapping) else {}


def _and_rest(wire: dict[str, Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    return wire | {name: value for name, value in rest.items() if name not in wire} if rest else wire


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
    block = json.loads(bytes(last.blocks[-1]))
    last.blocks[-1] = to_bytes({**block, "text": block["text"].rstrip()})
    return ()


def _mark(turn: _Turn, mark: Mapping[str, Any]) -> None:
    blocks = turn.blocks or turn.results
    if blocks[-1].startswith(_MARKABLE):
        blocks[-1] = blocks[-1].removesuffix(b"}") + b',"cache_control":' + to_bytes(mark) + b"}"


_HEADS = {"user": b'{"role":"user","content":[', "assistant": b'{"role":"assistant","content":['}


def _encoded(turn: _Turn) -> Json:
    return _HEADS[turn.role] + join(b",", [*turn.results, *turn.blocks]) + b"]}"


def _result_content(message: ToolMessage) -> str | list[dict[str, Any]]:
    """Build the content of a result, with its media: those of errors, which the service rejects, were removed before.

    Source: 400 "all content must be type 'text' if 'is_error' is true".
    """
    accepted = with_accepted_media(message, fits_in_result)
    if not accepted.media:
        return accepted.content
    text = [{"type": "text", "text": accepted.content}] if accepted.content.strip() else []
    return [*text, *map(_media, accepted.media)]


def _media(part: MediaPart) -> dict[str, Any]:
    if part.kind not in ("image", "document"):
        raise ProviderRequestError(f"the Messages API takes no {part.kind}", kind="unsupported_feature")
    source: dict[str, Any]
    if part.data is None:
        source = {"type": "url", "url": part.url}
    elif part.mime_type == "text/plain":
        source = {"type": "text", "media_type": "text/plain", "data": part.data.decode("utf-8", "replace")}
    else:
        source = {"type": "base64", "media_type": part.mime_type, "data": Base64(part.data)}
    title = {"title": part.name} if part.name and part.kind == "document" else {}
    return {"type": part.kind, "source": source, **title}
