"""The answer: what the tools said, or why none was called. Nothing in it but the message, the tools and the results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flexchat.plugin import ToolCall, ToolMessage

from .choose_tool import Tool
from .plan import Step
from .values import Value

HONESTY = "(rehearsal model: it matches words and understands nothing)"
"""Ends every answer."""

_MOST_CHARACTERS = 600
_MOST_ITEMS = 8
_MOST_TOOLS = 12


def from_results(asked: Sequence[tuple[ToolCall | None, ToolMessage]], steps: Sequence[Step]) -> str:
    """Return one sentence per result, then what no tool could do."""
    lines = [_result(call, message) for call, message in asked]
    lines += [line for step in steps if not step.is_call and (line := _unmet(step))]
    return _joined(lines)


def from_plan(
    steps: Sequence[Step], tools: Sequence[Tool], *, may_call: bool, found: Sequence[Value], words: int
) -> str:
    """Return why nothing is called: no tools, not allowed, nothing fits, or an argument is not said."""
    lines: list[str] = []
    if not tools:
        lines.append(f"No tool is offered, so there is nothing to call. {_read(found, words)}")
    elif not may_call:
        lines.append(f"No tool may be called now. {_read(found, words)}")
        lines += [f"{spoken_call(s.tool or '', s.arguments)} would fit." for s in steps if s.is_call]
    else:
        lines += [line for step in steps if (line := _unmet(step))]
        if not any(step.tool for step in steps):
            shown = ", ".join(tool.name for tool in tools[:_MOST_TOOLS])
            more = f" and {len(tools) - _MOST_TOOLS} more" if len(tools) > _MOST_TOOLS else ""
            lines.append(f"{'Nothing was asked. ' if not steps else ''}Tools offered: {shown}{more}.")
    return _joined(lines)


def spoken_call(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a call as a person reads it: "get_weather (city: Rome, days: 2)"."""
    return f"{tool} ({_pairs(arguments)})" if arguments else tool


def _joined(lines: Iterable[str]) -> str:
    return "\n".join([*lines, HONESTY])


def _unmet(step: Step) -> str:
    text = _shortened(step.text, 80)
    if step.tool is None:
        return f'No tool fits "{text}".'
    if step.missing:
        return f'{step.tool} fits "{text}", but the message does not say: {", ".join(step.missing)}.'
    return ""


def _read(found: Sequence[Value], words: int) -> str:
    """What could be made of the message."""
    kinds: dict[str, list[str]] = {}
    for value in found:
        if value.sure and value.kind not in ("symbol", "path"):
            said = value.value if value.kind != "moment" else " ".join(part for part in value.value if part)
            kinds.setdefault(_KIND_NAMES.get(value.kind, value.kind), []).append(_shortened(str(said), 40))
    parts = [f"{kind} {', '.join(dict.fromkeys(said[:_MOST_ITEMS]))}" for kind, said in kinds.items()]
    counted = f"{words} word{'' if words == 1 else 's'}"
    return f"The message has {counted}" + (f"; found in it: {'; '.join(parts)}." if parts else ".")


_KIND_NAMES = {"moment": "date or time", "zone": "time zone", "name": "name", "quoted": "quote"}


def _result(call: ToolCall | None, message: ToolMessage) -> str:
    arguments = call.arguments if call is not None and call.arguments is not None else {}
    spoken = spoken_call(message.name, arguments)
    try:
        content = json.loads(message.content)
    except (ValueError, RecursionError):
        verb = "failed" if message.is_error else "answered"
        return f"{spoken} {verb}: {_shortened(message.content, _MOST_CHARACTERS)}"
    if isinstance(content, dict) and content.get("success") is False:
        why = str(content.get("error", "no reason given"))
        why += f" ({content['hint']})" if content.get("hint") else ""
        return f"{spoken} failed: {_shortened(why, _MOST_CHARACTERS)}"
    if isinstance(content, dict) and content.get("success") is True and "result" in content:
        content = content["result"]
    elif message.is_error:
        return f"{spoken} failed: {_shortened(message.content, _MOST_CHARACTERS)}"
    value = _shortened(_spoken(_news(content, arguments)), _MOST_CHARACTERS)
    return f"{spoken} answered {value}" + ("" if value.endswith((".", "…")) else ".")


def _news(content: Any, arguments: Mapping[str, Any]) -> Any:
    """A result without what only repeats the arguments; the value itself where one is left."""
    if not isinstance(content, dict) or not content:
        return content
    news = {k: v for k, v in content.items() if not (k in arguments and arguments[k] == v)} or content
    if len(news) == 1:
        (value,) = news.values()
        if not isinstance(value, dict | list):
            return value
    return news


def _spoken(value: Any, depth: int = 0) -> str:
    if isinstance(value, str):
        return f'"{value}"' if depth == 0 or not value or any(c in value for c in (", ", "; ", ": ", "\n")) else value
    if isinstance(value, dict):
        if not value:
            return "nothing (an empty object)"
        inner = _pairs(value, depth + 1)
        return f"({inner})" if depth else inner
    if isinstance(value, list):
        if not value:
            return "nothing (an empty list)"
        items = [_spoken(item, depth + 1) for item in value[:_MOST_ITEMS]]
        more = f" and {len(value) - _MOST_ITEMS} more" if len(value) > _MOST_ITEMS else ""
        many = f"{len(value)} entries: " if len(value) > 1 and depth == 0 else ""
        return f"{many}{'; '.join(items)}{more}" if depth == 0 else f"[{', '.join(items)}{more}]"
    return json.dumps(value)


def _pairs(table: Mapping[str, Any], depth: int = 1) -> str:
    return ", ".join(f"{key}: {_spoken(value, depth) if depth < 6 else '…'}" for key, value in table.items())


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
