"""Converts our messages and options to the body of a Chat Completions request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    Base64,
    Body,
    ChatOptions,
    History,
    Ids,
    Json,
    MediaPart,
    Message,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    WireMessage,
    WireTools,
    leading_instructions,
    media_behind_results,
    option_fields,
    unshown,
)

from .chat_calls import FUNCTION_CALL
from .config import OpenAIConfig
from .hosts import (
    AUDIO,
    IMAGES,
    NEEDS_REASONING,
    NO_USER_BEHIND_RESULTS,
    PDF,
    data_url,
    file_name,
    is_openai,
    own_id_at,
    user_content,
)
from .models import ModelTraits, drop_refused, effort_for, traits_of
from .tools import response_format, shown_tools, tool_fields, tool_name

SCOPE = "openai.chat"
"""Scope of what this API received and may get back: see ProviderData."""


class _FunctionName(str):
    """Refers a result to its call when the call has no id."""


class ChatRequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server.
    """

    def __init__(self, origin: str, config: OpenAIConfig) -> None:
        self._config = config
        self._is_openai = is_openai(origin)
        needs_reasoning = config.needs_reasoning
        self._needs_reasoning = origin.endswith(NEEDS_REASONING) if needs_reasoning is None else needs_reasoning
        variant = f"{config.system_role} {self._needs_reasoning}"
        self._history = History(SCOPE, origin, self._encode, variant=variant, own_id=own_id_at(origin))
        self._tools = WireTools(tool_name)
        self._user_may_follow = not origin.endswith(NO_USER_BEHIND_RESULTS)

    def body(self, messages: Sequence[Message], model: str, options: ChatOptions, *, stream: bool) -> Body:
        """Return the body of a request.

        Raises:
            ProviderRequestError: This API cannot express something in it.
        """
        fields, warnings = self._fields(model, options, stream)
        spliced = {}
        if "messages" not in fields:
            spliced["messages"] = self._history.array(self._in_order(messages))
        if options.tools:
            names = shown_tools(options, self._is_openai) if options.allowed_tools else None
            spliced["tools"] = self._tools.array(options.tools, names)
        return Body.of(fields, spliced, warnings)

    def messages(self, messages: Sequence[Message]) -> list[Json]:
        """Return the elements of the conversation's array."""
        return self._history.pieces(self._in_order(messages))

    def fits_in_result(self, part: MediaPart) -> bool:
        """Return whether a part can be sent with a tool's result: in the user message after it.

        Source: the API's reference, ChatCompletionToolMessageParam (text only) and ChatCompletionUserMessageParam. PDFs
        are OpenAI's own.
        """
        if part.data is None or not self._user_may_follow:
            return False
        return part.mime_type in IMAGES or (part.mime_type == PDF and self._is_openai)

    @property
    def accepted_types(self) -> frozenset[str]:
        """The media types that a user message may hold."""
        return IMAGES | AUDIO.keys() | ({PDF} if self._is_openai else set())

    def _in_order(self, messages: Sequence[Message]) -> Sequence[Message]:
        return _with_one_instruction(media_behind_results(messages, self.fits_in_result))

    def _fields(self, model: str, options: ChatOptions, stream: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
        fields: dict[str, Any] = {"model": model}
        warnings: list[str] = []
        traits = traits_of(model)
        if stream:
            fields["stream"] = True
            if self._config.stream_usage:
                fields["stream_options"] = {"include_usage": True}
        fields |= option_fields(options, "temperature", "top_p", "stop", "seed", max_tokens=self._limit_name(traits))
        if options.tools:
            fields |= tool_fields(options, self._is_openai, self._config.parallel_tool_calls, flat=False)
        if options.reasoning is not None:
            effort, warnings = effort_for(options.reasoning, model, traits, "chat")
            if effort is not None:
                fields["reasoning_effort"] = effort
            if options.reasoning.summary:
                warnings.append("Chat Completions does not offer reasoning summaries")
        if options.response_format is not None:
            fields["response_format"], lost = response_format(options.response_format, flat=False)
            warnings += lost
        extra = {**self._config.extra_body, **options.extra}
        if traits is not None:
            effort = extra.get("reasoning_effort", fields.get("reasoning_effort"))
            warnings += drop_refused(fields, model, traits, effort, "chat")
        fields.update(extra)
        return fields, tuple(warnings)

    def _limit_name(self, traits: ModelTraits | None) -> str:
        """Return the limit's field: OpenAI's new one, the only one reasoning models accept, or the old one."""
        if self._config.max_tokens_field != "auto":
            return self._config.max_tokens_field
        is_new = self._is_openai or (traits is not None and traits.efforts)
        return "max_completion_tokens" if is_new else "max_tokens"

    def _encode(self, message: Message, ids: Ids) -> WireMessage:
        match message:
            case SystemMessage():
                return {"role": self._config.system_role, "content": message.content} if message.content else None
            case UserMessage():
                return {"role": "user", "content": user_content(message, "text", _media)}
            case AssistantMessage():
                return _assistant(message, ids, needs_reasoning=self._needs_reasoning)
            case ToolMessage() if isinstance(ids.answered, _FunctionName):
                return {"role": "function", "name": ids.answered, "content": message.content}
            case ToolMessage():
                return {"role": "tool", "tool_call_id": ids.answered, "content": message.content}
            case _:
                assert_never(message)


def _with_one_instruction(messages: Sequence[Message]) -> Sequence[Message]:
    """Return messages with their leading instructions merged: some servers accept only one."""
    start, instructions = leading_instructions(messages)
    if start < 2:
        return messages
    return [SystemMessage(content=instructions), *messages[start:]]


def _assistant(message: AssistantMessage, ids: Ids, *, needs_reasoning: bool) -> WireMessage:
    wire: dict[str, Any] = {"role": "assistant", "content": None}
    texts, refusals, items = [], [], []
    for part in message.parts:
        match part:
            case TextPart():
                texts.append(part.text)
            case MediaPart():
                texts.append(unshown(part))
            case RefusalPart():
                refusals.append(part)
            case ToolCall():
                items.append(_call(part, ids))
            case ReasoningPart():
                wire.update(ids.ours(part.provider_data).get("message", {}))
    content = "".join(texts)
    if content:
        wire["content"] = content
    elif refusals and all(ids.is_ours(r.provider_data) for r in refusals):
        wire["content"] = [{"type": "refusal", "refusal": "".join(r.text for r in refusals)}]
    elif refusals:
        wire["content"] = "".join(r.text for r in refusals)
    if [item["type"] for item in items] == [FUNCTION_CALL]:
        wire[FUNCTION_CALL] = items[0]["function"]
    elif items:
        wire["tool_calls"] = items
    elif not wire["content"]:
        return None  # servers refuse an empty message
    if needs_reasoning:
        wire.setdefault("reasoning_content", " ")
    return wire


def _call(call: ToolCall, ids: Ids) -> dict[str, Any]:
    data = ids.ours(call.provider_data)
    if data.get("type") == FUNCTION_CALL:
        wire_id: str = _FunctionName(call.name)
        ids.note(call, wire_id)
    else:
        wire_id = ids.of(call)
    if data.get("type") == "custom":
        wire = {"custom": {"name": call.name, "input": call.raw_arguments or ""}}
    else:
        wire = {"function": {"name": call.name, "arguments": ids.arguments(call)}}
    return {"id": wire_id, "type": "function", **wire, **data}


def _media(part: MediaPart) -> dict[str, Any]:
    url = data_url(part)
    if part.kind == "image" and url is not None:
        return {"type": "image_url", "image_url": {"url": url}}
    if part.kind == "audio" and part.data is not None and part.mime_type in AUDIO:
        return {"type": "input_audio", "input_audio": {"data": Base64(part.data), "format": AUDIO[part.mime_type]}}
    if part.kind == "document" and part.data is not None:
        return {"type": "file", "file": {"filename": file_name(part), "file_data": url}}
    form = "by URL" if part.data is None else "inline"
    raise ProviderRequestError(
        f"Chat Completions does not accept {part.kind} of type {part.mime_type} {form}", kind="unsupported_feature"
    )
