"""The public names of ``flexchat.plugin``, for type checkers and for the module itself."""

from ..domain import (
    ChatResult as ChatResult,
    Implementation as Implementation,
    MediaPart as MediaPart,
    PhaseRecord as PhaseRecord,
    ToolCall as ToolCall,
    ToolCallRecord as ToolCallRecord,
    ToolDefinition as ToolDefinition,
    ToolResult as ToolResult,
    ToolPrice as ToolPrice,
    ToolRetry as ToolRetry,
    Turn as Turn,
    TurnInfo as TurnInfo,
    Principal as Principal,
    WithMedia as WithMedia,
)
from ..domain.fetching import (
    Fetcher as Fetcher,
    FetchRequest as FetchRequest,
    Fetched as Fetched,
    FetchedStream as FetchedStream,
)
from ..domain.effects import MAX_HANDLE_CHARS as MAX_HANDLE_CHARS
from ..domain.keys import key as key, secret_key as secret_key
from ..domain.questions import Question as Question, Reply as Reply
from ..domain.sourced import SourcedTool as SourcedTool
from ..errors import (
    EffectUnknownError as EffectUnknownError,
    FetchError as FetchError,
    FlexChatError as FlexChatError,
    Problem as Problem,
    RequestRefusedError as RequestRefusedError,
    CeilingReachedError as CeilingReachedError,
    LastRequestError as LastRequestError,
    ToolDefinitionError as ToolDefinitionError,
    ToolError as ToolError,
    ToolSourceError as ToolSourceError,
)
from .call import (
    Call as Call,
    EarlierResult as EarlierResult,
    Origin as Origin,
    Stage as Stage,
    Rest as Rest,
    Step as Step,
)
from .contracts import (
    CheckedConfig as CheckedConfig,
    ConfigCheck as ConfigCheck,
    ConfigTable as ConfigTable,
    FetcherType as FetcherType,
    ImplementationType as ImplementationType,
    ToolContext as ToolContext,
    ToolHandler as ToolHandler,
)
from .hooks import (
    AppInfo as AppInfo,
    FittedHistory as FittedHistory,
    HistoryRequest as HistoryRequest,
    ModelRequest as ModelRequest,
    ServiceRequest as ServiceRequest,
    TurnTrace as TurnTrace,
)
from .hookspecs import ProvisionalHookWarning as ProvisionalHookWarning, hookimpl as hookimpl, hookspec as hookspec
from .foreign import CallSuspended as CallSuspended, run_in_thread as run_in_thread
from .tool_sources import (
    ConfiguredSource as ConfiguredSource,
    SourceServer as SourceServer,
    SourceLoaderType as SourceLoaderType,
    ToolSource as ToolSource,
    ToolSourceContext as ToolSourceContext,
    ToolSourceType as ToolSourceType,
)
