"""An answer of the Messages API as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from flexchat.http.wire_json import finite, from_bytes, to_text, utf8
from flexchat.plugin import (
    AssistantMessage,
    AssistantPart,
    ChatEvent,
    ChatResult,
    OpaquePart,
    ProviderData,
    ReasoningDelta,
    ReasoningPart,
    RefusalPart,
    StreamEnd,
    TextDelta,
    TextPart,
    ToolCall,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)

from .finish import cuts_off, finish_reason, why_it_ended
from .messages import SCOPE

# Stop reasons that say what becomes of the message when it goes back.
_KEPT_STOPS = ("pause_turn", "refusal")


@attrs.define
class _Block:
    """A block that is being written.

    Attributes:
        rest: What came with it, beside what is collected here.
        at: Its place among the parts; None while it says nothing.
        pieces: Of its text, or of its input as JSON.
    """

    kind: str
    rest: dict[str, Any]
    at: int | None = None
    pieces: list[str] = attrs.field(factory=list)
    citations: list[Mapping[str, Any]] = attrs.field(factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class AnswerDraft:
    """An answer on its way. Parts stand in the order in which they came; empty texts are none.

    Args:
        origin: scheme://host[:port] of the server.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._parts: list[AssistantPart | _Block] = []
        self._open: dict[int, _Block] = {}
        # A call that has ended, and may be the last: whether it is whole tells only the stop reason.
        self._ending: _Block | None = None
        self._usage: dict[str, Any] = {}
        self._warnings: list[str] = []
        self._model: str | None = None
        self._response_id: str | None = None
        self._container: str | None = None
        self._details: object = None
        self.raw_finish: str | None = None

    def whole(self, message: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Take an answer that came whole. Every level of it may be missing."""
        self.start({**message, "stop_reason": None})
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            yield from self.block_start(index, block)
            yield from self.block_stop(index)
        self.message_delta(message, None)

    def start(self, message: object) -> None:
        """Take what is said of the answer before its first block."""
        if not isinstance(message, Mapping):
            return
        self._model = _text(message.get("model")) or self._model
        self._response_id = _text(message.get("id")) or self._response_id
        self.message_delta(message, message.get("usage"))

    def message_delta(self, delta: object, usage: object) -> None:
        """Take how the answer ends, and counts, which replace earlier ones: they are cumulative."""
        if isinstance(usage, Mapping):
            self._usage.update({name: value for name, value in usage.items() if value is not None})
        if not isinstance(delta, Mapping):
            return
        self.raw_finish = _text(delta.get("stop_reason")) or self.raw_finish
        self._details = delta.get("stop_details") or self._details
        container = delta.get("container")
        self._container = _text(container.get("id")) if isinstance(container, Mapping) else self._container

    def block_start(self, index: object, block: object) -> Iterator[ChatEvent]:
        """Begin a block."""
        if not isinstance(index, int) or not isinstance(block, Mapping) or not isinstance(block.get("type"), str):
            return
        if index in self._open:
            yield from self.block_stop(index)
        yield from self._end_call(is_cut=False)
        kind, rest = block["type"], dict(block)
        begun = self._open[index] = _Block(kind, rest)
        if kind == "text":
            found = rest.pop("citations", None)
            begun.citations += [c for c in found if isinstance(c, Mapping)] if isinstance(found, list) else []
            yield from self._say(begun, rest.pop("text", ""))
        elif kind == "thinking":
            yield from self._say(begun, rest.pop("thinking", ""))
        elif kind == "tool_use":
            name = _text(rest.get("name"))
            if name is None:
                del self._open[index]
                self._warn("the service sent a call without a name, which is left out")
                return
            self._place(begun)
            assert begun.at is not None
            yield ToolCallStart(begun.at, name)
        else:
            self._place(begun)

    def block_delta(self, index: object, delta: object) -> Iterator[ChatEvent]:
        """Take more of a block. A kind of delta that is not known is only read where the block is not, either."""
        block = self._open.get(index) if isinstance(index, int) else None
        if block is None or not isinstance(delta, Mapping):
            return
        match delta.get("type"):
            case "text_delta" if block.kind == "text":
                yield from self._say(block, delta.get("text"))
            case "thinking_delta" if block.kind == "thinking":
                yield from self._say(block, delta.get("thinking"))
            case "signature_delta" if block.kind == "thinking" and isinstance(delta.get("signature"), str):
                block.rest["signature"] = delta["signature"]
            case "citations_delta" if block.kind == "text" and isinstance(delta.get("citation"), Mapping):
                block.citations.append(delta["citation"])
            case "input_json_delta" if block.kind not in ("text", "thinking"):
                piece = delta.get("partial_json")
                if not isinstance(piece, str) or not piece:
                    return
                block.pieces.append(piece)
                if block.kind == "tool_use":
                    assert block.at is not None
                    yield ToolCallDelta(block.at, piece)
            case _ if block.kind not in ("text", "thinking", "tool_use"):
                for name, value in delta.items():
                    held = block.rest.get(name)
                    if name != "type":
                        block.rest[name] = held + value if isinstance(held, str) and isinstance(value, str) else value

    def block_stop(self, index: object) -> Iterator[ChatEvent]:
        """End a block."""
        block = self._open.pop(index, None) if isinstance(index, int) else None
        if block is None:
            return
        if block.kind == "tool_use":
            yield from self._end_call(is_cut=False)
            self._ending = block
            return
        part = self._part(block)
        if block.at is not None:
            self._parts[block.at] = part
        elif block.kind == "thinking" and block.rest.get("signature"):
            self._parts.append(part)  # thinking that is not shown goes back nevertheless

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left and, last, StreamEnd with the result."""
        for index in [*self._open]:
            yield from self.block_stop(index)
        is_last = self._ending is not None and self._ending.at == len(self._parts) - 1
        yield from self._end_call(is_cut=is_last and cuts_off(self.raw_finish))
        parts = [part for part in self._parts if not isinstance(part, _Block)]
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        has_text = any(type(part) is TextPart for part in parts)
        finish = finish_reason(self.raw_finish, has_calls=has_calls)
        is_empty = not has_calls and not has_text
        if text := why_it_ended(finish, self.raw_finish, self._details, is_empty=is_empty):
            self._warn(text)
        if finish == "refusal" and not has_text and isinstance(self._details, Mapping):
            parts += [RefusalPart(text=said) for said in [_text(self._details.get("explanation"))] if said]
        yield StreamEnd(
            ChatResult(
                message=AssistantMessage(parts=tuple(parts), provider_data=self._of_message()),
                finish_reason=finish,
                raw_finish=self.raw_finish,
                usage=usage_of(self._usage),
                model=self._model,
                response_id=self._response_id,
                warnings=tuple(self._warnings),
            )
        )

    def _say(self, block: _Block, text: object) -> Iterator[ChatEvent]:
        if not isinstance(text, str) or not text:
            return
        self._place(block)
        block.pieces.append(text)
        assert block.at is not None
        yield TextDelta(block.at, text) if block.kind == "text" else ReasoningDelta(block.at, text)

    def _place(self, block: _Block) -> None:
        if block.at is None:
            block.at = len(self._parts)
            self._parts.append(block)

    def _end_call(self, *, is_cut: bool) -> Iterator[ChatEvent]:
        """Make the call that has ended, if one has: the service says only afterwards that it cut one off."""
        block, self._ending = self._ending, None
        if block is None:
            return
        assert block.at is not None
        name = block.rest.pop("name")
        wire_id, given = _text(block.rest.pop("id", None)), block.rest.pop("input", None)
        rest = {"wire_id": wire_id, "provider_data": self._data(_without_type(block.rest))}
        text = block.text
        if text or given in (None, {}):
            call = ToolCall.from_text(name, text, truncated=is_cut, **rest)
        else:  # whole
            try:
                text = to_text(finite(given))
            except RecursionError:
                text = "[]"  # no object, and so not run
            yield ToolCallDelta(block.at, text)
            if isinstance(given, Mapping) and text != "[]" and not is_cut:
                call = ToolCall.from_object(name, given, **rest)
            else:
                call = ToolCall.from_text(name, text, truncated=is_cut, **rest)
        self._parts[block.at] = call
        yield ToolCallEnd(block.at, call)

    def _part(self, block: _Block) -> AssistantPart:
        if block.kind == "text":
            rest = _without_type(block.rest)
            ours = rest or block.citations
            return TextPart(
                text=block.text,
                citations=tuple(block.citations),
                provider_data=self._data(rest) if ours else None,
            )
        if block.kind == "thinking":
            data = self._data(_without_type(block.rest))
            return ReasoningPart(text=block.text, redacted=not block.pieces, provider_data=data)
        if block.pieces:
            # The input of a server's tool; what cannot be read goes back as it began.
            try:
                block.rest["input"] = from_bytes(utf8(block.text))
            except ValueError:
                self._warn(f"the input of {str(block.rest.get('name'))[:100]} cannot be read")
        data = self._data(block.rest)
        if block.kind == "redacted_thinking":
            return ReasoningPart(redacted=True, provider_data=data)
        return OpaquePart(kind=block.kind, provider_data=data)

    def _of_message(self) -> ProviderData | None:
        data = {"container": self._container} if self._container else {}
        if self.raw_finish in _KEPT_STOPS:
            data["stop_reason"] = self.raw_finish
        return ProviderData(scope=SCOPE, origin=self._origin, data=data) if data else None

    def _data(self, block: dict[str, Any]) -> ProviderData:
        return ProviderData(scope=SCOPE, origin=self._origin, data={"block": block} if block else {})

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Return a usage table as Usage; what is no count is left out. None for no table.

    The service's input_tokens are those it neither read from its cache nor wrote to it.
    """
    if not raw:
        return None
    written, read = _count(raw, "cache_creation_input_tokens"), _count(raw, "cache_read_input_tokens")
    details = raw.get("output_tokens_details")
    counts = [count for count in (_count(raw, "input_tokens"), written, read) if count is not None]
    return Usage(
        input_tokens=sum(counts) if counts else None,
        output_tokens=_count(raw, "output_tokens"),
        reasoning_tokens=_count(details, "thinking_tokens") if isinstance(details, Mapping) else None,
        cache_read_tokens=read,
        cache_write_tokens=written,
        raw=raw,
    )


def _count(table: Mapping[str, Any], key: str) -> int | None:
    value = table.get(key)
    return value if type(value) is int else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _without_type(block: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "type"}
