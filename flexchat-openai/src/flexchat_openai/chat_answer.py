"""A Chat Completions answer as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatEvent,
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
    WrongShape,
    known_count,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
    type_name,
)

from .chat_calls import FUNCTION_CALL, CallDraft, CallTable
from .chat_request import SCOPE
from .prices import charged
from .think_tags import ThinkTags

# Compatible servers' synonyms for OpenAI's finish reasons.
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
    # Gemini's layer, which adds more after a colon ("function_call_filter: MALFORMED_FUNCTION_CALL"); Groq's error.
    "function_call_filter": "malformed_tool_call",
    "tool_use_failed": "malformed_tool_call",
}
_TOOL_USE_FAILED = "tool_use_failed"
# These take precedence over "tool_calls".
_STRONGER = ("length", "content_filter", "refusal", "malformed_tool_call")
# The types of content parts that hold text.
_KINDS = {"text": ("text", "output_text"), "refusal": ("refusal",)}
_CALL_IN_TEXT = re.compile(r"<tool_call>\s*(?:[{<]|\w+\s*[{<(])")
_TAGS = {
    "<tool_call>": "the server does not read the model's calls; start it with the parser for its model",
    "</think>": "what precedes it is the model's thought; start the server with the parser for its model",
}
# Mistral's references to sources.
_WITHOUT_TEXT = ("reference",)
_THOUGHT_KEYS = {"thinking", "summary"}
# Read one, not both: vLLM sends the same text in each.
_REASONING_FIELDS = ("reasoning_content", "reasoning")


class AnswerDraft:
    """An answer being read. Parts are in the order in which they began.

    Attributes:
        raw_finish: The service's finish reason; None if no readable one came.
    """

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
        self._is_over = False

    @property
    def is_over(self) -> bool:
        """Whether the service has ended the answer, even with an unreadable finish reason."""
        return self._is_over or self.raw_finish is not None

    def take(self, delta: Mapping[str, Any], where: str = "message", *, whole: bool = False) -> Iterator[ChatEvent]:
        """Take a message or a piece of one and yield what it adds.

        Args:
            where: Its place in the answer, for errors.

        Raises:
            WrongShape: A value has the wrong type where text or calls are expected.
        """
        field = self._reasoning_field
        for name in _REASONING_FIELDS if field is None else (field,):
            thought = delta.get(name)
            if isinstance(thought, str):
                if thought:
                    self._reasoning_field = name
                    yield self._add_reasoning(thought)
                    break
            elif thought is not None:
                self._warn_of_thought(f"{where}.{name}", thought)
        if details := delta.get("reasoning_details"):
            self._add_details(details)
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                yield from self._add_split(content)
        elif isinstance(content, list):
            yield from self._take_parts(content, f"{where}.content")
        elif content is not None:
            raise WrongShape(f"{where}.content", "text", content)
        if refusal := text_in(delta, "refusal", where):
            self._add_refusal(refusal)
        if "tool_calls" in delta:
            for path, fragment in objects_of(list_in(delta, "tool_calls", where), f"{where}.tool_calls"):
                yield from self._add_call(fragment, path, whole)
        if old := object_in(delta, "function_call", where):
            yield from self._add_call({"type": FUNCTION_CALL, "function": old}, f"{where}.function_call", whole)
        if isinstance(found := delta.get("annotations"), list):
            self._citations.extend(a for a in found if isinstance(a, dict))
        if delta.get("audio"):
            self.warn("the answer contains audio, which is left out")

    def add_text(self, text: str) -> TextDelta:
        """Take more text: a shortcut for take with a plain delta, without a search for tags."""
        return self._add_text(text)

    def take_frame(self, frame: Mapping[str, Any]) -> None:
        """Take the fields around the choices."""
        self.model = self.model or known_text(frame.get("model"))
        self.response_id = self.response_id or known_text(frame.get("id"))
        usage = frame.get("usage")
        if not usage and isinstance(groq := frame.get("x_groq"), dict):
            usage = groq.get("usage")
        self.take_usage(usage)

    def take_usage(self, usage: object) -> None:
        """Take a usage table and ignore anything else; a later one replaces it."""
        if usage and isinstance(usage, dict):
            self._usage = usage

    def take_finish(self, finish: object) -> None:
        """Take the finish reason; an unreadable one still ends the answer."""
        if finish is not None and finish != "":
            self._is_over = True
            self.raw_finish = known_text(finish) or self.raw_finish

    def warn(self, text: str) -> None:
        """Note what could not be honoured."""
        if text not in self._warnings:
            self._warnings.append(text)

    def fail(self, why: object) -> None:
        """End the answer because the service could not use its tool call."""
        self.take_finish(_TOOL_USE_FAILED)
        self.warn(f"the tool call the model wrote could not be used: {why}")

    def end(self) -> Iterator[ChatEvent]:
        """Yield the rest of the text and the calls and, last, AnswerEnd with the result.

        Raises:
            WrongShape: A call has no name or is several in one, as one answer may be.
        """
        if self._think_tags is not None:
            for kind, text in self._think_tags.end():
                yield self._add_reasoning(text) if kind == "thought" else self._add_text(text)
        for at, draft in enumerate(self._calls.calls):
            if not draft.is_named:
                raise WrongShape(f"tool_calls[{at}].function.name", "text", None)
        finish = self._finish_reason()
        if finish == "tool_calls" and not self._calls.calls:
            self.warn("the finish reason is tool_calls, but the answer has no calls")
        calls = [self._call(draft, finish, draft is self._calls.calls[-1]) for draft in self._calls.calls]
        for at, (draft, call) in enumerate(zip(self._calls.calls, calls, strict=True)):
            if call.arguments is None:
                draft.check_single(f"tool_calls[{at}]")
            if not draft.announced:
                yield from self._announce(draft)
        for draft, call in zip(self._calls.calls, calls, strict=True):
            yield ToolCallEnd(draft.position, call)
        for tag in self._tags_in_text():
            self.warn(f"the answer contains {tag} as text: {_TAGS[tag]}")
        if self.raw_finish is None:
            self.warn("the answer ended without a finish reason; it may be incomplete")
        by_position = {draft.position: call for draft, call in zip(self._calls.calls, calls, strict=True)}
        parts = tuple(
            by_position[at] if isinstance(kind, CallDraft) else self._part(kind) for at, kind in enumerate(self._order)
        )
        yield AnswerEnd(
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

    def _tags_in_text(self) -> list[str]:
        """Return the tags with which models write calls and thoughts, as far as no answer's text has them otherwise."""
        text = "".join(self._text)
        has_call = not self._calls.calls and _CALL_IN_TEXT.search(text)
        has_thought = "<think>" not in text and text.rpartition("</think>")[1]
        return [tag for tag, is_there in (("<tool_call>", has_call), ("</think>", has_thought)) if is_there]

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
        """Take OpenRouter's reasoning_details, which go back unchanged; pieces of one text are joined."""
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

    def _take_parts(self, parts: list[Any], where: str) -> Iterator[ChatEvent]:
        for at, part in enumerate(parts):
            if isinstance(part, str):
                if part:
                    yield self._add_text(part)
                continue
            if not isinstance(part, dict):
                raise WrongShape(f"{where}[{at}]", "an object", part)
            kind = part.get("type")
            for key in ("text", "refusal"):
                # A part of an unknown kind may hold anything under these names.
                if key in part and (isinstance(part[key], str) or kind in _KINDS[key] or not isinstance(kind, str)):
                    said = text_in(part, key, f"{where}[{at}]", needed=True)
                    if said and key == "text":
                        yield self._add_text(said)
                    elif said:
                        self._add_refusal(said)
                    break
            else:
                if isinstance(kind, str) and kind not in _WITHOUT_TEXT and not _THOUGHT_KEYS & part.keys():
                    raise WrongShape(f"{where}[{at}] of type {kind[:40]!r}", "text, a refusal or a thought", part)
                for thought in _thoughts(part):
                    yield self._add_reasoning(thought)

    def _add_call(self, fragment: dict[str, Any], path: str, whole: bool) -> Iterator[ChatEvent]:
        before = len(self._calls.calls)
        found = self._calls.add(fragment, path, len(self._order), whole=whole)
        if found is None:
            return
        draft, text = found
        if len(self._calls.calls) > before:
            self._order.append(draft)
        if draft.announced:
            if text:
                yield ToolCallDelta(draft.position, text)
        elif draft.name and draft.pieces:
            # Only now is the name certain to be complete.
            yield from self._announce(draft)

    def _warn_of_thought(self, path: str, found: object) -> None:
        self.warn(f"reasoning is left out ({path}: expected text, got {type_name(found)})")

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
        # The last call of an answer that was cut off may have lost all its arguments without a trace.
        is_cut = finish == "length" or not self.is_over
        if is_cut and (call.arguments is None or (is_last and not text.strip())):
            return ToolCall.from_text(draft.name, text, truncated=True, id=call.id, **rest)
        return call.if_whole() if is_last and self.raw_finish is None else call

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
    """Return a usage table as Usage, without anything that is not a count; None if there is no table."""
    if not raw:
        return None
    return Usage(
        input_tokens=known_count(raw, "prompt_tokens"),
        output_tokens=known_count(raw, "completion_tokens"),
        reasoning_tokens=known_count(raw.get("completion_tokens_details"), "reasoning_tokens"),
        cache_read_tokens=_cached(raw),
        cache_write_tokens=known_count(raw.get("prompt_tokens_details"), "cache_write_tokens"),
        cost=charged(raw),
        raw=raw,
    )


def _cached(raw: Mapping[str, Any]) -> int | None:
    """Return the cached tokens from OpenAI's field or, failing that, from DeepSeek's or Moonshot's."""
    places = (
        (raw.get("prompt_tokens_details"), "cached_tokens"),
        (raw, "prompt_cache_hit_tokens"),
        (raw, "cached_tokens"),
    )
    return next((found for table, key in places if (found := known_count(table, key)) is not None), None)


def _thoughts(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a reasoning part: ``thinking`` (Mistral: a list), or ``summary`` (Databricks)."""
    found = part.get("thinking") or part.get("summary")
    for item in found if isinstance(found, list) else [{"text": found}]:
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str) and text:
            yield text


def is_malformed_call(body: object) -> bool:
    """Return whether an error is really an answer: Groq reports its model's malformed call as an error."""
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and error.get("code") == _TOOL_USE_FAILED


def unwrapped(answer: object) -> dict[str, Any]:
    """Return a whole answer, unwrapped from a list if needed (errors of Gemini's layer); otherwise an empty one."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    return answer if isinstance(answer, dict) else {}
