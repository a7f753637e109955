"""The store and the ledger of the config's tables [conversations] and [tools.effects], created without opening them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import attrs

from ..config.model import ConversationsTable, EffectsTable, own_keys
from ..errors import did_you_mean
from ..plugin.contracts import ConversationStore, ConversationStoreType, EffectLedger, SeparateJournal

if TYPE_CHECKING:
    from ..config.reading import ReadConfig  # loads cattrs, needed only when a configuration is read
    from ..plugin.host import PluginHost

DEFAULT_PROVIDER = str(attrs.fields(ConversationsTable).provider.default)
"""The store of conversations of a table that names none."""


def open_ledger(
    reading: ReadConfig, host: PluginHost, table: EffectsTable, conversations: ConversationStore | None
) -> EffectLedger | None:
    """Return the ledger a configuration keeps its effects in; None for memory. No file is touched yet.

    If tools.effects.store is wrong, that is added to the reading's problems, and None is returned.
    """
    if table.store == "memory" or (table.store is None and conversations is None):
        return None
    table_data = reading.document.data.get("conversations")
    provider = table_data.get("provider", DEFAULT_PROVIDER) if isinstance(table_data, Mapping) else None
    if table.store in (None, provider):
        make = getattr(conversations, "ledger", None)
        if make is not None:
            ledger: EffectLedger = make()
            return ledger
    name = table.store or DEFAULT_PROVIDER
    kind: ConversationStoreType | None = host.conversation_stores.by_name.get(name)
    if kind is not None and kind.create_ledger is not None:
        return kind.create_ledger()
    if name == DEFAULT_PROVIDER:
        text = f"effects need a ledger: {host.conversation_stores.missing(name)}; or write 'memory'"
    elif name == provider:
        text = f"'{provider}' keeps conversations but no effects: write '{DEFAULT_PROVIDER}' or 'memory'"
    else:
        stores = dict.fromkeys(("memory", DEFAULT_PROVIDER, *([provider] if isinstance(provider, str) else ())))
        hint = did_you_mean(name, stores)
        text = f"effects can be kept in {', '.join(stores)}, not in '{name}'{hint}"
        if not hint:
            text += "; another store can keep them only if it keeps the conversations too"
    reading.problem(("tools", "effects", "store"), text)
    return None


def open_journal(host: PluginHost, conversations: ConversationStore | None) -> SeparateJournal | None:
    """Return a journal for a store that has none of its own; None for others, or if the default store is missing."""
    if conversations is None or hasattr(conversations, "journal"):
        return None
    kind: ConversationStoreType | None = host.conversation_stores.by_name.get(DEFAULT_PROVIDER)
    return kind.create_journal() if kind is not None and kind.create_journal is not None else None


def open_conversations(reading: ReadConfig, host: PluginHost) -> ConversationStore | None:
    """Return the store a configuration keeps conversations in; None for none. No file is touched yet.

    If the table is wrong, that is added to the reading's problems, and None is returned.
    """
    table = reading.document.data.get("conversations")
    if not isinstance(table, Mapping):
        return None
    name = table.get("provider", DEFAULT_PROVIDER)
    if not isinstance(name, str):
        return None  # reported when core's own keys are structured
    kind: ConversationStoreType | None = host.conversation_stores.by_name.get(name)
    if kind is None:
        reading.problem(("conversations", "provider"), host.conversation_stores.missing(name))
        return None
    settings = reading.settings(("conversations",), own_keys(ConversationsTable), kind.config_class)
    if settings is None:
        return None
    folder = reading.document.folder if reading.document.source else None
    return reading.attempt(("conversations",), functools.partial(kind.create, settings, folder))
