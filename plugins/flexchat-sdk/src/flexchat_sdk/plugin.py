"""Registers the guarded fetcher, tool sources, and the checks of [network] and of tools' schemas. httpx loads later."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from flexchat.domain.fetching import Fetched, FetchedStream, FetchRequest
from flexchat.domain.masking import Mask
from flexchat.plugin import ConfigCheck, FetcherType, SourceLoaderType, hookimpl

from .late import load_module

if TYPE_CHECKING:
    from flexchat.assembly import Reviewed
    from flexchat.config.reading import ReadConfig
    from flexchat.plugin.host import PluginHost
    from flexchat.plugin.tool_sources import OpenSource
    from flexchat.tools.sources import ToolSources

    from .dialects.schema_dialect import SchemaDialect
    from .http.fetcher import GuardedFetcher

FLEXCHAT_API = (0, 1)


@hookimpl
def flexchat_register_fetchers() -> Iterable[FetcherType]:
    """Offer the fetcher that reaches public addresses only, and those of ``network.allow``."""
    yield FetcherType(create=LateFetcher)


@hookimpl
def flexchat_register_source_loaders() -> Iterable[SourceLoaderType]:
    """Offer the tool sources of a configuration."""
    yield SourceLoaderType(load=load_sources)


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer the checks of addresses in [network] and of tools that services change or refuse."""
    yield ConfigCheck(name="network", run=check_network, at_start=True)
    yield ConfigCheck(name="tools for services", review=note_schemas)


def load_sources(reading: ReadConfig, host: PluginHost, by_name: Mapping[str, OpenSource]) -> ToolSources:
    """Read the tables of tool sources."""
    from .sources.settings import load_sources

    return load_sources(reading, host, by_name)


def check_network(reading: ReadConfig) -> None:
    """Report entries of [network] that are no addresses or hosts."""
    network = reading.config.network if reading.config is not None else None
    if network is None or (not network.allow and not network.domains):
        return
    from .http.guard import allow_problem, domain_problem

    for name, entries, problem_with in (
        ("allow", network.allow, allow_problem),
        ("domains", network.domains or (), domain_problem),
    ):
        for index, entry in enumerate(entries):
            if problem := problem_with(entry):
                reading.problem(("network", name, index), problem)


def note_schemas(reading: Any, parts: Reviewed) -> None:
    """Note which tools the rules' services change or refuse."""
    registry = parts.tools.get_registry()
    entries = {entry.name: index for index, entry in enumerate(parts.config.tools.registry)}
    offered: dict[str, tuple[SchemaDialect, set[str]]] = {}
    for rule in parts.config.responses:
        allowed = parts.tools.offered_to(rule)
        if not allowed or rule.llm not in parts.llms:
            continue
        llm, model = parts.llms.resolve(rule.llm, rule.model)
        provider = llm.provider
        kind = parts.plugins.providers.by_name.get(provider.name)
        dialects = kind.schema_dialects if kind is not None else {}
        dialect = dialects.get(provider.tool_format(model)) or dialects.get(provider.name)
        if dialect is not None:
            offered.setdefault(dialect.name, (dialect, set()))[1].update(allowed)
    if not offered:
        return
    from .dialects.lint import lint_tools

    for name, (dialect, names) in offered.items():
        tools = [tool for tool in registry.list() if tool.name in names]
        for finding in lint_tools(tools, {name: dialect}):
            if finding.sentence:
                place = ("tools", "registry", entries[finding.tool]) if finding.tool in entries else ("tools",)
                reading.note(place, finding.sentence)


class LateFetcher:
    """A fetcher that creates its GuardedFetcher with the first request, because most chats never send one.

    Args:
        allow: Addresses that need not be public.
        domains: The only hosts that may be reached; None for any.
        mask: Removes secrets from errors and the log.
    """

    def __init__(self, allow: Iterable[str], domains: Iterable[str] | None, mask: Mask) -> None:
        self._allow, self._mask = tuple(allow), mask
        self._domains = None if domains is None else tuple(domains)
        self._fetcher: GuardedFetcher | None = None

    async def fetch(self, request: FetchRequest, **limits: Any) -> Fetched:
        """Send a request; see GuardedFetcher.fetch."""
        return await (await self._ensure_fetcher()).fetch(request, **limits)

    @contextlib.asynccontextmanager
    async def stream(self, request: FetchRequest, *, timeout_s: float = 10.0) -> AsyncGenerator[FetchedStream, None]:
        """Send a request; see GuardedFetcher.stream."""
        async with (await self._ensure_fetcher()).stream(request, timeout_s=timeout_s) as streamed:
            yield streamed

    async def aclose(self) -> None:
        """Close all connections."""
        if self._fetcher is not None:
            await self._fetcher.aclose()

    async def _ensure_fetcher(self) -> GuardedFetcher:
        if self._fetcher is None:
            fetcher = await load_module("flexchat_sdk.http.fetcher")
            # Another request may have created it meanwhile.
            if self._fetcher is None:
                rule = fetcher.AddressRule(self._allow, self._domains)
                self._fetcher = fetcher.GuardedFetcher(rule, mask=self._mask)
        return self._fetcher
