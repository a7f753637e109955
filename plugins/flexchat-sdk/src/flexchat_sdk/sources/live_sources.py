"""The configured tool sources: their offered tools, their changes, and the accepted ones."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import attrs
from flexchat import errors
from flexchat.config.model import ToolsTable
from flexchat.domain import DEFAULT_TENANT, ToolDefinition
from flexchat.domain.sourced import SourcedTool, ToolChange
from flexchat.domain.text import counted
from flexchat.plugin.tool_sources import SourceServer
from flexchat.schema.limits import schema_problems
from flexchat.tools.sources import SourceState, Surroundings, ToolSources

from ..hidden_text import clean_schema, clean_text, find_hidden_places
from .live_source import LiveSource, SourceSetup
from .lock import KeptSource, ToolsLock

log = logging.getLogger(__name__)

WAIT_S = 2.0
"""Seconds a turn waits for a source with accepted tools; for one without, it waits until the source's own limit."""

MAX_TOOLS = 10_000  # tools of one source; a list that is longer is refused

_MAX_NAMED = 5
_STRICTER = ("read", "idempotent", "write")


class LiveSources(ToolSources):
    """The sources a configuration names, opened when a turn needs them.

    Args:
        lock_path: Returns the path of the file of accepted tools, given the config's ``[tools]``.
    """

    def __init__(self, setups: Iterable[SourceSetup], lock_path: Callable[[ToolsTable], Path]) -> None:
        self._find_lock = lock_path
        self._unreadable = self._unwritable = ""
        self._definitions: dict[tuple[str, str], tuple[tuple[str, str], ToolDefinition]] = {}
        self._states: dict[str, SourceState] = {}
        self._broken: dict[str, dict[str, str]] = {}
        self._hidden: dict[str, dict[str, str]] = {}
        self._warnings: dict[str, dict[str, tuple[str, ...]]] = {}  # by the digest of a tool
        self._in_memory: dict[str, KeptSource] = {}
        self._logged: dict[str, str] = {}
        self._live = {
            setup.name: LiveSource(
                setup,
                self._accepted_fingerprint,
                self._read,
                lambda: self._chat.create_fetcher(),
                lambda: self._live,
            )
            for setup in setups
        }

    @property
    def by_name(self) -> Mapping[str, LiveSource]:
        """The sources, in the order of the config."""
        return self._live

    def start(self, surroundings: Surroundings) -> None:
        """Offer the accepted tools once one is looked up; a start reads neither source nor lock."""
        self._chat, self._registry, self._mask = surroundings, surroundings.registry, surroundings.mask
        self.lock_path = self._find_lock(surroundings.table)
        self.lock = ToolsLock(self.lock_path)
        self._registry.load_later(self._publish)

    @property
    def trouble(self) -> str:
        """Why the accepted tools cannot be read, or could not be written; empty if they can."""
        return self._unreadable or self._unwritable

    async def ready(self, allowed: Collection[str] | None) -> None:
        """Open the sources of these tools.

        It waits for a source no longer than it must: see WAIT_S. One that was read before, and is read again because it
        reported a change or could not be read, is not waited for: a broken one would hold up every turn.
        """
        if not self.by_name:
            return
        has_changed = self.lock.has_changed
        if has_changed:  # another process accepted tools: perhaps not those read here
            self._publish()
            for source in self.by_name.values():
                source.forget()
        needed = self._needed(allowed)
        looking = {source.look(): source for source in needed}
        waiting = {task: source for task, source in looking.items() if task is not None}
        if new := [task for task, source in waiting.items() if self._records().get(source.name) is None]:
            await asyncio.wait(new, timeout=max(waiting[task].setup.timeout_s for task in new) + WAIT_S)
        first = {task for task, each in waiting.items() if has_changed or not (each.is_known or each.trouble)}
        if earlier := first - set(new):
            # After the time-out the readings go on, for later turns.
            await asyncio.wait(earlier, timeout=WAIT_S)
        await self._accept_first(needed)

    async def find(self, name: str) -> ToolDefinition | None:
        """Return the tool with this name, opening sources for the first time if need be."""
        if self._registry.get(name) is None:
            await self.ready([name])
        return self._registry.get(name)

    def missing(self, allowed: Collection[str] | None = None) -> list[str]:
        """Return the reasons tools are missing."""
        if self._unreadable:
            return [self._mask(self._unreadable)]
        needed = self._needed(allowed) if self.by_name else []
        failed = [source for source in needed if source.trouble]
        records = self._records() if failed else {}
        reasons = [self._mask(_failure_text(each.name, each.trouble)) for each in failed if each.name not in records]
        return reasons + [text for each in needed if (text := _describe_held_back(self._states.get(each.name)))]

    async def look(self, name: str, *, tenant: str = DEFAULT_TENANT, accept_first: bool = True) -> SourceState:
        """Open a source, and read its tools."""
        source = self._source(name)
        self.lock.read()
        if (task := source.look(at_once=True)) is not None:
            await asyncio.wait([task], timeout=source.setup.timeout_s + WAIT_S)
        if accept_first:
            await self._accept_first([source])
        return await self._require_readable(source, tenant)

    async def restart(self, name: str, *, tenant: str = DEFAULT_TENANT) -> SourceState:
        """Restart the server behind a source, and read its tools."""
        source = self._source(name)
        self.lock.read()
        restarting = source.restart(tenant)
        # Not awaited directly: a caller that is cancelled must not cancel the restart that others wait for.
        await asyncio.wait([restarting])
        if not restarting.cancelled() and (trouble := restarting.result()):
            raise errors.ToolSourceError(_failure_text(source.name, trouble))
        return await self._require_readable(source, tenant)

    def state(self, name: str, *, tenant: str = DEFAULT_TENANT) -> SourceState:
        """Return the state of a source."""
        source = self._source(name)
        self._registry.names()  # loads the accepted tools, if they were not needed before
        status: Literal["not opened", "open", "failed"] = "open" if source.is_known else "not opened"
        return attrs.evolve(
            self._states[name],
            status="failed" if source.trouble else status,
            trouble=source.trouble,
            server=self._server(source, tenant),
        )

    def notes(self) -> Iterator[tuple[tuple[str, ...], str]]:
        """Yield what cannot be used, and the sources whose tools are not known yet."""
        states = self.states()
        if self.trouble:
            yield ("tools",), self.trouble
            return
        for state in states:
            place = self._live[state.name].setup.place
            if not state.accepted:
                yield (
                    place,
                    f"source '{state.name}' was never opened, so its tools are not known yet: the first turn that "
                    f"needs them does it, or flexchat tools accept {state.name}",
                )
            for name, why in [*state.left_out.items()][:_MAX_NAMED]:
                yield place, f"tool '{name}' of source '{state.name}' is left out: {why}"
            if len(state.left_out) > _MAX_NAMED:
                yield place, f"{len(state.left_out) - _MAX_NAMED} more tools of source '{state.name}' are left out"

    async def review(self, name: str, *, tenant: str = DEFAULT_TENANT) -> SourceState:
        """Return the state of a source, with its warnings."""
        state, source = self.state(name, tenant=tenant), self.by_name[name]
        by_digest = self._warnings.get(name, {})
        waiting = [change.now for change in state.changes if change.now is not None]
        if new := [tool for tool in waiting if tool.digest not in by_digest]:
            warnings = await asyncio.to_thread(source.warnings, new, self.others(name))
            for tool, text in self._hidden.get(name, {}).items():
                if not any(
                    "nobody sees" in each for each in warnings.get(tool, ())
                ):  # unless the source names the place
                    warnings[tool] = (*warnings.get(tool, ()), text)
            by_digest = {**by_digest, **{tool.digest: warnings.get(tool.name, ()) for tool in new}}
            self._warnings[name] = {tool.digest: by_digest[tool.digest] for tool in waiting}
        changes = [
            attrs.evolve(change, warnings=by_digest[change.now.digest]) if change.now is not None else change
            for change in state.changes
        ]
        return attrs.evolve(state, changes=tuple(changes))

    def others(self, name: str) -> dict[str, list[str]]:
        """Return the names that other tools have and a source's could have."""
        prefix = self._source(name).setup.prefix
        others: dict[str, list[str]] = {}
        for tool in self._registry.list():
            if tool.source != name and tool.name.startswith(prefix):
                others.setdefault(tool.source or "tools.registry", []).append(tool.name.removeprefix(prefix))
        return others

    async def accept(
        self, name: str, tools: Collection[str] = (), *, seen: Mapping[str, str | None] | None = None
    ) -> list[ToolChange]:
        """Accept a source's current tools."""
        await self.look(name, accept_first=seen is None)
        state = self.state(name)  # looking ends with warnings, which take time: it may have been read again meanwhile
        changes = {change.name: change for change in state.changes}
        source = self.by_name[name]
        if seen is not None:
            self._check_seen(source, seen)
            if not (chosen := [changes[tool] for tool in seen if tool in changes]):
                return []
        else:
            chosen = [self._change(changes, tool, state) for tool in tools] if tools else [*changes.values()]
        fingerprint = source.fingerprint if len(chosen) == len(changes) else ""

        def change(records: dict[str, KeptSource]) -> None:
            records[name] = _accept(records.get(name) or KeptSource(type=source.setup.type), chosen, fingerprint)

        await asyncio.to_thread(self.lock.update, change)
        self._in_memory.pop(name, None)
        self._publish()
        return chosen

    def take_over(self, old: ToolSources) -> None:
        """Share the open sources of a chat that this one replaces; see LiveSource.take_over."""
        for name, source in old.by_name.items():
            if name in self.by_name and isinstance(source, LiveSource):
                self.by_name[name].take_over(source)

    async def aclose(self) -> None:
        """Close every source that was opened, unless another chat uses it."""
        await asyncio.gather(*(source.aclose() for source in self.by_name.values()))

    # ---- accepting

    def _records(self) -> Mapping[str, KeptSource]:
        try:
            records = self.lock.read()
        except errors.ToolsLockError as error:
            if self._unreadable != str(error):
                log.error("%s", error)
            self._unreadable = str(error)
            return {}
        self._unreadable = ""
        return {**self._in_memory, **records}

    def _accepted_fingerprint(self, name: str) -> str:
        record = self._records().get(name)
        return record.fingerprint if record is not None and not record.edited else ""

    async def _read(self, source: LiveSource, tools: list[SourcedTool] | None) -> None:
        """Take note of the tools a source has now; None if they are the accepted ones."""
        if tools is None:
            source.now = None
            self._publish()
            return
        name = source.name
        usable, problems = await asyncio.to_thread(self._check_tools, tools, source.setup)
        self._hidden[name] = await asyncio.to_thread(_hidden_texts, tools)
        self._broken[name] = {**source.left_out, **problems}
        source.now = usable
        self._publish()

    async def _accept_first(self, sources: Iterable[LiveSource]) -> None:
        """Accept the tools of these sources that were read and of which none ever were accepted."""
        readings = [(source, source.now) for source in sources if source.now is not None]
        records = self._records() if readings else {}
        first = [(source, tools) for source, tools in readings if source.name not in records]
        if self._unreadable:
            return
        for source, tools in first:
            await self._store_first(source, tools)
        # Who comes while another call keeps them finds them in the file, and not yet in the registry.
        if first or not all(self._states[source.name].accepted for source, _ in readings):
            self._publish()

    async def _store_first(self, source: LiveSource, tools: Mapping[str, SourcedTool]) -> None:
        """Accept a source's first tools; if they cannot be kept, only for this process."""
        name = source.name
        first = KeptSource(type=source.setup.type, fingerprint=source.fingerprint, tools=tools)

        def add(records: dict[str, KeptSource]) -> None:
            # Another process may have accepted first tools meanwhile: a person may have seen those, so they stay.
            records.setdefault(name, first)

        try:
            await asyncio.to_thread(self.lock.update, add)
            log.info("%s of '%s' accepted into %s", counted(len(tools), "tool"), name, self.lock.path)
        except errors.ToolsLockError as error:
            if self._unreadable:
                return
            self._unwritable = f"what is accepted of '{name}' cannot be kept, so a change will not be noticed: {error}"
            log.warning("%s", self._unwritable)
            self._in_memory[name] = first

    def _check_tools(
        self, tools: Iterable[SourcedTool], setup: SourceSetup
    ) -> tuple[dict[str, SourcedTool], dict[str, str]]:
        """Return the usable tools by name, and why others are not."""
        usable: dict[str, SourcedTool] = {}
        problems: dict[str, str] = {}
        for number, tool in enumerate(tools):
            if number >= MAX_TOOLS:
                raise errors.ToolSourceError(f"it has more than {MAX_TOOLS:,} tools: choose some of them")
            if not isinstance(tool, SourcedTool):
                raise errors.ToolSourceError(f"it returned {type(tool).__name__} among its tools")
            is_second = tool.name in usable
            trouble = "the source has another tool of this name" if is_second else self._trouble(tool, setup)
            if trouble is None:
                usable[tool.name] = _clean(tool)
            else:
                problems[tool.name] = trouble
        return usable, problems

    def _trouble(self, tool: SourcedTool, setup: SourceSetup) -> str | None:
        try:
            if not tool.digest or tool.definition(setup.name, setup.prefix) is None:
                return None
        except errors.ToolDefinitionError as error:
            return str(error)
        if problems := schema_problems(tool.parameters):
            return f"parameters: {'; '.join(problems)}"
        if self._mask.knows(json.dumps(tool.to_dict(), ensure_ascii=False)):
            return "its definition contains a secret of the configuration, and would be kept in a file"
        return None

    # ---- offering

    def _publish(self) -> None:
        """Work out the tools every source offers, and fill the registry."""
        records = self._records()
        states = {name: self._state(source, records.get(name)) for name, source in self.by_name.items()}
        holders = Counter(tool.name for state in states.values() for tool in state.tools)
        unclear = {name for name in self._chat.adjusted if holders[name] > 1}
        offered: list[ToolDefinition] = []
        for name, state in states.items():
            state = _leave_out(state, unclear)
            offered += state.tools
            self._states[name] = state
            self._log_changes(state)
        self._registry.set_sourced(offered)

    def _state(self, source: LiveSource, record: KeptSource | None) -> SourceState:
        setup, kept_tools = source.setup, record.tools if record is not None else {}
        accepted = {name: _clean(source.configured(tool)) for name, tool in kept_tools.items()}
        changes, going = _compare(source, accepted)
        left_out = dict(self._broken.get(source.name, {}))
        for name in record.edited if record is not None else ():
            left_out[name] = f"it was edited in {self.lock.path.name}: its hash does not fit; restore or accept it"
        tools = []
        for tool in going:
            try:
                tools.append(self._definition(source, tool))
            except errors.ToolDefinitionError as error:
                left_out[tool.name] = str(error)
        return SourceState(
            name=source.name,
            type=setup.type,
            prefix=setup.prefix,
            accepted=record is not None,
            tools=tuple(tools),
            changes=tuple(changes),
            left_out=left_out,
        )

    def _definition(self, source: LiveSource, tool: SourcedTool) -> ToolDefinition:
        """Return a tool's definition, always the same object for the same tool: its prepared data stay valid."""
        key, version = (source.name, tool.name), (tool.digest, tool.effect)
        cached = self._definitions.get(key)
        if cached is None or cached[0] != version:
            definition = self._chat.adjust(tool.definition(source.name, source.setup.prefix))
            cached = self._definitions[key] = (version, definition)
        return cached[1]

    def _log_changes(self, state: SourceState) -> None:
        """Log the warnings for people, each once."""
        counts = Counter(change.kind for change in state.changes)
        parts = [f"{counts[kind]} {kind}" for kind in ("new", "changed", "gone") if counts[kind]]
        lines = []
        if parts and state.accepted:
            lines.append(f"tools that nobody has accepted: {', '.join(parts)}; flexchat tools diff {state.name}")
        lines += [f"{name} is left out: {why}" for name, why in state.left_out.items()]
        lines += [f"{name}: {reason}" for name, reason in self._hidden.get(state.name, {}).items()]
        text = "; ".join(lines[:5])
        if text and self._logged.get(state.name) != text:
            log.warning("tool source '%s': %s", state.name, text)
        self._logged[state.name] = text

    # ---- names

    def _needed(self, allowed: Collection[str] | None) -> list[LiveSource]:
        """Return the sources that may have some of these tools."""
        sources = self.by_name
        if not allowed:
            return [*sources.values()]
        needed: dict[str, LiveSource] = {}
        for name in allowed:
            if name.endswith("/*") and name[:-2] in sources:
                needed[name[:-2]] = sources[name[:-2]]
            elif self._registry.is_own(name):
                continue
            elif several := self._registry.sources_with(name):
                needed |= {of: sources[of] for of in several if of in sources}
            else:
                return [*sources.values()]
        return [*needed.values()]

    def _source(self, name: str) -> LiveSource:
        if name not in self.by_name:
            self.refuse(name)
        return self.by_name[name]

    async def _require_readable(self, source: LiveSource, tenant: str) -> SourceState:
        if source.trouble or not source.is_known:
            raise errors.ToolSourceError(_failure_text(source.name, source.trouble or "it does not answer"))
        return await self.review(source.name, tenant=tenant)

    def _server(self, source: LiveSource, tenant: str) -> SourceServer | None:
        state, mask = source.server_state(tenant), self._mask
        if state is None:
            return None
        return attrs.evolve(state, trouble=mask(state.trouble), last_lines=[mask(line) for line in state.last_lines])

    def _check_seen(self, source: LiveSource, seen: Mapping[str, str | None]) -> None:
        record = self._records().get(source.name)
        now = source.now if source.now is not None else record.tools if record is not None else {}
        digests = {name: tool.digest for name, tool in now.items()}
        if changed := tuple(tool for tool, digest in seen.items() if digests.get(tool) != digest):
            raise errors.ToolChangedError(source.name, changed)

    def _change(self, changes: Mapping[str, ToolChange], tool: str, state: SourceState) -> ToolChange:
        if (change := changes.get(tool) or changes.get(tool.removeprefix(state.prefix))) is not None:
            return change
        waiting = ", ".join(changes) or "none"
        raise errors.UnknownToolSourceError(
            f"source '{state.name}': nothing of '{tool}' waits to be accepted{errors.did_you_mean(tool, changes)} "
            f"(waiting: {waiting})"
        )


