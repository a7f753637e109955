"""The tool sources of a configuration: the ``[[tools.TYPE]]`` tables, and where the accepted tools are kept."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.model import SourceEntry, ToolsTable, own_keys
from ..config.wording import shortened, spoken_value
from ..errors import did_you_mean
from ..files import data_folder, located
from ..plugin.host import PluginHost
from ..plugin.packages import package_with
from ..plugin.tool_sources import OpenSource
from .live_source import ConfiguredOpening, SourceSetup
from .lock import LOCK_NAME

if TYPE_CHECKING:
    from ..config.positions import KeyPath
    from ..config.reading import ReadConfig  # loads cattrs, needed only when a configuration is read

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREFIX = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.:/-]{0,63})?")
_CORE_KEYS = own_keys(SourceEntry)


def lock_file(reading: ReadConfig, table: ToolsTable) -> Path:
    """Return the path of the file of accepted tools: beside the configuration, unless it sets another.

    Raises:
        PathError: ``tools.lock`` names a place that cannot be.
    """
    if table.lock is not None:
        return located(table.lock, reading.document.folder)
    if reading.path is None:
        return data_folder() / LOCK_NAME
    return reading.path.with_name(f"{reading.path.stem}.tools.lock")


def read_sources(reading: ReadConfig, host: PluginHost, given: Mapping[str, OpenSource]) -> list[SourceSetup]:
    """Return the sources, those given in code first; problems are added to the reading's. Nothing is opened or read."""
    folder = reading.document.folder
    setups = {name: SourceSetup(name=name, type="python", open=open_, folder=folder) for name, open_ in given.items()}
    tables: set[str] = set()  # the names of all of them, also those that cannot be used
    for kind, place, table, is_only in _tables(reading):
        named = table.get("name", kind)
        tables |= {named} if isinstance(named, str) else set()
        found = host.tool_sources.by_name.get(kind)
        if found is None:
            reading.problem(place[:2], _unknown(kind, host))
            continue
        entry = reading.settings(place, table.keys() - _CORE_KEYS, SourceEntry)
        settings = reading.settings(place, _CORE_KEYS, found.config_class)
        if entry is None or settings is None:
            continue
        name = entry.name if entry.name is not None else kind
        trouble = _trouble(name, entry, is_named=entry.name is not None or is_only, is_taken=name in setups)
        if trouble is not None:
            reading.problem((*place, trouble[0]), trouble[1])
            continue
        setups[name] = SourceSetup(
            name=name,
            type=kind,
            prefix=entry.prefix,
            timeout_s=entry.timeout_ms / 1000,
            open=ConfiguredOpening(open=found.open, settings=settings),
            settings=settings,
            folder=folder,
            configured=found.configured,
        )
    _check_patterns(reading, {*setups, *tables})
    return [*setups.values()]


def _tables(reading: ReadConfig) -> Iterator[tuple[str, KeyPath, dict[str, Any], bool]]:
    """Yield each table of a source with its type and place, and whether it is the only one of its type."""
    tools = reading.document.data.get("tools")
    core = own_keys(ToolsTable)
    for kind, items in tools.items() if isinstance(tools, Mapping) else ():
        if kind in core or not isinstance(items, (list, Mapping)):
            continue  # a key of core's, or a misspelt one, which is reported when core's own keys are structured
        if isinstance(items, Mapping):
            reading.problem(("tools", kind), f"a source is a list of tables: write [[tools.{kind}]] in double brackets")
            continue
        for index, item in enumerate(items):
            if not isinstance(item, Mapping):
                text = f"expected a table, got {spoken_value(item)}: write [[tools.{kind}]] in double brackets"
                reading.problem(("tools", kind, index), text)
        for place, table in reading.tables("tools", kind):
            yield kind, place, table, len(items) == 1


def _unknown(kind: str, host: PluginHost) -> str:
    """Describe the fault of a type that no plugin offers: it may be a misspelt key of core's, or not installed."""
    sources, keys = host.tool_sources, own_keys(ToolsTable)
    close = did_you_mean(kind, [*sources.by_name, *keys])
    if close and kind not in sources.conflicts and package_with(sources.kind, kind) is None:
        return f"no tool source is called '{shortened(kind)}'{close}"
    return str(sources.missing(kind))


def _trouble(name: str, entry: SourceEntry, *, is_named: bool, is_taken: bool) -> tuple[str, str] | None:
    """Return a key and its fault; None if there is none."""
    if not is_named:
        return "name", "there are several sources of this type: give each a 'name'"
    if not _NAME.fullmatch(name):
        return "name", f"'{shortened(name)}' is not 1 to 64 letters, digits, _ and -"
    if is_taken:
        return "name", f"two sources are called '{name}': give one of them another 'name'"
    if not _PREFIX.fullmatch(entry.prefix):
        return "prefix", f"'{shortened(entry.prefix)}' cannot begin a tool's name: A-Z a-z 0-9 _ . : / -, at most 64"
    return None


def _check_patterns(reading: ReadConfig, names: set[str]) -> None:
    """Report each SOURCE/* of a rule that names no source."""
    for place, rule in reading.tables("responses"):
        tools = rule.get("tools")
        allowed = tools.get("allowed_tools") if isinstance(tools, Mapping) else None
        for index, name in enumerate(allowed if isinstance(allowed, list) else ()):
            if isinstance(name, str) and name.endswith("/*") and name[:-2] not in names:
                known = ", ".join(sorted(names)) or "none"
                text = f"no tool source is called '{shortened(name[:-2])}'{did_you_mean(name[:-2], names)}"
                reading.problem((*place, "tools", "allowed_tools", index), f"{text}; configured: {known}")
