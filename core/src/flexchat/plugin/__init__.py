"""The door for authors of tools and hooks. Providers: flexchat.provider; stores: flexchat.store.

hookspecs.py   every hook; an example of each: docs/hooks.md
contracts.py   the records those hooks yield, and the protocols their contents implement
"""

from ..domain import (
    ChatResult,
    Implementation,
    PhaseRecord,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
    ToolResult,
    Turn,
    TurnInfo,
)
from ..domain.keys import key, secret_key
from ..errors import EffectUnknownError, FlexChatError, Problem, ToolError
from .call import Call, Place, Rest, Step
from .contracts import (
    CheckedConfig,
    Command,
    ConfigCheck,
    ConfigTable,
    ImplementationType,
    ToolContext,
    ToolHandler,
)
from .hooks import AppInfo, ModelRequest
from .hookspecs import hookimpl, hookspec
from .threads import run_in_thread

__all__ = [
    "AppInfo",
    "Call",
    "ChatResult",
    "CheckedConfig",
    "Command",
    "ConfigCheck",
    "ConfigTable",
    "EffectUnknownError",
    "FlexChatError",
    "Implementation",
    "ImplementationType",
    "ModelRequest",
    "PhaseRecord",
    "Place",
    "Problem",
    "Rest",
    "Step",
    "ToolCall",
    "ToolCallRecord",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolHandler",
    "ToolResult",
    "Turn",
    "TurnInfo",
    "hookimpl",
    "hookspec",
    "key",
    "run_in_thread",
    "secret_key",
]
