"""From the config's table [conversations] to a store, not opened yet."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..config.model import ConversationsTable, own_keys
from ..plugin.contracts import ConversationStore, ConversationStoreType
from .sqlite_store import SQLITE

if TYPE_CHECKING:
    from ..config.reading import ReadConfig  # loads cattrs, which is needed only where a configuration is read
    from ..plugin.host import PluginHost


def open_conversations(reading: ReadConfig, host: PluginHost) -> ConversationStore | None:
    """Return where a configuration keeps conversations; None if nowhere. No file is touched yet.

    What is wrong with the table is added to the reading's problems, and None is returned.
    """
    table = reading.document.data.get("conversations")
    if not isinstance(table, Mapping):
        return None
    name = table.get("provider", SQLITE.name)
    if not isinstance(name, str):
        return None  # reported by the structuring of core's own keys
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
