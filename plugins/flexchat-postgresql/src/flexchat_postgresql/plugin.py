"""Registers the conversation store ``postgresql``. psycopg is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from flexchat.plugin import hookimpl
from flexchat.store import ConversationStore, ConversationStoreType

from .config import PostgresqlConfig


def create_conversations(config: PostgresqlConfig, folder: Path | None) -> ConversationStore:
    """Create the store for the config's ``conversations`` table."""
    from .conversation_store import PostgresqlConversations

    return PostgresqlConversations(config)


@hookimpl
def flexchat_register_conversation_stores() -> Iterable[ConversationStoreType]:
    """Offer the conversation store."""
    yield ConversationStoreType(
        name="postgresql",
        config_class=PostgresqlConfig,
        create=create_conversations,
        summary="Conversations, the journal of their turns and the ledger of effects, in PostgreSQL",
    )
