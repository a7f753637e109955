"""The door for authors of providers: the kit for building a provider over HTTP, and the types it uses.

service.py    Service: the connection; a request goes out, and an answer, a refusal or JSON comes back
body.py       Body: a request, assembled from fields and cached JSON
history.py    History, WireTools: messages and tools in the service's format, encoded once
options.py    said, unsaid: options as fields, and a warning for the others
reading.py    AnswerReader: bytes to JSON (SSE, NDJSON, or your own framing); what an Answer is
building.py   AnswerParts: pieces to events and a ChatResult
refusals.py   Refusals, Row: the vendor's own error codes, then one ladder of statuses
embedding.py  Batches: texts to vectors in as many requests as it takes

Use by composition: nothing here is a base class. Each name loads its module on first access; only Service loads an
HTTP client. For details see help(flexchat.provider.Batches) etc.; docs/python-api.md lists all names, and
docs/writing-a-provider.md walks through a provider in 200 lines.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..domain import (
        AnswerEnd,
        AssistantMessage,
        AssistantPart,
        ChatEvent,
        ChatOptions,
        ChatResult,
        Embeddings,
        MediaPart,
        Message,
        ModelInfo,
        OpaquePart,
        ProviderData,
        Reasoning,
        ReasoningDelta,
        ReasoningPart,
        RefusalPart,
        ResponseFormat,
        RewrittenSchema,
        SchemaDialect,
        SchemaNote,
        SystemMessage,
        TextDelta,
        TextPart,
        ToolCall,
        ToolCallDelta,
        ToolCallEnd,
        ToolCallStart,
        ToolDefinition,
        ToolMessage,
        Usage,
        UserMessage,
        events_of,
        result_of,
    )
    from ..domain.events import CharacterJoiner
    from ..domain.keys import key, secret_key, web_address
    from ..domain.media import as_shown
    from ..domain.prices import ModelPrice, Price
    from ..domain.text import storable
    from ..errors import (
        ContentFilterError,
        ContextLengthError,
        ModelNotFoundError,
        ProviderAuthError,
        ProviderConnectionError,
        ProviderError,
        ProviderOverloadedError,
        ProviderProtocolError,
        ProviderRateLimitError,
        ProviderRequestError,
        ProviderTimeoutError,
    )
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
        type_name,
    )
    from ..http.client import HttpAnswer, HttpClient, Timeouts
    from ..http.deadline import Deadline
    from ..http.ndjson import NdjsonDecoder
    from ..http.refusal import LONGEST_CODE, refusal_data, refusal_text
    from ..http.retry_after import retry_after_s, should_retry
    from ..http.settings import HttpSettings
    from ..http.sse import SseDecoder
    from ..http.time_left import TimeLeft
    from ..http.wire_json import finite, from_bytes, to_bytes, to_text, utf8
    from ..plugin.contracts import (
        ChatProvider,
        EmbeddingProvider,
        MediaInResultsProvider,
        PricedProvider,
        ProviderType,
        StandInProvider,
        StreamingProvider,
        ToolEncoder,
        ToolsOrFormatProvider,
    )
    from ..plugin.foreign import error_name, error_text
    from ..plugin.hookspecs import hookimpl
    from ..plugin.threads import run_in_thread
    from ..schema.rewrite import rewrite
    from .body import Body
    from .building import AnswerParts, usage_of
    from .embedding import Batches
    from .history import (
        History,
        Ids,
        PerTools,
        Said,
        WireTools,
        leading_instructions,
        media_behind_results,
        replayed,
        short_id,
    )
    from .options import said, unsaid, unsaid_media
    from .prices import PriceTable
    from .reading import (
        NDJSON,
        SSE,
        SSE_DONE,
        Answer,
        AnswerReader,
        Decoder,
        Framing,
        RefusableAnswer,
        Reported,
        Unreadable,
    )
    from .refusals import Refusals, Report, Row, read_report, said_in, word_in
    from .service import Key, Refusal, Service, Write

_HOMES = {
    "flexchat.domain": (
        "AnswerEnd",
        "AssistantMessage",
        "AssistantPart",
        "ChatEvent",
        "ChatOptions",
        "ChatResult",
        "Embeddings",
        "MediaPart",
        "Message",
        "ModelInfo",
        "OpaquePart",
        "ProviderData",
        "Reasoning",
        "ReasoningDelta",
        "ReasoningPart",
        "RefusalPart",
        "ResponseFormat",
        "RewrittenSchema",
        "SchemaDialect",
        "SchemaNote",
        "SystemMessage",
        "TextDelta",
        "TextPart",
        "ToolCall",
        "ToolCallDelta",
        "ToolCallEnd",
        "ToolCallStart",
        "ToolDefinition",
        "ToolMessage",
        "Usage",
        "UserMessage",
        "events_of",
        "result_of",
    ),
    "flexchat.domain.events": ("CharacterJoiner",),
    "flexchat.domain.keys": (
        "key",
        "secret_key",
        "web_address",
    ),
    "flexchat.domain.media": ("as_shown",),
    "flexchat.domain.prices": (
        "ModelPrice",
        "Price",
    ),
    "flexchat.domain.text": ("storable",),
    "flexchat.errors": (
        "ContentFilterError",
        "ContextLengthError",
        "ModelNotFoundError",
        "ProviderAuthError",
        "ProviderConnectionError",
        "ProviderError",
        "ProviderOverloadedError",
        "ProviderProtocolError",
        "ProviderRateLimitError",
        "ProviderRequestError",
        "ProviderTimeoutError",
    ),
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
        "type_name",
    ),
    "flexchat.http.client": (
        "HttpAnswer",
        "HttpClient",
        "Timeouts",
    ),
    "flexchat.http.deadline": ("Deadline",),
    "flexchat.http.ndjson": ("NdjsonDecoder",),
    "flexchat.http.refusal": (
        "LONGEST_CODE",
        "refusal_data",
        "refusal_text",
    ),
    "flexchat.http.retry_after": (
        "retry_after_s",
        "should_retry",
    ),
    "flexchat.http.settings": ("HttpSettings",),
    "flexchat.http.sse": ("SseDecoder",),
    "flexchat.http.time_left": ("TimeLeft",),
    "flexchat.http.wire_json": (
        "finite",
        "from_bytes",
        "to_bytes",
        "to_text",
        "utf8",
    ),
    "flexchat.plugin.contracts": (
        "ChatProvider",
        "EmbeddingProvider",
        "MediaInResultsProvider",
        "PricedProvider",
        "ProviderType",
        "StandInProvider",
        "StreamingProvider",
        "ToolEncoder",
        "ToolsOrFormatProvider",
    ),
    "flexchat.plugin.foreign": (
        "error_name",
        "error_text",
    ),
    "flexchat.plugin.hookspecs": ("hookimpl",),
    "flexchat.plugin.threads": ("run_in_thread",),
    "flexchat.provider.body": ("Body",),
    "flexchat.provider.building": (
        "AnswerParts",
        "usage_of",
    ),
    "flexchat.provider.embedding": ("Batches",),
    "flexchat.provider.history": (
        "History",
        "Ids",
        "PerTools",
        "Said",
        "WireTools",
        "leading_instructions",
        "media_behind_results",
        "replayed",
        "short_id",
    ),
    "flexchat.provider.options": (
        "said",
        "unsaid",
        "unsaid_media",
    ),
    "flexchat.provider.prices": ("PriceTable",),
    "flexchat.provider.reading": (
        "Answer",
        "AnswerReader",
        "Decoder",
        "Framing",
        "NDJSON",
        "RefusableAnswer",
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
    "flexchat.schema.rewrite": ("rewrite",),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a name's module on first access."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


__all__ = [
    "LONGEST_CODE",
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
    "CharacterJoiner",
    "ChatEvent",
    "ChatOptions",
    "ChatProvider",
    "ChatResult",
    "ContentFilterError",
    "ContextLengthError",
    "Deadline",
    "Decoder",
    "EmbeddingProvider",
    "Embeddings",
    "FirstAnswer",
    "Framing",
    "History",
    "HttpAnswer",
    "HttpClient",
    "HttpSettings",
    "Ids",
    "Key",
    "MediaInResultsProvider",
    "MediaPart",
    "Message",
    "ModelInfo",
    "ModelNotFoundError",
    "ModelPrice",
    "NdjsonDecoder",
    "OpaquePart",
    "PerTools",
    "Price",
    "PriceTable",
    "PricedProvider",
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
    "RefusableAnswer",
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
    "SseDecoder",
    "StandInProvider",
    "StreamingProvider",
    "SystemMessage",
    "TextDelta",
    "TextPart",
    "TimeLeft",
    "Timeouts",
    "ToolCall",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "ToolDefinition",
    "ToolEncoder",
    "ToolMessage",
    "ToolsOrFormatProvider",
    "Unreadable",
    "Usage",
    "UserMessage",
    "WireIds",
    "WireTools",
    "Write",
    "WrongShape",
    "as_shown",
    "error_name",
    "error_text",
    "events_of",
    "finite",
    "from_bytes",
    "hookimpl",
    "key",
    "known_count",
    "known_number",
    "known_text",
    "leading_instructions",
    "list_in",
    "media_behind_results",
    "number_in",
    "object_in",
    "object_of",
    "objects_of",
    "read_report",
    "refusal_data",
    "refusal_text",
    "replayed",
    "result_of",
    "retry_after_s",
    "rewrite",
    "run_in_thread",
    "said",
    "said_in",
    "secret_key",
    "short_id",
    "should_retry",
    "storable",
    "text_in",
    "to_bytes",
    "to_text",
    "type_name",
    "unsaid",
    "unsaid_media",
    "usage_of",
    "utf8",
    "web_address",
    "word_in",
]
