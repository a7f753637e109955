"""Tool sources: what a plugin provides so that a config can take a whole list of tools from somewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import attrs

from ..domain.sourced import SourcedTool
from .records import summary_from

if TYPE_CHECKING:
    from ..domain.fetching import Fetcher


_TEXT = attrs.validators.instance_of(str)


def _as_tuple(lines: Iterable[str]) -> tuple[str, ...]:
    return tuple(lines)


@attrs.frozen(kw_only=True)
class SourceServer:
    """What runs behind a source: a process, a connection. No secrets: clients of the API read it.

    Attributes:
        status: "stopped": it runs when it is needed. "broken": it could not be started, or ended; see ``trouble``.
        version: Of the protocol it speaks, once that is known.
        since: Since when it runs: ISO 8601, UTC; empty unless it runs.
        trouble: Why it last could not be started, or ended unasked; it may run again.
        ends: How often that has happened.
        last_lines: What it wrote last, for people.
    """

    status: Literal["stopped", "running", "broken"] = attrs.field(
        validator=attrs.validators.in_(("stopped", "running", "broken"))
    )
    version: str = attrs.field(default="", validator=_TEXT)
    since: str = attrs.field(default="", validator=_TEXT)
    trouble: str = attrs.field(default="", validator=_TEXT)
    ends: int = attrs.field(default=0, validator=attrs.validators.instance_of(int))
    last_lines: tuple[str, ...] = attrs.field(
        default=(), converter=_as_tuple, validator=attrs.validators.deep_iterable(_TEXT)
    )


class Closable(Protocol):
    """Anything that holds connections and is closed with the chat."""

    async def aclose(self) -> None:
        """Release resources. Called once, at the end."""


class ToolSource(Closable, Protocol):
    """An opened source of tools: a document that has been read, a server that is connected.

    A source may have more methods:

    - ``still_callable(accepted, now)``, given an accepted SourcedTool and the one the source has under its name now
      (None if it has none), returns whether calls by the accepted definition still work. Without it, they do if the
      source has a tool of that name whose implementation is of the same type.
    - ``server_state(tenant)`` returns a SourceServer: what runs behind it; None if nothing does. ``tenant`` matters to
      a source that runs one for each. A source behind which something runs stays open when a configuration that does
      not change its table takes over.
    - ``async restart(tenant)`` ends what runs, and forgets why it could not be used. ``tools`` is called next, and
      starts it. Calls under way fail as if it had died.
    - ``left_out``, an attribute, has the reasons for tools that ``tools`` left out, by their names: a broken definition
      costs one tool, not the source.
    - ``warnings(tools, others)``, given tools it has returned, returns what a person should look at before accepting
      them: sentences by the tools' names. ``others`` are the names that are taken already, without the source's prefix,
      by what has them. Called in a thread.
    """

    @property
    def fingerprint(self) -> str:
        """A text that differs if the tools may differ; empty if only ``tools`` can decide that.

        If it is the one kept with the accepted tools, ``tools`` is not called: for a document, a digest of its bytes,
        of the settings that decide what is made of it, and of a version of the code that does so. No secrets.
        """

    async def tools(self) -> Sequence[SourcedTool]:
        """Return the tools it has now, in any order. Called again after ``ToolSourceContext.changed``.

        Raises:
            ToolSourceError: They cannot be read. Any other exception is reported as a fault of the source.
        """


@attrs.frozen(kw_only=True)
class ToolSourceContext:
    """What a source is opened with.

    Attributes:
        name: What the config calls it.
        folder: Where relative paths start: the folder of the config's file; None for the working folder.
        fetcher: The client for addresses that the config or a document names; see ToolContext.fetcher.
        changed: To be called, on the event loop, when the source's tools may have changed.
        sources: The sources of the chat by name, for one that reads from another.
    """

    name: str
    folder: Path | None = None
    fetcher: Fetcher | None = None
    changed: Callable[[], None] = lambda: None
    sources: Mapping[str, ConfiguredSource] = attrs.field(factory=dict)


OpenSource = Callable[[ToolSourceContext], Awaitable[ToolSource]]
"""Opens a tool source."""


@attrs.frozen(kw_only=True)
class ToolSourceType:
    """A kind of tool source: a config has ``[[tools.NAME]]`` tables for it.

    Attributes:
        config_class: attrs class for the table's keys, except core's own (name, prefix, timeout_ms).
        open: async (instance of config_class, context) -> ToolSource. Called when tools are needed, on the event loop,
            so work that takes long belongs in a thread. It may be cancelled. Raises ToolSourceError if it cannot be
            opened; any other exception is reported as a fault of the plugin.
        summary: One line for ``flexchat plugins``.
        configured: (instance of config_class, accepted SourcedTool, the one the source has under its name now, or None
            if it has none or was not read) -> the accepted tool with everything that the configuration decides about
            it: effect, honours_key, timeout_ms. An operator's change of these needs no acceptance. Never what the
            service decides. None: an accepted tool stays unchanged.
    """

    name: str
    config_class: type
    open: Callable[[Any, ToolSourceContext], Awaitable[ToolSource]]
    summary: str = summary_from("open", "config_class")
    configured: Callable[[Any, SourcedTool, SourcedTool | None], SourcedTool] | None = None


@attrs.frozen(kw_only=True)
class SourceLoaderType:
    """What makes the tool sources of a chat of its configuration.

    There is one for all sources of a chat: if two plugins offer one, plugins.prefer or plugins.block must choose.

    Attributes:
        load: (configuration being read, a CheckedConfig; PluginHost, whose ``tool_sources`` has the types; the sources
            given in code, by name) -> ToolSources, not started. Reports what is wrong with the tables; opens nothing.
    """

    load: Callable[[Any, Any, Mapping[str, OpenSource]], Any]


class ConfiguredSource(Protocol):
    """The source of a tool, as its calls see it: ``ToolContext.source``."""

    @property
    def name(self) -> str:
        """What the config calls it."""

    @property
    def folder(self) -> Path | None:
        """Where its relative paths start; None for the working folder."""

    @property
    def timeout_s(self) -> float:
        """Seconds in which it must have been opened and have returned its tools."""

    @property
    def settings(self) -> Any:
        """Its settings, an instance of its type's config_class; they may hold secrets."""

    async def opened(self) -> ToolSource:
        """Return it, opened. A source that needs no connection for a call need not be opened for one.

        Raises:
            ToolSourceError: It cannot be opened.
        """
