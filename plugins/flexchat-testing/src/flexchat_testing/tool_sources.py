"""Tool sources without a service: "listed" has the tools of a JSON file, ScriptedSource those that a test gives it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from flexchat.host import read_file
from flexchat.plugin import SourcedTool, ToolSourceContext, ToolSourceError, ToolSourceType, hookimpl, key, secret_key

_MAX_BYTES = 64 * 2**20


@attrs.frozen(kw_only=True)
class ListedSettings:
    """Keys of a ``[[tools.listed]]`` table."""

    file: str = key("JSON file with a list of tools: name, description, parameters, effect, implementation.")


class ListedSource:
    """The tools listed in a file, which is read when the source is opened and again by every ``tools``."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.fingerprint = hashlib.sha256(_content(path)).hexdigest()

    async def tools(self) -> Sequence[SourcedTool]:
        """Return the tools in the file now."""
        content = _content(self._path)
        self.fingerprint = hashlib.sha256(content).hexdigest()
        try:
            data = json.loads(content)
            return [_tool(entry) for entry in data]
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ToolSourceError(f"{self._path} is not a JSON list of tools: {error}") from None

    async def aclose(self) -> None:
        """Nothing is open."""


def _tool(entry: Mapping[str, Any]) -> SourcedTool:
    rest = dict(entry)
    settings = dict(rest.pop("implementation", {"type": "mock", "mock_response": {}}))
    rest.setdefault("parameters", {"type": "object", "properties": {}})
    return SourcedTool(**rest, implementation=settings.pop("type"), settings=settings)


def _content(path: Path) -> bytes:
    try:
        return read_file(path, most=_MAX_BYTES)
    except OSError as error:
        raise ToolSourceError(f"{path} cannot be read: {error.strerror}") from None


async def _open(settings: ListedSettings, context: ToolSourceContext) -> ListedSource:
    return ListedSource((context.folder or Path()) / settings.file)


LISTED = ToolSourceType(
    name="listed", config_class=ListedSettings, open=_open, summary="tools listed in a JSON file, for tests"
)


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
