"""FlexChat: chat with tool calling, assembled from plugins and described in a config file.

This is the door for those who use it as a library. Extending it: flexchat.plugin.
"""

import logging

from .app import FlexChat
from .domain import (
    AssistantMessage,
    ChatOptions,
    ChatRequest,
    ChatResponse,
    Citation,
    CollectionChoice,
    ConversationInfo,
    ConversationTurn,
    Document,
    Embeddings,
    Message,
    ModelInfo,
    PhaseRecord,
    ReasoningDelta,
    ResponseFormat,
    Round,
    StreamEnd,
    StreamEvent,
    SystemMessage,
    TextDelta,
    ToolCall,
    ToolCallRecord,
    ToolDefinition,
    ToolFinished,
    ToolMessage,
    ToolResult,
    ToolStarted,
    Turn,
    TurnEnd,
    Usage,
    UserMessage,
)
from .domain.history import read_history, write_history
from .errors import (
    ConfigError,
    FlexChatError,
    PluginError,
    Problem,
    ProviderError,
    ResponseFormatError,
    RetrievalError,
    StorageError,
    ToolError,
    TurnTimeoutError,
    UnknownConversationError,
)
from .plugin.contracts import ToolContext
from .sync import SyncFlexChat
from .tools.python_function import FunctionTool, tool
from .turn.keeping import new_conversation_id
from .turn.run import Explanation

__version__ = "0.1.0"

# A library is silent until its user configures logging.
logging.getLogger("flexchat").addHandler(logging.NullHandler())

__all__ = [
    "AssistantMessage",
    "ChatOptions",
    "ChatRequest",
    "ChatResponse",
    "Citation",
    "CollectionChoice",
    "ConfigError",
    "ConversationInfo",
    "ConversationTurn",
    "Document",
    "Embeddings",
    "Explanation",
    "FlexChat",
    "FlexChatError",
    "FunctionTool",
    "Message",
    "ModelInfo",
    "PhaseRecord",
    "PluginError",
    "Problem",
    "ProviderError",
    "ReasoningDelta",
    "ResponseFormat",
    "ResponseFormatError",
    "RetrievalError",
    "Round",
    "StorageError",
    "StreamEnd",
    "StreamEvent",
    "SyncFlexChat",
    "SystemMessage",
    "TextDelta",
    "ToolCall",
    "ToolCallRecord",
    "ToolContext",
    "ToolDefinition",
    "ToolError",
    "ToolFinished",
    "ToolMessage",
    "ToolResult",
    "ToolStarted",
    "Turn",
    "TurnEnd",
    "TurnTimeoutError",
    "UnknownConversationError",
    "Usage",
    "UserMessage",
    "new_conversation_id",
    "read_history",
    "tool",
    "write_history",
]
