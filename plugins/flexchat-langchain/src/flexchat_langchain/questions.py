"""Parsing of the messages and options that LangChain passes to a FlexChatModel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from flexchat import AssistantMessage, ChatRequestError, Message, ToolDefinition, UserMessage
from flexchat.host import did_you_mean, message_from_dict, repair_history, with_stand_in
from flexchat.plugin import Implementation
from langchain_core.messages import AIMessage, BaseMessage

from .messages import CARRIED, from_langchain

INSIDE = "flexchat_inside"
"""Key in an AIMessage's additional_kwargs for earlier messages of its turn: calls of FlexChat's own tools."""

METADATA = "flexchat"
"""Key in an AIMessage's response_metadata: how the answer came about."""

RULE_OPTIONS = ("model", "temperature", "max_tokens", "top_p", "seed", "stop")
"""Options with which a request may override the rule."""

_READ = (*RULE_OPTIONS, "tools", "tool_choice", "parallel_tool_calls", "response_format")


@attrs.frozen(kw_only=True)
class TurnInput:
    """The input of one turn.

    Attributes:
        continuation: Messages after the user's: calls and results of the caller's tools.
        options: The given ones of RULE_OPTIONS.
        bound: Tools whose calls the caller runs.
        choice: "auto", "required", or "none".
        warnings: One sentence per option that is not supported.
    """

    message: str
    history: tuple[Message, ...]
    topic: str | None
    continuation: tuple[Message, ...]
    options: Mapping[str, Any]
    bound: tuple[ToolDefinition, ...]
    choice: str
    parallel: bool | None
    response_format: Any
    warnings: tuple[str, ...]


def read_question(messages: Sequence[BaseMessage], options: Mapping[str, Any]) -> TurnInput:
    """Parse messages and options into the input of one turn.

    Raises:
        ChatRequestError: There is no user message, or a tool is not a function.
        ToolDefinitionError: The name or schema of a tool is invalid in FlexChat.
    """
    read = _conversation(messages)
    at = next((i for i in range(len(read) - 1, -1, -1) if isinstance(read[i], UserMessage)), None)
    if at is None:
        raise ChatRequestError("the messages contain no user message (HumanMessage)")
    question = read[at]
    assert isinstance(question, UserMessage)
    repaired, repairs = repair_history((question, *read[at + 1 :]))
    history = [*read[:at], question] if question.media else read[:at]  # The message of a turn cannot have images.
    unused = [name for name in options if name not in _READ]
    bound, choice = _bound(options.get("tools") or (), options.get("tool_choice"))
    return TurnInput(
        message=question.content,
        history=tuple(history),
        topic=_topic(messages),
        continuation=repaired[1:],
        options={key: options[key] for key in RULE_OPTIONS if options.get(key) not in (None, ())},
        bound=bound,
        choice=choice,
        parallel=options.get("parallel_tool_calls"),
        response_format=options.get("response_format"),
        warnings=(*repairs, *(f"{name} is ignored: the rule that answers decides it" for name in unused)),
    )


def _bound(tools: Sequence[Mapping[str, Any]], choice: Any) -> tuple[tuple[ToolDefinition, ...], str]:
    definitions = tuple(_definition(tool) for tool in tools)
    if choice in (None, False, "auto"):
        return definitions, "auto"
    if choice == "none":
        return (), "none"
    if choice in (True, "any", "required") or (isinstance(choice, Mapping) and choice.get("type") == "any"):
        return definitions, "required"
    name = _tool_name(choice)
    chosen = tuple(tool for tool in definitions if tool.name == name)
    if not chosen:
        names = [tool.name for tool in definitions]
        raise ChatRequestError(f"tool_choice names no bound tool: {name!r}{did_you_mean(str(name), names)}")
    return chosen, "required"


def _tool_name(choice: Any) -> Any:
    if not isinstance(choice, Mapping):
        return choice
    function = choice.get("function")
    return function.get("name") if isinstance(function, Mapping) else choice.get("name")


def _definition(tool: Mapping[str, Any]) -> ToolDefinition:
    function = tool.get("function")
    if not isinstance(function, Mapping):
        raise ChatRequestError(f"a tool of type {tool.get('type')!r} is not a function: only functions can be bound")
    name = str(function.get("name") or "")
    definition = ToolDefinition(
        name=name,
        description=str(function.get("description") or name),
        parameters={"type": "object", "properties": {}, **(function.get("parameters") or {})},
        implementation=Implementation(type="python"),
        strict=function.get("strict"),
    )
    return with_stand_in(_not_here, definition)


def _not_here(params: Mapping[str, Any]) -> Any:
    raise RuntimeError("this tool is run by the caller")


def _conversation(messages: Sequence[BaseMessage]) -> list[Message]:
    """Convert the messages, including those embedded from within turns."""
    read: list[Message] = []
    insides = [_inside(message) for message in messages]
    reduced = [_last_said(m, inside) if inside else m for m, inside in zip(messages, insides, strict=True)]
    for inside, message in zip(insides, from_langchain(reduced), strict=True):
        read += [*inside, message]
    return read


def _inside(message: BaseMessage) -> list[Message]:
    items = message.additional_kwargs.get(INSIDE) if isinstance(message, AIMessage) else None
    try:
        return [message_from_dict(item) for item in items or ()]
    except (TypeError, ValueError):
        return []


def _last_said(message: BaseMessage, inside: Iterable[Message]) -> BaseMessage:
    """Reduce a message's text to that of the last answer: a streamed one includes the earlier answers of its turn."""
    try:
        carried = message_from_dict(message.additional_kwargs[CARRIED])
    except (KeyError, TypeError, ValueError):
        return message
    last = carried.content or ""
    texts = [m.content for m in inside if isinstance(m, AssistantMessage) and m.content]
    is_streamed = bool(texts) and message.text == "\n\n".join([*texts, *([last] if last else [])])
    return message.model_copy(update={"content": last}) if is_streamed else message


def _topic(messages: Iterable[BaseMessage]) -> str | None:
    for message in reversed([*messages]):
        if isinstance(message, AIMessage):
            metadata = message.response_metadata.get(METADATA)
            topic = metadata.get("topic") if isinstance(metadata, Mapping) else None
            return topic if isinstance(topic, str) else None
    return None
