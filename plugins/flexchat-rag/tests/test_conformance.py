"""The store keeps the laws of the kit."""

from flexchat_rag import conformance


class TestSqlite(conformance.Sqlite):
    """The store "sqlite"."""
