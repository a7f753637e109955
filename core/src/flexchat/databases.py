"""The databases of a configuration, for backups and upgrades: each once, with the names of what it keeps."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import attrs

from .assembly import as_configured, read_tables
from .config.model import EffectsTable
from .config.reading import ReadConfig
from .conversations.opening import open_conversations, open_journal, open_ledger
from .llms.open import read_entries
from .plugin.contracts import DocumentStoreContext, StoreDatabase
from .plugin.host import PluginHost

_Names = tuple[str, ...]


@attrs.frozen(kw_only=True)
class Databases:
    """What a configuration keeps, and where.

    Attributes:
        by_names: The databases, each with the names of what it keeps: ("conversations", "effects"), ("stores.docs",).
        others: Names of stores whose data FlexChat can neither copy nor migrate.
    """

    by_names: Mapping[_Names, StoreDatabase]
    others: _Names


@contextlib.asynccontextmanager
async def open_databases(reading: ReadConfig, host: PluginHost) -> AsyncIterator[Databases]:
    """Yield the databases of a configuration, closed at the end. Nothing is connected or created yet.

    The conversations come first: a copy of the effects that is later than that of the turns lacks none of theirs.

    Raises:
        ConfigError: The configuration has problems.
    """
    host = as_configured(host, reading)
    entries = read_entries(reading, "stores", host.document_stores)
    read_tables(reading, host)
    effects = reading.config.tools.effects if reading.config is not None else EffectsTable()
    conversations = open_conversations(reading, host)
    stores: dict[str, Any] = {
        "conversations": conversations,
        "journal": open_journal(host, conversations),
        "effects": open_ledger(reading, host, effects, conversations),
    }
    folder = reading.document.folder if reading.document.source else None
    for name, entry in entries.items():
        context = DocumentStoreContext(name=name, folder=folder)
        make = functools.partial(entry.type.create, entry.settings, context)
        stores[f"stores.{name}"] = reading.attempt(("stores", name), make)
    try:
        config = reading.finish()
        tables = {
            name: database
            for name, kind in host.config_tables.by_name.items()
            if kind.database is not None and (database := kind.database(config.tables.get(name), folder)) is not None
        }
        yield databases_of(stores, tables)
    finally:
        for store in stores.values():
            if store is not None:
                await store.aclose()


def databases_of(stores: Mapping[str, Any], tables: Mapping[str, StoreDatabase] | None = None) -> Databases:
    """Return the databases of open stores and of plugins' tables, by the names of what each keeps."""
    found = {name: getattr(store, "database", None) for name, store in stores.items() if store is not None}
    by_place: dict[str, StoreDatabase] = {}
    names: dict[str, _Names] = {}
    for name, database in [*found.items(), *(tables or {}).items()]:
        if database is not None:
            by_place.setdefault(database.place, database)
            names[database.place] = (*names.get(database.place, ()), name)
    others = tuple(name for name, database in found.items() if database is None)
    return Databases(by_names={names[place]: database for place, database in by_place.items()}, others=others)
