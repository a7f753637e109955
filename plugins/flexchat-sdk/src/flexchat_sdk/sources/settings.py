"""The tool sources of a configuration: the ``[[tools.TYPE]]`` tables, and where the accepted tools are kept."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexchat.config.model import SourceEntry, ToolsTable, own_keys
from flexchat.config.wording import describe_value, shortened
from flexchat.errors import did_you_mean
from flexchat.files import data_folder, located
from flexchat.installing import package_with
from flexchat.plugin.host import PluginHost
from flexchat.plugin.tool_sources import OpenSource
from flexchat.tools.sources import source_tables

from .live_source import ConfiguredOpening, SourceSetup
from .live_sources import LiveSources
from .lock import LOCK_NAME

if TYPE_CHECKING:
    from flexchat.config.positions import KeyPath
    from flexchat.config.reading import ReadConfig  # loads cattrs, needed only when a configuration is read

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_PREFIX = re.compile(r"([A-Za-z0-9_][A-Za-z0-9_.:/-]{0,63})?")
_CORE_KEYS = own_keys(SourceEntry)


def load_sources(reading: ReadConfig, host: PluginHost, opens: Mapping[str, OpenSource]) -> LiveSources:
    """Return the tool sources of a configuration, those given in code first. Nothing is opened or read.

    Problems are added to the reading's.
    """
    folder = reading.document.folder
    setups = {name: SourceSetup(name=name, type="python", open=open_, folder=folder) for name, open_ in opens.items()}
    for name, table in (reading.config.tables if reading.config is not None else {}).items():
        if (described := host.config_tables.by_name.get(name)) is not None and described.source is not None:
            opening = ConfiguredOpening(open=described.source, settings=table)
            setups[name] = SourceSetup(name=name, type=name, place=(name,), open=opening, folder=folder)
    for kind, place, table, is_only in _tables(reading):
        if (source_type := host.tool_sources.by_name.get(kind)) is None:
            reading.problem(place[:2], _unknown(kind, host))
            continue
        entry = reading.settings(place, table.keys() - _CORE_KEYS, SourceEntry)
        settings = reading.settings(place, _CORE_KEYS, source_type.config_class)
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
            place=("tools", kind),
            prefix=entry.prefix,
            timeout_s=entry.timeout_ms / 1000,
            open=ConfiguredOpening(open=source_type.open, settings=settings),
            settings=settings,
            folder=folder,
            configured=source_type.configured,
        )
    return LiveSources(setups.values(), functools.partial(lock_file, folder, reading.path))


def lock_file(folder: Path, path: Path | None, table: ToolsTable) -> Path:
    """Return the path of the file of accepted tools: beside the configuration, unless it sets another.

    Args:
        folder: Where the configuration's relative paths start.
        path: Its file; None for one given in code.

    Raises:
        PathError: ``tools.lock`` names a place that cannot be.
    """
    if table.lock is not None:
        return located(table.lock, folder)
    return data_folder() / LOCK_NAME if path is None else path.with_name(f"{path.stem}.tools.lock")


def _tables(reading: ReadConfig) -> Iterator[tuple[str, KeyPath, dict[str, Any], bool]]:
    """Yield each table of a source with its type and place, and whether it is the only one of its type."""
    for kind, items in source_tables(reading.document.data).items():
        if isinstance(items, Mapping):
            reading.problem(("tools", kind), f"a source is a list of tables: write [[tools.{kind}]] in double brackets")
            continue
        for index, item in enumerate(items):
            if not isinstance(item, Mapping):
                text = f"expected a table, got {describe_value(item)}: write [[tools.{kind}]] in double brackets"
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
