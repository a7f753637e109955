"""Our messages and options as the body of a Chat Completions request."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal, assert_never

from flexchat.http.wire_json import to_bytes
from flexchat.plugin import (
    AssistantMessage,
    ChatOptions,
    MediaPart,
    Message,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from .chat_calls import FUNCTION_CALL
from .history import Entry, HistoryWriter, replayed
from .reasoning import drop_refused, effort_for
from .schemas import format_fields
from .tool_choice import tool_choice
from .traits import ModelTraits, traits_of

SCOPE = "openai.chat"
"""Who may get back what this API received: see ProviderData."""


class _FunctionName(str):
    """What a result says of its call where a call has no id."""


_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class ChatRequestWriter(HistoryWriter):
    """Writes requests for one server. Arguments as of HistoryWriter, and of OpenAIConfig."""

    _history_field = "messages"

    def __init__(
        self,
        origin: str,
        *,
        max_tokens_field: Literal["auto", "max_tokens", "max_completion_tokens"] = "auto",
        system_role: Literal["system", "developer"] = "system",
        stream_usage: bool = True,
        parallel_tool_calls: bool | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(origin, SCOPE, system_role=system_role, parallel_tool_calls=parallel_tool_calls, extra=extra)
        self._max_tokens_field = max_tokens_field
        self._stream_usage = stream_usage

    def _history(self, messages: Sequence[Message], start: int, instructions: str) -> list[bytes]:
        if start < 2:
            return self._pieces(messages, 0)
        pieces = self._pieces(messages, start)
        return [self._system(instructions), *pieces] if instructions else pieces

    def _fields(
        self, instructions: str, model: str, options: ChatOptions, stream: bool
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        fields: dict[str, Any] = {"model": model}
        warnings: list[str] = []
        traits = traits_of(model)
        if stream:
            fields["stream"] = True
            if self._stream_usage:
                fields["stream_options"] = {"include_usage": True}
        if options.max_tokens is not None:
            fields[self._limit_name(traits)] = options.max_tokens
        if options.temperature is not None:
            fields["temperature"] = options.temperature
        if options.top_p is not None:
            fields["top_p"] = options.top_p
        if options.stop:
            fields["stop"] = options.stop
        if options.seed is not None:
            fields["seed"] = options.seed
        if options.tools:
            fields["tool_choice"] = tool_choice(options, self._is_openai, flat=False)
            parallel = options.parallel_tool_calls
            if parallel is None:
                parallel = self._parallel_tool_calls
            if parallel is not None:
                fields["parallel_tool_calls"] = parallel
        if options.reasoning is not None:
            effort, warnings = effort_for(options.reasoning, model, traits, "chat")
            if effort is not None:
                fields["reasoning_effort"] = effort
            if options.reasoning.summary:
                warnings.append("Chat Completions cannot be asked for a summary of the reasoning")
        if options.response_format is not None:
            fields["response_format"], lost = _response_format(options.response_format)
            warnings += lost
        extra = {**self._extra, **options.extra} if options.extra else self._extra
        if traits is not None:
            effort = extra.get("reasoning_effort", fields.get("reasoning_effort"))
            warnings += drop_refused(fields, model, traits, effort, "chat")
        fields.update(extra)
        return fields, tuple(warnings)

    def _limit_name(self, traits: ModelTraits | None) -> str:
        """Return the limit's name: OpenAI's new one, without which models that reason take none, or the old one."""
        if self._max_tokens_field != "auto":
            return self._max_tokens_field
        is_new = self._is_openai or (traits is not None and traits.efforts)
        return "max_completion_tokens" if is_new else "max_tokens"

    def _encoded(self, message: Message) -> Entry:
        match message:
            case SystemMessage():
                return self._system(message.content) if message.content else b"", None
            case UserMessage():
                return to_bytes({"role": "user", "content": _user_content(message)}), None
            case AssistantMessage():
                return self._assistant(message)
            case ToolMessage():
                raise TypeError("a tool message needs the id of its call")
            case _:
                assert_never(message)

    def _system(self, content: str) -> bytes:
        return to_bytes({"role": self._system_role, "content": content})

    def _answered(self, message: ToolMessage, wire_id: str) -> Entry:
        if isinstance(wire_id, _FunctionName):
            return to_bytes({"role": "function", "name": wire_id, "content": message.content}), wire_id
        return to_bytes({"role": "tool", "tool_call_id": wire_id, "content": message.content}), wire_id

    def _assistant(self, message: AssistantMessage) -> Entry:
        said: dict[str, Any] = {"role": "assistant", "content": None}
        texts, refusals, items = [], [], []
        ids: dict[str, str] = {}
        for part in message.parts:
            match part:
                case TextPart():
                    texts.append(part.text)
                case RefusalPart():
                    refusals.append(part)
                case ToolCall():
                    ids[part.id] = self._wire_id(part)
                    items.append(self._call(part, ids[part.id]))
                case ReasoningPart() if self._is_ours(part.provider_data) and part.provider_data is not None:
                    said.update(part.provider_data.data.get("message", {}))
        content = "".join(texts)
        if content:
            said["content"] = content
        elif refusals and all(self._is_ours(r.provider_data) for r in refusals):
            said["content"] = [{"type": "refusal", "refusal": "".join(r.text for r in refusals)}]
        elif refusals:
            said["content"] = "".join(r.text for r in refusals)
        if [item["type"] for item in items] == [FUNCTION_CALL]:
            said[FUNCTION_CALL] = items[0]["function"]
        elif items:
            said["tool_calls"] = items
        elif not said["content"]:
            return b"", ids  # servers refuse a message that says nothing
        return replayed(said), ids

    def _wire_id(self, call: ToolCall) -> str:
        data = call.provider_data
        if data is not None and self._is_ours(data) and data.data.get("type") == FUNCTION_CALL:
            return _FunctionName(call.name)
        return super()._wire_id(call)

    def _call(self, call: ToolCall, wire_id: str) -> dict[str, Any]:
        data = call.provider_data.data if call.provider_data and self._is_ours(call.provider_data) else {}
        if data.get("type") == "custom":
            said = {"custom": {"name": call.name, "input": call.raw_arguments or ""}}
        else:
            said = {"function": {"name": call.name, "arguments": self._arguments(call)}}
        return {"id": wire_id, "type": "function", **said, **data}


def _response_format(form: ResponseFormat) -> tuple[dict[str, Any], tuple[str, ...]]:
    if form.type == "json_object":
        return {"type": "json_object"}, ()
    fields, warnings = format_fields(form)
    return {"type": "json_schema", "json_schema": fields}, warnings


def _user_content(message: UserMessage) -> str | list[dict[str, Any]]:
    if not message.media:
        return message.content
    text = [{"type": "text", "text": message.content}] if message.content else []
    return text + [_media(part) for part in message.media]


def _media(part: MediaPart) -> dict[str, Any]:
    url = part.url
    if part.data is not None:
        url = f"data:{part.mime_type};base64,{base64.b64encode(part.data).decode()}"
    if part.kind == "image" and url is not None:
        return {"type": "image_url", "image_url": {"url": url}}
    if part.kind == "audio" and part.data is not None and part.mime_type in _AUDIO:
        data = base64.b64encode(part.data).decode()
        return {"type": "input_audio", "input_audio": {"data": data, "format": _AUDIO[part.mime_type]}}
    if part.kind == "document" and part.data is not None:
        return {"type": "file", "file": {"filename": part.name or "document", "file_data": url}}
    form = "by address" if part.data is None else "inline"
    raise ProviderRequestError(
        f"Chat Completions takes no {part.kind} of type {part.mime_type} {form}", kind="unsupported_feature"
    )
