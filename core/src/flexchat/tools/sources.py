"""Tool sources as the parts of a chat use them. flexchat-sdk has the ones that a configuration names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NoReturn

import attrs

from ..config.model import ToolsTable, own_keys
from ..domain import DEFAULT_TENANT, ToolDefinition
from ..domain.masking import Mask
from ..domain.sourced import ToolChange
from ..errors import UnknownToolSourceError, did_you_mean
from ..plugin.contracts import ClosableFetcher
from ..plugin.tool_sources import ConfiguredSource, SourceServer
from .registry import ToolRegistry


@attrs.frozen(kw_only=True)
class SourceState:
    """The state of a source.

    Attributes:
        status: "not opened": not needed yet. "open": its tools were read. "failed": see ``trouble``.
        accepted: Whether tools of it were ever accepted.
        tools: The tools it offers, as definitions.
        changes: How its tools differ from the accepted ones, by name; empty before the first look.
        left_out: Why a tool is not offered, by the source's name for it.
        server: The server behind it; None if there is none, or it was never opened.
    """

    name: str
    type: str
    prefix: str = ""
    status: Literal["not opened", "open", "failed"] = "not opened"
    trouble: str = ""
    accepted: bool = False
    tools: tuple[ToolDefinition, ...] = ()
    changes: tuple[ToolChange, ...] = ()
    left_out: Mapping[str, str] = attrs.field(factory=dict)
    server: SourceServer | None = None


@attrs.frozen(kw_only=True)
class Surroundings:
    """The parts of a chat that its tool sources use.

    Attributes:
        registry: Has the tools they offer.
        table: The config's ``[tools]``.
        adjust: Applies the config's settings for one tool (tools.registry).
        adjusted: The names of the tools with such settings.
        mask: Masks the secrets that no kept tool may contain.
        create_fetcher: Creates the fetcher for a source's requests.
    """

    registry: ToolRegistry
    table: ToolsTable
    adjust: Callable[[ToolDefinition], ToolDefinition]
    adjusted: Collection[str]
    mask: Mask
    create_fetcher: Callable[[], ClosableFetcher | None]


class ToolSources:
    """The tool sources of one chat. This class has none: plugins subclass it (SourceLoaderType).

    Methods that take the name of a source raise UnknownToolSourceError if there is none. ``tenant`` is the caller's: a
    source may run a server for each. ``allowed`` is as in ToolRegistry.names.

    A source offers its accepted tools, kept in flexchat.tools.lock: those it had when it was first opened, and those a
    person has accepted since. A tool that has changed goes on being offered as accepted, if it can still be called.

    Attributes:
        lock_path: The file of accepted tools.
    """

    lock_path: Path = Path("flexchat.tools.lock")

    @property
    def by_name(self) -> Mapping[str, ConfiguredSource]:
        """The sources, in the order of the config."""
        return {}

    @property
    def trouble(self) -> str:
        """Why the accepted tools cannot be read, or could not be written; empty if they can."""
        return ""

    def start(self, surroundings: Surroundings) -> None:
        """Offer the accepted tools in the chat's registry from now on. Called once, before all others; opens nothing.

        Raises:
            PathError: ``tools.lock`` names a place that cannot be.
        """

    async def ready(self, allowed: Collection[str] | None) -> None:
        """Open the sources of these tools, unless that was done or has just failed; never raises.

        The first tools of a source are accepted without review.
        """

    async def find(self, name: str) -> ToolDefinition | None:
        """Return the tool with this name, opening sources for the first time if need be."""
        return None

    def missing(self, allowed: Collection[str] | None = None) -> list[str]:
        """Return the reasons tools are missing: sources of theirs never opened, and changed tools held back."""
        return []

    def notes(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield notes on the sources, each with its place in the config; opens nothing."""
        yield from ()

    def states(self) -> list[SourceState]:
        """Return the state of every source; opens nothing."""
        return [self.state(name) for name in self.by_name]

    def state(self, name: str, *, tenant: str = DEFAULT_TENANT) -> SourceState:
        """Return the state of a source; opens nothing."""
        self.refuse(name)

    async def look(self, name: str, *, tenant: str = DEFAULT_TENANT, accept_first: bool = True) -> SourceState:
        """Open a source, read its tools, and return its state.

        Args:
            accept_first: Whether its tools are accepted without review, if none of it ever were.

        Raises:
            ToolSourceError: It cannot be opened, or its tools cannot be read.
            ToolsLockError: The accepted tools cannot be read.
        """
        self.refuse(name)

    async def restart(self, name: str, *, tenant: str = DEFAULT_TENANT) -> SourceState:
        """Restart the server behind a source, read its tools, and return its state; accepts nothing.

        A source without a server is only read. Calls under way fail as if the server had died. Raises as look.
        """
        self.refuse(name)

    async def review(self, name: str, *, tenant: str = DEFAULT_TENANT) -> SourceState:
        """Return the state of a source, with its warnings in its changes; opens nothing."""
        self.refuse(name)

    async def accept(
        self, name: str, tools: Collection[str] = (), *, seen: Mapping[str, str | None] | None = None
    ) -> list[ToolChange]:
        """Accept a source's current tools, and return the changes made by that.

        Args:
            tools: Only these, by the names that the source or the config gives them; none means all.
            seen: In place of ``tools``: only these, by the source's names, with the digest a person has seen;
                None for a tool that is gone. A version accepted already is no error.

        Raises:
            UnknownToolSourceError: Nothing is to be accepted of a tool named.
            ToolChangedError: A tool no longer has the digest that was seen.
            ToolSourceError: As look.
            ToolsLockError: The file cannot be read or written.
        """
        self.refuse(name)

    def others(self, name: str) -> dict[str, list[str]]:
        """Return the names that other tools have and a source's could have: by their owner, without its prefix."""
        self.refuse(name)

    def take_over(self, old: ToolSources) -> None:
        """Share the open sources of a chat that this one replaces, where their tables are the same."""

    async def aclose(self) -> None:
        """Close every source that was opened, unless another chat uses it."""

    def refuse(self, name: str) -> NoReturn:
        """Raise UnknownToolSourceError for a name that no source has."""
        listing = ", ".join(self.by_name) or "none"
        text = f"no tool source is called '{name}'{did_you_mean(name, self.by_name)}; configured: {listing}"
        raise UnknownToolSourceError(text)


def source_tables(data: Mapping[str, Any]) -> dict[str, list[Any] | Mapping[str, Any]]:
    """Return the tables of sources in a config's data, by type: lists in ``[tools]``, or tables meant to be one.

    Other unknown keys are misspelt ones of core's, which are reported when those are structured.
    """
    tools, core = data.get("tools"), own_keys(ToolsTable)
    if not isinstance(tools, Mapping):
        return {}
    return {key: value for key, value in tools.items() if key not in core and isinstance(value, (list, Mapping))}


def settings_of(sources: ToolSources) -> list[Any]:
    """Return the settings of the sources that have some."""
    return [source.settings for source in sources.by_name.values() if source.settings is not None]
