"""Converts our messages and options to the body of a Responses API request.

The server keeps no state: every request carries all items. What the server sent goes back to it unchanged, because it
refuses a reasoning item without the item that followed it, and that item, by its id, without the reasoning.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    AssistantPart,
    Base64,
    Body,
    ChatOptions,
    History,
    Ids,
    Json,
    MediaPart,
    Message,
    OpaquePart,
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
    option_fields,
    unshown,
    with_accepted_media,
)

from .config import OpenAIConfig
from .hosts import IMAGES, PDF, data_url, file_name, is_openai, own_id_at, user_content
from .models import drop_refused, effort_for, traits_of
from .responses_items import SCOPE, refusal_of, text_of
from .tools import response_format, shown_tools, tool_fields, tool_name

_ENCRYPTED = "reasoning.encrypted_content"


@attrs.frozen(kw_only=True)
class _Item:
    """An input item being written.

    Attributes:
        after: Id of the reasoning that led to it; None if there was none or the item is not the server's own.
        follows: Whether it is the item that must follow the reasoning item before it.
    """

    item: Mapping[str, Any]
    after: str | None = None
    follows: bool = True


class ResponsesRequestWriter:
    """Writes requests for one server.

    Args:
        origin: scheme://host[:port] of the server.
    """

    def __init__(self, origin: str, config: OpenAIConfig) -> None:
        self._config = config
        self._history = History(SCOPE, origin, self._encode, variant=config.system_role, own_id=own_id_at(origin))
        self._tools = WireTools(tool_name)
        self._is_openai = is_openai(origin)
        # If nothing is stored, OpenAI cannot find a reasoning item by its id alone.
        self._needs_content = self._is_openai and config.extra_body.get("store") is not True

    def body(self, messages: Sequence[Message], model: str, options: ChatOptions, *, stream: bool) -> Body:
        """Return the body of a request.

        Raises:
            ProviderRequestError: This API cannot express something in it.
        """
        start, instructions = leading_instructions(messages)
        fields, warnings = self._fields(instructions, model, options, stream)
        spliced = {}
        if "input" not in fields:
            spliced["input"] = self._history.array(messages[start:])
        if options.tools:
            names = shown_tools(options, self._is_openai) if options.allowed_tools else None
            spliced["tools"] = self._tools.array(options.tools, names)
        return Body.of(fields, spliced, warnings)

    @staticmethod
    def fits_in_result(part: MediaPart) -> bool:
        """Return whether the output of a call may hold this part.

        Source: the API's reference, FunctionCallOutput: text, images, files.
        """
        return part.data is not None and (part.mime_type in IMAGES or part.mime_type == PDF)

    accepted_types = IMAGES | {PDF}
    """The media types that a user message may hold."""

    def messages(self, messages: Sequence[Message]) -> list[Json]:
        """Return the elements of the conversation's array."""
        return self._history.pieces(messages[leading_instructions(messages)[0] :])

    def _fields(
        self, instructions: str, model: str, options: ChatOptions, stream: bool
    ) -> tuple[dict[str, Any], tuple[str, ...]]:
        fields: dict[str, Any] = {"model": model, "store": False}
        warnings: list[str] = []
        traits = traits_of(model)
        if instructions:
            fields["instructions"] = instructions
        if traits is None or traits.efforts:  # models that never reason refuse it
            fields["include"] = [_ENCRYPTED]
        if stream:
            fields["stream"] = True
        fields |= option_fields(options, "temperature", "top_p", max_tokens="max_output_tokens")
        if options.tools:
            fields |= tool_fields(options, self._is_openai, self._config.parallel_tool_calls, flat=True)
        missing = [name for name in ("stop", "seed") if getattr(options, name) not in ((), None)]
        if missing:
            warnings.append(f"the Responses API does not accept {' or '.join(missing)}: left out")
        if options.reasoning is not None:
            effort, lost = effort_for(options.reasoning, model, traits, "responses")
            warnings += lost
            reasoning = {"effort": effort} if effort is not None else {}
            if options.reasoning.summary and (traits is None or traits.efforts):
                reasoning["summary"] = "auto"
            if reasoning:
                fields["reasoning"] = reasoning
        if options.response_format is not None:
            form, lost_form = response_format(options.response_format, flat=True)
            fields["text"] = {"format": form}
            warnings += lost_form
        extra = {**self._config.extra_body, **options.extra}
        if traits is not None:
            effort = {**fields.get("reasoning", {}), **_table(extra.get("reasoning"))}.get("effort")
            warnings += drop_refused(fields, model, traits, effort, "responses")
        for key, value in extra.items():
            is_part = key in ("reasoning", "text") and key in fields
            fields[key] = {**fields[key], **value} if is_part and isinstance(value, dict) else value
        return fields, tuple(warnings)

    def _encode(self, message: Message, ids: Ids) -> WireMessage:
        match message:
            case SystemMessage():
                return {"role": self._config.system_role, "content": message.content} if message.content else None
            case UserMessage():
                return {"role": "user", "content": user_content(message, "input_text", _media)}
            case AssistantMessage():
                return self._assistant(message, ids)
            case ToolMessage():
                accepted = with_accepted_media(message, self.fits_in_result)
                text = {"type": "input_text", "text": accepted.content}
                output = [text, *map(_media, accepted.media)] if accepted.media else accepted.content
                return {"type": "function_call_output", "call_id": ids.answered, "output": output}
            case _:
                assert_never(message)

    def _assistant(self, message: AssistantMessage, ids: Ids) -> WireMessage:
        items: list[_Item] = []
        for part in message.parts:
            item = self._item(part, ids, bool(items))
            if item is not None:
                items.append(item)
        return _consistent(items)

    def _item(self, part: AssistantPart, ids: Ids, has_begun: bool) -> _Item | None:
        """Return a part as an item: the server's own if it came from there unchanged; None if it is not sent."""
        data = ids.ours(part.provider_data)
        own, after = _table(data.get("item")), data.get("after")
        match part:
            case ToolCall():
                call = {"call_id": ids.of(part), "name": part.name, "arguments": ids.arguments(part)}
                return _Item(item={"type": "function_call", **own, **call}, after=after)
            case ReasoningPart() if own and self._can_go_back(own):
                return _Item(item=own)
            case OpaquePart() if own:
                return _Item(item=own, after=after)
            case TextPart() if own and text_of(own) == part.text:
                return _Item(item=own, after=after)
            case RefusalPart() if own and refusal_of(own) == part.text:
                return _Item(item=own, after=after)
            case RefusalPart() if has_begun and data.get("continues"):
                return None  # the item has gone back with its text
            case MediaPart(data=bytes(image)) if own:  # kept once, in the part
                return _Item(item={**own, "result": Base64(image)}, after=after)
            case TextPart() | RefusalPart() | MediaPart():
                text = unshown(part) if isinstance(part, MediaPart) else part.text
                content = [{"type": "output_text", "text": text}]
                if not text:
                    return None
                # llama.cpp recognizes it only by its type and does not accept plain text.
                return _Item(item={"type": "message", "role": "assistant", "content": content}, follows=False)
        return None

    def _can_go_back(self, item: Mapping[str, Any]) -> bool:
        return bool(not self._needs_content or item.get("encrypted_content") or item.get("content"))


