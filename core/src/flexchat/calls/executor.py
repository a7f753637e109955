"""The executor as the specification names it: how a program runs one tool by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ..domain import ToolDefinition, ToolResult
from ..plugin.call import Call
from .calls import Calls


class ToolExecutor:
    """Executes tools, through Calls. The outcome is always a ToolResult.

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
        """Run a tool with these arguments. The outcome is a result for any name and params.

        Args:
            allowed: Names that were offered; any other tool counts as not found. None allows all.
            timeout_s: Seconds left, if fewer than the tool's own timeout.
        """
        call = Call(name=name, arguments=params, origin="program", offered=allowed, seconds_left=lambda: timeout_s)
        return await self._calls.run(call)

    def validate(self, tool: ToolDefinition, params: Mapping[str, Any]) -> list[str]:
        """Return the problems with the arguments, worded by the specification; empty if there are none."""
        return self._calls.findings(tool, params)
