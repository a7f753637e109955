"""A Chat Completions answer as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import (
    AssistantMessage,
    ChatEvent,
    ChatResult,
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

from .chat_calls import FUNCTION_CALL, CallDraft, CallTable
from .chat_request import SCOPE
from .think_tags import ThinkTags

# What compatible servers say for OpenAI's own words.
_FINISH = {
    "function_call": "tool_calls",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_length": "length",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "stop_sequence": "stop",
    "safety": "content_filter",
    "guardrail_intervened": "content_filter",
    # Gemini's layer, which says more behind a colon ("function_call_filter: MALFORMED_FUNCTION_CALL"); Groq's error.
    "function_call_filter": "malformed_tool_call",
    "tool_use_failed": "malformed_tool_call",
}
_TOOL_USE_FAILED = "tool_use_failed"
# These say more than "there are calls".
_STRONGER = ("length", "content_filter", "refusal", "malformed_tool_call")
# Read one, not both: vLLM sends the same text in either.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class AnswerDraft:
    """An answer on its way. Parts stand in the order in which they began."""

    def __init__(self, origin: str, *, think_tags: bool = False) -> None:
        self._origin = origin
        self._think_tags = ThinkTags() if think_tags else None
        self._order: list[str | CallDraft] = []
        self._text: list[str] = []
        self._refusal: list[str] = []
        self._reasoning: list[str] = []
        self._reasoning_field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._text_at = self._reasoning_at = -1
        self._calls = CallTable()
        self._citations: list[Mapping[str, Any]] = []
        self._usage: Mapping[str, Any] | None = None
        self._warnings: list[str] = []
        self.model: str | None = None
        self.response_id: str | None = None
        self.raw_finish: str | None = None

    def take(self, delta: Mapping[str, Any], *, whole: bool = False) -> Iterator[ChatEvent]:
        """Take a message or a piece of one, and yield what it adds."""
        field = self._reasoning_field
        if field is None:
            for name in _REASONING_FIELDS:
                if delta.get(name) and isinstance(delta[name], str):
                    field = self._reasoning_field = name
                    break
        if field is not None and isinstance(thought := delta.get(field), str) and thought:
            yield self._add_reasoning(thought)
        if details := delta.get("reasoning_details"):
            self._add_details(details)
        if content := delta.get("content"):
            if isinstance(content, str):
                yield from self._add_split(content)
            else:
                yield from self._take_parts(content)
        if (refusal := delta.get("refusal")) and isinstance(refusal, str):
            self._add_refusal(refusal)
        if isinstance(fragments := delta.get("tool_calls"), list):
            for fragment in fragments:
                if isinstance(fragment, dict):
                    yield from self._add_call(fragment, whole)
        if isinstance(old := delta.get("function_call"), dict):
            yield from self._add_call({"index": 0, "type": FUNCTION_CALL, "function": old}, whole)
        if isinstance(found := delta.get("annotations"), list):
            self._citations.extend(a for a in found if isinstance(a, dict))
        if delta.get("audio"):
            self.warn("the answer contains sound, which is left out")

    def add_text(self, text: str) -> TextDelta:
        """Take more text: what take does for the usual delta where no tags are looked for."""
        return self._add_text(text)

    def take_frame(self, frame: Mapping[str, Any]) -> None:
        """Take what stands around the choices."""
        if self.model is None and (model := frame.get("model")) and isinstance(model, str):
            self.model = model
        if self.response_id is None and (response_id := frame.get("id")) and isinstance(response_id, str):
            self.response_id = response_id
        usage = frame.get("usage")
        if not usage and isinstance(groq := frame.get("x_groq"), dict):
            usage = groq.get("usage")
        self.take_usage(usage)

    def take_usage(self, usage: object) -> None:
        """Take a usage table, if it is one; a later one replaces it."""
        if usage and isinstance(usage, dict):
            self._usage = usage

    def warn(self, text: str) -> None:
        """Note what could not be honoured."""
        if text not in self._warnings:
            self._warnings.append(text)

    def fail(self, why: object) -> None:
        """End the answer because the service could not use the tool call in it."""
        self.raw_finish = _TOOL_USE_FAILED
        self.warn(f"the tool call the model wrote could not be used: {why}")

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left of the text and the calls and, last, StreamEnd with the result."""
        if self._think_tags is not None:
            for kind, text in self._think_tags.end():
                yield self._add_reasoning(text) if kind == "thought" else self._add_text(text)
        for draft in self._calls.calls:
            if not draft.announced:
                yield from self._announce(draft)
        finish = self._finish_reason()
        calls = [self._call(draft, finish, draft is self._calls.calls[-1]) for draft in self._calls.calls]
        for draft, call in zip(self._calls.calls, calls, strict=True):
            yield ToolCallEnd(draft.position, call)
        if self.raw_finish is None:
            self.warn("the answer ended without a finish reason; it may be incomplete")
        by_position = {draft.position: call for draft, call in zip(self._calls.calls, calls, strict=True)}
        parts = tuple(
            by_position[at] if isinstance(kind, CallDraft) else self._part(kind) for at, kind in enumerate(self._order)
        )
        yield StreamEnd(
            ChatResult(
                message=AssistantMessage(parts=parts),
                finish_reason=finish,
                raw_finish=self.raw_finish,
                usage=usage_of(self._usage),
                model=self.model,
                response_id=self.response_id,
                warnings=tuple(self._warnings),
            )
        )

    def _add_text(self, text: str) -> TextDelta:
        if self._text_at < 0:
            self._text_at = len(self._order)
            self._order.append("text")
        self._text.append(text)
        return TextDelta(self._text_at, text)

    def _add_split(self, text: str) -> Iterator[ChatEvent]:
        for kind, piece in self._think_tags.feed(text) if self._think_tags is not None else (("text", text),):
            yield self._add_reasoning(piece) if kind == "thought" else self._add_text(piece)

    def _add_reasoning(self, text: str) -> ReasoningDelta:
        self._place_reasoning()
        self._reasoning.append(text)
        return ReasoningDelta(self._reasoning_at, text)

    def _place_reasoning(self) -> None:
        if self._reasoning_at < 0:
            self._reasoning_at = len(self._order)
            self._order.append("reasoning")

    def _add_refusal(self, text: str) -> None:
        if not self._refusal:
            self._order.append("refusal")
        self._refusal.append(text)

    def _add_details(self, details: object) -> None:
        """Take OpenRouter's reasoning_details, which go back as they came; pieces of one text are joined."""
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            self._place_reasoning()
            last = self._details[-1] if self._details else {}
            if last.get("type") != detail.get("type") or last.get("index") != detail.get("index") or not last:
                self._details.append(dict(detail))
                continue
            for key, value in detail.items():
                if key in ("text", "summary", "data") and isinstance(value, str) and isinstance(last.get(key), str):
                    last[key] += value
                elif value is not None:
                    last[key] = value

    def _take_parts(self, parts: object) -> Iterator[ChatEvent]:
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, str) and part:
                yield self._add_text(part)
            if not isinstance(part, dict):
                continue
            if isinstance(text := part.get("text"), str) and text:
                yield self._add_text(text)
            elif isinstance(refusal := part.get("refusal"), str) and refusal:
                self._add_refusal(refusal)
            else:
                for thought in _thoughts(part):
                    yield self._add_reasoning(thought)

    def _add_call(self, fragment: dict[str, Any], whole: bool) -> Iterator[ChatEvent]:
        before = len(self._calls.calls)
        found = self._calls.add(fragment, len(self._order), whole=whole)
        if found is None:
            return
        draft, text = found
        if len(self._calls.calls) > before:
            self._order.append(draft)
        if draft.announced:
            if text:
                yield ToolCallDelta(draft.position, text)
        elif draft.name and draft.pieces:
            # Only now is the name sure to be whole.
            yield from self._announce(draft)

    def _announce(self, draft: CallDraft) -> Iterator[ChatEvent]:
        draft.announced = True
        yield ToolCallStart(draft.position, draft.name)
        if draft.pieces:
            yield ToolCallDelta(draft.position, draft.arguments)

    def _finish_reason(self) -> str | None:
        word = self.raw_finish.lower().partition(":")[0] if self.raw_finish else None
        reason = _FINISH.get(word, word) if word else None
        if reason in _STRONGER:
            return reason
        if self._calls.calls:
            return "tool_calls"
        return "refusal" if self._refusal and not self._text else reason

    def _call(self, draft: CallDraft, finish: str | None, is_last: bool) -> ToolCall:
        rest: dict[str, Any] = {
            "wire_id": draft.id,
            "provider_data": ProviderData(scope=SCOPE, origin=self._origin, data=draft.extra),
        }
        text = draft.arguments
        call = ToolCall.from_text(draft.name, text, **rest)
        if text.strip() == "null":  # Groq, for a tool without parameters
            return attrs.evolve(call, arguments={}, error=None)
        # A call at the end of an answer that was cut off may have lost all its arguments without a trace.
        is_cut = finish == "length" or self.raw_finish is None
        if is_cut and (call.arguments is None or (is_last and not text.strip())):
            return ToolCall.from_text(draft.name, text, truncated=True, id=call.id, **rest)
        return call

    def _part(self, kind: str) -> TextPart | ReasoningPart | RefusalPart:
        ours = ProviderData(scope=SCOPE, origin=self._origin, data={})
        if kind == "text":
            return TextPart(text="".join(self._text), citations=tuple(self._citations))
        if kind == "refusal":
            return RefusalPart(text="".join(self._refusal), provider_data=ours)
        text = "".join(self._reasoning)
        message: dict[str, Any] = {self._reasoning_field: text} if self._reasoning_field and text else {}
        if self._details:
            message["reasoning_details"] = self._details
        data = ProviderData(scope=SCOPE, origin=self._origin, data={"message": message}) if message else None
        return ReasoningPart(text=text, redacted=not text, provider_data=data)


