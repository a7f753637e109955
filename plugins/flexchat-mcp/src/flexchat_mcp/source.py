"""The tool source "mcp": a server whose tools are listed when they are needed, and checked before they are called.

With per_tenant, each tenant has a server of its own: made for its first call, and ended for another's when it is not
in use.
"""

from __future__ import annotations

import asyncio
import base64
import collections
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import attrs
from flexchat.host import DEFAULT_TENANT
from flexchat.plugin import SourcedTool, SourceServer, ToolError, ToolSourceContext, ToolSourceError

from .errors import MAX_ERRORS, Code, ServerError, ServerUnusableError
from .inspect import findings
from .listing import Listing, list_tools, remarks, select_tools, to_sourced_tool
from .resources import Resources, contents_of, resource_tools, resources_of
from .server import Server
from .settings import McpConfig, option

if TYPE_CHECKING:
    from mcp import Client

    from .oauth import Person


class Closable(Protocol):
    """What a tenant has of its own."""

    async def aclose(self) -> None:
        """End it."""


Source = TypeVar("Source", bound=Closable)
T = TypeVar("T")


@attrs.define(eq=False)
class _Place(Generic[Source]):
    """A place for one tenant's server.

    Attributes:
        users: How many calls use it.
        free: Done when the server that had the place before is gone; None if there was none.
    """

    source: Source
    free: asyncio.Task[None] | None = None
    users: int = 0

    async def end(self) -> None:
        """End the server, after whatever had its place before."""
        if self.free is not None:
            await asyncio.wait([self.free])
        await self.source.aclose()


class Tenants(Generic[Source]):
    """The servers of tenants, by name. Nothing is kept of a tenant whose server was ended.

    Args:
        most: How many there are at a time.
        make: Makes the server of a tenant; starts nothing.
    """

    def __init__(self, most: int, make: Callable[[str], Source]) -> None:
        self._most, self._make = most, make
        self._places: dict[str, _Place[Source]] = {}  # the last one used comes last
        self._is_closed = False

    @contextlib.asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[Source]:
        """Use a tenant's server; it is not ended for another tenant's meanwhile.

        Raises:
            ServerUnusableError: There are as many as there may be, and all are in use.
        """
        if (place := self._places.get(tenant)) is None:
            # Entered before the first await: two calls of a tenant at the same time must share one server.
            place = self._places[tenant] = self._place(tenant)
        place.users += 1
        try:
            if place.free is not None:
                await asyncio.wait([place.free])
            yield place.source
        finally:
            place.users -= 1
            # Moved to the end, so that the least recently used one comes first. Not if aclose has removed it meanwhile.
            if self._places.get(tenant) is place:
                self._places[tenant] = self._places.pop(tenant)

    def running(self, tenant: str) -> Source | None:
        """Return a tenant's server, if it has one now."""
        place = self._places.get(tenant)
        return place.source if place is not None else None

    async def aclose(self) -> None:
        """End all of them."""
        # Set first: a call that waits for its place must not create a server that stays open.
        self._is_closed = True
        places, self._places = [*self._places.values()], {}
        await asyncio.gather(*(place.end() for place in places))

    def _place(self, tenant: str) -> _Place[Source]:
        if self._is_closed:
            raise ServerUnusableError("it is closed")
        if len(self._places) < self._most:
            return _Place(self._make(tenant))
        unused = next((name for name, place in self._places.items() if not place.users), None)
        if unused is None:
            text = f"all servers that 'tenants' allows ({self._most:,}) are in use; try again later, or raise it"
            raise ServerUnusableError(text)
        # Its place is taken at once, but its successor starts only when it has ended: else more servers than allowed
        # would run.
        ending = asyncio.get_running_loop().create_task(self._places.pop(unused).end())
        return _Place(self._make(tenant), ending)


log = logging.getLogger(__name__)

MAX_CHARS = 250_000  # characters of definitions that are searched for what is suspicious: about a second's work


async def open_source(config: McpConfig, context: ToolSourceContext) -> McpSource:
    """Return a server's source. Nothing is started yet."""
    return McpSource(config, context)


