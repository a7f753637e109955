"""The built-in conversation store, its journal, and the ledgers keep the laws of the kit."""

import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from flexchat.conversations.memory_ledger import MemoryLedger
from flexchat_sqlite import counters
from flexchat_sqlite.conversations import SqliteConversations
from flexchat_sqlite.ledger import SqliteLedger
from flexchat_testing import (
    ConversationStoreConformance,
    CounterConformance,
    JournalConformance,
    LedgerConformance,
    MediaConformance,
    PendingConformance,
    TurnSumsConformance,
)


class TestSqliteConversations(ConversationStoreConformance):
    """One SQLite file."""

    supports = frozenset({"search", "durable", "shared", "history"})
    plugin = "flexchat_sqlite.conversations"

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(folder / "conversations.db")


class TestMemoryLedger(LedgerConformance):
    """A process's own."""

    def make_ledger(self, folder: Path) -> MemoryLedger:
        return MemoryLedger()


class TestSqliteLedger(LedgerConformance):
    """In the conversations' file."""

    supports = frozenset({"durable", "shared"})

    def make_ledger(self, folder: Path) -> SqliteLedger:
        return SqliteLedger(SqliteConversations(folder / "conversations.db").database, closes=True)


class TestSqliteJournal(JournalConformance):
    """In the conversations' file."""

    supports = frozenset({"durable", "shared"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(folder / "conversations.db")


class TestSqlitePending(PendingConformance):
    """In the conversations' file."""

    supports = frozenset({"durable", "shared", "ledger", "sending"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(folder / "conversations.db")


class TestSqliteCounters(CounterConformance):
    """In the conversations' file."""

    supports = frozenset({"durable", "shared", "leases", "clock"})

    @pytest.fixture(autouse=True)
    def _use_own_clock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.offset_s, clock = 0.0, time.time_ns
        monkeypatch.setattr(counters, "time", SimpleNamespace(time_ns=lambda: clock() + round(self.offset_s * 1e9)))

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(folder / "conversations.db")

    async def set_clock(self, store: SqliteConversations, by_s: float) -> None:
        self.offset_s += by_s


class TestSqliteTurnSums(TurnSumsConformance):
    """In the conversations' file."""

    supports = frozenset({"durable", "shared"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(folder / "conversations.db")


class TestCountersInMemory(CounterConformance):
    """A process's own."""

    supports = frozenset({"leases"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(":memory:")


class TestSqliteMedia(MediaConformance):
    """In the conversations' file."""

    supports = frozenset({"durable", "shared", "damage"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(folder / "conversations.db")

    async def damage(self, store: SqliteConversations, sha256: str) -> None:
        change = "UPDATE media_pieces SET data = zeroblob(length(data)) WHERE place = 2"
        await store.database.write(lambda database: database.execute(change))


class TestMediaInMemory(MediaConformance):
    """Of a store without a file."""

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(":memory:")


class TestConversationsInMemory(ConversationStoreConformance):
    """Without a file."""

    supports = frozenset({"search", "history"})
    plugin = "flexchat_sqlite.conversations"

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(":memory:")


class TestLedgerInMemory(LedgerConformance):
    """Of a store without a file."""

    def make_ledger(self, folder: Path) -> SqliteLedger:
        return SqliteLedger(SqliteConversations(":memory:").database, closes=True)


class TestJournalInMemory(JournalConformance):
    """Of a store without a file."""

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(":memory:")


class TestPendingInMemory(PendingConformance):
    """Of a store without a file."""

    supports = frozenset({"ledger", "sending"})

    def make_store(self, folder: Path) -> SqliteConversations:
        return SqliteConversations(":memory:")
