"""The answer text: the tools' results, or the reason why no tool was called."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flexchat.plugin import ToolCall
from flexchat_sdk import ToolMessage

from .plan import Step, Tool

_MAX_CHARACTERS, _MAX_TOOLS = 600, 12
_json = functools.partial(json.dumps, ensure_ascii=False)


def from_results(results: Sequence[tuple[ToolCall | None, ToolMessage]], steps: Sequence[Step]) -> list[str]:
    """Compose one sentence per result, then one per request that no tool could handle."""
    return [*(_result(call, message) for call, message in results), *_unmet(steps)]


def from_plan(steps: Sequence[Step], tools: Sequence[Tool], *, may_call: bool) -> list[str]:
    """Explain a turn without calls: no tools, calls not allowed, no matching tool, or a missing argument."""
    if not tools:
        return ["No tool is offered, so there is nothing to call."]
    if not may_call:
        return ["No tool may be called now."]
    more = f" and {len(tools) - _MAX_TOOLS} more" if len(tools) > _MAX_TOOLS else ""
    offered = f"Tools offered: {', '.join(tool.name for tool in tools[:_MAX_TOOLS])}{more}."
    return [*_unmet(steps), *([] if any(step.tool for step in steps) else [offered])]


def _unmet(steps: Sequence[Step]) -> Iterator[str]:
    for step in steps:
        text = _shorten(step.text, 80)
        if step.tool is None:
            yield f'No tool fits "{text}".'
        elif step.missing:
            yield f'{step.tool} fits "{text}", but the message does not give: {", ".join(step.missing)}.'


def _result(call: ToolCall | None, message: ToolMessage) -> str:
    arguments = call.arguments if call is not None and call.arguments is not None else {}
    call_text, failed = f"{message.name} ({_format_pairs(arguments)})" if arguments else message.name, message.is_error
    try:
        content = json.loads(message.content)
    except (ValueError, RecursionError):
        return f"{call_text} {'failed' if failed else 'answered'}: {_shorten(message.content)}"
    envelope = content if isinstance(content, dict) and "success" in content else {}
    if envelope.get("success") is False:
        hint = f" ({envelope['hint']})" if envelope.get("hint") else ""
        return f"{call_text} failed: {_shorten(str(envelope.get('error', 'no reason given')) + hint)}"
    if failed:
        return f"{call_text} failed: {_shorten(message.content)}"
    value = _shorten(_format(_news(envelope.get("result", content), arguments)))
    return f"{call_text} answered {value}" + ("" if value.endswith((".", "…")) else ".")


def _news(content: Any, arguments: Mapping[str, Any]) -> Any:
    """Drop fields that repeat the arguments; if one field is left, return its value."""
    if not isinstance(content, dict):
        return content
    news = {k: v for k, v in content.items() if not (k in arguments and arguments[k] == v)} or content
    return next(iter(news.values())) if len(news) == 1 else news


def _format(value: Any) -> str:
    if isinstance(value, dict) and value:
        return _format_pairs(value)
    if isinstance(value, list) and len(value) > 1:
        return f"{len(value)} entries: {'; '.join(_json(item) for item in value[:_MAX_CHARACTERS])}"
    return _json(value)


def _format_pairs(table: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}: {value if isinstance(value, str) else _json(value)}" for key, value in table.items())


def _shorten(text: str, limit: int = _MAX_CHARACTERS) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
