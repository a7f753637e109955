"""The public names of ``flexchat_testing``, for type checkers and for the module itself."""

from .every_tool import EveryToolProvider as EveryToolProvider, NoExampleError as NoExampleError
from .every_tool import example_value as example_value
from .hashing_embedder import HashingEmbedder as HashingEmbedder
from .laws.conversation_store import ConversationStoreConformance as ConversationStoreConformance
from .laws.document_store import DocumentStoreConformance as DocumentStoreConformance
from .laws.effect_ledger import LedgerConformance as LedgerConformance
from .laws.handler import HandlerConformance as HandlerConformance
from .laws.implementation import ImplementationConformance as ImplementationConformance
from .laws.local_embeddings import LocalEmbeddingsConformance as LocalEmbeddingsConformance
from .laws.counter_store import CounterConformance as CounterConformance
from .laws.media_store import MediaConformance as MediaConformance
from .laws.pending import PendingConformance as PendingConformance
from .laws.provider import ProviderConformance as ProviderConformance
from .laws.recordings import RecordedExchange as RecordedExchange, RecordingConformance as RecordingConformance
from .laws.retriever import RetrieverConformance as RetrieverConformance
from .laws.tool_source import ToolSourceConformance as ToolSourceConformance
from .laws.turn_journal import JournalConformance as JournalConformance
from .laws.turn_sums import TurnSumsConformance as TurnSumsConformance
from .recorder import RecordedEvent as RecordedEvent, RecordedEvents as RecordedEvents
from .replay import ReplayTransport as ReplayTransport
from .scripted import ScriptedProvider as ScriptedProvider, calls as calls, says as says
from .sockets import NetworkForbiddenError as NetworkForbiddenError, forbid_sockets as forbid_sockets
from .tool_sources import ScriptedSource as ScriptedSource, sourced as sourced
