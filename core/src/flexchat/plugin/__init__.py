"""The door for authors of tools and hooks. Providers: flexchat.provider; stores: flexchat.store.

hookspecs.py   every hook; an example of each: docs/hooks.md
contracts.py   the records those hooks yield, and the protocols their contents implement
"""

from ..domain import (
    ChatResult,
    Implementation,
    MediaPart,
    PhaseRecord,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
    ToolResult,
    ToolRetry,
    Turn,
    TurnInfo,
    WithMedia,
)
from ..domain.fetching import Fetched, FetchedStream, FetchRequest
from ..domain.keys import key, secret_key
from ..domain.questions import Question, Reply
from ..domain.sourced import SourcedTool
from ..errors import EffectUnknownError, FetchError, FlexChatError, Problem, ToolError, ToolSourceError
from .call import Call, Place, Rest, Step
from .contracts import (
    CheckedConfig,
    ConfigCheck,
    ConfigTable,
    Fetcher,
    ImplementationType,
    ToolContext,
    ToolHandler,
)
from .current import EarlierResult
from .hooks import AppInfo, ModelRequest
from .hookspecs import ProvisionalHookWarning, hookimpl, hookspec
from .threads import run_in_thread
from .tool_sources import ConfiguredSource, SourceServer, ToolSource, ToolSourceContext, ToolSourceType

__all__ = [
    "AppInfo",
    "Call",
    "ChatResult",
    "CheckedConfig",
    "ConfigCheck",
    "ConfigTable",
    "ConfiguredSource",
    "EarlierResult",
    "EffectUnknownError",
    "FetchError",
    "FetchRequest",
    "Fetched",
    "FetchedStream",
    "Fetcher",
    "FlexChatError",
    "Implementation",
    "ImplementationType",
    "MediaPart",
    "ModelRequest",
    "PhaseRecord",
    "Place",
    "Problem",
    "ProvisionalHookWarning",
    "Question",
    "Reply",
    "Rest",
    "SourceServer",
    "SourcedTool",
    "Step",
    "ToolCall",
    "ToolCallRecord",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolHandler",
    "ToolResult",
    "ToolRetry",
    "ToolSource",
    "ToolSourceContext",
    "ToolSourceError",
    "ToolSourceType",
    "Turn",
    "TurnInfo",
    "WithMedia",
    "hookimpl",
    "hookspec",
    "key",
    "run_in_thread",
    "secret_key",
]
