"""A Chat Completions answer as a ChatResult. The same draft takes whole answers and streamed ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AnswerParts,
    ChatEvent,
    FirstAnswer,
    ProviderError,
    ReasoningDelta,
    Reported,
    TextPiece,
    TextReader,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Unreadable,
    Usage,
    WrongShape,
    known_count,
    known_number,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
    type_name,
)
from flexchat_sdk import usage_of as read_usage

from .chat_calls import FUNCTION_CALL, CallDraft, CallTable
from .chat_request import SCOPE
from .models import charged

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
TOOL_USE_FAILED = "tool_use_failed"
# The types of content parts that hold text.
_KINDS = {"text": ("text", "output_text"), "refusal": ("refusal",)}
# Mistral's references to sources.
_WITHOUT_TEXT = ("reference",)
_THOUGHT_KEYS = {"thinking", "summary"}
# Read one, not both: vLLM sends the same text in each.
_REASONING_FIELDS = ("reasoning_content", "reasoning")
# Holds a call's place until the call is complete.
_PENDING = ToolCall(name="", arguments=None)
_SEVERAL = "the service sent several answers; only the first is used"
MALFORMED_CALL = "the tool call the model wrote could not be used"


class ChatStream:
    """Reads one answer, streamed or whole; see the kit's Answer. Parts are in the order in which they began.

    Args:
        text: Reads the text; None: it passes unchanged.
    """

    def __init__(self, origin: str, text: TextReader | None = None) -> None:
        self._parts = AnswerParts(SCOPE, origin, joined=True)
        self._text = text or TextReader()
        self._is_plain = self._text.is_plain
        self._has_begun = self._is_empty = self._has_finish = self.is_over = False
        self._first = FirstAnswer()
        self._reasoning: list[str] = []
        self._reasoning_field: str | None = None
        self._details: list[dict[str, Any]] = []
        self._calls = CallTable()
        self._citations: list[Mapping[str, Any]] = []
        self._usage: Mapping[str, Any] | None = None
        self._raw_finish: str | None = None

    def end(self) -> Iterable[ChatEvent]:
        """Return the remaining events once the stream has ended."""
        if not self._has_begun and self._is_empty:
            raise Unreadable("ended its stream without choices", cut_off=True)
        if not self._has_begun:
            raise Unreadable("ended its stream before sending anything: is base_url right?")
        if not self.is_over and not self._has_finish:
            raise Unreadable("ended its stream early: neither a finish reason nor [DONE] came", cut_off=True)
        return self._ended()

    def take(self, chunk: dict[str, Any], name: str = "") -> Iterable[ChatEvent]:
        """Return the events that a chunk adds."""
        if chunk.get("error") or name == "error" or chunk.get("object") == "error":
            raise Reported(chunk)
        if self._parts.model is None or chunk.get("usage") or "x_groq" in chunk:
            self._take_frame(chunk)
        if self._is_plain and (text := _only_text(chunk)) is not None:
            self._has_begun = True
            return (self._parts.text(text),) if text else ()
        return self._take_choices(chunk)

    def _take_choices(self, chunk: dict[str, Any]) -> Iterator[ChatEvent]:
        self._is_empty = self._is_empty or not chunk.get("choices", True)
        for where, choice in objects_of(list_in(chunk, "choices"), "choices"):
            index = choice.get("index")
            if (index != 0 or index is False) and not self._first.includes(index, f"{where}.index"):
                self._parts.warn(_SEVERAL)
                continue
            delta, finish = object_in(choice, "delta", where), choice.get("finish_reason")
            if finish and choice.get("error"):  # OpenRouter, when the model's host fails midway
                raise Reported(choice)
            if "usage" in choice:  # Moonshot
                self._take_usage(choice["usage"])
            if delta is not None:
                self._has_begun = True
                yield from self._take_message(delta, f"{where}.delta")
            elif not self._has_begun and (message := object_in(choice, "message", where)) is not None:
                self._has_begun = True
                yield from self._take_message(message, f"{where}.message", whole=True)
            if finish is not None and finish != "":
                self._has_begun = True
                self._take_finish(finish)

    def whole(self, answer: Any) -> Iterator[ChatEvent]:
        """Yield the events of a whole answer."""
        answer = unwrapped(answer)
        if answer.get("error"):
            raise Reported(answer)
        choices = list(objects_of(list_in(answer, "choices"), "choices"))
        where, choice = _first(choices)
        message = object_in(choice, "message", where, needed=True)
        if message is None and "choices" in answer and not choices:  # OpenRouter, when the model's host hiccups
            raise Unreadable("sent an answer without choices", cut_off=True)
        # Gemini's layer leaves out the message when thoughts used up the limit.
        if message is None and (not choice.get("finish_reason") or "text" in choice):
            raise Unreadable("sent JSON that is not a chat completion: is base_url right? It often ends with /v1")
        if choice.get("error"):  # OpenRouter, when the model's host fails
            raise Reported(choice)
        if len(choices) > 1:
            self._parts.warn(_SEVERAL)
        self._take_frame(answer)
        self._take_finish(choice.get("finish_reason"))
        yield from self._take_message(message or {}, f"{where}.message", whole=True)
        yield from self._ended()

    def refused(self, body: object, error: ProviderError) -> Iterable[ChatEvent] | None:
        """Return the end of the answer if the error is really an answer; None for a real error."""
        if not is_malformed_call(body):
            return None
        self._take_finish(TOOL_USE_FAILED)
        self._parts.warn(f"{MALFORMED_CALL}: {error}")
        return self._ended()

    def _take_message(self, delta: Mapping[str, Any], where: str, *, whole: bool = False) -> Iterator[ChatEvent]:
        """Take a message or a piece of one and yield what it adds."""
        field = self._reasoning_field
        for name in _REASONING_FIELDS if field is None else (field,):
            reasoning = delta.get(name)
            if isinstance(reasoning, str):
                if reasoning:
                    self._reasoning_field = name
                    yield self._add_reasoning(reasoning)
                    break
            elif reasoning is not None:
                self._parts.warn(f"reasoning is left out ({where}.{name}: expected text, got {type_name(reasoning)})")
        if details := delta.get("reasoning_details"):
            self._add_details(details)
        content = delta.get("content")
        if isinstance(content, str):
            if content:
                yield from self._add_pieces(self._text.feed(content))
        elif isinstance(content, list):
            yield from self._take_parts(content, f"{where}.content")
        elif content is not None:
            raise WrongShape(f"{where}.content", "text", content)
        if refusal := text_in(delta, "refusal", where):
            self._parts.refusal(refusal)
        if "tool_calls" in delta:
            for path, fragment in objects_of(list_in(delta, "tool_calls", where), f"{where}.tool_calls"):
                yield from self._add_call(fragment, path, whole)
        if old := object_in(delta, "function_call", where):
            yield from self._add_call({"type": FUNCTION_CALL, "function": old}, f"{where}.function_call", whole)
        if isinstance(annotations := delta.get("annotations"), list):
            self._citations.extend(a for a in annotations if isinstance(a, dict))
        if delta.get("audio"):
            self._parts.warn("the answer contains audio, which is left out")

    def _take_frame(self, frame: Mapping[str, Any]) -> None:
        """Take the fields around the choices."""
        parts = self._parts
        parts.model = parts.model or known_text(frame.get("model"))
        parts.response_id = parts.response_id or known_text(frame.get("id"))
        usage = frame.get("usage")
        if not usage and isinstance(groq := frame.get("x_groq"), dict):
            usage = groq.get("usage")
        self._take_usage(usage)

    def _take_usage(self, usage: object) -> None:
        """Take a usage table and ignore anything else; a later one replaces it."""
        if usage and isinstance(usage, dict):
            self._usage = usage

    def _take_finish(self, finish: object) -> None:
        """Take the finish reason; an unreadable one still ends the answer."""
        if finish is not None and finish != "":
            self._has_finish = True
            self._raw_finish = known_text(finish) or self._raw_finish

    def _ended(self) -> Iterator[ChatEvent]:
        """Yield the rest of the text and the calls and, last, AnswerEnd with the result.

        Raises:
            WrongShape: A call has no name or is several in one, as one answer may be.
        """
        pieces, text_calls = self._text.end()
        yield from self._add_pieces(pieces)
        drafts = self._calls.calls
        for at, draft in enumerate(drafts):
            if not draft.is_named:
                raise WrongShape(f"tool_calls[{at}].function.name", "text", None)
        word = self._raw_finish.lower().partition(":")[0] if self._raw_finish else None
        finish = _FINISH.get(word, word) if word else None
        if finish == "tool_calls" and not drafts and not text_calls:
            self._parts.warn("the finish reason is tool_calls, but the answer has no calls")
        calls = [self._call(draft, finish, draft is drafts[-1]) for draft in drafts]
        for at, (draft, call) in enumerate(zip(drafts, calls, strict=True)):
            if call.arguments is None:
                draft.check_single(f"tool_calls[{at}]")
            if not draft.announced:
                yield from self._announce(draft)
        for draft, call in zip(drafts, calls, strict=True):
            yield ToolCallEnd(draft.position, call)
            self._parts.replace(draft.position, call)
        for warning in self._text.warnings(self._parts.content, text_calls, has_calls=bool(drafts)):
            self._parts.warn(warning)
        for text_call in text_calls:
            yield from self._parts.call(text_call.name, text_call.arguments)
        message: dict[str, Any] = {self._reasoning_field: "".join(self._reasoning)} if self._reasoning_field else {}
        if self._details:
            message["reasoning_details"] = self._details
        if message:
            self._parts.reasoning("", {"message": message})
        self._parts.cite(self._citations)
        yield from self._parts.end(self._raw_finish, finish=finish, usage=usage_of(self._usage))

    def _add_pieces(self, pieces: list[TextPiece]) -> Iterator[ChatEvent]:
        for kind, text in pieces:
            yield self._add_reasoning(text) if kind == "thought" else self._parts.text(text)

    def _add_reasoning(self, text: str) -> ReasoningDelta:
        self._reasoning.append(text)
        return self._parts.reasoning(text)

    def _add_details(self, details: object) -> None:
        """Take OpenRouter's reasoning_details, which go back unchanged; pieces of one text are joined."""
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict):
                continue
            self._parts.reasoning("")
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
                    yield self._parts.text(part)
                continue
            if not isinstance(part, dict):
                raise WrongShape(f"{where}[{at}]", "an object", part)
            kind = part.get("type")
            for key in ("text", "refusal"):
                # A part of an unknown kind may hold anything under these names.
                if key in part and (isinstance(part[key], str) or kind in _KINDS[key] or not isinstance(kind, str)):
                    text = text_in(part, key, f"{where}[{at}]", needed=True)
                    if text and key == "text":
                        yield self._parts.text(text)
                    elif text:
                        self._parts.refusal(text)
                    break
            else:
                if isinstance(kind, str) and kind not in _WITHOUT_TEXT and not _THOUGHT_KEYS & part.keys():
                    raise WrongShape(f"{where}[{at}] of type {kind[:40]!r}", "text, a refusal or a thought", part)
                for reasoning in _thoughts(part):
                    yield self._add_reasoning(reasoning)

    def _add_call(self, fragment: dict[str, Any], path: str, whole: bool) -> Iterator[ChatEvent]:
        if not self._calls.calls:
            yield from self._add_pieces(self._text.release())
        added = self._calls.add(fragment, path, whole=whole)
        if added is None:
            return
        draft, text = added
        if draft.position < 0:
            draft.position = self._parts.add(_PENDING)
        if draft.announced:
            if text:
                yield ToolCallDelta(draft.position, text)
        elif draft.name and draft.pieces:
            # Only now is the name certain to be complete.
            yield from self._announce(draft)

    def _announce(self, draft: CallDraft) -> Iterator[ChatEvent]:
        draft.announced = True
        yield ToolCallStart(draft.position, draft.name)
        if draft.pieces:
            yield ToolCallDelta(draft.position, draft.arguments)

    def _call(self, draft: CallDraft, finish: str | None, is_last: bool) -> ToolCall:
        rest: dict[str, Any] = {"wire_id": draft.id, "provider_data": self._parts.ours(draft.extra)}
        text = draft.arguments
        call = ToolCall.from_text(draft.name, text, **rest)
        if text.strip() == "null":  # Groq, for a tool without parameters
            return attrs.evolve(call, arguments={}, error=None)
        # The last call of an answer that was cut off may have lost all its arguments without a trace.
        is_cut = finish == "length" or not self._has_finish
        if is_cut and (call.arguments is None or (is_last and not text.strip())):
            return ToolCall.from_text(draft.name, text, truncated=True, id=call.id, **rest)
        return call.if_whole() if is_last and self._raw_finish is None else call


