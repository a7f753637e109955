"""The public names of ``flexchat.domain``, for type checkers and for the package itself."""

from .chat import (
    ChatOptions as ChatOptions,
    ChatResponse as ChatResponse,
    ChatResult as ChatResult,
    Effort as Effort,
    Embeddings as Embeddings,
    ModelInfo as ModelInfo,
    Reasoning as Reasoning,
    ResponseFormat as ResponseFormat,
    Round as Round,
    ToolChoice as ToolChoice,
)
from .conversation import (
    ConversationHistory as ConversationHistory,
    ConversationInfo as ConversationInfo,
    ConversationTurn as ConversationTurn,
    HistoryTurn as HistoryTurn,
)
from .effects import (
    Claim as Claim,
    Effect as Effect,
    EffectCall as EffectCall,
    EffectState as EffectState,
)
from .events import (
    AnswerEnd as AnswerEnd,
    ChatEvent as ChatEvent,
    ModelRequestFinished as ModelRequestFinished,
    ModelRequestStarted as ModelRequestStarted,
    PhaseFinished as PhaseFinished,
    PhaseStarted as PhaseStarted,
    QuestionAnswered as QuestionAnswered,
    QuestionAsked as QuestionAsked,
    ReasoningDelta as ReasoningDelta,
    StreamEvent as StreamEvent,
    TextDelta as TextDelta,
    ToolCallDelta as ToolCallDelta,
    ToolCallEnd as ToolCallEnd,
    ToolCallStart as ToolCallStart,
    ToolFinished as ToolFinished,
    ToolProgress as ToolProgress,
    ToolStarted as ToolStarted,
    TurnAccepted as TurnAccepted,
    WaitEnded as WaitEnded,
    TurnCancelled as TurnCancelled,
    TurnEvent as TurnEvent,
    TurnFailed as TurnFailed,
    TurnFinished as TurnFinished,
    TurnResumed as TurnResumed,
    TurnStarted as TurnStarted,
    TurnSuspended as TurnSuspended,
    events_of as events_of,
    result_of as result_of,
)
from .filters import (
    Where as Where,
)
from .media import (
    StoredMedia as StoredMedia,
    WithMedia as WithMedia,
)
from .messages import (
    AssistantMessage as AssistantMessage,
    AssistantPart as AssistantPart,
    MediaPart as MediaPart,
    Message as Message,
    OpaquePart as OpaquePart,
    ProviderData as ProviderData,
    ReasoningPart as ReasoningPart,
    RefusalPart as RefusalPart,
    SystemMessage as SystemMessage,
    TextPart as TextPart,
    ToolCall as ToolCall,
    ToolMessage as ToolMessage,
    UserMessage as UserMessage,
    new_call_id as new_call_id,
)
from .retrieval import (
    Citation as Citation,
    Collection as Collection,
    CollectionHits as CollectionHits,
    Document as Document,
    Profile as Profile,
    RagResults as RagResults,
    RetrievalHits as RetrievalHits,
    Source as Source,
)
from .tools import (
    Implementation as Implementation,
    ToolCallRecord as ToolCallRecord,
    ToolDefinition as ToolDefinition,
    ToolResult as ToolResult,
    ToolPrice as ToolPrice,
    ToolRetry as ToolRetry,
)
from .turn import (
    DEFAULT_TENANT as DEFAULT_TENANT,
    ChatRequest as ChatRequest,
    RequestedCall as RequestedCall,
    CollectionChoice as CollectionChoice,
    PhaseRecord as PhaseRecord,
    Principal as Principal,
    Turn as Turn,
    TurnInfo as TurnInfo,
    TurnStatus as TurnStatus,
)
from .prices import (
    Usage as Usage,
)
