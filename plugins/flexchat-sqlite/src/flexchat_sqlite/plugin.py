"""Registers the conversation store ``sqlite``; sqlite3 itself is imported when a store is created."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from flexchat.plugin import hookimpl
from flexchat.plugin.contracts import ConversationStoreType

from .config import SqliteSettings

if TYPE_CHECKING:
    from .conversations import SqliteConversations
    from .journal import SqliteJournal
    from .ledger import SqliteLedger

FLEXCHAT_API = (0, 1)


def create_conversations(settings: SqliteSettings, folder: Path | None) -> SqliteConversations:
    """Create the conversation store described by ``[conversations]``; relative paths start at *folder*."""
    from .conversations import sqlite_conversations

    return sqlite_conversations(settings, folder)


def create_ledger() -> SqliteLedger:
    """Create a ledger in the default file."""
    from .conversations import default_ledger

    return default_ledger()


def create_journal() -> SqliteJournal:
    """Create a journal in the default file."""
    from .conversations import default_journal

    return default_journal()


@hookimpl
def flexchat_register_conversation_stores() -> Iterable[ConversationStoreType]:
    """Register the store ``sqlite``, its ledger and its journal."""
    yield ConversationStoreType(
        name="sqlite",
        config_class=SqliteSettings,
        create=create_conversations,
        create_ledger=create_ledger,
        create_journal=create_journal,
        summary="One SQLite file.",
    )
