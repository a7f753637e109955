"""The door for authors of providers: the kit a provider over HTTP is built of, and what it speaks in.

service.py    Service: the connection; a request goes out, an answer, a refusal or JSON comes back
body.py       Body: a request, put together from fields and what is remembered
history.py    History, WireTools: messages and tools in the service's words, encoded once
options.py    said, unsaid: options as fields, and a warning for the others
reading.py    AnswerReader: bytes to JSON (SSE, NDJSON, a framing of your own); what an Answer is
building.py   AnswerParts: pieces to events and a ChatResult
refusals.py   Refusals, Row: the vendor's words for trouble, then one ladder of statuses
embedding.py  Batches: texts to vectors in as many requests as it takes

By composition: nothing here is a base class. Each name loads its module when it is first asked for; only Service brings
an HTTP client. docs/writing-a-provider.md walks through a provider in 200 lines.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..http.answer_shape import (
        FirstAnswer,
        WireIds,
        WrongShape,
        known_count,
        known_number,
        known_text,
        list_in,
        number_in,
        object_in,
        object_of,
        objects_of,
        text_in,
    )
    from ..http.settings import HttpSettings, key, secret_key, web_address
    from ..http.time_left import TimeLeft
    from ..plugin import (
        AnswerEnd,
        AssistantMessage,
        AssistantPart,
        ChatEvent,
        ChatOptions,
        ChatProvider,
        ChatResult,
        ContentFilterError,
        ContextLengthError,
        EmbeddingProvider,
        Embeddings,
        MediaPart,
        Message,
        ModelInfo,
        ModelNotFoundError,
        OpaquePart,
        ProviderAuthError,
        ProviderConnectionError,
        ProviderData,
        ProviderError,
        ProviderOverloadedError,
        ProviderProtocolError,
        ProviderRateLimitError,
        ProviderRequestError,
        ProviderTimeoutError,
        ProviderType,
        Reasoning,
        ReasoningDelta,
        ReasoningPart,
        RefusalPart,
        ResponseFormat,
        RewrittenSchema,
        SchemaDialect,
        SchemaNote,
        StreamingProvider,
        SystemMessage,
        TextDelta,
        TextPart,
        ToolCall,
        ToolCallDelta,
        ToolCallEnd,
        ToolCallStart,
        ToolDefinition,
        ToolMessage,
        ToolsOrFormatProvider,
        Usage,
        UserMessage,
        events_of,
        hookimpl,
        result_of,
    )
    from .body import Body
    from .building import AnswerParts, usage_of
    from .embedding import Batches
    from .history import History, Ids, Said, WireTools, leading_instructions, short_id
    from .options import said, unsaid, unsaid_media
    from .reading import NDJSON, SSE, SSE_DONE, Answer, AnswerReader, Decoder, Framing, Reported, Unreadable
    from .refusals import Refusals, Report, Row, read_report, said_in, word_in
    from .service import Key, Refusal, Service, Write

_HOMES = {
    "flexchat.http.answer_shape": (
        "FirstAnswer",
        "WireIds",
        "WrongShape",
        "known_count",
        "known_number",
        "known_text",
        "list_in",
        "number_in",
        "object_in",
        "object_of",
        "objects_of",
        "text_in",
    ),
    "flexchat.http.settings": (
        "HttpSettings",
        "key",
        "secret_key",
        "web_address",
    ),
    "flexchat.http.time_left": ("TimeLeft",),
    "flexchat.provider.body": ("Body",),
    "flexchat.provider.building": (
        "AnswerParts",
        "usage_of",
    ),
    "flexchat.provider.embedding": ("Batches",),
    "flexchat.provider.history": (
        "History",
        "Ids",
        "Said",
        "WireTools",
        "leading_instructions",
        "short_id",
    ),
    "flexchat.provider.options": (
        "said",
        "unsaid",
        "unsaid_media",
    ),
    "flexchat.provider.reading": (
        "Answer",
        "AnswerReader",
        "Decoder",
        "Framing",
        "NDJSON",
        "Reported",
        "SSE",
        "SSE_DONE",
        "Unreadable",
    ),
    "flexchat.provider.refusals": (
        "Refusals",
        "Report",
        "Row",
        "read_report",
        "said_in",
        "word_in",
    ),
    "flexchat.provider.service": (
        "Key",
        "Refusal",
        "Service",
        "Write",
    ),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load what is asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF.get(name, "flexchat.plugin")), name)
    globals()[name] = value
    return value


__all__ = [
    "NDJSON",
    "SSE",
    "SSE_DONE",
    "Answer",
    "AnswerEnd",
    "AnswerParts",
    "AnswerReader",
    "AssistantMessage",
    "AssistantPart",
    "Batches",
    "Body",
    "ChatEvent",
    "ChatOptions",
    "ChatProvider",
    "ChatResult",
    "ContentFilterError",
    "ContextLengthError",
    "Decoder",
    "EmbeddingProvider",
    "Embeddings",
    "FirstAnswer",
    "Framing",
    "History",
    "HttpSettings",
    "Ids",
    "Key",
    "MediaPart",
    "Message",
    "ModelInfo",
    "ModelNotFoundError",
    "OpaquePart",
    "ProviderAuthError",
    "ProviderConnectionError",
    "ProviderData",
    "ProviderError",
    "ProviderOverloadedError",
    "ProviderProtocolError",
    "ProviderRateLimitError",
    "ProviderRequestError",
    "ProviderTimeoutError",
    "ProviderType",
    "Reasoning",
    "ReasoningDelta",
    "ReasoningPart",
    "Refusal",
    "RefusalPart",
    "Refusals",
    "Report",
    "Reported",
    "ResponseFormat",
    "RewrittenSchema",
    "Row",
    "Said",
    "SchemaDialect",
    "SchemaNote",
    "Service",
    "StreamingProvider",
    "SystemMessage",
    "TextDelta",
    "TextPart",
    "TimeLeft",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolDefinition",
    "ToolMessage",
    "ToolsOrFormatProvider",
    "Unreadable",
    "Usage",
    "UserMessage",
    "WireIds",
    "WireTools",
    "Write",
    "WrongShape",
    "events_of",
    "hookimpl",
    "key",
    "known_count",
    "known_number",
    "known_text",
    "leading_instructions",
    "list_in",
    "number_in",
    "object_in",
    "object_of",
    "objects_of",
    "read_report",
    "result_of",
    "said",
    "said_in",
    "secret_key",
    "short_id",
    "text_in",
    "unsaid",
    "unsaid_media",
    "usage_of",
    "web_address",
    "word_in",
]
