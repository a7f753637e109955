"""The store keeps the laws of the kit."""

from flexchat_rag import conformance
from flexchat_rag.config import SqliteConfig
from flexchat_rag.retriever import SqliteStore


class TestSqlite(conformance.Sqlite):
    """The store "sqlite"."""


class TestInMemory(conformance.Sqlite):
    """The store "sqlite" without a file."""

    supports = conformance.Sqlite.supports - {"durable"}

    def make_store(self, context):
        return SqliteStore(SqliteConfig(path=":memory:"), context)
