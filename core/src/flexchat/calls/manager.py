"""The tools of one configuration: fills the registry, and applies the limits."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from ..config.model import ResponseRule, ToolEntry, ToolSearch, ToolsTable
from ..domain import Implementation, ToolDefinition, TurnInfo
from ..errors import FlexChatError, ToolDefinitionError, did_you_mean
from ..plugin.call import current_info
from ..plugin.contracts import ClosableFetcher
from ..plugin.host import PluginHost
from ..tools.deferral import FINDER
from ..tools.python_function import FunctionTool, tool
from ..tools.registry import ToolRegistry
from ..tools.sources import Surroundings, ToolSources
from .calls import DEFAULT_TIMEOUT_MS, ToolExecutor, ToolParts
from .effects import Effects

log = logging.getLogger(__name__)

ToolLike = str | ToolDefinition | FunctionTool | Callable[..., Any]
"""What can be given as a tool: a plugin's tool by name, a definition, an @tool function, a typed function."""


class ToolManager:
    """Loads the tools of a config, and gives access to registry and executor.

    Args:
        table: Limits, and what load_tools registers.
        sources: The configured tool sources, which start_sources starts; None for none.
        open_sources: Where the tools of sources run; default: sources.

    Attributes:
        calls: Runs tool calls through their steps.
        effects: The ledger of what its tools change, as this process uses it.
        fetcher: What its tools send requests with; None if it was given none.
        search: Which tools are deferred, and how many of them are found.
        is_restricted: See ``restrict_listings``: a chat calls it once its configuration has been checked.

    Source: requirements TC-15, TC-67 to TC-70, C7, C8, C9.
    """

    def __init__(
        self,
        table: ToolsTable | None = None,
        parts: ToolParts | None = None,
        *,
        sources: ToolSources | None = None,
        open_sources: ToolSources | None = None,
    ) -> None:
        self.table = table or ToolsTable()
        self._parts = parts or ToolParts()
        self.fetcher, self.effects = self._parts.fetcher, self._parts.effects
        self._registry = ToolRegistry(self._parts.formats)
        self.search = self.table.search or ToolSearch()
        if (finder := self._parts.offered.get(FINDER)) is not None:
            how = attrs.evolve(finder.implementation, settings={"hits": self.search.hits})
            self._registry.finder = attrs.evolve(finder, implementation=how, pinned=True)
        self.is_restricted = False
        self._adjusting: dict[str, ToolEntry] = {}
        self.sources = ToolSources() if sources is None or self.table.enabled is False else sources
        self._open_sources = open_sources or self.sources
        self.calls = ToolExecutor(
            self._registry, self._parts, self.table, sources=self.sources, open_sources=self._open_sources
        )

    @classmethod
    def from_plugins(
        cls, host: PluginHost, table: ToolsTable | None = None, *, sources: ToolSources | None = None, **parts: Any
    ) -> ToolManager:
        """Create a manager on the records of plugins, without tools yet; ``add`` and ``load_tools`` add them.

        Args:
            sources: The tool sources, whose tools it has once ``start_sources`` was called.
            parts: Further attributes of ToolParts. Without ``hooks``, they are the plugins'.
        """
        plugins = ToolParts(
            formats=host.tool_formats.by_name,
            implementation_types=host.implementation_types.by_name,
            handlers=host.handlers.by_name,
            offered=host.tools.by_name,
            **({"hooks": host.hooks_of_chat({})} | parts),
        )
        return cls(table, plugins, sources=sources)

    def load_tools(
        self,
        structured: Mapping[int, Implementation] | None = None,
        left_out: Collection[int] = (),
        given: Collection[str] = (),
    ) -> dict[int, str]:
        """Register the config's tools; return what is wrong with those left out, by index.

        Args:
            structured: Implementations whose settings are already structured, by index.
            left_out: Tools not to register, by index: the config's reader has reported why.
            given: Names of tools that ``add`` will bring, which an entry with a name alone changes.
        """
        if self.table.enabled is False:
            return {}
        if not self.table.registry:
            log.debug("the config registers no tools")
        failed: dict[int, str] = {}
        for index, entry in enumerate(self.table.registry):
            if index in left_out:
                continue
            changes = bool(self.sources.by_name) or entry.name in given
            if changes and entry.implementation is None and entry.name not in self._parts.offered:
                self._adjusting[entry.name] = entry
                continue
            try:
                self._registry.register(self._definition(entry, (structured or {}).get(index)))
            except FlexChatError as error:
                log.warning("tool %s (tools.registry[%d]) is left out: %s", entry.name, index, error)
                failed[index] = str(error)
        return failed

    def start_sources(self, create_fetcher: Callable[[], ClosableFetcher | None]) -> None:
        """Include the tools of sources in look-ups from now on; their accepted definitions are read when needed."""
        if self.sources.by_name:
            self.sources.start(
                Surroundings(
                    registry=self._registry,
                    table=self.table,
                    adjust=self._adjust,
                    adjusted=self._adjusting.keys(),
                    mask=self._parts.mask,
                    create_fetcher=create_fetcher,
                )
            )

    async def ready_for(self, rule: ResponseRule) -> list[str]:
        """Open the sources of the tools a rule offers, and return why some are missing; see ToolSources.ready."""
        if not self.sources.by_name or not self._wants_tools(rule):
            return []
        allowed = rule.tools.allowed_tools if rule.tools is not None else None
        await self.sources.ready(allowed)
        return self.sources.missing(allowed)

    def add(self, tools: Iterable[ToolLike]) -> None:
        """Register tools given in code. Raises ToolDefinitionError if one is no tool, or its name is taken."""
        for item in tools:
            tool = self._offered_tool(item) if isinstance(item, str) else self._adjust(as_definition(item))
            self._registry.register(tool)

    def with_tools(self, tools: Iterable[ToolLike]) -> ToolManager:
        """Return a manager with the same plugins and limits, but with these tools and a ledger in memory.

        Tools of sources run at this manager's. Raises as add.
        """
        table = attrs.evolve(self.table, registry=(), enabled=None, sources={})
        parts = attrs.evolve(self._parts, effects=Effects())
        manager = ToolManager(table, parts, open_sources=self._open_sources)
        manager.add(tools)
        manager.is_restricted = self.is_restricted
        return manager

    def get_registry(self) -> ToolRegistry:
        """Return the tools: where plugins decide who may use what, those that the current principal may use.

        That is the principal of the turn this code runs in, or else ``current_principal``.
        """
        return self._permitted(self._registry) if self.is_restricted else self._registry

    def restrict_listings(self) -> None:
        """Show in listings what the current principal may use, and no more, if a plugin decides that."""
        self.is_restricted = self._parts.hooks.restricts

    @property
    def every_tool(self) -> ToolRegistry:
        """The registry of all tools, which calls use; a listing never shows it: see get_registry."""
        return self._registry

    def refusal(self, info: TurnInfo, tool: ToolDefinition) -> str | None:
        """Return the reason for which a principal may not use a tool; None if it may."""
        return self._parts.hooks.refusal(info, tool) if self._registry.needs_grant(tool) else None

    def permitted(self, tools: Iterable[ToolDefinition]) -> list[ToolDefinition]:
        """Return those of the tools that the current principal may use, for a listing of tools from elsewhere."""
        info = current_info()
        return [tool for tool in tools if self.refusal(info, tool) is None]

    def _permitted(self, registry: ToolRegistry) -> ToolRegistry:
        info = current_info()
        return registry.without([tool for tool in registry.list() if self.refusal(info, tool) is not None])

    def get_executor(self) -> ToolExecutor:
        """Return the executor for calls of a program."""
        return self.calls

    def is_enabled(self) -> bool:
        """Return whether tools are used: tools.enabled or, if not set, whether there are any (C7)."""
        if self.table.enabled is None:
            return bool(self.sources.by_name) or not self._registry.is_empty
        return self.table.enabled

    def offered_to(self, rule: ResponseRule) -> tuple[str, ...]:
        """Return the names of the tools that a rule's model may call, in order, without find_tools (RG-8, RG-10)."""
        if not self._wants_tools(rule):
            return ()
        if self.is_restricted:
            return self._offer(rule).names()
        return self._registry.names(rule.tools.allowed_tools if rule.tools is not None else None)

    def offer_to(self, rule: ResponseRule, *, is_whole: bool = False) -> ToolRegistry:
        """Return the tools offered to a rule's model, in their current form; it raises as ToolRegistry.offer.

        Args:
            is_whole: Include what the current principal may not use.
        """
        if not self._wants_tools(rule):
            return ToolRegistry(self._parts.formats)
        return self._defer(rule, self._offer(rule, is_whole=is_whole))

    def shown_to(self, rule: ResponseRule) -> tuple[str, ...]:
        """Return the names of the tools in a rule's first request, in order; it raises as ToolRegistry.offer."""
        is_whole = self.table.search is None and (rule.tools is None or rule.tools.show is None)
        return self.offered_to(rule) if is_whole else self.offer_to(rule).initial_names()

    def _offer(self, rule: ResponseRule, *, is_whole: bool = False) -> ToolRegistry:
        offer = self._registry.offer(rule.tools.allowed_tools if rule.tools is not None else None)
        return self._permitted(offer) if self.is_restricted and not is_whole else offer

    def _defer(self, rule: ResponseRule, offer: ToolRegistry) -> ToolRegistry:
        """Defer the tools of an offer, if it has so many or the rule names those that are shown."""
        show, finder = rule.tools.show if rule.tools is not None else None, self._registry.finder
        if finder is None or (show is None and self.table.search is None):
            return offer
        if show is None and len(offer.names()) <= self.search.above:
            return offer
        deferring = offer.deferring(finder, show or ())
        return deferring if deferring.deferred else offer

    def get_max_iterations(self) -> int:
        """Return the number of answers that may ask for tools in one turn."""
        return self.table.max_iterations or 5

    def get_default_timeout(self) -> int:
        """Return the milliseconds a tool without its own timeout may take."""
        return self.table.default_timeout_ms or DEFAULT_TIMEOUT_MS

    def _wants_tools(self, rule: ResponseRule) -> bool:
        return self.is_enabled() and (self.table.apply_globally if rule.tools is None else rule.tools.enabled)

    def _definition(self, entry: ToolEntry, structured: Implementation | None) -> ToolDefinition:
        table = entry.implementation
        if table is None:
            return _apply_entry(entry, self._offered_tool(entry.name))
        implementation = structured or Implementation(type=table.type, settings=table.settings)
        defaults = self._defaults(implementation)
        effect = entry.effect or defaults.get("effect", "write")
        tool = ToolDefinition(
            name=entry.name,
            description=entry.description or "",
            parameters=entry.parameters or {},
            implementation=implementation,
            handler=entry.handler,
            timeout_ms=defaults.get("timeout_ms") if table.timeout_ms is None else table.timeout_ms,
            effect=effect,
            honours_key=defaults.get("honours_key", False) and effect == "write",
            retry=table.retry,
        )
        return _apply_entry(entry, tool)

    def _defaults(self, implementation: Implementation) -> Mapping[str, Any]:
        """Return the implementation type's defaults for a tool, which its entry overrides."""
        kind = self._parts.implementation_types.get(implementation.type)
        if kind is None or kind.defaults is None or isinstance(implementation.settings, Mapping):
            return {}
        defaults: Mapping[str, Any] = kind.defaults(implementation.settings)
        return defaults

    def _offered_tool(self, name: str) -> ToolDefinition:
        if name not in self._parts.offered:
            hint = did_you_mean(name, self._parts.offered) or f" (offered: {', '.join(self._parts.offered) or 'none'})"
            raise ToolDefinitionError(f"no plugin offers a tool called {name}{hint}")
        return self._parts.offered[name]

    def _adjust(self, tool: ToolDefinition) -> ToolDefinition:
        """Apply the entry in tools.registry, if any, to a tool from a source or from code."""
        entry = self._adjusting.get(tool.name)
        return tool if entry is None else _apply_entry(entry, tool)


_CHANGEABLE = (
    *("description", "parameters", "timeout_ms", "exclusive", "repeatable", "effect"),
    *("honours_key", "verify", "approve", "asks_first", "strict", "retry", "price"),
)
"""What an entry of tools.registry overrides, if it sets it."""


def _apply_entry(entry: ToolEntry, tool: ToolDefinition) -> ToolDefinition:
    changes = {name: value for name in _CHANGEABLE if (value := getattr(entry, name)) is not None}
    if entry.effect in ("read", "idempotent"):
        changes.setdefault("honours_key", False)
    return attrs.evolve(tool, **changes)


def as_definition(item: ToolDefinition | FunctionTool | Callable[..., Any]) -> ToolDefinition:
    """Return the definition of a tool given in code."""
    if isinstance(item, ToolDefinition):
        return item
    return (item if isinstance(item, FunctionTool) else tool(item)).definition
