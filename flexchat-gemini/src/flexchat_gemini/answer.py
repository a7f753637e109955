"""A Gemini answer, whole or streamed, piece by piece."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AnswerEnd,
    AnswerParts,
    AssistantPart,
    ChatEvent,
    FirstAnswer,
    Framing,
    MediaPart,
    OpaquePart,
    Reported,
    SseDecoder,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Unreadable,
    Usage,
    WireIds,
    WrongShape,
    finite,
    known_count,
    known_text,
    list_in,
    object_in,
    objects_of,
    result_of,
    text_in,
    to_text,
    with_own_names,
)

from .contents import SCOPE
from .partial_args import PartialArgs

FRAMING = Framing(decoder=SseDecoder, values=(dict, list))  # an error may come in a list

_KNOWN = ("candidates", "promptFeedback", "usageMetadata", "error")
# What of a call is read here.
_CALL = ("name", "args", "id", "partialArgs", "willContinue")
# What may stand beside the one payload of a part.
_BESIDE = ("thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution")


@attrs.define
class _Calling:
    """A call that is being written: ``args`` come whole, or in pieces over several parts.

    Attributes:
        at: Its place among the parts.
        rest: The ToolCall's wire_id and provider_data.
    """

    at: int
    name: str
    args: Mapping[str, Any] | None
    rest: Mapping[str, Any]
    partial: PartialArgs = attrs.field(factory=PartialArgs)

    def build(self, *, is_cut: bool) -> tuple[ToolCall, str]:
        """Build the call. Returns it, and its arguments as JSON text."""
        try:
            args = self.args or self.partial.build()
            text = to_text(finite(args))
        except (ValueError, RecursionError) as error:
            why = "the arguments are nested too deeply" if isinstance(error, RecursionError) else str(error)
            return ToolCall(name=self.name, arguments=None, error=why, **self.rest), ""
        if is_cut:
            return ToolCall.from_text(self.name, text, truncated=True, **self.rest), text
        return with_own_names(ToolCall.from_object(self.name, args, **self.rest)), text


class GeminiAnswer:
    """One answer being read; see Answer.

    Args:
        origin: scheme://host[:port] of the server.
    """

    is_over = False  # Usage and citations may follow the finish reason: no event marks the end of the answer.

    def __init__(self, origin: str) -> None:
        self._parts = AnswerParts(SCOPE, origin)
        self._calling: _Calling | None = None
        self._ids = WireIds()
        self._citations: list[Mapping[str, Any]] = []
        self._usage: dict[str, Any] = {}
        self._block_reason: str | None = None
        self._wrong_feedback: WrongShape | None = None
        self._first = FirstAnswer()
        self._has_ended = False
        self._raw_finish: str | None = None
        self._message = ""

    def take(self, value: dict[str, Any] | list[Any], name: str = "") -> Iterator[ChatEvent]:
        """Take a chunk, or a list of them."""
        if isinstance(value, dict):
            yield from self._take_chunk(value)
            return
        if not value:
            raise WrongShape("event", "an object", value)
        for _, chunk in objects_of(value, "event"):
            yield from self._take_chunk(chunk)

    def whole(self, value: Any) -> Iterator[ChatEvent]:
        """Take a whole answer, or what a server sends that does not know ``alt=sse``: one list of chunks."""
        chunks = value if isinstance(value, list) else [value]
        if not any(isinstance(chunk, dict) and name in chunk for chunk in chunks for name in _KNOWN):
            raise Unreadable("sent JSON that is not a Gemini answer: is base_url right? It ends before the version")
        for _, chunk in objects_of(chunks, "answer"):
            yield from self._take_chunk(chunk)
        if isinstance(value, list):
            self._check_end("its answer")
        yield from self._ended()

    def end(self) -> Iterator[ChatEvent]:
        """Take the end of the stream."""
        self._check_end("its stream")
        yield from self._ended()

    def _check_end(self, what: str) -> None:
        if not self._has_ended and self._block_reason is None:
            raise Unreadable(f"ended {what} without a finish reason: the answer was cut off", cut_off=True)

    def _take_chunk(self, chunk: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Take an answer or a piece of one. Every level of it may be missing."""
        if chunk.get("error"):
            raise Reported(chunk)
        self._parts.model = known_text(chunk.get("modelVersion")) or self._parts.model
        self._parts.response_id = known_text(chunk.get("responseId")) or self._parts.response_id
        usage = chunk.get("usageMetadata")
        if isinstance(usage, dict):  # cumulative; a count that is missing later keeps its value
            self._usage.update({name: value for name, value in usage.items() if value is not None})
        self._take_feedback(chunk.get("promptFeedback"))
        candidates = list_in(chunk, "candidates", needed=True)
        for place, (where, candidate) in enumerate(objects_of(candidates, "candidates")):
            if self._first.includes(candidate.get("index", place), f"{where}.index"):
                yield from self._candidate(candidate, where)
            else:
                self._parts.warn("the service sent several answers; only the first is used")

    def _ended(self) -> Iterator[ChatEvent]:
        """Yield what is left and, last, AnswerEnd."""
        raw = self._raw_finish
        if raw in FAULTS:
            raise Reported({"error": {"status": raw, "message": self._message or raw}})
        yield from self._end_call(is_cut=raw != "STOP")
        self._parts.cite(self._citations)
        blocked = None if raw else self._block_reason
        finish = "content_filter" if blocked else finish_reason(raw) if raw else None
        result = result_of(self._parts.end(raw or blocked, finish=finish, usage=usage_of(self._usage)))
        if self._wrong_feedback is not None and not result.message.parts and not self._has_ended:
            raise self._wrong_feedback
        why = why_it_ended(result.finish_reason, raw, blocked, self._message, is_empty=_is_empty(result.message.parts))
        yield AnswerEnd(result.warned((why,) if why else ()))

    def _take_feedback(self, feedback: object) -> None:
        """Read the prompt feedback: a blocked prompt gets no answer."""
        if not isinstance(feedback, dict):
            if feedback is not None:
                self._wrong_feedback = WrongShape("promptFeedback", "an object", feedback)
            return
        reason = feedback.get("blockReason")
        if known_text(reason):
            self._block_reason = reason
            self._message = known_text(feedback.get("blockReasonMessage")) or self._message
        elif reason not in (None, ""):
            self._wrong_feedback = WrongShape("promptFeedback.blockReason", "text", reason)

    def _candidate(self, candidate: Mapping[str, Any], where: str) -> Iterator[ChatEvent]:
        content = object_in(candidate, "content", where, needed=True)
        if content is not None:
            place = f"{where}.content"
            for path, part in objects_of(list_in(content, "parts", place, needed=True), f"{place}.parts"):
                yield from self._take_part(part, path)
        finish = candidate.get("finishReason")
        if finish is not None and finish != "":  # an unreadable finish reason still ends the answer
            self._has_ended = True
            self._raw_finish = known_text(finish) or self._raw_finish
        self._message = known_text(candidate.get("finishMessage")) or self._message
        self._take_citations(candidate)

    def _take_part(self, part: dict[str, Any], where: str) -> Iterator[ChatEvent]:
        call = object_in(part, "functionCall", where, needed="text" not in part)
        if "text" in part:
            text = text_in(part, "text", where, needed=call is None)
            side = _without(part, "text", "functionCall") if call is None else {}
            yield from self._take_text(text, _is_thought(part, where), side)
        if call is not None:
            yield from self._take_call(call, _without(part, "functionCall", "text"), f"{where}.functionCall")
        elif "text" in part:
            return
        elif media := self._media(part):
            self._parts.add(media)
        elif part:
            kind = next((name for name in part if name not in _BESIDE), "thoughtSignature")
            self._parts.opaque(kind, {"part": part})

    def _take_text(self, text: str, is_thought: bool, side: dict[str, Any]) -> Iterator[ChatEvent]:
        if not is_thought:
            side.pop("thought", None)
        is_signed = bool(side.keys() - {"thought"})
        if not text and not is_signed:
            return
        if is_signed:  # the signature is for exactly this text
            self._parts.close()
        event = (self._parts.reasoning if is_thought else self._parts.text)(text, {"part": side} if side else None)
        if is_signed:
            self._parts.close()
        if text:
            yield event

    def _take_call(self, call: dict[str, Any], side: dict[str, Any], where: str) -> Iterator[ChatEvent]:
        name = text_in(call, "name", where, needed=True)
        calling = self._calling
        if name or calling is None:
            if "name" not in call:
                raise WrongShape(f"{where}.name", "the name of the tool", None)
            yield from self._end_call()
            args = object_in(call, "args", where, needed=True)
            data = self._parts.ours({"part": side, "payload": _without(call, *_CALL)})
            at = self._parts.add(OpaquePart(kind="functionCall", provider_data=data))  # until the call is whole
            rest = {"wire_id": self._ids.take(call.get("id")), "provider_data": data}
            calling = self._calling = _Calling(at, name, args, rest)
            yield ToolCallStart(at, name)
        calling.partial.add(list_in(call, "partialArgs", where), f"{where}.partialArgs")
        if not call.get("willContinue"):
            yield from self._end_call()

    def _end_call(self, *, is_cut: bool = False) -> Iterator[ChatEvent]:
        """End the current call, if any: not every service marks the end of a call."""
        calling, self._calling = self._calling, None
        if calling is None:
            return
        call, text = calling.build(is_cut=is_cut)
        if is_cut and self._raw_finish is None:  # The service does not announce it.
            call = attrs.evolve(call, error=None).if_whole()
        self._parts.replace(calling.at, call)
        yield ToolCallDelta(calling.at, text)
        yield ToolCallEnd(calling.at, call)

    def _media(self, part: dict[str, Any]) -> MediaPart | None:
        """Return a part's file; None where there is none, or it could not go back exactly as it came."""
        for payload, content in (("inlineData", "data"), ("fileData", "fileUri")):
            blob = part.get(payload)
            if not isinstance(blob, dict):
                continue
            mime_type, value = blob.get("mimeType"), blob.get(content)
            if not isinstance(mime_type, str) or not isinstance(value, str):
                return None
            data = _decoded(value) if payload == "inlineData" else None
            if payload == "inlineData" and data is None:
                return None
            rest = {"part": _without(part, payload), "payload": _without(blob, "mimeType", content)}
            return MediaPart(
                kind=_kind(mime_type),
                mime_type=mime_type,
                data=data,
                url=value if data is None else None,
                provider_data=self._parts.ours(rest),
            )
        return None

    def _take_citations(self, candidate: Mapping[str, Any]) -> None:
        metadata = candidate.get("citationMetadata")
        if isinstance(metadata, dict):  # two names: the Gemini API's, and Vertex AI's
            citations = metadata.get("citationSources", metadata.get("citations"))
            self._citations += [c for c in citations if isinstance(c, dict)] if isinstance(citations, list) else []
        for name in ("groundingMetadata", "urlContextMetadata"):
            if candidate.get(name) and isinstance(candidate[name], dict):
                self._citations.append({name: candidate[name]})


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Return a usage table as Usage; anything that is not a count is left out. None for no table.

    The service's total is prompt + tool use + candidates + thoughts: cached tokens are part of the prompt, thoughts no
    part of the candidates, and what its own tools found is read beside the prompt.
    """
    if not raw:
        return None
    return Usage(
        input_tokens=_sum(known_count(raw, "promptTokenCount"), known_count(raw, "toolUsePromptTokenCount")),
        output_tokens=_sum(known_count(raw, "candidatesTokenCount"), known_count(raw, "thoughtsTokenCount")),
        reasoning_tokens=known_count(raw, "thoughtsTokenCount"),
        cache_read_tokens=known_count(raw, "cachedContentTokenCount"),
        raw=raw,
    )


def _is_empty(parts: Sequence[AssistantPart]) -> bool:
    """Say whether there is nothing for the caller: thoughts and empty texts are nothing."""
    return not any(isinstance(p, ToolCall | MediaPart | OpaquePart) or (type(p) is TextPart and p.text) for p in parts)


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def _is_thought(part: Mapping[str, Any], where: str) -> bool:
    """Return True if a part's text is a thought rather than text for the user.

    Raises:
        WrongShape: The flag has a wrong type.
    """
    mark = part.get("thought", False)
    if type(mark) is not bool:
        raise WrongShape(f"{where}.thought", "true or false", mark)
    return mark


def _without(table: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


def _decoded(data: str) -> bytes | None:
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return decoded if base64.b64encode(decoded).decode("ascii") == data else None


def _kind(mime_type: str) -> Any:
    kind = mime_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"


_REASONS = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
    "IMAGE_SAFETY": "content_filter",
    "IMAGE_PROHIBITED_CONTENT": "content_filter",
    "IMAGE_RECITATION": "content_filter",
    "MODEL_ARMOR": "content_filter",
    "ESCALATION": "content_filter",
    "LANGUAGE": "error",
    "OTHER": "error",
    "NO_IMAGE": "error",
    "IMAGE_OTHER": "error",
    "MALFORMED_RESPONSE": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "FINISH_REASON_UNSPECIFIED": "error",
    "MALFORMED_FUNCTION_CALL": "malformed_tool_call",
    "UNEXPECTED_TOOL_CALL": "malformed_tool_call",
}
FAULTS = ("PUP_LIMITED_DISABLED", "MISSING_THOUGHT_SIGNATURE")
"""Finish reasons that report a failure rather than an answer."""
_MAX_TEXT_CHARS = 500


def finish_reason(raw: str) -> str:
    """Return our word for Gemini's. The service's list grows: a new one is "unknown"."""
    return _REASONS.get(raw, "unknown")


def why_it_ended(finish: str | None, raw: str | None, blocked: str | None, message: str, *, is_empty: bool) -> str:
    """Build a warning for an unusual finish reason; empty for the usual ones.

    Args:
        finish, raw: The finish reason as FlexChat's and as Gemini's.
        blocked: The reason why the prompt was blocked.
        message: The service's message, such as a malformed call.
        is_empty: There is no text, no call and no file.
    """
    why = f": {message[:_MAX_TEXT_CHARS]}" if message else ""
    if blocked:
        return f"the service blocked the prompt ({blocked}){why}"
    if finish == "malformed_tool_call":
        return f"the service could not use the tool call the model wrote ({raw}){why}"
    if finish in ("content_filter", "error", "unknown"):
        return f"the service stopped the answer ({raw}){why}"
    if finish == "length" and is_empty:
        return "the token limit was reached before the first word of the answer: thoughts count too"
    return "the model answered with nothing" if finish == "stop" and is_empty else ""
