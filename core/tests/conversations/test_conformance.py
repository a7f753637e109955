"""The built-in conversation store keeps the laws of the kit."""

from pathlib import Path

from flexchat.conversations.sqlite_store import SqliteConversations
from flexchat_testing import ConversationStoreConformance


class TestSqliteConversations(ConversationStoreConformance):
    """One SQLite file."""

    supports = frozenset({"search", "durable", "shared"})
    plugin = "flexchat.conversations.sqlite_store"

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(folder / "conversations.db")
