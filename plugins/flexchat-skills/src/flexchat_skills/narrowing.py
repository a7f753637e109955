"""allowed-tools of loaded skills: narrows what the model may call, and never widens it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from flexchat import AssistantMessage, Message, ToolMessage, UserMessage
from flexchat.host import current_turn
from flexchat.plugin import Call, ToolDefinition, ToolResult, hookimpl

from .source import LOAD, TITLE, TYPE

_READERS = ("read_result", "find_tools")  # they show results and tools, and call none


class Narrowing:
    """The gate. It has no state: the skills that are loaded stand in the messages, also of a turn that goes on."""

    @hookimpl
    def flexchat_before_tool_call(self, tool: ToolDefinition, call: Call) -> ToolResult | None:
        """Refuse a call that a skill loaded for this message does not allow; calls made by an allowed tool pass."""
        turn = current_turn.get()
        if turn is None or call.offer is None or call.parent is not None or tool.implementation.type == TYPE:
            return None
        for skill, allowed in _restrictions(call, turn.messages):
            if not is_allowed(tool, allowed):
                listing = ", ".join(allowed) or "no tool"
                text = f"Not executed: the skill '{skill}', loaded for this message, allows only {listing}"
                return ToolResult.failed(tool.name, text if allowed else text.replace("only ", ""))
        return None


def is_allowed(tool: ToolDefinition, allowed: Sequence[str]) -> bool:
    """Return whether names and patterns allow a tool: "find_order", "order_*", "shop/*" for those of a tool source."""
    if tool.source is None and tool.name in _READERS:
        return True
    names = (tool.name,) if tool.source is None else (tool.name, f"{tool.source}/{tool.name}")
    return any(fnmatchcase(name, pattern) for name in names for pattern in allowed)


def _restrictions(call: Call, messages: Sequence[Message]) -> list[tuple[str, Sequence[str]]]:
    """Return each skill with allowed-tools that was loaded since the last message of the user, with them."""
    assert call.offer is not None
    loader = call.offer.get(LOAD)
    if loader is None or loader.implementation.type != TYPE:
        return []
    skills: Mapping[str, Mapping[str, Any]] = loader.implementation.settings["skills"]
    wire_name, arguments, names = call.offer.wire_name(LOAD), dict[str, Mapping[str, Any]](), dict[str, None]()
    begin = next((at for at in reversed(range(len(messages))) if isinstance(messages[at], UserMessage)), 0)
    for message in messages[begin:]:
        if isinstance(message, AssistantMessage):
            arguments |= {each.id: each.arguments or {} for each in message.tool_calls if each.name == wire_name}
        elif isinstance(message, ToolMessage) and message.tool_call_id in arguments and not message.is_error:
            # A person who approved the call may have changed the name, and the result may be a summary.
            names |= dict.fromkeys((str(arguments[message.tool_call_id].get("name")), _title_of(message)))
    return [(name, skills[name]["allowed_tools"]) for name in names if "allowed_tools" in skills.get(name, ())]


def _title_of(message: ToolMessage) -> str:
    try:
        text = str(json.loads(message.content)["result"])
    except (ValueError, TypeError, LookupError):
        return ""
    return text.partition("\n")[0].removeprefix(TITLE)