def _consistent(items: Sequence[_Item]) -> list[Mapping[str, Any]]:
    """Drop reasoning that lost the item after it, and the ids of items that lost their reasoning.

    Source: 400 "Item 'rs_…' of type 'reasoning' was provided without its required following item.", and its reverse.
    """
    rest: list[_Item] = []
    is_followed = False
    for item in reversed(items):
        if item.item.get("type") != "reasoning":
            is_followed = item.follows
        elif not is_followed:
            continue
        rest.append(item)
    sent = []
    reasoning_ids = [item.item.get("id") for item in rest if item.item.get("type") == "reasoning"]
    for item in reversed(rest):
        is_orphan = item.after is not None and item.after not in reasoning_ids
        sent.append({k: v for k, v in item.item.items() if k != "id"} if is_orphan else item.item)
    return sent


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _media(part: MediaPart) -> dict[str, Any]:
    url = data_url(part)
    if part.kind == "image" and url is not None:
        return {"type": "input_image", "image_url": url}
    if part.kind == "document" and part.data is not None:
        return {"type": "input_file", "filename": file_name(part), "file_data": url}
    if part.kind == "document" and url is not None:
        return {"type": "input_file", "file_url": url}
    raise ProviderRequestError(
        f"the Responses API does not accept {part.kind} of type {part.mime_type}", kind="unsupported_feature"
    )