def usage_of(raw: Mapping[str, Any] | None) -> Usage | None:
    """Return a usage table as Usage, without anything that is not a count; None if there is no table."""
    usage = read_usage(
        raw,
        input="prompt_tokens",
        output="completion_tokens",
        reasoning="completion_tokens_details.reasoning_tokens",
        cache_write="prompt_tokens_details.cache_write_tokens",
    )
    if usage is None or raw is None:
        return None
    return attrs.evolve(usage, cache_read_tokens=_cached(raw), cost=charged(raw))


def _cached(raw: Mapping[str, Any]) -> int | None:
    """Return the cached tokens from OpenAI's field or, failing that, from DeepSeek's or Moonshot's."""
    places = (
        (raw.get("prompt_tokens_details"), "cached_tokens"),
        (raw, "prompt_cache_hit_tokens"),
        (raw, "cached_tokens"),
    )
    return next((count for table, key in places if (count := known_count(table, key)) is not None), None)


def _thoughts(part: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of a reasoning part: ``thinking`` (Mistral: a list), or ``summary`` (Databricks)."""
    content = part.get("thinking") or part.get("summary")
    for item in content if isinstance(content, list) else [{"text": content}]:
        text = item.get("text") if isinstance(item, dict) else None
        if isinstance(text, str) and text:
            yield text


def is_malformed_call(body: object) -> bool:
    """Return whether an error is really an answer: Groq reports its model's malformed call as an error."""
    error = body.get("error") if isinstance(body, dict) else None
    return isinstance(error, dict) and error.get("code") == TOOL_USE_FAILED


def unwrapped(answer: object) -> dict[str, Any]:
    """Return a whole answer, unwrapped from a list if needed (errors of Gemini's layer); otherwise an empty one."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    return answer if isinstance(answer, dict) else {}


def _only_text(chunk: dict[str, Any]) -> str | None:
    """Return the text of a chunk that holds only text, as nearly all do; None for any other."""
    choices = chunk.get("choices")
    if type(choices) is not list or len(choices) != 1 or type(choice := choices[0]) is not dict:
        return None
    if type(choice.get("index")) is not int or choice["index"] or choice.get("finish_reason") or "usage" in choice:
        return None
    delta = choice.get("delta")
    if type(delta) is not dict or len(delta) != 1:
        return None
    text = delta.get("content")
    return text if type(text) is str else None


def _first(choices: list[tuple[str, dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """Return the first answer of a whole body with its path, wherever it is; an empty one if there is none.

    Raises:
        WrongShape: There are several, and it is unclear which comes first.
    """
    for where, choice in choices:
        if len(choices) == 1 or known_number(choice.get("index")) == 0:
            return where, choice
    for where, choice in choices:
        if choice.get("index") is not None and known_number(choice.get("index")) is None:
            raise WrongShape(f"{where}.index", "the number of an answer", choice["index"])
    return choices[0] if choices else ("", {})
