"""The tools and plugins that scenes share."""

from __future__ import annotations

import asyncio

from flexchat import ToolResult, tool
from flexchat.plugin import (
    hookimpl,
)


@tool(effect="read")
def echo(text: str) -> str:
    """Say it again."""
    return text


@tool(effect="read")
def fails(text: str) -> str:
    """Fail."""
    raise ValueError(f"cannot: {text}")


@tool(effect="write")
def save(text: str) -> str:
    """Keep it."""
    return "saved"


def racing():
    """Two tools of which the one that is called second ends first."""
    ended = asyncio.Event()

    @tool(effect="read")
    async def slow() -> str:
        """End second."""
        await ended.wait()
        return "slow"

    @tool(effect="read")
    async def quick() -> str:
        """End first."""
        ended.set()
        return "quick"

    return [slow, quick]


def hanging(stage):
    """A tool that never ends."""

    @tool(effect="write")
    async def hangs() -> str:
        """Never end."""
        await stage.hang()

    return hangs


class Gate:
    """Refuses the tool echo with a sentence."""

    @hookimpl
    def flexchat_before_tool_call(self, tool):
        return ToolResult.failed(tool.name, "not today") if tool.name == "echo" else None


class Serving:
    """Answers in the tool's place."""

    @hookimpl
    async def flexchat_before_tool_call(self, tool):
        return ToolResult(success=True, tool_name=tool.name, result="from the gate")


class BrokenGate:
    """Raises where it should judge."""

    @hookimpl
    def flexchat_before_tool_call(self, tool):
        raise RuntimeError("the gate is broken")


class BrokenObserver:
    """Raises wherever it is told something."""

    @hookimpl
    def flexchat_turn_started(self):
        raise RuntimeError("the observer is broken")

    @hookimpl
    async def flexchat_turn_finished(self):
        raise RuntimeError("the observer is broken")


A, B = ("echo", {"text": "a"}), ("echo", {"text": "b"})
