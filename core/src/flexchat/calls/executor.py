"""The executor as the specification names it: how a program runs one tool by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..domain import ToolDefinition, ToolResult
from ..plugin.call import Call
from .calls import Calls


class ToolExecutor:
    """Executes tools, through Calls. The outcome, whatever it is, is a ToolResult.

    Source: tool-execution specification (requirements TC-14, TC-36 to TC-49).
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def execute(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        allowed: Collection[str] | None = None,
        timeout_s: float | None = None,
    ) -> ToolResult:
        """Run a tool with these arguments. Whatever name and params are, the outcome is a result.

        Args:
            allowed: Names that were offered; any other tool does not exist here. None allows all.
            timeout_s: Seconds that are left, where they are fewer than the tool's own timeout.
        """
        call = Call(name=name, arguments=params, origin="program", offered=allowed, seconds_left=lambda: timeout_s)
        return await self._calls.run(call)

    def validate(self, tool: ToolDefinition, params: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with the arguments, in the specification's words; empty if nothing is."""
        return self._calls.findings(tool, params)
