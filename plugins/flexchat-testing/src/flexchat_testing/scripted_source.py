"""ScriptedSource: a tool source that has the tools a test gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from flexchat.plugin import SourcedTool, ToolSourceContext, ToolSourceType, hookimpl, secret_key


@attrs.frozen
class ScriptedSourceSettings:
    """The keys of a ``[[tools.TYPE]]`` table of a scripted source: any text, for tests of settings."""

    document: str | None = None
    token: str | None = secret_key("A secret.")


class ScriptedSource:
    """A source of tools that a test controls. It is also the plugin that registers its type.

    Register it (``host.register(source, "scripted source")``), and write ``[[tools.scripted]]`` in the config.

    Args:
        tools: What it has; assign to ``tools_now``, or call ``change``, for something else later.
        type: Name of the type it registers.

    Attributes:
        fingerprint: As ToolSource's; empty unless set.
        fault: Raised by the next openings and listings; None for none.
        waits: What openings and listings wait for; None for nothing.
        opened, listed, closed: How often each has happened.
        context: What it was last opened with.
    """

    def __init__(self, tools: Iterable[SourcedTool] = (), *, type: str = "scripted") -> None:
        self.tools_now: Sequence[SourcedTool] = [*tools]
        self.type = type
        self.fingerprint = ""
        self.fault: BaseException | None = None
        self.waits: asyncio.Event | None = None
        self.opened = self.listed = self.closed = 0
        self.context: ToolSourceContext | None = None

    @hookimpl
    def flexchat_register_tool_sources(self) -> Iterable[ToolSourceType]:
        """Register the type."""
        yield ToolSourceType(name=self.type, config_class=ScriptedSourceSettings, open=self._open)

    def change(self, *tools: SourcedTool) -> None:
        """Replace the tools, and announce the change if the source is open."""
        self.tools_now = tools
        if self.context is not None:
            self.context.changed()

    async def tools(self) -> Sequence[SourcedTool]:
        """Return the tools it has now."""
        self.listed += 1
        await self._scripted()
        return [*self.tools_now]

    async def aclose(self) -> None:
        """Count."""
        self.closed += 1

    async def _open(self, settings: Any, context: ToolSourceContext) -> ScriptedSource:
        self.opened += 1
        self.context = context
        await self._scripted()
        return self

    async def _scripted(self) -> None:
        if self.waits is not None:
            await self.waits.wait()
        if self.fault is not None:
            raise self.fault


def sourced(name: str, description: str = "", **rest: Any) -> SourcedTool:
    """Return a tool of a source, as short as tests want it: a mock that reads, and takes a text ``q``."""
    fields: dict[str, Any] = {
        "description": description or f"The tool {name}.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
        "implementation": "mock",
        "settings": {"mock_response": {"answered by": name}},
        "effect": "read",
    }
    return SourcedTool(name=name, **(fields | rest))
