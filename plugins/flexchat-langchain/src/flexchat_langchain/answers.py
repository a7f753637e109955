"""Conversion of a LangChain model's answer, to an AssistantMessage, and of its chunks, to stream events."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    AssistantPart,
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
    finite,
    known_count,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
)
from langchain_core.messages import AIMessage, AIMessageChunk

from .blocks import SCOPE, TEXTS, part_of, plain

NOT_READ = "not valid JSON; write the arguments again as one JSON object"

# Fields besides content and calls that integrations need back: Gemini's signatures, reasoning of Ollama and DeepSeek …
_KEPT_METADATA = ("model_provider", "output_version")
_THOUGHTS = ("reasoning_content", "reasoning")
# Fields of a chunk that describe its answer.
_DESCRIPTIONS = ("id", "usage_metadata", "response_metadata", "additional_kwargs")
_RAW_CALLS = ("tool_calls", "function_call")  # ChatOpenAI's copy of the calls, which are converted already

# Finish reasons of the integrations, in lower case, by FlexChat's.
_FINISHES = {
    "stop": "stop end_turn stop_sequence eos_token complete completed",
    "tool_calls": "tool_use tool_calls tool_call function_call",
    "length": "length max_tokens model_length incomplete max_output_tokens model_context_window_exceeded",
    "content_filter": "content_filter content_filtered guardrail_intervened safety recitation prohibited_content "
    "blocklist spii",
    "refusal": "refusal",
    "pause": "pause_turn",
    "malformed_tool_call": "malformed_function_call",
    "error": "error",
}
_FINISH = {word: finish for finish, words in _FINISHES.items() for word in words.split()}
_FINISH_KEYS = ("finish_reason", "stop_reason", "done_reason", "stopReason", "status")


def assistant_message(
    answer: AIMessage, origin: str = "", *, keep_ids: bool = False, with_thoughts: bool = True
) -> AssistantMessage:
    """Convert an AIMessage, or the sum of its chunks, with the data its model needs back.

    Args:
        origin: Identifies the model: the provider data is only returned to the same one.
        keep_ids: Use LangChain's id of a call where there is one. Otherwise the id is generated, as for every provider,
            and LangChain's is the wire_id.
        with_thoughts: Convert reasoning outside the content to a part, the first one.

    Raises:
        WrongShape: The text or the calls have a wrong type.
    """
    _check_calls(answer)
    answer = sound(answer)
    calls = _calls(answer, origin, keep_ids)
    parts: list[AssistantPart] = []
    content: Any = answer.content
    if isinstance(content, str):
        reasoning = thought_beside(answer) if with_thoughts else ""
        parts += [ReasoningPart(text=reasoning)] if reasoning else []
        parts += [TextPart(text=content)] if content else []
    elif isinstance(content, list):
        parts += [part_of(block, origin, calls, f"content[{at}]") for at, block in enumerate(content)]
    else:
        raise WrongShape("content", "text or a list", content)
    refusal = text_in(_table(answer.additional_kwargs), "refusal", "additional_kwargs")  # ChatOpenAI's place for it
    parts += [RefusalPart(text=refusal)] if refusal else []
    if not (parts or calls or isinstance(answer.additional_kwargs, dict)):  # where a refusal may stand
        raise WrongShape("additional_kwargs", "an object", answer.additional_kwargs)
    beside = _beside(answer)
    data = ProviderData(scope=SCOPE, origin=origin, data=beside) if beside else None
    return AssistantMessage(parts=(*parts, *calls), provider_data=data)


def sound(answer: AIMessage) -> AIMessage:
    """Coerce the calls of an answer to the types LangChain declares, because it does not validate assignments.

    A call whose arguments are not an object becomes an invalid call.
    """
    calls = [_with_text_id(call) for call in answer.tool_calls]
    good = [call for call in calls if isinstance(call.get("args"), dict) and isinstance(call.get("name"), str)]
    if good == answer.tool_calls:
        return answer
    unread = [_refused(call) for call in calls if call not in good]
    return answer.model_copy(update={"tool_calls": good, "invalid_tool_calls": [*answer.invalid_tool_calls, *unread]})


def thought_beside(answer: AIMessage) -> str:
    """Return reasoning that an integration stores outside the content; empty if there is none."""
    beside = _table(answer.additional_kwargs)
    return next((beside[key] for key in _THOUGHTS if isinstance(beside.get(key), str) and beside[key]), "")


def has_unreadable_end(answer: AIMessage) -> bool:
    """Return True if the finish reason is present but not a string."""
    metadata = _table(answer.response_metadata)
    ends = [metadata.get(key) for key in _FINISH_KEYS]
    return raw_finish(answer) is None and any(end is not None and end != "" for end in ends)


def raw_finish(answer: AIMessage) -> str | None:
    """Return the integration's finish reason; None if there is none."""
    for key in _FINISH_KEYS:
        word = _table(answer.response_metadata).get(key)
        if isinstance(word, str) and word:
            return word
    return None


def finish_reason(answer: AIMessage, *, has_calls: bool) -> str | None:
    """Map the finish reason to FlexChat's.

    "stop" with calls becomes "tool_calls". "length" is preserved, because the last call may be truncated.
    """
    word = raw_finish(answer)
    finish = _FINISH.get(word.lower(), word) if word is not None else None
    return "tool_calls" if has_calls and finish in ("stop", None) else finish


