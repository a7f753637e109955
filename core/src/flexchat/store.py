"""The door for authors of document stores, rerankers and conversation stores."""

from typing import TYPE_CHECKING, Any

from .conversations import effect_rows
from .domain import (
    Claim,
    Collection,
    ConversationInfo,
    ConversationTurn,
    Document,
    Effect,
    EffectCall,
    EffectState,
    RetrievalHits,
    Source,
    TurnStatus,
    Where,
)
from .domain.filters import AllOf, AnyOf, Compare, Condition, holds, read_filter
from .domain.journal import JournaledTurn, JournalEntry, ToldEvent, TurnEnd, TurnKey, TurnState
from .domain.keys import key, secret_key
from .domain.message_json import turn_from_json, turn_to_dict, turn_to_json
from .domain.prices import Cost
from .domain.text import storable
from .errors import (
    CannotSettleError,
    FilterError,
    FlexChatError,
    LostTurnError,
    PathError,
    RetrievalError,
    StorageError,
    TurnNotWaitingError,
    UnknownCollectionError,
    UnknownConversationError,
    UnknownEffectError,
    UnknownTurnError,
)
from .files import data_folder, located, open_file
from .plugin.contracts import (
    ConversationStore,
    ConversationStoreType,
    DocumentStore,
    DocumentStoreContext,
    DocumentStoreType,
    EffectLedger,
    Embedder,
    JournalingStore,
    KeepingEffects,
    Reranker,
    RerankerType,
    Retriever,
    TurnJournal,
)
from .plugin.foreign import error_name, error_text
from .plugin.hookspecs import hookimpl
from .plugin.ranking import fused, reranked
from .plugin.threads import run_in_thread
from .storage.replacing import replacing

if TYPE_CHECKING:
    from .storage.sqlite import Database

__all__ = [
    "AllOf",
    "AnyOf",
    "CannotSettleError",
    "Claim",
    "Collection",
    "Compare",
    "Condition",
    "ConversationInfo",
    "ConversationStore",
    "ConversationStoreType",
    "ConversationTurn",
    "Cost",
    "Database",
    "Document",
    "DocumentStore",
    "DocumentStoreContext",
    "DocumentStoreType",
    "Effect",
    "EffectCall",
    "EffectLedger",
    "EffectState",
    "Embedder",
    "FilterError",
    "FlexChatError",
    "JournalEntry",
    "JournaledTurn",
    "JournalingStore",
    "KeepingEffects",
    "LostTurnError",
    "PathError",
    "Reranker",
    "RerankerType",
    "RetrievalError",
    "RetrievalHits",
    "Retriever",
    "Source",
    "StorageError",
    "ToldEvent",
    "TurnEnd",
    "TurnJournal",
    "TurnKey",
    "TurnNotWaitingError",
    "TurnState",
    "TurnStatus",
    "UnknownCollectionError",
    "UnknownConversationError",
    "UnknownEffectError",
    "UnknownTurnError",
    "Where",
    "data_folder",
    "effect_rows",
    "error_name",
    "error_text",
    "fused",
    "holds",
    "hookimpl",
    "key",
    "located",
    "open_file",
    "read_filter",
    "replacing",
    "reranked",
    "run_in_thread",
    "secret_key",
    "storable",
    "turn_from_json",
    "turn_to_dict",
    "turn_to_json",
]


def __getattr__(name: str) -> Any:
    """Import SQLite on first access."""
    if name != "Database":
        raise AttributeError(f"module 'flexchat.store' has no attribute {name!r}")
    from .storage.sqlite import Database

    return Database