def _clean(tool: SourcedTool) -> SourcedTool:
    """Return a tool without invisible characters in its texts; the same object if they had none."""
    description, parameters = clean_text(tool.description), clean_schema(tool.parameters)
    if description == tool.description and parameters == tool.parameters:
        return tool
    return attrs.evolve(tool, description=description or tool.name, parameters=parameters)


def _hidden_texts(tools: Iterable[SourcedTool]) -> dict[str, str]:
    """Return a sentence for each tool whose texts have invisible characters, by its name."""
    texts: dict[str, str] = {}
    for tool in tools:
        fields: dict[str, object] = {"description": tool.description, "parameters": tool.parameters}
        if places := [place for name, value in fields.items() for place in find_hidden_places(value, name)]:
            count = counted(sum(number for _, number in places), "character")
            listing = ", ".join(place for place, _ in places[:_MAX_NAMED])
            texts[tool.name] = f"{count} that nobody sees in {listing}; taken out of descriptions and titles"
    return texts


def _leave_out(state: SourceState, unclear: Collection[str]) -> SourceState:
    """Return the state without tools for which the entry in tools.registry may be meant, or another source's tool."""
    names = [tool.name.removeprefix(state.prefix) for tool in state.tools if tool.name in unclear]
    if not names:
        return state
    why = "tools.registry has an entry for it, and several sources have a tool of this name: give the source a prefix"
    tools = tuple(tool for tool in state.tools if tool.name not in unclear)
    return attrs.evolve(state, tools=tools, left_out={**state.left_out, **dict.fromkeys(names, why)})


