"""allowed-tools of loaded skills: narrows what the model may call, and never widens it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from flexchat import AssistantMessage, ToolMessage
from flexchat.host import current_turn
from flexchat.plugin import Call, ToolDefinition, ToolResult, hookimpl

from .source import LOAD, TYPE

_READERS = ("read_result", "find_tools")  # they show results and tools, and call none


class Narrowing:
    """The gate. It has no state: the skills that are loaded stand in the turn's messages, also of a resumed turn."""

    @hookimpl
    def flexchat_before_tool_call(self, tool: ToolDefinition, call: Call) -> ToolResult | None:
        """Refuse a call that a skill loaded in this turn does not allow; calls made by an allowed tool pass."""
        turn = current_turn.get()
        if turn is None or call.offer is None or call.parent is not None or tool.implementation.type == TYPE:
            return None
        for skill, allowed in _restrictions(call, turn.own_messages):
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


def _restrictions(call: Call, messages: Sequence[Any]) -> list[tuple[str, Sequence[str]]]:
    """Return each skill with allowed-tools that the turn has loaded, with them."""
    assert call.offer is not None
    loader = call.offer.get(LOAD)
    if loader is None or loader.implementation.type != TYPE or not messages:
        return []
    skills: Mapping[str, Mapping[str, Any]] = loader.implementation.settings["skills"]
    wire_name = call.offer.wire_name(LOAD)
    succeeded = {one.tool_call_id for one in messages if isinstance(one, ToolMessage) and not one.is_error}
    calls = [each for one in messages if isinstance(one, AssistantMessage) for each in one.tool_calls]
    names = [
        str((each.arguments or {}).get("name")) for each in calls if each.name == wire_name and each.id in succeeded
    ]
    return [
        (name, skills[name]["allowed_tools"])
        for name in dict.fromkeys(names)
        if "allowed_tools" in skills.get(name, ())
    ]
