"""The tool source "mcp": a server whose tools are listed when they are needed, and checked before they are called."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
from flexchat.plugin import SourcedTool, ToolError, ToolSourceContext, ToolSourceError

from .errors import AnswerLostError, AnswerTooLargeError, ServerUnusableError
from .listing import Listing, listed, remarks, sourced, wanted
from .resources import Resources, resource_tools
from .server import Server
from .settings import McpConfig

if TYPE_CHECKING:
    from .grant import Person

log = logging.getLogger(__name__)


async def open_source(config: McpConfig, context: ToolSourceContext) -> McpSource:
    """Return a server's source. Nothing is started yet."""
    return McpSource(config, context)


class McpSource:
    """A server of the config.

    Attributes:
        fingerprint: Always empty: only a list says what a server has.
        server: Its process or address.
        resources: What its tools for reading answer.
        person: Who can sign in, and answer questions, if the server asks; None for nobody.
    """

    fingerprint = ""

    def __init__(self, config: McpConfig, context: ToolSourceContext, person: Person | None = None) -> None:
        self.config, self.name, self.person = config, context.name, person
        self.resources = Resources(context.name)
        self._changed: Callable[[], None] = context.changed
        self._listing: Listing | None = None
        self._asking = asyncio.Lock()
        self.server = Server(
            config,
            context.name,
            folder=context.folder,
            fetcher=context.fetcher,
            tools_changed=self._tools_changed,
            person=person,
        )

    async def tools(self) -> Sequence[SourcedTool]:
        """List the server's tools.

        Raises:
            ToolSourceError: It cannot be reached, or does not answer what MCP says.
        """
        listing = await self.listing(fresh=True)
        tools = [sourced(tool, self.config) for tool in wanted(listing.tools, self.config)]
        if self.config.resources and listing.has_resources:
            tools += resource_tools(self.name, self.config)
        self._tell(listing)
        if not tools:
            raise ToolSourceError("it has no tools" if not listing.tools else "no tool of it is wanted")
        return tools

    async def listing(self, *, fresh: bool = False) -> Listing:
        """Return what the server lists, if that is not known or may have changed by asking it.

        Raises:
            ToolSourceError: As tools.
        """
        async with self._asking:
            known = self._listing
            if fresh or known is None or not self._is_fresh(known):
                try:
                    known = await self.server.ask(listed, may_repeat=True, is_call=False)
                except (ServerUnusableError, AnswerLostError, AnswerTooLargeError) as error:
                    raise ToolSourceError(str(error)) from None
                except ToolSourceError:
                    raise
                except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
                    raise ToolSourceError(f"its tools cannot be listed: {said(error)}") from None
                self._listing = known = attrs.evolve(known, connection=self.server.connections)
            return known

    async def check(self, tool: str, accepted: str) -> None:
        """Make sure that a tool is still what was accepted, as far as the server says.

        Args:
            accepted: The hash of its definition.

        Raises:
            ToolError: It is not, and may not be called.
            ToolSourceError: As tools.
        """
        known = self._listing
        if known is None or not self._is_fresh(known):
            known = await self.listing()
        now = known.hashes.get(tool)
        if now == accepted:
            return
        self._changed()
        if now is None:
            raise ToolError(f"the MCP server '{self.name}' no longer has a tool '{tool}'")
        if not self.config.trust:
            raise ToolError(
                f"the MCP server '{self.name}' has changed what '{tool}' is since it was accepted, so it is not called",
                hint=f"the operator can look at it with: flexchat tools diff {self.name}",
            )

    def still_callable(self, accepted: SourcedTool, now: SourcedTool | None) -> bool:
        """Whether calls by the accepted definition may go on: of an unchanged tool, or if the server is trusted."""
        if now is None:
            return False
        if accepted.settings.get("resources") and now.settings.get("resources"):
            return True  # ours, of another version
        return self.config.trust or accepted.settings.get("hash") == now.settings.get("hash")

    async def aclose(self) -> None:
        """End the server."""
        await self.server.aclose()

    def _is_fresh(self, listing: Listing) -> bool:
        return time.monotonic() < listing.until and listing.connection == self.server.connections

    def _tools_changed(self) -> None:
        self._listing = None
        self._changed()

    def _tell(self, listing: Listing) -> None:
        lines = remarks(listing, self.config)
        if lines:
            log.warning("tool source '%s': %s", self.name, "; ".join(lines[:5]))


def said(error: Exception) -> str:
    """Return what is wrong with an answer, in words."""
    from mcp.shared.exceptions import MCPError
    from pydantic import ValidationError

    if isinstance(error, MCPError):
        return f"{error.message} ({error.code})"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"its answer is not what MCP says: {place}: {first['msg']}"
    return f"{type(error).__name__}: {error}"