def _failure_text(name: str, trouble: str) -> str:
    called = f"tool source '{name}'"
    return trouble if trouble.startswith(called) else f"{called}: {trouble}"


def _describe_held_back(state: SourceState | None) -> str:
    """Return a sentence on the tools held back until their changes are accepted; empty for none."""
    changes = state.changes if state is not None else ()
    names = [change.name for change in changes if change.kind == "changed" and not change.offered]
    if state is None or not names:
        return ""
    listing = ", ".join(names[:_MAX_NAMED]) + (", …" if len(names) > _MAX_NAMED else "")
    what = "has changed since it was accepted, so it is" if len(names) == 1 else "have changed, so they are"
    return f"tool source '{state.name}': {listing} {what} left out: flexchat tools diff {state.name}"


def _accept(record: KeptSource, changes: Iterable[ToolChange], fingerprint: str) -> KeptSource:
    """Return the record to store once these changes are accepted."""
    tools, edited = dict(record.tools), dict(record.edited)
    for change in changes:
        tools.pop(change.name, None)
        edited.pop(change.name, None)
        if change.now is not None:
            tools[change.name] = change.now
    return attrs.evolve(record, tools=tools, edited=edited, fingerprint=fingerprint)


def _compare(source: LiveSource, accepted: Mapping[str, SourcedTool]) -> tuple[list[ToolChange], list[SourcedTool]]:
    """Compare a source's tools with the accepted ones; return the differences and the tools to offer."""
    if source.now is None:
        return [], [*accepted.values()]
    changes, going = [], []
    for name in sorted(accepted.keys() | source.now.keys()):
        before, now = accepted.get(name), source.now.get(name)
        if before is None:
            changes.append(ToolChange(name=name, kind="new", now=now))
        elif now is not None and now.digest == before.digest:
            going.append(before)
        else:
            offered = source.still_callable(before, now)
            kind: Literal["changed", "gone"] = "gone" if now is None else "changed"
            changes.append(ToolChange(name=name, kind=kind, accepted=before, now=now, offered=offered))
            if offered:
                going.append(before if now is None else _with_stricter_effect(before, now))
    return changes, going


def _with_stricter_effect(accepted: SourcedTool, now: SourcedTool) -> SourcedTool:
    """Return the accepted tool with the stricter effect of the two: a new write must not be repeated like a read."""
    if _STRICTER.index(now.effect) <= _STRICTER.index(accepted.effect):
        return accepted
    return attrs.evolve(accepted, effect=now.effect)
