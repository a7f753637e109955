"""Registers the document store ``pgvector`` and the conversation store ``postgresql``. Light: psycopg loads later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flexchat.plugin import (
    ConversationStore,
    ConversationStoreType,
    DocumentStore,
    RetrieverContext,
    RetrieverType,
    hookimpl,
)

from .config import PgvectorConfig, PostgresqlConfig


def create_documents(config: PgvectorConfig, context: RetrieverContext) -> DocumentStore:
    """Return the store of a rag_services entry."""
    from .document_store import PgvectorStore

    return PgvectorStore(config, context)


def create_conversations(config: PostgresqlConfig, folder: Path | None) -> ConversationStore:
    """Return the store of the table conversations."""
    from .conversation_store import PostgresqlConversations

    return PostgresqlConversations(config)


@hookimpl
def flexchat_register_retrievers() -> Iterable[RetrieverType]:
    """Offer the document store."""
    yield RetrieverType(
        name="pgvector",
        config_class=PgvectorConfig,
        create=create_documents,
        summary="Documents in PostgreSQL with pgvector, searched by words and vectors",
    )


@hookimpl
def flexchat_register_conversation_stores() -> Iterable[ConversationStoreType]:
    """Offer the conversation store."""
    yield ConversationStoreType(
        name="postgresql",
        config_class=PostgresqlConfig,
        create=create_conversations,
        summary="Conversations in PostgreSQL",
    )
