"""Makes a store and a ledger from the config's tables [conversations] and [tools.effects], without opening them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..config.model import ConversationsTable, EffectsTable, own_keys
from ..errors import did_you_mean
from ..files import data_folder
from ..plugin.contracts import ConversationStore, ConversationStoreType, EffectLedger
from .sqlite_journal import SqliteJournal
from .sqlite_store import FILE_NAME, SQLITE, SqliteConversations, sqlite_ledger_alone

if TYPE_CHECKING:
    from ..config.reading import ReadConfig  # loads cattrs, needed only when a configuration is read
    from ..plugin.host import PluginHost


def open_ledger(
    reading: ReadConfig, table: EffectsTable, conversations: ConversationStore | None
) -> EffectLedger | None:
    """Return the ledger a configuration keeps its effects in; None for memory. No file is touched yet.

    If tools.effects.store is wrong, that is added to the reading's problems, and None is returned.
    """
    written = reading.document.data.get("conversations")
    provider = written.get("provider", SQLITE.name) if isinstance(written, Mapping) else None
    if table.store == "memory" or (table.store is None and conversations is None):
        return None
    if table.store in (None, provider):
        make = getattr(conversations, "ledger", None)
        if make is not None:
            ledger: EffectLedger = make()
            return ledger
        if table.store is None:
            return sqlite_ledger_alone()
    elif table.store == SQLITE.name:
        return sqlite_ledger_alone()
    assert table.store is not None
    if table.store == provider:
        text = f"'{provider}' keeps conversations but no effects: write 'sqlite' or 'memory'"
    else:
        known = dict.fromkeys(("memory", SQLITE.name, *([provider] if isinstance(provider, str) else ())))
        hint = did_you_mean(table.store, known)
        text = f"effects can be kept in {', '.join(known)}, not in '{table.store}'{hint}"
        if not hint:
            text += "; another store can keep them only if it keeps the conversations too"
    reading.problem(("tools", "effects", "store"), text)
    return None


def open_journal(conversations: ConversationStore | None) -> SqliteJournal | None:
    """Return a journal for a store that has none of its own, in a file of ours; None for others. No file is touched."""
    if conversations is None or hasattr(conversations, "journal"):
        return None
    return SqliteJournal(SqliteConversations(data_folder() / FILE_NAME).database, closes=True)


def open_conversations(reading: ReadConfig, host: PluginHost) -> ConversationStore | None:
    """Return the store a configuration keeps conversations in; None for none. No file is touched yet.

    If the table is wrong, that is added to the reading's problems, and None is returned.
    """
    table = reading.document.data.get("conversations")
    if not isinstance(table, Mapping):
        return None
    name = table.get("provider", SQLITE.name)
    if not isinstance(name, str):
        return None  # reported when core's own keys are structured
    kind: ConversationStoreType | None = SQLITE if name == SQLITE.name else host.conversation_stores.by_name.get(name)
    if kind is None:
        reading.problem(
            ("conversations", "provider"), f"{host.conversation_stores.missing(name)}; 'sqlite' is built in"
        )
        return None
    settings = reading.settings(("conversations",), own_keys(ConversationsTable), kind.config_class)
    if settings is None:
        return None
    folder = reading.document.folder if reading.document.source else None
    return reading.attempt(("conversations",), functools.partial(kind.create, settings, folder))
