"""An answer of the Messages API as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import ChatResult, ToolCall
from flexchat.provider import (
    AnswerEnd,
    AssistantMessage,
    AssistantPart,
    ChatEvent,
    OpaquePart,
    ProviderData,
    ReasoningDelta,
    ReasoningPart,
    RefusalPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    WireIds,
    WrongShape,
    finite,
    from_bytes,
    known_count,
    known_number,
    known_text,
    list_in,
    objects_of,
    text_in,
    to_text,
    utf8,
)

from .finish import cuts_off, finish_reason, why_it_ended
from .messages import SCOPE

# Stop reasons that say what becomes of the message when it goes back.
_KEPT_STOPS = ("pause_turn", "refusal")
# What tells a delta whose type cannot be read.
_DELTAS = {
    "text": "text_delta",
    "partial_json": "input_json_delta",
    "thinking": "thinking_delta",
    "signature": "signature_delta",
    "citation": "citations_delta",
}


@attrs.define
class _Block:
    """A block that is being written.

    Attributes:
        number: Its index, where that can be read.
        rest: What came with it, beside what is collected here.
        at: Its place among the parts; None while it says nothing.
        pieces: Of its text, or of its input as JSON.
    """

    kind: str
    number: int | None
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

    Attributes:
        raw_finish: The service's word for why the answer ends; None if none came that can be read.
        is_over: Whether the service has said that the answer ends, if only in a word that cannot be read.
    """

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._parts: list[AssistantPart | _Block] = []
        self._open: list[_Block] = []
        # A call that has ended, and may be the last: whether it is whole tells only the stop reason.
        self._ending: _Block | None = None
        self._usage: dict[str, Any] = {}
        self._warnings: list[str] = []
        self._model: str | None = None
        self._response_id: str | None = None
        self._container: str | None = None
        self._details: object = None
        self._call_ids = WireIds()
        self.raw_finish: str | None = None
        self.is_over = False

    def whole(self, message: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Take an answer that came whole.

        Raises:
            WrongShape: Something of a wrong type stands where text or calls may stand; so do all below.
        """
        self.start({**message, "stop_reason": None})
        for index, (where, block) in enumerate(objects_of(list_in(message, "content", needed=True), "content")):
            yield from self.block_start(index, block, where)
            yield from self.block_stop(index)
        self.message_delta(message, None)

    def start(self, message: object) -> None:
        """Take what is said of the answer before its first block."""
        if not isinstance(message, Mapping):
            return
        self._model = known_text(message.get("model")) or self._model
        self._response_id = known_text(message.get("id")) or self._response_id
        self.message_delta(message, message.get("usage"))

    def message_delta(self, delta: object, usage: object) -> None:
        """Take how the answer ends, and counts, which replace earlier ones: they are cumulative."""
        if isinstance(usage, Mapping):
            self._usage.update({name: value for name, value in usage.items() if value is not None})
        if not isinstance(delta, Mapping):
            return
        reason = delta.get("stop_reason")
        if reason is not None and reason != "":
            self.is_over = True
            self.raw_finish = known_text(reason) or self.raw_finish
        self._details = delta.get("stop_details") or self._details
        container = delta.get("container")
        self._container = known_text(container.get("id")) if isinstance(container, Mapping) else self._container

    def block_start(self, index: object, block: Mapping[str, Any], where: str = "content_block") -> Iterator[ChatEvent]:
        """Begin a block."""
        number = known_number(index)
        for other in [one for one in self._open if number is not None and one.number == number]:
            yield from self._stop(other)
        yield from self._end_call(is_cut=False)
        kind, rest = _kind(block, where), dict(block)
        begun = _Block(kind, number, rest)
        self._open.append(begun)
        if kind == "text":
            found = rest.pop("citations", None)
            begun.citations += [c for c in found if isinstance(c, Mapping)] if isinstance(found, list) else []
            yield from self._say(begun, text_in(block, "text", where, needed=True))
            rest.pop("text", None)
        elif kind == "thinking":
            yield from self._think(begun, rest.pop("thinking", ""))
        elif kind == "tool_use":
            name = text_in(block, "name", where, needed=True)
            if "name" not in block:
                raise WrongShape(f"{where}.name", "the name of the tool", None)
            self._place(begun)
            assert begun.at is not None
            yield ToolCallStart(begun.at, name)
        elif kind:
            self._place(begun)
        else:
            self._warn("the answer has a block whose type cannot be read, which is left out")

    def block_delta(self, index: object, delta: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Take more of a block. A kind of delta that is not known is only read where the block is not, either."""
        block = self._block(index)
        if block is None:
            raise WrongShape("index", "the number of a block that has begun", index)
        kind = known_text(delta.get("type")) or next((_DELTAS[key] for key in delta if key in _DELTAS), "")
        match kind:
            case "text_delta" if block.kind == "text":
                yield from self._say(block, text_in(delta, "text", "delta", needed=True))
            case "thinking_delta" if block.kind == "thinking":
                yield from self._think(block, delta.get("thinking"))
            case "signature_delta" if block.kind == "thinking":
                block.rest["signature"] = known_text(delta.get("signature")) or block.rest.get("signature", "")
            case "citations_delta" if block.kind == "text":
                block.citations += [c for c in [delta.get("citation")] if isinstance(c, Mapping)]
            case "input_json_delta" if block.kind not in ("text", "thinking"):
                piece = text_in(delta, "partial_json", "delta", needed=block.kind == "tool_use")
                block.pieces.append(piece)
                if piece and block.kind == "tool_use":
                    assert block.at is not None
                    yield ToolCallDelta(block.at, piece)
            case "text_delta" | "input_json_delta" if block.kind in ("text", "thinking", "tool_use"):
                raise WrongShape("delta.type", f"what belongs to a {block.kind} block", kind)
            case _ if block.kind not in ("text", "thinking", "tool_use"):
                for name, value in delta.items():
                    held = block.rest.get(name)
                    if name != "type":
                        block.rest[name] = held + value if isinstance(held, str) and isinstance(value, str) else value

    def block_stop(self, index: object) -> Iterator[ChatEvent]:
        """End a block."""
        block = self._block(index)
        if block is not None:
            yield from self._stop(block)

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left and, last, AnswerEnd with the result."""
        for block in [*self._open]:
            yield from self._stop(block)
        is_last = self._ending is not None and self._ending.at == len(self._parts) - 1
        is_cut = is_last and cuts_off(self.raw_finish)
        yield from self._end_call(is_cut=is_cut, is_unclear=is_last and self.raw_finish is None)
        parts = [part for part in self._parts if not isinstance(part, _Block)]
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        has_text = any(type(part) is TextPart for part in parts)
        finish = finish_reason(self.raw_finish, has_calls=has_calls)
        is_empty = not has_calls and not has_text
        if text := why_it_ended(finish, self.raw_finish, self._details, is_empty=is_empty):
            self._warn(text)
        if finish == "refusal" and not has_text and isinstance(self._details, Mapping):
            parts += [RefusalPart(text=said) for said in [known_text(self._details.get("explanation"))] if said]
        yield AnswerEnd(
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

    def _block(self, index: object) -> _Block | None:
        """Return the open block with a number; where a number is missing, the only one there is."""
        number = known_number(index)
        for block in self._open:
            if number is not None and block.number == number:
                return block
        only = self._open[0] if len(self._open) == 1 else None
        return only if only is not None and (number is None or only.number is None) else None

    def _stop(self, block: _Block) -> Iterator[ChatEvent]:
        self._open.remove(block)
        if block.kind == "tool_use":
            yield from self._end_call(is_cut=False)
            self._ending = block
            return
        part = self._part(block)
        if block.at is not None:
            self._parts[block.at] = part
        elif block.kind == "thinking" and block.rest.get("signature"):
            self._parts.append(part)  # thinking that is not shown goes back nevertheless

    def _say(self, block: _Block, text: str) -> Iterator[ChatEvent]:
        if text:
            self._place(block)
            block.pieces.append(text)
            assert block.at is not None
            yield TextDelta(block.at, text) if block.kind == "text" else ReasoningDelta(block.at, text)

    def _think(self, block: _Block, thought: object) -> Iterator[ChatEvent]:
        if isinstance(thought, str):
            yield from self._say(block, thought)
        elif thought is not None:
            self._warn("a thought of the answer cannot be read, and is left out")

    def _place(self, block: _Block) -> None:
        if block.at is None:
            block.at = len(self._parts)
            self._parts.append(block)

    def _end_call(self, *, is_cut: bool, is_unclear: bool = False) -> Iterator[ChatEvent]:
        """Make the call that has ended, if one has: the service says only afterwards that it cut one off.

        Args:
            is_unclear: It is the last one, and why the answer ends cannot be read.
        """
        block, self._ending = self._ending, None
        if block is None:
            return
        assert block.at is not None
        name = block.rest.pop("name")
        given = block.rest.pop("input", {})
        rest = {
            "wire_id": self._call_ids.take(block.rest.pop("id", None)),
            "provider_data": self._data(_without_type(block.rest)),
        }
        text = block.text
        if text or given == {}:
            call = ToolCall.from_text(name, text, truncated=is_cut, **rest)
        elif not isinstance(given, Mapping):
            raise WrongShape(f"the input of the call of {name[:100]}", "an object", given)
        else:  # whole
            try:
                text = to_text(finite(given))
            except RecursionError:
                text = "[]"  # no object, and so not run
            yield ToolCallDelta(block.at, text)
            if text != "[]" and not is_cut:
                call = ToolCall.from_object(name, given, **rest)
            else:
                call = ToolCall.from_text(name, text, truncated=is_cut, **rest)
        call = call.if_whole() if is_unclear else call
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
    written, read = known_count(raw, "cache_creation_input_tokens"), known_count(raw, "cache_read_input_tokens")
    counts = [count for count in (known_count(raw, "input_tokens"), written, read) if count is not None]
    return Usage(
        input_tokens=sum(counts) if counts else None,
        output_tokens=known_count(raw, "output_tokens"),
        reasoning_tokens=known_count(raw.get("output_tokens_details"), "thinking_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
        raw=raw,
    )


def _kind(block: Mapping[str, Any], where: str) -> str:
    """Return a block's type, also if it only shows in what the block holds; an empty one for one of unknown type.

    Raises:
        WrongShape: The block may be a call of a tool of ours: a server's own has another kind of id.
    """
    kind = block.get("type")
    if isinstance(kind, str):
        return kind
    if "text" in block or "thinking" in block:
        return "text" if "text" in block else "thinking"
    if "name" in block and (known_text(block.get("id")) or "toolu_").startswith("toolu_"):
        raise WrongShape(f"{where}.type", "text", kind)
    return ""


def _without_type(block: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "type"}
