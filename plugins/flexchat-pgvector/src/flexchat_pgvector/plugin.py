"""Registers the document store ``pgvector`` and the conversation store ``postgresql``. Light: psycopg loads later."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flexchat.plugin import hookimpl
from flexchat.store import (
    ConversationStore,
    ConversationStoreType,
    DocumentStore,
    DocumentStoreContext,
    DocumentStoreType,
)

from .config import PgvectorConfig, PostgresqlConfig


def create_documents(config: PgvectorConfig, context: DocumentStoreContext) -> DocumentStore:
    """Return the store of a stores entry."""
    from .document_store import PgvectorStore

    return PgvectorStore(config, context)


def create_conversations(config: PostgresqlConfig, folder: Path | None) -> ConversationStore:
    """Return the store of the table conversations."""
    from .conversation_store import PostgresqlConversations

    return PostgresqlConversations(config)


@hookimpl
def flexchat_register_document_stores() -> Iterable[DocumentStoreType]:
    """Offer the document store."""
    yield DocumentStoreType(
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
