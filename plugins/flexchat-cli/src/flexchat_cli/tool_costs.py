"""The cost of tools: an estimate of the tokens a model reads for them with every request."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from flexchat.calls.manager import ToolManager
    from flexchat.config.model import ResponseRule
    from flexchat.llms.llm import Llms
    from flexchat.tools.registry import ToolRegistry

BYTES_PER_TOKEN = 3.5
"""Of JSON as it is sent, in most models' tokenizers. Services count tools in their own ways: this is an estimate."""


@attrs.frozen(kw_only=True)
class ToolsCost:
    """The price of a list of tools.

    Attributes:
        tokens: Of all of them together, estimated.
        by_tool: Of each, the dearest first.
        unsendable: Those that the provider cannot accept, which are not counted; see ``flexchat tools lint``.
    """

    tokens: int
    by_tool: Mapping[str, int]
    unsendable: tuple[str, ...] = ()


def tokens_of(sent: Iterable[Mapping[str, Any]]) -> int:
    """Return about how many tokens JSON data has."""
    text = json.dumps([*sent], ensure_ascii=False, separators=(",", ":"))
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def cost_of(registry: ToolRegistry, names: tuple[str, ...], tool_format: str) -> ToolsCost:
    """Return the price of the named tools as sent in a provider's format.

    Raises:
        UnknownToolFormatError: No installed plugin offers that format.
    """
    dropped = registry.dropped_by(tool_format, names)
    each = {name: tokens_of(registry.wire_tools(tool_format, (name,))) for name in names if name not in dropped}
    return ToolsCost(
        tokens=tokens_of(registry.wire_tools(tool_format, tuple(each))) if each else 0,
        by_tool=dict(sorted(each.items(), key=lambda found: (-found[1], found[0]))),
        unsendable=tuple(dropped),
    )


def rule_cost(rule: ResponseRule, manager: ToolManager, llms: Llms) -> tuple[str, ToolsCost]:
    """Return the tool format a rule's model is sent, and the price in it of the tools in the rule's first request.
    Opens no source.

    Raises:
        UnknownLLMError: The rule names an LLM that is not configured.
        UnknownToolFormatError: No installed plugin offers the format.
    """
    llm, model = llms.resolve(rule.llm, rule.model)
    tool_format = llm.provider.tool_format(model)
    return tool_format, cost_of(manager.get_registry(), manager.shown_to(rule), tool_format)
