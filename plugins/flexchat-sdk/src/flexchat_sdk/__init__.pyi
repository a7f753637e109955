"""The public names of ``flexchat_sdk``, for type checkers and for the module itself."""

from flexchat.domain import (
    AnswerEnd as AnswerEnd,
    AssistantMessage as AssistantMessage,
    AssistantPart as AssistantPart,
    ChatEvent as ChatEvent,
    ChatOptions as ChatOptions,
    ChatResult as ChatResult,
    Embeddings as Embeddings,
    MediaPart as MediaPart,
    Message as Message,
    ModelInfo as ModelInfo,
    OpaquePart as OpaquePart,
    ProviderData as ProviderData,
    Reasoning as Reasoning,
    ReasoningDelta as ReasoningDelta,
    ReasoningPart as ReasoningPart,
    RefusalPart as RefusalPart,
    ResponseFormat as ResponseFormat,
    SystemMessage as SystemMessage,
    TextDelta as TextDelta,
    TextPart as TextPart,
    ToolCall as ToolCall,
    ToolCallDelta as ToolCallDelta,
    ToolCallEnd as ToolCallEnd,
    ToolCallStart as ToolCallStart,
    ToolDefinition as ToolDefinition,
    ToolMessage as ToolMessage,
    Usage as Usage,
    UserMessage as UserMessage,
    events_of as events_of,
    result_of as result_of,
)
from flexchat.domain.keys import key as key, secret_key as secret_key, web_address as web_address
from flexchat.domain.media import (
    MEDIA_TYPES as MEDIA_TYPES,
    kind_of as kind_of,
    unshown as unshown,
    with_accepted_media as with_accepted_media,
)
from flexchat.domain.prices import ModelPrice as ModelPrice, Price as Price
from flexchat.domain.text import storable as storable
from flexchat.errors import (
    ContentFilterError as ContentFilterError,
    ContextLengthError as ContextLengthError,
    ModelNotFoundError as ModelNotFoundError,
    ProviderAuthError as ProviderAuthError,
    ProviderConnectionError as ProviderConnectionError,
    ProviderError as ProviderError,
    ProviderOverloadedError as ProviderOverloadedError,
    ProviderProtocolError as ProviderProtocolError,
    ProviderRateLimitError as ProviderRateLimitError,
    ProviderRequestError as ProviderRequestError,
    ProviderTimeoutError as ProviderTimeoutError,
)
from flexchat.plugin.contracts import (
    ChatProvider as ChatProvider,
    EmbeddingProvider as EmbeddingProvider,
    MediaInResultsProvider as MediaInResultsProvider,
    PricedProvider as PricedProvider,
    ProviderType as ProviderType,
    LimitedProvider as LimitedProvider,
    MediaLimits as MediaLimits,
    StandInProvider as StandInProvider,
    StreamingProvider as StreamingProvider,
    ToolEncoder as ToolEncoder,
    ToolsOrFormatProvider as ToolsOrFormatProvider,
)
from flexchat.plugin.foreign import error_name as error_name, error_text as error_text
from flexchat.plugin.hookspecs import hookimpl as hookimpl
from flexchat.plugin.foreign import run_in_thread as run_in_thread

from .body import Body as Body, merged as merged
from .building import AnswerParts as AnswerParts, usage_of as usage_of
from .config_writing import (
    changed_config as changed_config,
    changed_yaml as changed_yaml,
    dumped_yaml as dumped_yaml,
    toml_table as toml_table,
)
from .dialects.sending import sent_arguments as sent_arguments, with_own_names as with_own_names
from .dialects.lint import lint_tools as lint_tools
from .dialects.rewrite import rewrite as rewrite
from .dialects.schema_dialect import (
    NOTED as NOTED,
    RewrittenSchema as RewrittenSchema,
    SchemaDialect as SchemaDialect,
    SchemaNote as SchemaNote,
)
from .dialects.sending import require_parameters as require_parameters, sent_parameters as sent_parameters
from .embedding import Batches as Batches, vector_of as vector_of
from .hidden_text import (
    clean_schema as clean_schema,
    clean_text as clean_text,
    find_hidden as find_hidden,
    remove_hidden as remove_hidden,
    texts_in as texts_in,
)
from .history import (
    History as History,
    Ids as Ids,
    PerTools as PerTools,
    WireMessage as WireMessage,
    WireTools as WireTools,
    leading_instructions as leading_instructions,
    media_behind_results as media_behind_results,
    replayed as replayed,
    short_id as short_id,
)
from .http.answer_shape import (
    FirstAnswer as FirstAnswer,
    WireIds as WireIds,
    WrongShape as WrongShape,
    known_count as known_count,
    known_number as known_number,
    known_text as known_text,
    list_in as list_in,
    number_in as number_in,
    object_in as object_in,
    object_of as object_of,
    objects_of as objects_of,
    text_in as text_in,
    type_name as type_name,
)
from .http.client import HttpAnswer as HttpAnswer, HttpClient as HttpClient, Timeouts as Timeouts
from .http.deadline import Deadline as Deadline, TimeLeft as TimeLeft
from .http.framing import NdjsonDecoder as NdjsonDecoder
from .http.guard import AddressRule as AddressRule, checked_url as checked_url
from .refusals import retry_after_s as retry_after_s, should_retry as should_retry
from .http.pieces import Base64 as Base64, Json as Json, Pieces as Pieces, join as join
from .http.secrets import MAX_CODE_CHARS as MAX_CODE_CHARS, refusal_data as refusal_data, refusal_text as refusal_text
from .http.settings import HttpSettings as HttpSettings
from .http.framing import SseDecoder as SseDecoder
from .http.trouble import NO_CONNECTION as NO_CONNECTION
from .http.wire_json import (
    finite as finite,
    from_bytes as from_bytes,
    to_bytes as to_bytes,
    to_text as to_text,
    utf8 as utf8,
)
from .options import (
    check_allowed_tools as check_allowed_tools,
    nearest_effort as nearest_effort,
    option_fields as option_fields,
    unsupported_media as unsupported_media,
    unsupported_options as unsupported_options,
)
from .late import imported_late as imported_late, load_module as load_module
from .prompted import prompted_tools as prompted_tools
from .prices import PriceTable as PriceTable, package_data as package_data
from .reading import (
    CharacterJoiner as CharacterJoiner,
    NDJSON as NDJSON,
    SSE as SSE,
    SSE_DONE as SSE_DONE,
    Answer as Answer,
    AnswerReader as AnswerReader,
    Decoder as Decoder,
    Framing as Framing,
    RefusableAnswer as RefusableAnswer,
    Reported as Reported,
    Unreadable as Unreadable,
)
from .refusals import (
    Refusals as Refusals,
    Report as Report,
    Row as Row,
    message_in as message_in,
    read_report as read_report,
    word_in as word_in,
)
from .service import Key as Key, Refusal as Refusal, Service as Service, Write as Write
from .sources.lock import differences as differences, lock_folder as lock_folder
from .text_reader import TextCall as TextCall, read_text_calls as read_text_calls
from .text_reader import (
    TextPiece as TextPiece,
    TextReader as TextReader,
    ThinkTags as ThinkTags,
    offered_names as offered_names,
)
