"""Registers the conversation store ``sqlite``; sqlite3 itself is imported when a store is created."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
from flexchat.files import data_folder, located
from flexchat.plugin import hookimpl
from flexchat.plugin.contracts import ConversationStoreType, EffectLedger, SeparateJournal

if TYPE_CHECKING:
    from .conversations import SqliteConversations

FLEXCHAT_API = (0, 1)


@attrs.frozen(kw_only=True)
class SqliteSettings:
    """[conversations] with provider "sqlite"."""

    path: str | None = attrs.field(
        default=None,
        metadata={
            "help": "The file, relative to the config's folder; :memory: for none. "
            "Default: conversations.db in your data folder."
        },
    )


def create_conversations(settings: SqliteSettings, folder: Path | None) -> SqliteConversations:
    """Create the conversation store described by ``[conversations]``; relative paths start at *folder*."""
    from .conversations import SqliteConversations

    default = data_folder() / "conversations.db"
    return SqliteConversations(default if settings.path is None else located(settings.path, folder))


def create_ledger() -> EffectLedger:
    """Create a ledger in the default file, for a program with another conversation store or none."""
    from .ledger import SqliteLedger

    return SqliteLedger(create_conversations(SqliteSettings(), None).database, closes=True)


def create_journal() -> SeparateJournal:
    """Create a journal in the default file, for a conversation store that has none."""
    from .journal import SqliteJournal

    return SqliteJournal(create_conversations(SqliteSettings(), None).database, closes=True)


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
