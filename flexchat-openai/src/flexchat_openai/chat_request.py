"""Our messages and options as the body of a Chat Completions request.

A message is encoded once and its bytes stay with it (``message.memo``), as does a turn's tools array: a request in a
long conversation is put together from pieces.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, assert_never

from flexchat.http.wire_json import finite, to_bytes, to_text, utf8
from flexchat.plugin import (
    AssistantMessage,
    ChatOptions,
    MediaPart,
    Message,
    ProviderData,
    ProviderRequestError,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolMessage,
    UserMessage,
)

from .traits import traits_of

SCOPE = "openai.chat"
"""Who may get back what this dialect received: see ProviderData."""

# A message's bytes, and what they depend on beside the message: an assistant's calls by our id and the server's, or
# the id a tool message answers.
_Entry = tuple[bytes, Any]
_NO_CALLS: Mapping[str, Any] = {}
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


class ChatRequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server; what it once said goes back to it as it said it.
        extra: Merged into every body.
    """

    def __init__(
        self,
        origin: str,
        *,
        max_tokens_field: str = "max_tokens",
        system_role: Literal["system", "developer"] = "system",
        stream_usage: bool = True,
        parallel_tool_calls: bool | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._origin = origin
        self._max_tokens_field = max_tokens_field
        self._system_role = system_role
        self._stream_usage = stream_usage
        self._parallel_tool_calls = parallel_tool_calls
        self._extra = dict(extra or {})
        # Mistral takes no other ids than nine letters and digits.
        self._short_ids = origin.endswith("mistral.ai")
        self._memo_key = f"{SCOPE} {origin} {system_role}"
        self._tools: dict[int, tuple[tuple[Mapping[str, Any], ...], bytes]] = {}

    def body(
        self, messages: Sequence[Message], model: str, options: ChatOptions, *, stream: bool
    ) -> tuple[bytes, tuple[str, ...]]:
        """Return the body and what could not be honoured, one sentence each.

        Raises:
            ProviderRequestError: Something in it cannot be said in this dialect.
        """
        try:
            fields, warnings = self._fields(model, options, stream)
            parts = [to_bytes(fields)[:-1]]
            if "messages" not in fields:
                parts += (b',"messages":[', b",".join(self.messages(messages)), b"]")
            if options.tools and "tools" not in fields:
                parts += (b',"tools":', self._tools_array(options.tools))
            parts.append(b"}")
            return b"".join(parts), warnings
        except (TypeError, ValueError, RecursionError) as error:
            text = f"the request cannot be written as JSON: {error}"
            raise ProviderRequestError(text, model=model) from error

    def messages(self, messages: Sequence[Message]) -> list[bytes]:
        """Return the elements of the ``messages`` array."""
        start, pieces = self._instructions(messages)
        key = self._memo_key
        calls: Mapping[str, str] = _NO_CALLS
        for message in messages[start:] if start else messages:
            entry: _Entry | None = message.memo.get(key)
            if type(message) is ToolMessage:
                wire_id = calls.get(message.tool_call_id) or self._found_id(messages, message.tool_call_id)
                if entry is None or entry[1] != wire_id:
                    entry = message.memo[key] = _tool_message(message, wire_id)
            elif entry is None:
                entry = message.memo[key] = self._encoded(message)
            if type(message) is AssistantMessage:
                calls = entry[1]
            if entry[0]:
                pieces.append(entry[0])
        return pieces

    def _fields(self, model: str, options: ChatOptions, stream: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
        extra = {**self._extra, **options.extra} if options.extra else self._extra
        fields: dict[str, Any] = {"model": model}
        if stream:
            fields["stream"] = True
            if self._stream_usage:
                fields["stream_options"] = {"include_usage": True}
        if options.max_tokens is not None:
            fields[self._max_tokens_field] = options.max_tokens
        if options.temperature is not None:
            fields["temperature"] = options.temperature
        if options.top_p is not None:
            fields["top_p"] = options.top_p
        if options.stop:
            fields["stop"] = options.stop
        if options.seed is not None:
            fields["seed"] = options.seed
        if options.tools:
            fields["tool_choice"] = options.tool_choice
            if self._parallel_tool_calls is not None:
                fields["parallel_tool_calls"] = self._parallel_tool_calls
        traits = traits_of(model)
        warnings: tuple[str, ...] = ()
        if traits is not None:
            refused = ("temperature", "top_p") if traits.sampling_refused(extra) else ()
            refused = (*refused, "stop") if not traits.accepts_stop else refused
            dropped = [name for name in refused if fields.pop(name, None) is not None]
            if dropped:
                warnings = (f"{model} takes no {' and no '.join(dropped)}: left out",)
        fields.update(extra)
        return fields, warnings

    def _tools_array(self, tools: tuple[Mapping[str, Any], ...]) -> bytes:
        found = self._tools.get(id(tools))
        if found is None or found[0] is not tools:
            if len(self._tools) >= 16:
                self._tools.clear()
            # The tuple is held, so that its id cannot come to belong to another.
            found = self._tools[id(tools)] = (tools, to_bytes(tools))
        return found[1]

    def _instructions(self, messages: Sequence[Message]) -> tuple[int, list[bytes]]:
        """Join leading system messages, of which some servers take only one; return how many there are."""
        if len(messages) < 2 or type(messages[0]) is not SystemMessage or type(messages[1]) is not SystemMessage:
            return 0, []
        texts: list[str] = []
        count = 0
        for message in messages:
            if type(message) is not SystemMessage:
                break
            count += 1
            if message.content:
                texts.append(message.content)
        return count, [self._system("\n\n".join(texts))] if texts else []

    def _encoded(self, message: Message) -> _Entry:
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

    def _assistant(self, message: AssistantMessage) -> _Entry:
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
        if items:
            said["tool_calls"] = items
        elif not said["content"]:
            return b"", ids  # servers refuse a message that says nothing
        return to_bytes(said), ids

    def _call(self, call: ToolCall, wire_id: str) -> dict[str, Any]:
        item: dict[str, Any] = {
            "id": wire_id,
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call)},
        }
        if self._is_ours(call.provider_data) and call.provider_data is not None:
            item.update(call.provider_data.data)
        return item

    def _wire_id(self, call: ToolCall) -> str:
        if call.wire_id and self._is_ours(call.provider_data):
            return call.wire_id
        return self._own_id(call.id)

    def _own_id(self, call_id: str) -> str:
        return hashlib.sha256(utf8(call_id)).hexdigest()[:9] if self._short_ids else call_id

    def _found_id(self, messages: Sequence[Message], call_id: str) -> str:
        """Return the wire id of a call that is not in the last assistant message."""
        for message in messages:
            if type(message) is AssistantMessage:
                for call in message.tool_calls:
                    if call.id == call_id:
                        return self._wire_id(call)
        return self._own_id(call_id)

    def _is_ours(self, data: ProviderData | None) -> bool:
        return data is not None and data.scope == SCOPE and data.origin == self._origin


def _tool_message(message: ToolMessage, wire_id: str) -> _Entry:
    return to_bytes({"role": "tool", "tool_call_id": wire_id, "content": message.content}), wire_id


def _arguments(call: ToolCall) -> str:
    """Return a call's arguments: the model's own spelling, right or wrong, if it spoke this dialect."""
    if call.raw_arguments is not None and call.provider_data is not None and call.provider_data.scope == SCOPE:
        return call.raw_arguments if call.raw_arguments.strip() else "{}"
    if call.arguments is None:
        return "{}"
    try:
        return to_text(call.arguments)
    except ValueError:
        return to_text(finite(call.arguments))


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
