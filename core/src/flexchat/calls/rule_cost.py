"""What a rule's tools cost, as its service is sent them."""

from __future__ import annotations

from ..config.model import ResponseRule
from ..llms.llm import Llms
from ..tools.cost import ToolsCost, cost_of
from .manager import ToolManager


def rule_cost(rule: ResponseRule, manager: ToolManager, llms: Llms) -> tuple[str, ToolsCost]:
    """Return the tool format a rule's model is sent, and the price of the rule's tools in it. Opens no source.

    Raises:
        UnknownLLMError: The rule names an LLM that is not configured.
        UnknownToolFormatError: No installed plugin offers the format.
    """
    llm, model = llms.resolve(rule.llm, rule.model)
    tool_format = llm.provider.tool_format(model)
    return tool_format, cost_of(manager.get_registry(), manager.offered_to(rule), tool_format)
