"""Conversion of a LangChain model's chunks to stream events."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    ChatEvent,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    WrongShape,
    known_text,
    list_in,
    objects_of,
    text_in,
)
from langchain_core.messages import AIMessage, AIMessageChunk

from .answers import THOUGHTS, assistant_message, thought_beside
from .blocks import TEXTS, part_of

# Fields that describe an answer.
_BESIDE = ("id", "usage_metadata", "response_metadata", "additional_kwargs")


class ChunkDraft:
    """Accumulates a streamed answer: the sum of the chunks, and how much of each part has been emitted.

    Attributes:
        answer: The sum; None before the first chunk.
        warnings: One sentence per dropped field.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._sent: dict[int, int] = {}
        self._thinks: bool | None = None  # reasoning came first; after text it is no longer a part
        self.answer: AIMessage | None = None
        self.warnings: list[str] = []
        self._begun: set[object] = set()
        self._wrong_beside: WrongShape | None = None

    def add(self, chunk: AIMessage) -> Iterator[ChatEvent]:
        """Add a chunk and yield its events."""
        chunk = self._checked(chunk)
        self.answer = chunk if self.answer is None else self._sum(self.answer, chunk)
        yield from self._new_text()

    def _checked(self, chunk: AIMessage) -> AIMessage:
        """Validate a chunk before it is added: LangChain would merge values of a wrong type incorrectly.

        Raises:
            WrongShape: The text or the calls have a wrong type.
        """
        changes: dict[str, Any] = {}
        content: Any = chunk.content
        if not isinstance(content, str | list):
            raise WrongShape("content", "text or a list", content)
        if isinstance(content, list):
            changes["content"] = [_checked_block(block, f"content[{at}]") for at, block in enumerate(content)]
        if isinstance(chunk, AIMessageChunk) and chunk.tool_call_chunks != []:
            changes["tool_call_chunks"] = self._checked_calls(chunk)
        if not isinstance(chunk.id, str | None):
            changes["id"] = None
        if not isinstance(chunk.response_metadata, dict):
            changes["response_metadata"] = {}
        beside: Any = chunk.additional_kwargs
        if not isinstance(beside, dict):
            self._wrong_beside = WrongShape("additional_kwargs", "an object", beside)
            changes["additional_kwargs"] = {}
        elif beside:
            text_in(beside, "refusal", "additional_kwargs")
            if wrong := [key for key in THOUGHTS if not isinstance(beside.get(key), str | None)]:
                self._leave_out(f"additional_kwargs.{wrong[0]}")
                changes["additional_kwargs"] = {key: value for key, value in beside.items() if key not in wrong}
        return chunk.model_copy(update=changes) if changes else chunk

    def _checked_calls(self, chunk: AIMessageChunk) -> list[Any]:
        """Return the call chunks. A chunk without a name is assigned by its index, even if it has a new id."""
        calls: Any = list_in(vars(chunk), "tool_call_chunks", needed=True)
        checked = []
        for path, call in objects_of(calls, "tool_call_chunks"):
            _check_index(call, path)
            text_in(call, "args", path)
            index, id = call.get("index"), known_text(call.get("id"))
            if not text_in(call, "name", path) and index is not None and index in self._begun:
                id = None
            self._begun.add(index)
            checked.append({**call, "id": id})
        return checked

    def _sum(self, before: AIMessage, chunk: AIMessage) -> AIMessage:
        """Merge a chunk. Other fields that cannot be merged are dropped from both."""
        try:
            return before + chunk  # type: ignore[return-value]
        except Exception as error:  # noqa: BLE001  LangChain raises what its operations on the values raise
            failure = error
        for names in (*((name,) for name in _BESIDE), _BESIDE):
            with contextlib.suppress(Exception):
                whole: Any = _without(before, names) + _without(chunk, names)
                self._leave_out(" and ".join(names))
                return whole  # type: ignore[no-any-return]
        raise failure

    def _leave_out(self, what: str) -> None:
        text = f"{what}: left out, as its pieces have types that do not fit"
        if text not in self.warnings:
            self.warnings.append(text)

    def message(self) -> AssistantMessage:
        """Return the whole message."""
        assert self.answer is not None
        message = assistant_message(self.answer, self._origin, with_thoughts=self._thinks is not False)
        if self._wrong_beside is not None and not message.parts:  # The refusal has been converted to a part.
            raise self._wrong_beside
        return message

    def end(self, message: AssistantMessage) -> Iterator[ChatEvent]:
        """Yield the rest of the texts, and the calls of the whole message.

        Calls are not streamed in pieces, because integrations split them in different ways.
        """
        yield from self._new_text(is_last=True)
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                yield ToolCallStart(index, part.name)
                raw = part.raw_arguments
                yield ToolCallDelta(index, json.dumps(part.arguments, ensure_ascii=False) if raw is None else raw)
                yield ToolCallEnd(index, part)

    def _new_text(self, *, is_last: bool = False) -> Iterator[ChatEvent]:
        for index, part in enumerate(self._parts()):
            text = part.text if isinstance(part, TextPart | ReasoningPart) else ""
            if not is_last:
                text = text.removesuffix("\ufffd")  # half of a surrogate pair: the next chunk may hold the other half
            sent = self._sent.get(index, 0)
            if len(text) > sent:
                self._sent[index] = len(text)
                event: Any = TextDelta if isinstance(part, TextPart) else ReasoningDelta
                yield event(index, text[sent:])

    def _parts(self) -> list[Any]:
        """Return the parts so far in the order of the final message, with calls as blocks."""
        assert self.answer is not None
        content = self.answer.content
        if not isinstance(content, str):
            return [_convert_part(block, self._origin) for block in content]
        reasoning = thought_beside(self.answer)
        if self._thinks is None and (reasoning or content):
            self._thinks = bool(reasoning)
        thoughts = [ReasoningPart(text=reasoning)] if reasoning and self._thinks else []
        return [*thoughts, TextPart(text=content)]


def _check_index(piece: dict[str, Any], path: str) -> None:
    """Check the index of a chunk's block: an integer or a string in LangChain."""
    index = piece.get("index")
    if isinstance(index, bool) or not isinstance(index, int | str | None):
        raise WrongShape(f"{path}.index", "a number", index)


def _checked_block(block: Any, path: str) -> Any:
    if not isinstance(block, dict):
        return block
    _check_index(block, path)
    key = TEXTS.get(block["type"]) if isinstance(block.get("type"), str) else None
    if key is not None:
        text_in(block, key, path, needed=True)
    return block if isinstance(block.get("id"), str | None) else {**block, "id": None}


def _without(chunk: AIMessage, names: tuple[str, ...]) -> AIMessage:
    """Drop fields of a chunk, except reasoning and refusals."""
    changes: dict[str, Any] = dict.fromkeys(names)
    if "response_metadata" in changes:
        changes["response_metadata"] = {}
    if "additional_kwargs" in changes:
        keys = (*THOUGHTS, "refusal")
        changes["additional_kwargs"] = {
            key: chunk.additional_kwargs[key] for key in keys if key in chunk.additional_kwargs
        }
    return chunk.model_copy(update=changes)


def _convert_part(block: Any, origin: str) -> Any:
    return part_of(block, origin, [])
