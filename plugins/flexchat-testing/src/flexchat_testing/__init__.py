"""The kit for plugin authors: a scripted model, replayed traffic, and the laws of each plugin contract.

The scripted model and the recorder need nothing but FlexChat; everything else needs ``pip install
"flexchat-testing[laws]"`` and is imported on demand.

    scripted.py       ScriptedProvider, says, calls: a model whose answers a test provides
    every_tool.py     EveryToolProvider: a model that calls every tool once
    listed_source.py  the tool source "listed": [[tools.listed]] file = "tools.json"
    scripted_source.py  ScriptedSource, sourced: a tool source whose tools a test provides
    recorder.py       RecordedEvents: the events of a turn
    replay.py         ReplayTransport: recorded traffic, served again
    sockets.py        forbid_sockets: blocks connections to real services
    fixtures.py       fixtures for pytest: pytest_plugins = ["flexchat_testing.fixtures"]
    hashing_embedder.py  HashingEmbedder: vectors without a model, for tests of document stores
    laws/             the laws of each kind of plugin: providers, handlers, implementation types, stores
"""

import importlib
from typing import TYPE_CHECKING, Any

from .every_tool import EveryToolProvider
from .example_value import NoExampleError, example_value
from .hashing_embedder import HashingEmbedder
from .recorder import RecordedEvent, RecordedEvents
from .scripted import ScriptedProvider, calls, says
from .scripted_source import ScriptedSource, sourced
from .sockets import NetworkForbiddenError, forbid_sockets

if TYPE_CHECKING:
    from .laws.conversation_store import ConversationStoreConformance
    from .laws.document_store import DocumentStoreConformance
    from .laws.effect_ledger import LedgerConformance
    from .laws.handler import HandlerConformance
    from .laws.implementation import ImplementationConformance
    from .laws.local_embeddings import LocalEmbeddingsConformance
    from .laws.provider import ProviderConformance
    from .laws.recordings import RecordedExchange, RecordingConformance
    from .laws.retriever import RetrieverConformance
    from .laws.tool_source import ToolSourceConformance
    from .laws.turn_journal import JournalConformance
    from .replay import ReplayTransport

# Imported on demand: they need httpx or hypothesis, directly or not.
_LATER = {
    "ConversationStoreConformance": "laws.conversation_store",
    "DocumentStoreConformance": "laws.document_store",
    "HandlerConformance": "laws.handler",
    "ImplementationConformance": "laws.implementation",
    "LocalEmbeddingsConformance": "laws.local_embeddings",
    "ProviderConformance": "laws.provider",
    "JournalConformance": "laws.turn_journal",
    "LedgerConformance": "laws.effect_ledger",
    "RecordedExchange": "laws.recordings",
    "RecordingConformance": "laws.recordings",
    "ReplayTransport": "replay",
    "RetrieverConformance": "laws.retriever",
    "ToolSourceConformance": "laws.tool_source",
}

__all__ = [
    "ConversationStoreConformance",
    "DocumentStoreConformance",
    "EveryToolProvider",
    "HandlerConformance",
    "HashingEmbedder",
    "ImplementationConformance",
    "JournalConformance",
    "LedgerConformance",
    "LocalEmbeddingsConformance",
    "NetworkForbiddenError",
    "NoExampleError",
    "ProviderConformance",
    "RecordedEvent",
    "RecordedEvents",
    "RecordedExchange",
    "RecordingConformance",
    "ReplayTransport",
    "RetrieverConformance",
    "ScriptedProvider",
    "ScriptedSource",
    "ToolSourceConformance",
    "calls",
    "example_value",
    "forbid_sockets",
    "says",
    "sourced",
]


def __getattr__(name: str) -> Any:
    """Import heavy modules on demand."""
    if name not in _LATER:
        raise AttributeError(f"module 'flexchat_testing' has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_LATER[name]}"), name)