class McpSource:
    """A server of the config.

    With per_tenant, it belongs to one tenant, and the default tenant's source holds those of the others.

    Attributes:
        fingerprint: Always empty: only a list shows a server's tools.
        server: Its process or address. A call uses the one of its own tenant; see ``of``.
        resources: Answers its tools that read resources.
        person: Can sign in and answer the server's questions; None if there is no one to ask.
        left_out: Why tools the server lists cannot be used, by name.
    """

    fingerprint = ""

    def __init__(
        self, config: McpConfig, context: ToolSourceContext, person: Person | None = None, tenant: str = DEFAULT_TENANT
    ) -> None:
        self.config, self.name, self.person, self._tenant = config, context.name, person, tenant
        self.resources = Resources(context.name)
        self._changed: Callable[[], None] = context.changed
        self._listing: Listing | None = None
        self._changes = 0
        self.left_out: Mapping[str, str] = {}
        self._chosen: Sequence[Mapping[str, Any]] = ()
        self._asking = asyncio.Lock()
        self.server = Server(config, attrs.evolve(context, changed=self._tools_changed), person, tenant)
        # What another tenant's server lists is compared with what was accepted, but never offered for accepting.
        quiet = attrs.evolve(context, changed=lambda: None)
        self._tenants = Tenants(config.tenants, lambda name: McpSource(config, quiet, tenant=name))

    @contextlib.asynccontextmanager
    async def of(self, tenant: str) -> AsyncIterator[McpSource]:
        """Use a tenant's server for a call: this one, unless each tenant has one of its own.

        Raises:
            ServerUnusableError: Too many tenants are using theirs.
        """
        if self._serves(tenant):
            yield self
            return
        async with self._tenants.of(tenant) as source:
            yield source

    async def tools(self) -> Sequence[SourcedTool]:
        """List the server's tools.

        Raises:
            ToolSourceError: It cannot be reached, or its answer is not MCP.
        """
        listing = await self.listing(fresh=True)
        self._chosen, self.left_out = select_tools(listing.tools, self.config), listing.left_out
        tools = [to_sourced_tool(tool, self.config) for tool in self._chosen]
        if self.config.resources and listing.has_resources:
            tools += resource_tools(self.name, self.config)
        if lines := remarks(listing, self.config):
            log.warning("tool source '%s': %s", self.name, "; ".join(lines[:5]))
        if not tools:
            raise ToolSourceError(_why_none(listing))
        return tools

    async def listing(self, *, fresh: bool = False) -> Listing:
        """Return the server's list of tools, requested anew if it is missing or may have changed.

        Raises:
            ToolSourceError: As tools.
        """
        # One request for all calls that find the list out of date; those that waited use its answer.
        async with self._asking:
            current = self._listing
            if fresh or current is None or not self._is_fresh(current):
                try:
                    current = await self.server.ask(self._list, may_repeat=True, is_call=False)
                except ServerError as error:
                    raise ToolSourceError(str(error)) from None
                except ToolSourceError:
                    raise
                except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
                    raise ToolSourceError(f"its tools cannot be listed: {describe_invalid(error)}") from None
                self._listing = current
            return current

    async def check(self, tool: str, accepted: str) -> Mapping[str, Any]:
        """Compare a tool with the accepted definition, as far as the server lists it; return its current entry.

        Args:
            accepted: The hash of its definition.

        Raises:
            ToolError: It is not, and may not be called.
            ToolSourceError: As tools.
        """
        listing = self._listing
        if listing is None or not self._is_fresh(listing):
            listing = await self.listing()
        now = listing.hashes.get(tool)
        definition = next((each for each in listing.tools if each["name"] == tool), {})
        if now == accepted:
            return definition
        self._changed()
        if now is None:
            raise ToolError(f"the MCP server '{self.name}' no longer has a tool '{tool}'")
        if not self.config.trust:
            raise ToolError(
                f"the MCP server '{self.name}' has changed '{tool}' since it was accepted, so it is not called",
                hint=f"the operator can look at it with: {self._command()}",
            )
        return definition

    def still_callable(self, accepted: SourcedTool, now: SourcedTool | None) -> bool:
        """Whether calls by the accepted definition may go on: of an unchanged tool, or if the server is trusted."""
        if now is None:
            return False
        if accepted.settings.get("resources") and now.settings.get("resources"):
            return True  # ours, of another version
        return self.config.trust or accepted.settings.get("hash") == now.settings.get("hash")

    def server_state(self, tenant: str) -> SourceServer:
        """Return the state of a tenant's server."""
        source = self if self._serves(tenant) else self._tenants.running(tenant)
        return source.server.state if source is not None else SourceServer(status="stopped")

    async def restart(self, tenant: str) -> None:
        """End the server of a tenant, so that its next list is asked of a new one; another tenant's is asked at once.

        Raises:
            ToolSourceError: Too many tenants are using theirs, or another tenant's does not list its tools.
        """
        try:
            async with self.of(tenant) as source:
                source._listing = None
                await source.server.restart()
                # Core reads the default tenant's list anew after a restart, but not that of another tenant.
                if source is not self:
                    await source.listing(fresh=True)
        except ServerUnusableError as error:
            raise ToolSourceError(str(error)) from None

    async def resource_uris(self, prefix: str) -> list[str]:
        """Return the URIs of the server's resources that begin so; for other packages.

        Raises:
            ToolSourceError: It cannot be reached, or cannot list them.
        """
        resources, _ = await self._read_only(resources_of)
        return [one["uri"] for one in resources if one["uri"].startswith(prefix)]

    async def read_resource(self, uri: str) -> bytes:
        """Return the content of a resource; for other packages.

        Raises:
            ToolSourceError: It cannot be read.
        """
        contents = await self._read_only(lambda client: contents_of(client, uri))
        texts = [one["text"].encode() if "text" in one else base64.b64decode(one["blob"]) for one in contents]
        return b"".join(texts)

    async def _read_only(self, request: Callable[[Client], Awaitable[T]]) -> T:
        try:
            return await self.server.ask(request, may_repeat=True, is_call=False)
        except ServerError as error:
            raise ToolSourceError(str(error)) from None
        except ToolSourceError:
            raise
        except Exception as error:  # noqa: BLE001  the SDK's, pydantic's
            raise ToolSourceError(f"its resources cannot be read: {describe_invalid(error)}") from None

    def warnings(self, tools: Sequence[SourcedTool], others: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
        """Inspect tools in the server's form for suspicious content."""
        waiting, budget = {tool.name for tool in tools}, MAX_CHARS
        read, rest, texts = [], [], collections.defaultdict[str, list[str]](list)
        for tool in self._chosen:
            name = tool["name"]
            budget -= len(json.dumps(tool)) if name in waiting else 0
            if name in waiting and budget >= 0:
                read.append(tool)
                continue
            rest.append(name)
            if name in waiting:
                texts[name].append(f"there is too much to search here: flexchat mcp inspect {self.name}")
        for finding in findings(read, others={**others, self.name: rest}):
            texts[finding.tool].append(f"{finding.place} {finding.what}")
        return texts

    async def aclose(self) -> None:
        """End the server, and those of other tenants."""
        await asyncio.gather(self.server.aclose(), self._tenants.aclose())

    def _serves(self, tenant: str) -> bool:
        return not self.config.per_tenant or (tenant or DEFAULT_TENANT) == self._tenant

    def _command(self) -> str:
        if self._tenant == DEFAULT_TENANT:
            return f"flexchat tools diff {self.name}"
        return f"flexchat mcp inspect {self.name}{option(self._tenant)}"

    def _is_fresh(self, listing: Listing) -> bool:
        return time.monotonic() < listing.until and listing.connection == self.server.connections

    async def _list(self, client: Client) -> Listing:
        connection, changes = self.server.connections, self._changes
        listing = await list_tools(client)
        # A change announced while the pages arrive may concern one of them: that list is used once, and not kept. Core
        # reads the default tenant's anew after the announcement, but no other tenant's.
        return attrs.evolve(listing, connection=connection, until=listing.until if changes == self._changes else 0.0)

    def _tools_changed(self) -> None:
        self._listing, self._changes = None, self._changes + 1
        self._changed()


def _why_none(listing: Listing) -> str:
    if listing.tools:
        return "include and exclude leave no tools"
    reasons = [f"{name}: {reason}" for name, reason in listing.left_out.items()]
    return f"it has no tools that can be used: {'; '.join(reasons[:5])}" if reasons else "it has no tools"


def describe_invalid(error: Exception) -> str:
    """Describe the problem of an invalid answer."""
    from mcp.shared.exceptions import MCPError
    from mcp_types import PARSE_ERROR
    from pydantic import ValidationError

    if isinstance(error, MCPError):
        if error.code in (Code.UNCLEAR, Code.REFUSED):
            return error.message
        text = error.message.partition("\n")[0] if error.code == PARSE_ERROR else error.message  # pydantic's go on
        return f"{text} ({error.code})"
    if isinstance(error, ValidationError):
        if error.error_count() > MAX_ERRORS:
            return f"its answer is not what MCP says, in {error.error_count():,} places"
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return f"its answer is not what MCP says: {place}: {first['msg']}"
    return f"{type(error).__name__}: {error}"
