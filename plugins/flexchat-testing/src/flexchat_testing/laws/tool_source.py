"""The laws of a tool source."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
from flexchat.host import schema_problems, structure_mapping
from flexchat.plugin import (
    FlexChatError,
    SourcedTool,
    SourceServer,
    ToolSource,
    ToolSourceContext,
    ToolSourceError,
    ToolSourceType,
)

from .law import Conformance, law, refused, require, show
from .running import check_light

_SECRET = "kit-secret-0123456789"


class ToolSourceConformance(Conformance):
    """What every tool source keeps.

    Attributes:
        source: The record the plugin registers.
        settings: A ``[[tools.TYPE]]`` table with which it opens, without core's keys.
        wrong_settings: Tables with which it cannot be opened, if it "refuses" any.
        folder: Where relative paths in the settings start.
        plugin: The module of the entry point, for the law about imports.
        deadline_s: Seconds opening it and reading its tools may take.
    """

    capabilities: ClassVar[Mapping[str, str]] = {
        "refuses": "there are settings with which it cannot be opened: wrong_settings",
        "fingerprints": "its fingerprint says whether its tools may differ",
    }
    source: ClassVar[ToolSourceType]
    settings: ClassVar[Mapping[str, Any]] = {}
    wrong_settings: ClassVar[Sequence[Mapping[str, Any]]] = ()
    folder: ClassVar[Path | None] = None
    plugin: ClassVar[str] = ""
    deadline_s: ClassVar[float] = 10.0

    def context(self) -> ToolSourceContext:
        """Create the context with which the source is opened."""
        return ToolSourceContext(name="kit", folder=self.folder)

    @contextlib.asynccontextmanager
    async def opened(self, table: Mapping[str, Any] | None = None) -> AsyncIterator[ToolSource]:
        """Open the source for the length of a law."""
        settings, problems = structure_mapping(self.settings if table is None else table, self.source.config_class)
        require(not problems, f"config_class refuses {show(table or self.settings)}: {'; '.join(problems)}")
        async with asyncio.timeout(self.deadline_s):
            source = await self.source.open(settings, self.context())
        async with contextlib.aclosing(source):
            yield source

    @law()
    def test_it_is_a_source(self) -> None:
        """The record is a ToolSourceType with a summary of one line, and its module is light."""
        source = getattr(type(self), "source", None)
        require(isinstance(source, ToolSourceType), f"source must be the plugin's ToolSourceType, got {source!r}")
        require(self.source.summary and "\n" not in self.source.summary, "its summary must be one line")
        if self.plugin:
            check_light(self.plugin)

    @law()
    async def test_its_tools_can_be_used(self, source: ToolSource) -> None:
        """Every tool is a SourcedTool with a legal name of its own, plain JSON, and a schema that can be checked."""
        tools = [*await source.tools()]
        require(tools, "settings must open a source that has a tool")
        strange = [tool for tool in tools if not isinstance(tool, SourcedTool)]
        require(not strange, f"these are not SourcedTools: {show(strange)}")
        names = [tool.name for tool in tools]
        require(len(set(names)) == len(names), f"two tools have one name: {show(sorted(names))}")
        for tool in tools:
            try:
                tool.definition("kit")
                digest = tool.digest
            except FlexChatError as error:
                raise AssertionError(f"tool {tool.name}: {error}") from None
            require(
                SourcedTool.from_dict(tool.to_dict()).digest == digest, f"tool {tool.name} is another after keeping"
            )
            problems = schema_problems(tool.parameters)
            require(not problems, f"tool {tool.name}: parameters: {'; '.join(problems)}")

    @law()
    async def test_what_has_not_changed_is_the_same(self) -> None:
        """Read twice, and opened twice, it has the same tools and the same fingerprint: else all would be changes."""
        listings = []
        for _ in range(2):
            async with self.opened() as source:
                for _ in range(2):
                    tools = await source.tools()
                    listings.append((source.fingerprint, {tool.name: tool.digest for tool in tools}))
        differing = [one for one in listings[1:] if one != listings[0]]
        require(not differing, "its tools, or its fingerprint, differ although nothing has changed")

    @law()
    async def test_nothing_changes_what_was_returned(self, source: ToolSource) -> None:
        """A list that it has returned does not change with later calls."""
        first = [*await source.tools()]
        before = [tool.digest for tool in first]
        await source.tools()
        again = [SourcedTool.from_dict(tool.to_dict()).digest for tool in first]
        require(before == again, "tools returned earlier were changed")

    @law()
    async def test_its_fingerprint_is_a_text(self, source: ToolSource) -> None:
        """A text; if the source "fingerprints", not an empty one."""
        require(isinstance(source.fingerprint, str), f"fingerprint must be a text, got {source.fingerprint!r}")
        is_expected = "fingerprints" in self.supports
        require(bool(source.fingerprint) is is_expected, f"fingerprint is {source.fingerprint!r}: see capabilities")

    @law()
    async def test_no_secret_leaves_it(self) -> None:
        """Texts of settings marked secret are in no tool and not in the fingerprint: both are kept in a file."""
        secret = [field.name for field in attrs.fields(self.source.config_class) if field.metadata.get("secret")]
        table = {**self.settings, **dict.fromkeys(secret, _SECRET)}
        async with self.opened(table) as source:
            text = repr([tool.to_dict() for tool in await source.tools()]) + source.fingerprint
            require(_SECRET not in text, "a secret of its settings is in its tools or its fingerprint")

    @law()
    async def test_what_runs_behind_it_can_be_restarted(self, source: ToolSource) -> None:
        """Its state is a SourceServer or None, and starts nothing; after a restart it has the same tools."""
        state_of = getattr(source, "server_state", lambda tenant: None)
        require(isinstance(state_of("kit"), SourceServer | None), f"its state is {show(state_of('kit'))}")
        before = {tool.name: tool.digest for tool in await source.tools()}
        require(isinstance(state_of("kit"), SourceServer | None), f"its state is {show(state_of('kit'))}")
        restart = getattr(source, "restart", None)
        if restart is not None:
            async with asyncio.timeout(self.deadline_s):
                await restart("kit")
                await restart("kit")
            require({tool.name: tool.digest for tool in await source.tools()} == before, "a restart changes tools")

    @law("refuses")
    async def test_what_cannot_be_opened_is_told(self) -> None:
        """With wrong_settings, opening or reading raises a ToolSourceError with a sentence."""
        require(self.wrong_settings, "wrong_settings must hold a table with which it cannot be opened")
        for table in self.wrong_settings:
            await refused(self._listed(table), ToolSourceError, f"opening with {show(table)}")

    async def _listed(self, table: Mapping[str, Any]) -> Sequence[SourcedTool]:
        async with self.opened(table) as source:
            return await source.tools()

    @law()
    async def test_opening_can_be_cancelled(self) -> None:
        """Opening ends when it is cancelled, and the source can be opened after that."""
        settings, _ = structure_mapping(self.settings, self.source.config_class)
        task = asyncio.ensure_future(self.source.open(settings, self.context()))
        await asyncio.sleep(0)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=self.deadline_s)
        require(done, f"open goes on {self.deadline_s:g} s after it was cancelled")
        if not task.cancelled() and task.exception() is None:
            await task.result().aclose()
        async with self.opened():
            pass
