"""The public names of ``flexchat.store``, for type checkers and for the module itself."""

from .conversations import (
    effect_rows as effect_rows,
    journal_rows as journal_rows,
    media_rows as media_rows,
    sum_rows as sum_rows,
)
from .domain import (
    Claim as Claim,
    Collection as Collection,
    ConversationHistory as ConversationHistory,
    ConversationInfo as ConversationInfo,
    ConversationTurn as ConversationTurn,
    Document as Document,
    Effect as Effect,
    EffectCall as EffectCall,
    EffectState as EffectState,
    HistoryTurn as HistoryTurn,
    RetrievalHits as RetrievalHits,
    Source as Source,
    TurnStatus as TurnStatus,
    Where as Where,
)
from .domain.filters import (
    AllOf as AllOf,
    AnyOf as AnyOf,
    Compare as Compare,
    Condition as Condition,
    holds as holds,
    read_filter as read_filter,
)
from .domain.journal import (
    JournalEntry as JournalEntry,
    JOURNAL_FORMAT as JOURNAL_FORMAT,
    JournaledTurn as JournaledTurn,
    MAX_RESUMES as MAX_RESUMES,
    JournaledEvent as JournaledEvent,
    TurnEnd as TurnEnd,
    TurnKey as TurnKey,
    TurnState as TurnState,
)
from .domain.questions import (
    Approval as Approval,
    PendingQuestion as PendingQuestion,
    Question as Question,
    QuestionState as QuestionState,
    Reply as Reply,
)
from .domain.codec import digests_in as digests_in, live_media as live_media
from .domain.keys import key as key, secret_key as secret_key
from .domain.conversation import (
    history_from_json as history_from_json,
    turn_from_dict as turn_from_dict,
    turn_from_json as turn_from_json,
    turn_from_parts as turn_from_parts,
    turn_to_dict as turn_to_dict,
    turn_to_json as turn_to_json,
    turn_to_parts as turn_to_parts,
)
from .domain.prices import Cost as Cost
from .domain.counters import (
    Charge as Charge,
    HourlySum as HourlySum,
    Refusal as Refusal,
    hour_text as hour_text,
)
from .domain.text import storable as storable
from .errors import (
    CannotSettleError as CannotSettleError,
    ClosedQuestionError as ClosedQuestionError,
    FilterError as FilterError,
    FlexChatError as FlexChatError,
    LostTurnError as LostTurnError,
    PathError as PathError,
    RetrievalError as RetrievalError,
    StorageError as StorageError,
    TurnNotWaitingError as TurnNotWaitingError,
    UnknownCollectionError as UnknownCollectionError,
    UnknownConversationError as UnknownConversationError,
    UnknownEffectError as UnknownEffectError,
    MediaQuotaError as MediaQuotaError,
    UnknownMediaError as UnknownMediaError,
    UnknownQuestionError as UnknownQuestionError,
    UnknownTurnError as UnknownTurnError,
)
from .files import data_folder as data_folder, located as located, open_file as open_file
from .plugin.contracts import (
    AddTurn as AddTurn,
    ConversationStore as ConversationStore,
    ConversationStoreType as ConversationStoreType,
    CounterStore as CounterStore,
    DocumentStore as DocumentStore,
    DocumentStoreContext as DocumentStoreContext,
    DocumentStoreType as DocumentStoreType,
    EffectLedger as EffectLedger,
    Embedder as Embedder,
    HistoryStore as HistoryStore,
    JournalingStore as JournalingStore,
    KeepingEffects as KeepingEffects,
    KeepingCounters as KeepingCounters,
    KeepingMedia as KeepingMedia,
    MediaStore as MediaStore,
    Reranker as Reranker,
    RerankerType as RerankerType,
    Retriever as Retriever,
    SchemaState as SchemaState,
    SendingJournal as SendingJournal,
    StoreDatabase as StoreDatabase,
    TurnJournal as TurnJournal,
    TurnSums as TurnSums,
)
from .plugin.foreign import error_name as error_name, error_text as error_text
from .plugin.hookspecs import hookimpl as hookimpl
from .plugin.ranking import fused as fused, reranked as reranked
from .plugin.foreign import run_in_thread as run_in_thread
from .files import replacing as replacing
