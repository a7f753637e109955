"""Conversion of tool results to ToolMessages, exactly one for each call.

Source: the specification's texts for LangChain clients (requirements LC-7 to LC-9, LC-14 to LC-16, C18).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from flexchat import ToolCall, ToolResult
from flexchat.host import describe_media, for_the_model, new_call_id, with_hint
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage

from .answers import sound

log = logging.getLogger(__name__)

UNLIMITED = 1 << 62
"""For max_chars: as good as no limit."""

_MCP_BLOCKS = frozenset({"text", "image", "audio", "resource", "resource_link"})


def result_message(call: ToolCall, result: ToolResult, *, max_chars: int = UNLIMITED) -> ToolMessage:
    """Convert a result: to text or JSON, or to ``Error: MESSAGE`` followed by the hint.

    An MCP pair is split: its text is the content, its artifacts are the message's artifact. For any other result the
    artifact is the whole envelope.

    Args:
        max_chars: Maximum length of the result or error in the content.
    """
    artifact: Any = result.to_dict()
    if result.success and (pair := mcp_pair(result.result)) is not None:
        text, artifact = pair
        result = attrs.evolve(result, result=text, encoded=None)
    envelope = json.loads(for_the_model(result, max_chars))
    wrong = "" if result.success else with_hint(envelope["error"], envelope.get("hint"))
    content = _as_text(envelope["result"]) if result.success else f"Error: {wrong}"
    words = [*(f"{describe_media(part)}: not shown, results are text here" for part in result.media), *result.left_out]
    content = "\n".join([content, *(f"[{each}]" for each in words)])
    return _answer(call.id, call.name, content, is_error=not result.success, artifact=artifact)


def unknown_tool(call: ToolCall) -> ToolMessage:
    """Build the result of a call to an unknown tool, and log a warning (LC-15)."""
    log.warning('the model asked for an unknown tool "%s"', call.name)
    return _answer(call.id, call.name, f'Error: Unknown tool "{call.name}"', is_error=True)


def mcp_pair(value: Any) -> tuple[str, Any] | None:
    """Return text and artifacts if the value has the form an MCP adapter returns; None otherwise.

    The form is a string with None or with MCP content blocks: ["Rome", ["Paris"]] is an ordinary list.
    """
    if not isinstance(value, list | tuple) or len(value) != 2 or not isinstance(value[0], str):
        return None
    text, artifacts = value
    blocks = artifacts if isinstance(artifacts, list | tuple) else [artifacts] if artifacts is not None else []
    return (text, artifacts) if all(map(_is_mcp, blocks)) else None


def pair_results(
    calls: Iterable[Mapping[str, Any]], results: Iterable[ToolMessage], *, why: str = "the conversation broke off"
) -> list[ToolMessage]:
    """Match results to calls: exactly one per call, in the order of the calls (LC-16).

    A call without a result gets an error. Duplicate results, and results without a call, are dropped and logged.

    Args:
        calls: LangChain's calls, with name and id.
        why: Reason for missing results, for the error.
    """
    waiting: dict[str, list[ToolMessage]] = {}
    for result in results:
        waiting.setdefault(result.tool_call_id, []).append(result)
    paired = []
    for call in calls:
        id, name = call.get("id") or new_call_id(), call.get("name") or ""
        results_of_call = waiting.get(id)
        if results_of_call:
            paired.append(results_of_call.pop(0))
        else:
            log.warning("no result for tool %s: %s", name, why)
            paired.append(_answer(id, name, f'Error: no result for tool "{name}" ({why})', is_error=True))
    for surplus in (result for results_of_call in waiting.values() for result in results_of_call):
        log.warning("a result of tool %s belongs to no call, or is its second one: it is left out", surplus.name or "")
    return paired


def repaired(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Repair a conversation: give each call an id and, directly after its message, exactly one result."""
    whole: list[BaseMessage] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        if isinstance(message, ToolMessage):
            log.warning("a result of tool %s belongs to no call: it is left out", message.name or "")
            continue
        if not isinstance(message, AIMessage):
            whole.append(message)
            continue
        message = with_ids(message)
        answers = []
        while at < len(messages) and isinstance(answer := messages[at], ToolMessage):
            answers.append(answer)
            at += 1
        whole += [message, *pair_results(all_calls(message), answers)]
    return whole


def all_calls(message: AIMessage) -> list[Mapping[str, Any]]:
    """Return all calls of a message, including invalid ones, because each needs a result."""
    return [*message.tool_calls, *message.invalid_tool_calls]


def with_ids(message: AIMessage) -> AIMessage:
    """Give each call of a message an id: LangChain allows calls without one, but results refer to ids."""
    message = sound(message)
    if isinstance(message, AIMessageChunk) and message.tool_call_chunks:
        chunks = [_with_id(chunk) for chunk in message.tool_call_chunks]
        # A new object, because LangChain parses the chunks into calls on construction.
        fields = {**dict(message), "tool_call_chunks": chunks, "tool_calls": [], "invalid_tool_calls": []}
        return AIMessageChunk(**{key: value for key, value in fields.items() if key != "type"})
    if all(call.get("id") for call in all_calls(message)):
        return message
    return message.model_copy(
        update={
            "tool_calls": [_with_id(call) for call in message.tool_calls],
            "invalid_tool_calls": [_with_id(call) for call in message.invalid_tool_calls],
        }
    )


def _with_id(call: Any) -> Any:
    return call if call.get("id") else {**call, "id": new_call_id()}


def _is_mcp(block: Any) -> bool:
    return isinstance(block, Mapping) and (block.get("type") in _MCP_BLOCKS or "structured_content" in block)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _answer(id: str, name: str, content: str, *, is_error: bool, artifact: Any = None) -> ToolMessage:
    return ToolMessage(
        content=content, tool_call_id=id, name=name, status="error" if is_error else "success", artifact=artifact
    )