def usage_of(answer: AIMessage) -> Usage | None:
    """Return the token usage of an answer; None if the model did not report it."""
    counts = _table(answer.usage_metadata)
    if not counts:
        return None
    read, output = counts.get("input_token_details"), counts.get("output_token_details")
    return Usage(
        input_tokens=known_count(counts, "input_tokens"),
        output_tokens=known_count(counts, "output_tokens"),
        reasoning_tokens=known_count(output, "reasoning"),
        cache_read_tokens=known_count(read, "cache_read"),
        cache_write_tokens=known_count(read, "cache_creation"),
        raw=plain(counts),
    )


def _calls(answer: AIMessage, origin: str, keep_ids: bool) -> list[ToolCall]:
    ours = ProviderData(scope=SCOPE, origin=origin, data={})
    is_cut = finish_reason(answer, has_calls=True) == "length"
    is_unclear = has_unreadable_end(answer)

    def rest(call: Mapping[str, Any]) -> dict[str, Any]:
        id = known_text(call.get("id"))
        return {"wire_id": id, "provider_data": ours, **({"id": id} if id and keep_ids else {})}

    if isinstance(answer, AIMessageChunk) and answer.tool_call_chunks:
        # Parse strictly: LangChain's lenient parser turns truncated text into a shorter object.
        chunks: Any = answer.tool_call_chunks
        streamed = []
        for path, chunk in objects_of(chunks, "tool_call_chunks"):
            _check_name(chunk, path)
            text, is_last = text_in(chunk, "args", path), chunk is chunks[-1]
            streamed.append(ToolCall.from_text(chunk["name"], text, truncated=is_cut and is_last, **rest(chunk)))
        return [*streamed[:-1], streamed[-1].if_whole()] if is_unclear else streamed
    calls = [ToolCall.from_object(call["name"], finite(call["args"]), **rest(call)) for call in answer.tool_calls]
    calls += [_unread(call, rest(call)) for call in answer.invalid_tool_calls]
    if is_cut and calls:
        calls[-1] = ToolCall.from_text(calls[-1].name, calls[-1].raw_arguments, truncated=True, **_same(calls[-1]))
    return [*calls[:-1], calls[-1].if_whole()] if is_unclear and calls else calls


def _check_calls(answer: AIMessage) -> None:
    for key in ("tool_calls", "invalid_tool_calls"):
        for path, call in objects_of(list_in(vars(answer), key, needed=True), key):
            _check_name(call, path)
            if key == "tool_calls":
                object_in(call, "args", path, needed=True)


def _check_name(call: Mapping[str, Any], path: str) -> None:
    if not isinstance(call.get("name"), str):
        raise WrongShape(f"{path}.name", "text", call.get("name"))


def _with_text_id(call: Mapping[str, Any]) -> dict[str, Any]:
    id = call.get("id")
    return {**call, "id": id if id is None or isinstance(id, str) else str(id)}


def _refused(call: Mapping[str, Any]) -> dict[str, Any]:
    args = call.get("args")
    raw = args if isinstance(args, str) else json.dumps(args, default=str)
    name = str(call.get("name") or "")
    return {"type": "invalid_tool_call", "id": call.get("id"), "name": name, "args": raw, "error": "no object"}


def _unread(call: Mapping[str, Any], rest: Mapping[str, Any]) -> ToolCall:
    read = ToolCall.from_text(
        text_in(call, "name", "invalid_tool_calls[]"), text_in(call, "args", "invalid_tool_calls[]"), **rest
    )
    if read.error is not None:
        return read
    # It parses, but the integration rejected it, for a reason that is not visible here.
    return ToolCall(name=read.name, arguments=None, raw_arguments=call.get("args") or "", error=NOT_READ, **_same(read))


def _same(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "wire_id": call.wire_id, "provider_data": call.provider_data}


def _beside(answer: AIMessage) -> dict[str, Any]:
    """Return the fields outside content and calls that have to be sent back with the answer."""
    response, more = _table(answer.response_metadata), _table(answer.additional_kwargs)
    metadata = {key: response[key] for key in _KEPT_METADATA if key in response}
    fields = {
        "additional_kwargs": plain({k: v for k, v in more.items() if k not in _RAW_CALLS}),
        "response_metadata": plain(metadata),
    }
    return {key: value for key, value in fields.items() if value}


def _table(value: object) -> dict[str, Any]:
    """Return *value* if it is a dict; an empty dict otherwise."""
    return value if isinstance(value, dict) else {}


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
            if wrong := [key for key in _THOUGHTS if not isinstance(beside.get(key), str | None)]:
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
        for names in (*((name,) for name in _DESCRIPTIONS), _DESCRIPTIONS):
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
            return [part_of(block, self._origin, []) for block in content]
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
        keys = (*_THOUGHTS, "refusal")
        changes["additional_kwargs"] = {
            key: chunk.additional_kwargs[key] for key in keys if key in chunk.additional_kwargs
        }
    return chunk.model_copy(update=changes)
