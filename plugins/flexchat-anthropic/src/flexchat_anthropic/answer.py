"""An answer of the Messages API, block by block; whole and streamed answers take the same path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from flexchat_sdk import (
    AnswerParts,
    ChatEvent,
    OpaquePart,
    ReasoningDelta,
    RefusalPart,
    Reported,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Unreadable,
    Usage,
    WireIds,
    WrongShape,
    known_number,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
)
from flexchat_sdk import usage_of as usage_in

from .blocks import Block, kind_of
from .messages import SCOPE

# Stop reasons that affect how the message is sent back.
_KEPT_STOPS = ("pause_turn", "refusal")
# Keys that identify a delta with an unreadable type.
_DELTAS = {
    "text": "text_delta",
    "partial_json": "input_json_delta",
    "thinking": "thinking_delta",
    "signature": "signature_delta",
    "citation": "citations_delta",
}


class MessagesAnswer:
    """Reads one answer: an Answer of the kit. Parts stand in the order in which they came; empty texts are none.

    Args:
        origin: scheme://host[:port] of the server.

    Attributes:
        is_over: The service has ended the answer.
    """

    def __init__(self, origin: str) -> None:
        self._parts = AnswerParts(SCOPE, origin)
        self._ids = WireIds()
        self._open: list[Block] = []
        # A call that has ended and may be the last one: only the stop reason shows whether it is complete.
        self._ending: Block | None = None
        self._last_at = -1
        self._has_text = self._has_calls = False
        self._usage: dict[str, Any] = {}
        self._container: str | None = None
        self._details: object = None
        # The service's word for why the answer ends, and whether there was one, if only one that cannot be read.
        self._stop_reason: str | None = None
        self._is_stopped = False
        self.is_over = False

    def take(self, chunk: dict[str, Any], name: str = "") -> Iterable[ChatEvent]:
        """Apply an event and return what it adds. Pings and unknown events add nothing."""
        index, kind = chunk.get("index"), chunk.get("type")
        match kind if isinstance(kind, str) else name:
            case "content_block_delta":
                return self._grow(index, _needed(chunk, "delta"))
            case "content_block_start":
                return self._begin(index, _needed(chunk, "content_block"), "content_block")
            case "content_block_stop":
                return self._stop(self._block(index))
            case "message_start":
                self._take_frame(chunk.get("message"))
            case "message_delta":
                self._take_end(chunk.get("delta"), chunk.get("usage"))
            case "message_stop":
                self.is_over = True
            case "error":
                raise Reported(chunk)
            case _ if chunk.get("error"):
                raise Reported(chunk)
            case "" if kind is not None or "delta" in chunk or "content_block" in chunk:
                raise WrongShape("type", "text", kind)
        return ()

    def whole(self, answer: Any) -> Iterator[ChatEvent]:
        """Yield the events of an answer that came whole."""
        if isinstance(answer, dict) and (answer.get("type") == "error" or answer.get("error")):
            raise Reported(answer)
        if not isinstance(answer, dict) or "content" not in answer:
            raise Unreadable("sent JSON that is not an answer of the Messages API: is base_url right?")
        self._take_frame({**answer, "stop_reason": None})
        for index, (where, block) in enumerate(objects_of(list_in(answer, "content", needed=True), "content")):
            yield from self._begin(index, block, where)
            yield from self._stop(self._block(index))
        self._take_end(answer, None)
        yield from self._ended()

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left when the stream has ended."""
        if not self.is_over and not self._is_stopped:
            raise Unreadable("ended its stream without a stop reason: the answer was cut off", cut_off=True)
        return self._ended()

    def _take_frame(self, message: object) -> None:
        """Read the metadata that precedes the first block."""
        if isinstance(message, Mapping):
            self._parts.model = known_text(message.get("model")) or self._parts.model
            self._parts.response_id = known_text(message.get("id")) or self._parts.response_id
            self._take_end(message, message.get("usage"))

    def _take_end(self, delta: object, usage: object) -> None:
        """Take how the answer ends, and counts, which replace earlier ones: they are cumulative."""
        if isinstance(usage, Mapping):
            self._usage.update({name: value for name, value in usage.items() if value is not None})
        if not isinstance(delta, Mapping):
            return
        reason = delta.get("stop_reason")
        if reason is not None and reason != "":
            self._is_stopped = True
            self._stop_reason = known_text(reason) or self._stop_reason
        self._details = delta.get("stop_details") or self._details
        container = delta.get("container")
        self._container = known_text(container.get("id")) if isinstance(container, Mapping) else self._container

    def _begin(self, index: object, block: Mapping[str, Any], where: str) -> Iterator[ChatEvent]:
        number = known_number(index)
        for other in [one for one in self._open if number is not None and one.number == number]:
            yield from self._stop(other)
        yield from self._end_call()
        rest = dict(block)
        begun = Block(kind_of(block, where), number, rest)
        self._open.append(begun)
        match begun.kind:
            case "text":
                citations = rest.pop("citations", None)
                begun.citations += (
                    [c for c in citations if isinstance(c, Mapping)] if isinstance(citations, list) else []
                )
                yield from self._add_text(begun, text_in(block, "text", where, needed=True))
                rest.pop("text", None)
            case "thinking":
                yield from self._add_thinking(begun, rest.pop("thinking", ""))
            case "tool_use":
                name = text_in(block, "name", where, needed=True)
                if "name" not in block:
                    raise WrongShape(f"{where}.name", "the name of the tool", None)
                self._place(begun)
                self._has_calls = True
                yield ToolCallStart(begun.at, name)
            case "":
                self._parts.warn("the answer has a block whose type cannot be read, which is left out")
            case _:
                self._place(begun)

    def _grow(self, index: object, delta: Mapping[str, Any]) -> Iterable[ChatEvent]:
        """Take more of a block. A kind of delta that is not known is only read where the block is not, either."""
        block = self._block(index)
        if block is None:
            raise WrongShape("index", "the number of a block that has begun", index)
        kind = known_text(delta.get("type")) or next((_DELTAS[key] for key in delta if key in _DELTAS), "")
        match kind:
            case "text_delta" if block.kind == "text":
                return self._add_text(block, text_in(delta, "text", "delta", needed=True))
            case "thinking_delta" if block.kind == "thinking":
                return self._add_thinking(block, delta.get("thinking"))
            case "signature_delta" if block.kind == "thinking":
                block.rest["signature"] = known_text(delta.get("signature")) or block.rest.get("signature", "")
            case "citations_delta" if block.kind == "text":
                block.citations += [c for c in [delta.get("citation")] if isinstance(c, Mapping)]
            case "input_json_delta" if block.kind not in ("text", "thinking"):
                piece = text_in(delta, "partial_json", "delta", needed=block.kind == "tool_use")
                block.pieces.append(piece)
                if piece and block.kind == "tool_use":
                    return (ToolCallDelta(block.at, piece),)
            case "text_delta" | "input_json_delta" if block.kind in ("text", "thinking", "tool_use"):
                raise WrongShape("delta.type", f"what belongs to a {block.kind} block", kind)
            case _ if block.kind not in ("text", "thinking", "tool_use"):
                for name, value in delta.items():
                    current = block.rest.get(name)
                    if name != "type":
                        block.rest[name] = (
                            current + value if isinstance(current, str) and isinstance(value, str) else value
                        )
        return ()

    def _block(self, index: object) -> Block | None:
        """Return the open block with a number; where a number is missing, the only one there is."""
        number = known_number(index)
        for block in self._open:
            if number is not None and block.number == number:
                return block
        only = self._open[0] if len(self._open) == 1 else None
        return only if only is not None and (number is None or only.number is None) else None

    def _stop(self, block: Block | None) -> Iterator[ChatEvent]:
        if block is None:
            return
        self._open.remove(block)
        if block.kind == "tool_use":
            yield from self._end_call()
            self._ending = block
        elif block.at >= 0:
            self._parts.replace(block.at, block.part(self._parts))
        elif block.kind == "thinking" and block.rest.get("signature"):
            # Thinking that is not shown goes back nevertheless.
            self._last_at = self._parts.add(block.part(self._parts))

    def _add_text(self, block: Block, text: str) -> tuple[ChatEvent, ...]:
        if not text:
            return ()
        self._place(block)
        block.pieces.append(text)
        if block.kind == "thinking":
            return (ReasoningDelta(block.at, text),)
        self._has_text = True
        return (TextDelta(block.at, text),)

    def _add_thinking(self, block: Block, text: object) -> tuple[ChatEvent, ...]:
        if isinstance(text, str):
            return self._add_text(block, text)
        if text is not None:
            self._parts.warn("a thought of the answer cannot be read, and is left out")
        return ()

    def _place(self, block: Block) -> None:
        """Reserve the block's position; its content is final only when the block stops."""
        if block.at < 0:
            placeholder = OpaquePart(kind=block.kind, provider_data=self._parts.ours({}))
            block.at = self._last_at = self._parts.add(placeholder)

    def _end_call(self, *, is_last: bool = False) -> Iterator[ChatEvent]:
        """Emit the ended call, if any. It is delayed, because the service reports truncation only afterwards."""
        block, self._ending = self._ending, None
        if block is None:
            return
        block.wire_id = self._ids.take(block.rest.get("id"))
        call, text = block.call(self._parts, is_cut=is_last and finish_word(self._stop_reason) == "length")
        if text:
            yield ToolCallDelta(block.at, text)
        if is_last and self._stop_reason is None:
            call = call.if_whole()
        self._parts.replace(block.at, call)
        yield ToolCallEnd(block.at, call)

    def _ended(self) -> Iterator[ChatEvent]:
        for block in [*self._open]:
            yield from self._stop(block)
        yield from self._end_call(is_last=self._ending is not None and self._ending.at == self._last_at)
        raw, details = self._stop_reason, self._details
        if text := why_it_ended(raw, details, has_text=self._has_text, has_calls=self._has_calls):
            self._parts.warn(text)
        explanation = known_text(details.get("explanation")) if isinstance(details, Mapping) else None
        if raw == "refusal" and explanation and not self._has_text:
            self._parts.add(RefusalPart(text=explanation))
        data = {"container": self._container} if self._container else {}
        if raw is not None and raw in _KEPT_STOPS:
            data["stop_reason"] = raw
        yield from self._parts.end(raw, finish=finish_word(raw), usage=usage_of(self._usage), data=data)


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Return a usage table as Usage; None for no table.

    The service's input_tokens are those it neither read from its cache nor wrote to it.
    """
    usage = usage_in(
        raw,
        input="input_tokens",
        output="output_tokens",
        reasoning="output_tokens_details.thinking_tokens",
        cache_read="cache_read_input_tokens",
        cache_write="cache_creation_input_tokens",
    )
    if usage is None:
        return None
    counts = [n for n in (usage.input_tokens, usage.cache_write_tokens, usage.cache_read_tokens) if n is not None]
    return attrs.evolve(usage, input_tokens=sum(counts) if counts else None)


def _needed(chunk: dict[str, Any], key: str) -> dict[str, Any]:
    table = object_in(chunk, key, needed=True)
    if table is None:
        raise WrongShape(key, "an object", None)
    return table


_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "compaction": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
    "pause_turn": "pause",
}
_MAX_TEXT_CHARS = 500


def finish_word(raw: str | None) -> str | None:
    """Return our word for Anthropic's; None for none. A word that is not known is "unknown"."""
    return _REASONS.get(raw, "unknown") if raw else None


def why_it_ended(raw: str | None, details: object, *, has_text: bool, has_calls: bool) -> str:
    """Return a warning about every end that is not an ordinary one; an empty text for the others, and for no word.

    Args:
        raw: The reason in Anthropic's word.
        details: The answer's ``stop_details``: of a refusal category and explanation.
    """
    finish, is_empty = finish_word(raw), not has_text and not has_calls
    if finish == "refusal":
        table = details if isinstance(details, dict) else {}
        reasons = [text for key in ("category", "explanation") if isinstance(text := table.get(key), str) and text]
        why = ": ".join(reasons)[:_MAX_TEXT_CHARS] or "no reason given"
        return f"the service refused to let the model answer ({why})"
    if raw == "model_context_window_exceeded":
        return "the conversation and the answer together are longer than the model can read: the answer is cut off"
    if finish == "length" and is_empty:
        return "the token limit was reached before the first word of the answer: thinking counts too"
    if finish == "unknown" and not has_calls:
        return f"the answer ended for a reason that is not known here ({(raw or '')[:100]})"
    return "the model answered with nothing" if finish == "stop" and is_empty else ""
