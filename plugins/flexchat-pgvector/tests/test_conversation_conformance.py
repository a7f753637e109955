"""The conversation store keeps the laws of the kit."""

import hashlib
from pathlib import Path

import psycopg
import pytest
from flexchat.testing import ConversationStoreConformance
from flexchat_pgvector.config import PostgresqlConfig
from flexchat_pgvector.conversation_store import PostgresqlConversations


class TestPostgresqlConversations(ConversationStoreConformance):
    """A schema for each folder."""

    supports = frozenset({"search", "durable", "shared"})
    plugin = "flexchat_pgvector.plugin"

    @pytest.fixture(autouse=True)
    def schemas(self, server):
        self.dsn, self.made = server.dsn(), set()
        yield
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for schema in self.made:
                connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")

    def make_store(self, folder: Path) -> PostgresqlConversations:
        schema = "kit_" + hashlib.sha256(f"{folder}".encode()).hexdigest()[:16]
        self.made.add(schema)
        return PostgresqlConversations(PostgresqlConfig(dsn=self.dsn, schema=schema, pool_size=3))