def usage_of(raw: Mapping[str, Any] | None) -> Usage | None:
    """Return a usage table as Usage; what is no count is left out. None for no table."""
    if not raw:
        return None
    return Usage(
        input_tokens=count(raw, "prompt_tokens"),
        output_tokens=count(raw, "completion_tokens"),
        reasoning_tokens=count(raw.get("completion_tokens_details"), "reasoning_tokens"),
        cache_read_tokens=_cached(raw),
        cache_write_tokens=count(raw.get("prompt_tokens_details"), "cache_write_tokens"),
        raw=raw,
    )


def count(table: object, key: str) -> int | None:
    """Return a count in a table of usage; None for what is none."""
    value = table.get(key) if isinstance(table, dict) else None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if type(value) is int else None


def _cached(raw: Mapping[str, Any]) -> int | None:
    """Return the cached tokens, where OpenAI tells them, else where DeepSeek and Moonshot did."""
    places = (
        (raw.get("prompt_tokens_details"), "cached_tokens"),
        (raw, "prompt_cache_hit_tokens"),
        (raw, "cached_tokens"),
    )
    return next((found for table, key in places if (found := count(table, key)) is not None), None)


def _thoughts(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a part that is thought: ``thinking`` (Mistral: a list), or ``summary`` (Databricks)."""
    found = part.get("thinking") or part.get("summary")
    for item in found if isinstance(found, list) else [{"text": found}]:
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str) and text:
            yield text


def is_malformed_call(body: object) -> bool:
    """Say whether an error is really an answer: Groq refuses, as an error, a call its model wrote badly."""
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and error.get("code") == _TOOL_USE_FAILED
