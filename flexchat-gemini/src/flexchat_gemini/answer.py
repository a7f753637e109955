"""A Gemini answer as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import ChatResult, ToolCall
from flexchat.provider import (
    AnswerEnd,
    AssistantMessage,
    ChatEvent,
    FirstAnswer,
    MediaPart,
    OpaquePart,
    ProviderData,
    ProviderError,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
    WireIds,
    WrongShape,
    finite,
    known_count,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
    to_text,
)

from .contents import SCOPE
from .finish import FAULTS, finish_reason, why_it_ended
from .partial_args import PartialArgs

# What of a call is read here.
_CALL = ("name", "args", "id", "partialArgs", "willContinue")
# What may stand beside the one payload of a part.
_BESIDE = ("thought", "thoughtSignature", "partMetadata", "videoMetadata", "mediaResolution")


@attrs.define
class _Said:
    """Text or thought that more may be joined to."""

    pieces: list[str]
    side: dict[str, Any]

    @property
    def is_thought(self) -> bool:
        return self.side.get("thought") is True


@attrs.define
class _Calling:
    """A call that is being written: ``args`` come whole, or in pieces over several parts.

    Attributes:
        rest: The ToolCall's wire_id and provider_data.
    """

    name: str
    args: Mapping[str, Any] | None
    rest: dict[str, Any]
    partial: PartialArgs = attrs.field(factory=PartialArgs)

    def made(self, *, is_cut: bool) -> tuple[ToolCall, str]:
        """Return the call, and its arguments as JSON text."""
        try:
            args = self.args or self.partial.made()
            text = to_text(finite(args))
        except (ValueError, RecursionError) as error:
            why = "the arguments are nested too deeply" if isinstance(error, RecursionError) else str(error)
            return ToolCall(name=self.name, arguments=None, error=why, **self.rest), ""
        if is_cut:
            return ToolCall.from_text(self.name, text, truncated=True, **self.rest), text
        return ToolCall.from_object(self.name, args, **self.rest), text


class AnswerDraft:
    """An answer on its way. Parts stand in the order in which they came.

    Args:
        origin: scheme://host[:port] of the server.
        failed: Makes the error for a body that reports one.
    """

    def __init__(self, origin: str, failed: Callable[[object], ProviderError]) -> None:
        self._origin, self._failed = origin, failed
        self._parts: list[_Said | _Calling | ToolCall | MediaPart | OpaquePart] = []
        self._calling_at = -1
        self._call_ids = WireIds()
        self._citations: list[Mapping[str, Any]] = []
        self._usage: dict[str, Any] = {}
        self._warnings: list[str] = []
        self._block_reason: str | None = None
        self._wrong_feedback: WrongShape | None = None
        self._first = FirstAnswer()
        self._has_ended = False
        self._message = ""
        self._model: str | None = None
        self._response_id: str | None = None
        self.raw_finish: str | None = None

    @property
    def is_over(self) -> bool:
        """Whether the service has said why the answer ends."""
        return self._has_ended or self._block_reason is not None

    def take(self, chunk: Mapping[str, Any]) -> Iterator[ChatEvent]:
        """Take an answer or a piece of one, and yield what it adds. Every level of it may be missing.

        Raises:
            ProviderError: The chunk reports one.
            WrongShape: Something of a wrong type stands where text or calls may stand.
        """
        if chunk.get("error"):
            raise self._failed(chunk)
        self._model = known_text(chunk.get("modelVersion")) or self._model
        self._response_id = known_text(chunk.get("responseId")) or self._response_id
        usage = chunk.get("usageMetadata")
        if isinstance(usage, dict):  # cumulative; a count that is missing later keeps its value
            self._usage.update({name: value for name, value in usage.items() if value is not None})
        self._take_feedback(chunk.get("promptFeedback"))
        candidates = list_in(chunk, "candidates", needed=True)
        for place, (where, candidate) in enumerate(objects_of(candidates, "candidates")):
            if self._first.includes(candidate.get("index", place), f"{where}.index"):
                yield from self._candidate(candidate, where)
            else:
                self._warn("the service sent several answers; only the first is used")

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left and, last, AnswerEnd with the result.

        Raises:
            ProviderError: The service ended the answer for a fault.
            WrongShape: There is no answer, and what may say why cannot be read.
        """
        if self._wrong_feedback is not None and not self._parts and not self._has_ended:
            raise self._wrong_feedback
        if self.raw_finish in FAULTS:
            raise self._failed({"error": {"status": self.raw_finish, "message": self._message or self.raw_finish}})
        yield from self._end_call(is_cut=self.raw_finish != "STOP")
        parts = [self._part(part) for part in self._parts]
        self._cite(parts)
        blocked = None if self._has_ended else self._block_reason
        has_calls = any(isinstance(part, ToolCall) for part in parts)
        finish = "content_filter" if blocked else finish_reason(self.raw_finish, has_calls=has_calls)
        if text := why_it_ended(finish, self.raw_finish, blocked, self._message, is_empty=_is_empty(parts)):
            self._warn(text)
        yield AnswerEnd(
            ChatResult(
                message=AssistantMessage(parts=tuple(parts)),
                finish_reason=finish,
                raw_finish=self.raw_finish or self._block_reason,
                usage=usage_of(self._usage),
                model=self._model,
                response_id=self._response_id,
                warnings=tuple(self._warnings),
            )
        )

    def _take_feedback(self, feedback: object) -> None:
        """Take what the service says of the prompt: where it blocks it, there is no answer."""
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
        if finish is not None and finish != "":  # a word that cannot be read still says that the answer ends
            self._has_ended = True
            self.raw_finish = known_text(finish) or self.raw_finish
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
            self._parts.append(media)
        elif part:
            kind = next((name for name in part if name not in _BESIDE), "thoughtSignature")
            self._parts.append(OpaquePart(kind=kind, provider_data=self._data({"part": part})))

    def _take_text(self, text: str, is_thought: bool, side: dict[str, Any]) -> Iterator[ChatEvent]:
        if not is_thought:
            side.pop("thought", None)
        if not text and not side.keys() - {"thought"}:
            return
        last = self._parts[-1] if self._parts else None
        # A signed part stays what it is: the signature is for exactly this text.
        if isinstance(last, _Said) and last.side == side and not side.keys() - {"thought"}:
            last.pieces.append(text)
        else:
            self._parts.append(_Said([text], side))
        if text:
            at = len(self._parts) - 1
            yield ReasoningDelta(at, text) if is_thought else TextDelta(at, text)

    def _take_call(self, call: dict[str, Any], side: dict[str, Any], where: str) -> Iterator[ChatEvent]:
        name = text_in(call, "name", where, needed=True)
        if name or self._calling_at < 0:
            if "name" not in call:
                raise WrongShape(f"{where}.name", "the name of the tool", None)
            yield from self._end_call()
            data = {"part": side, "payload": _without(call, *_CALL)}
            rest = {"wire_id": self._call_ids.take(call.get("id")), "provider_data": self._data(data)}
            self._calling_at = len(self._parts)
            self._parts.append(_Calling(name, object_in(call, "args", where, needed=True), rest))
        calling = self._parts[self._calling_at]
        assert isinstance(calling, _Calling)
        calling.partial.add(list_in(call, "partialArgs", where), f"{where}.partialArgs")
        if not call.get("willContinue"):
            yield from self._end_call()

    def _end_call(self, *, is_cut: bool = False) -> Iterator[ChatEvent]:
        """End the call that is being written, if one is: not every service says that it has ended."""
        at, self._calling_at = self._calling_at, -1
        if at < 0:
            return
        calling = self._parts[at]
        assert isinstance(calling, _Calling)
        made, text = calling.made(is_cut=is_cut)
        if is_cut and self.raw_finish is None:  # nobody says so
            made = attrs.evolve(made, error=None).if_whole()
        self._parts[at] = made
        yield ToolCallStart(at, made.name)
        yield ToolCallDelta(at, text)
        yield ToolCallEnd(at, made)

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
                provider_data=self._data(rest),
            )
        return None

    def _part(
        self, part: _Said | _Calling | ToolCall | MediaPart | OpaquePart
    ) -> TextPart | ReasoningPart | ToolCall | MediaPart | OpaquePart:
        assert not isinstance(part, _Calling), "every call has ended"
        if not isinstance(part, _Said):
            return part
        text = "".join(part.pieces)
        if part.is_thought:
            return ReasoningPart(text=text, redacted=not text, provider_data=self._data({"part": part.side}))
        return TextPart(text=text, provider_data=self._data({"part": part.side}) if part.side else None)

    def _data(self, data: dict[str, Any]) -> ProviderData:
        return ProviderData(scope=SCOPE, origin=self._origin, data=data)

    def _take_citations(self, candidate: Mapping[str, Any]) -> None:
        metadata = candidate.get("citationMetadata")
        if isinstance(metadata, dict):  # two names: the Gemini API's, and Vertex AI's
            found = metadata.get("citationSources", metadata.get("citations"))
            self._citations += [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
        for name in ("groundingMetadata", "urlContextMetadata"):
            if candidate.get(name) and isinstance(candidate[name], dict):
                self._citations.append({name: candidate[name]})

    def _cite(self, parts: list[Any]) -> None:
        """Put what the text rests on where the text is: on its last part."""
        places = [at for at, part in enumerate(parts) if type(part) is TextPart]
        said = [at for at in places if parts[at].text] or places
        if self._citations and said:
            parts[said[-1]] = attrs.evolve(parts[said[-1]], citations=tuple(self._citations))

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Return a usage table as Usage; what is no count is left out. None for no table.

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


def _is_empty(parts: list[Any]) -> bool:
    """Say whether there is nothing for the caller: thoughts and empty texts are nothing."""
    return not any(isinstance(p, ToolCall | MediaPart | OpaquePart) or (type(p) is TextPart and p.text) for p in parts)


def _sum(a: int | None, b: int | None) -> int | None:
    return b if a is None else a if b is None else a + b


def _is_thought(part: Mapping[str, Any], where: str) -> bool:
    """Say whether a part's text is a thought, and not for the caller.

    Raises:
        WrongShape: It cannot be told.
    """
    mark = part.get("thought", False)
    if type(mark) is not bool:
        raise WrongShape(f"{where}.thought", "true or false", mark)
    return mark


def _without(table: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in table.items() if name not in names}


def _decoded(data: str) -> bytes | None:
    try:
        found = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return found if base64.b64encode(found).decode("ascii") == data else None


def _kind(mime_type: str) -> Any:
    kind = mime_type.partition("/")[0]
    return kind if kind in ("image", "audio", "video") else "document"
