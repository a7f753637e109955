"""The existing tools, by name, and their translation for a provider."""

from __future__ import annotations

import builtins
import fnmatch
import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

import attrs

from ..domain import ToolDefinition
from ..domain.copies import with_own_tables
from ..errors import (
    ChatRequestError,
    DuplicateToolError,
    ProviderRequestError,
    ToolClashError,
    ToolDefinitionError,
    UnknownToolFormatError,
    did_you_mean,
)
from ..plugin.contracts import ToolEncoder
from ..schema.limits import schema_problems

log = logging.getLogger(__name__)

_MAX_WIRE_CHARS = 64
# The names that OpenAI, Gemini, Ollama and Anthropic all accept.
_PORTABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_MAX_LISTS = 256  # allow-lists remembered; a config has one for each rule


class ToolRegistry:
    """Tool definitions by name, independent of wire formats: it is given encoders by name.

    Attributes:
        finder: The tool that finds deferred ones: it can be called, and no list has it; None without one.
        deferred: Names of the tools of an offer that are left out of requests until they are found.

    Source: requirements TC-13, TC-27 to TC-35, DS-1.
    """

    def __init__(self, formats: Mapping[str, ToolEncoder] | None = None) -> None:
        self._tools: dict[str, ToolDefinition] = {}
        self._sourced: dict[tuple[str | None, str], ToolDefinition] = {}
        self._late: Callable[[], None] | None = None
        self._changes, self._offered_at = 0, -1
        self._offers: dict[tuple[str, ...], ToolRegistry] = {}
        self._formats = dict(formats or {})
        self._encoded: dict[tuple[str, tuple[str, ...]], tuple[dict[str, Any], ...]] = {}
        self._dropped: dict[tuple[str, tuple[str, ...]], Mapping[str, str]] = {}
        self._all_names: tuple[str, ...] | None = None
        self._sent: _Sent | None = None
        self._sent_of_sources: _Sent | None = None
        self.finder: ToolDefinition | None = None
        self.deferred: frozenset[str] = frozenset()
        self._deferring: dict[tuple[str, ...], ToolRegistry] = {}
        self._shown: tuple[str, ...] | None = None

    def register(self, tool: ToolDefinition) -> None:
        """Add a tool.

        Raises:
            DuplicateToolError: A tool with that name already exists; it stays.
            ToolDefinitionError: Its parameters are not usable JSON Schema, or exceed the limits of schema.limits.
        """
        if tool.name in self._tools:
            raise DuplicateToolError(tool.name)
        problems = schema_problems(tool.parameters)
        if problems:
            raise ToolDefinitionError(f"Tool {tool.name}: parameters: {'; '.join(problems)}")
        # The caller may change its tables later; the tools that are checked, sent and run must not change with them.
        self._tools[tool.name] = with_own_tables(tool)
        self._forget()
        log.debug("tool %s registered", tool.name)

    def load_later(self, load: Callable[[], None]) -> None:
        """Have the tools of sources loaded when they are first needed, and not before."""
        self._late = load
        self._forget()

    def set_sourced(self, tools: Iterable[ToolDefinition]) -> None:
        """Replace all tools of sources, which have been checked; they come after the others."""
        self._late = None
        self._sourced = {(tool.source, tool.name): tool for tool in tools}
        self._forget()

    def get(self, name: str, *, beside: ToolDefinition | None = None) -> ToolDefinition | None:
        """Return the tool with that name; None if there is none, or if several sources have one.

        A tool given in code or in tools.registry precedes those of sources.

        Args:
            beside: A tool whose own source precedes all others.
        """
        if beside is not None and (same := self._of_sources().get((beside.source, name))) is not None:
            return same
        if name in self._tools:
            return self._tools[name]
        tool = self._find_by_name(name)
        if not tool and self.finder is not None and name == self.finder.name:
            return self.finder
        return tool[0] if len(tool) == 1 else None

    def now(self, tool: ToolDefinition) -> ToolDefinition | None:
        """Return the current tool of the same source and name; None if it is gone."""
        registered = self._tools.get(tool.name)  # of a source as well, where a chat was given its tools
        if registered is not None and registered.source == tool.source:
            return registered
        if tool is self.finder:
            return tool
        return None if tool.source is None else self._of_sources().get((tool.source, tool.name))

    def still_has(self, offer: ToolRegistry) -> bool:
        """Return whether an offer of this registry is still current: nothing has been added, changed or lost since."""
        return self._late is None and offer._offered_at == self._changes

    @property
    def is_empty(self) -> bool:
        """Whether there are no tools."""
        return not self._tools and not self._of_sources()

    def is_own(self, name: str) -> bool:
        """Return whether a tool of that name comes from no source, without reading any."""
        return name in self._tools

    def sources_with(self, name: str) -> tuple[str, ...]:
        """Return the sources that have a tool of that name."""
        return tuple(tool.source or "" for tool in self._find_by_name(name))

    def has(self, name: str) -> bool:
        """Return whether there is a tool with that name."""
        return self.get(name) is not None

    def list(self) -> list[ToolDefinition]:
        """Return all tools, in the order they were registered; those of sources last."""
        return [*self._tools.values(), *self._of_sources().values()]

    def own(self) -> builtins.list[ToolDefinition]:
        """Return the tools that come from no source, without reading any."""
        return [*self._tools.values()]

    def names(self, allowed: Collection[str] | None = None) -> tuple[str, ...]:
        """Return the names of the tools on an allow-list, in order; None or empty means all of them.

        Args:
            allowed: Names of tools, and ``SOURCE/*`` for all tools of a source.
        """
        if not allowed:
            if self._late is not None or self._all_names is None:
                sourced = [tool.name for tool in self._of_sources().values()]
                self._all_names = tuple(dict.fromkeys([*self._tools, *sourced]))
            return self._all_names
        return tuple(dict.fromkeys(tool.name for tool in self._allowed(set(allowed))))

    def offer(self, allowed: Collection[str] | None = None) -> ToolRegistry:
        """Return a registry of the tools on an allow-list alone, which does not change with this one.

        Both the offer to a model and the model's calls use it, so that they concern the same tools.

        Args:
            allowed: As in names.

        Raises:
            ToolClashError: Two of the tools have one name.
        """
        key = tuple(allowed or ())
        registry = self._offers.get(key)
        if registry is None:
            tools = self._allowed(set(key)) if key else self.list()
            registry = ToolRegistry(self._formats)
            for tool in tools:
                if tool.name in registry._tools:
                    raise ToolClashError(tool.name, (registry._tools[tool.name].source, tool.source))
                registry._tools[tool.name] = tool
            registry._offered_at = self._changes
            if len(self._offers) >= _MAX_LISTS:
                self._offers.clear()
            self._offers[key] = registry
        return registry

    def deferring(self, finder: ToolDefinition, shown: tuple[str, ...]) -> ToolRegistry:
        """Return an offer of these tools and ``finder`` in which all are deferred that are neither shown nor pinned.

        Args:
            shown: Names and patterns of tools, and of tools of a source: ``SOURCE/find*``.

        Raises:
            ToolClashError: A tool has the finder's name.
        """
        registry = self._deferring.get(shown)
        if registry is None:
            kept = {tool.name for tool in self.matching(shown)}
            deferred = [tool.name for tool in self.list() if not tool.pinned and tool.name not in kept]
            same = self.get(finder.name)
            if same is not None and same.implementation.type != finder.implementation.type:
                raise ToolClashError(finder.name, (same.source, None))
            registry = self._deferring[shown] = ToolRegistry(self._formats)
            registry._tools = {tool.name: tool for tool in [*self.list(), finder]}
            registry._offered_at, registry.deferred = self._offered_at, frozenset(deferred)
        return registry

    def matching(self, patterns: Iterable[str]) -> builtins.list[ToolDefinition]:
        """Return the tools that one of the patterns names: ``find*``, or ``SOURCE/find*`` for those of a source."""
        matches = re.compile("|".join(map(fnmatch.translate, patterns)) or "(?!)").match
        return [tool for tool in self.list() if matches(tool.name) or matches(f"{tool.source}/{tool.name}")]

    def needs_grant(self, tool: ToolDefinition) -> bool:
        """Return whether a principal must be permitted a tool: not the caller's own, nor the one that finds tools.

        That one lists for each principal what it may use.
        """
        return not tool.is_callers and tool is not self.finder

    def initial_names(self) -> tuple[str, ...]:
        """Return the names of the tools of an offer that are in every request, in order."""
        if self._shown is None:
            self._shown = tuple([name for name in self.names() if name not in self.deferred])
        return self._shown

    def without(self, tools: Iterable[ToolDefinition]) -> ToolRegistry:
        """Return an offer of all tools but these."""
        if not (left_out := {(tool.source, tool.name) for tool in tools}):
            return self
        registry = ToolRegistry(self._formats)
        kept = [tool for tool in self.list() if (tool.source, tool.name) not in left_out]
        registry._tools = {tool.name: tool for tool in kept if tool.name in self._tools}
        registry._sourced = {(tool.source, tool.name): tool for tool in kept if tool.name not in self._tools}
        registry._offered_at, registry.finder = self._offered_at, self.finder
        return registry

    def beside(self, tools: Iterable[ToolDefinition]) -> ToolRegistry:
        """Return an offer of these tools and those of a caller. Raises ChatRequestError if two have one name."""
        registry = ToolRegistry(self._formats)
        registry._tools, registry._offered_at = {**self._tools}, self._offered_at
        registry.deferred = self.deferred
        registry.refuse_clashes(tools)
        registry._tools.update({tool.name: tool for tool in tools})
        return registry

    def refuse_clashes(self, tools: Iterable[ToolDefinition]) -> None:
        """Raise ChatRequestError if a tool that a caller runs has the name of one of these."""
        for at, tool in enumerate(tools):
            own = next((own for own in self.list() if own.name == tool.name), None)
            if own is not None:
                place = f"the tool source '{own.source}'" if own.source else "the configuration"
                raise ChatRequestError(
                    f"caller_tools[{at}]: the caller's tool '{tool.name}' has the name of the tool '{own.name}' of "
                    f"{place}, and a model could not choose between them: rename the caller's"
                )

    def _allowed(self, wanted: Collection[str]) -> builtins.list[ToolDefinition]:
        own = [tool for name, tool in self._tools.items() if name in wanted]
        sourced = self._of_sources().values() if len(own) < len(wanted) else ()
        theirs = [
            tool
            for tool in sourced
            if (tool.name in wanted and tool.name not in self._tools) or f"{tool.source}/*" in wanted
        ]
        return own + theirs

    def wire_name(self, name: str) -> str:
        """Return a tool's name on the wire; see wire_names."""
        return self._own_sent().by_name.get(name) or self._theirs_sent().by_name.get(name, name)

    def name_of(self, wire_name: str) -> str:
        """Return the name of the tool called wire_name on the wire; wire_name itself if there is none."""
        own = self._sent or self._own_sent()
        return own.by_sent.get(wire_name) or self._theirs_sent().by_sent.get(wire_name, wire_name)

    def to_provider_format(
        self, provider: str, allowed_tools: Collection[str] | None = None
    ) -> builtins.list[dict[str, Any]]:
        """Return the allowed tools in a provider's own format.

        Args:
            provider: Name of a tool format registered by a provider plugin: "openai", "gemini".
            allowed_tools: Names to keep; None or empty keeps all (TC-32).

        Raises:
            UnknownToolFormatError: No installed plugin offers that format.
        """
        return [*self.wire_tools(provider, self.names(allowed_tools))]

    def wire_tools(self, provider: str, names: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
        """Return the named tools in a provider's format: the same tuple for the same names, so it is encoded once.

        Raises:
            UnknownToolFormatError: As for to_provider_format.
        """
        encoded = self._encoded.get((provider, names))
        if encoded is None:
            if len(self._encoded) >= _MAX_LISTS:  # each conversation may have found others
                self._encoded.clear()
                self._dropped.clear()
            encode = self._formats.get(provider)
            if encode is None:
                raise UnknownToolFormatError(provider, known=sorted(self._formats))
            # A tool that its source has lost since it was offered is no longer sent.
            there = [name for name in names if self.has(name)]
            dropped: dict[str, str] = {}
            encoded = self._encode(encode, there, dropped)
            if len(encoded) != len(there) - len(dropped):  # several tools in one entry, or some left out
                strings = set(re.findall(r'"((?:[^"\\]|\\.)*)"', json.dumps(encoded, default=repr)))
                missing = (name for name in there if self.wire_name(name) not in strings)
                dropped = dict.fromkeys(missing, "its provider cannot send it") | dropped
            self._encoded[provider, names], self._dropped[provider, names] = encoded, dropped
        return encoded

    def dropped_by(self, provider: str, names: tuple[str, ...]) -> Mapping[str, str]:
        """Return the reasons that a provider's models cannot be offered some of the named tools, by name."""
        self.wire_tools(provider, names)
        return self._dropped[provider, names]

    def _encode(self, encode: ToolEncoder, names: Iterable[str], dropped: dict[str, str]) -> tuple[dict[str, Any], ...]:
        """Encode tools, and note the reasons for those that cannot be: one must not cost the request all others."""
        tools = [self._as_sent(name) for name in names]
        try:
            return tuple(encode(tools))
        except ProviderRequestError:
            encoded: list[dict[str, Any]] = []
        for name, tool in zip(names, tools, strict=True):
            try:
                encoded += encode([tool])
            except ProviderRequestError as error:
                log.warning("tool %s is left out: %s", name, error)
                dropped[name] = str(error)
        return tuple(encoded)

    def _as_sent(self, name: str) -> ToolDefinition:
        tool, sent = self.get(name), self.wire_name(name)
        assert tool is not None
        return tool if sent == name else attrs.evolve(tool, name=sent)

    def _find_by_name(self, name: str) -> builtins.list[ToolDefinition]:
        return [tool for tool in self._of_sources().values() if tool.name == name]

    def _of_sources(self) -> dict[tuple[str | None, str], ToolDefinition]:
        if self._late is not None:
            load, self._late = self._late, None
            load()
        return self._sourced

    def _forget(self) -> None:
        """Drop the memos made of the tools so far."""
        self._changes += 1
        self._encoded.clear()
        self._dropped.clear()
        self._offers.clear()
        self._deferring.clear()
        self._all_names = self._shown = self._sent = self._sent_of_sources = None

    def _own_sent(self) -> _Sent:
        if self._sent is None:
            self._sent = _Sent(wire_names(self._tools))
        return self._sent

    def _theirs_sent(self) -> _Sent:
        """Return the names that sources' tools are sent under; none of them changes that of another tool."""
        if self._sent_of_sources is None:
            own = self._own_sent().by_name.values()
            theirs = dict.fromkeys(name for _, name in self._of_sources() if name not in self._tools)
            self._sent_of_sources = _Sent(wire_names(theirs, beside=own))
        return self._sent_of_sources


class _Sent:
    """Names as sent to models, both ways."""

    def __init__(self, by_name: Mapping[str, str]) -> None:
        self.by_name = by_name
        self.by_sent = {sent: name for name, sent in by_name.items()}


def wire_names(names: Iterable[str], beside: Iterable[str] = ()) -> dict[str, str]:
    """Return the name each tool is sent under: its own if every provider accepts it, otherwise a similar one.

    ``weather.get`` becomes ``weather_get``. No two tools are sent under the same name, ignoring case; a changed name
    ends in a checksum of the original if that was too long or the new name is taken.

    Args:
        beside: Names that other tools are sent under.
    """
    names = list(names)
    used = {name.lower() for name in beside}
    sent = {name: name for name in names if _PORTABLE.fullmatch(name) and name.lower() not in used}
    used |= {name.lower() for name in sent}
    for name in names:
        if name in sent:
            continue
        candidate = re.sub(r"[^A-Za-z0-9_-]", "_", name)
        if not re.match(r"[A-Za-z_]", candidate):
            candidate = "_" + candidate
        if len(candidate) > _MAX_WIRE_CHARS or candidate.lower() in used:
            checksum = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:8]
            candidate = f"{candidate[: _MAX_WIRE_CHARS - 9]}_{checksum}"
        sent[name] = candidate
        used.add(candidate.lower())
    return sent


def verify_trouble(tool: ToolDefinition, registry: ToolRegistry, *, may_be_sourced: bool = False) -> str | None:
    """Return the reason the verifying tool cannot verify this one, in one sentence; None if it can, or there is none.

    Args:
        may_be_sourced: A tool that is not there may come from a source that has not been read yet.
    """
    if tool.verify is None:
        return None
    verifier = registry.get(tool.verify, beside=tool)
    if verifier is None and may_be_sourced:
        return None
    if verifier is None and (several := registry.sources_with(tool.verify)):
        return f"tool '{tool.name}': several sources have a tool '{tool.verify}' ({', '.join(several)}): set a prefix"
    if verifier is None:
        names = registry.names()
        hint = did_you_mean(tool.verify, names) or f" (tools: {', '.join(names)})"
        return f"tool '{tool.name}': there is no tool '{tool.verify}' that could verify it{hint}"
    if verifier.effect != "read":
        wrong = f"its own effect must be 'read', not '{verifier.effect}'"
        return f"tool '{tool.name}': '{verifier.name}' cannot verify it: {wrong}"
    return None
