"""The store keeps the laws of the kit, over a wrapper with the original's flaws."""

import hashlib

import pytest
from flexchat_chromadb.config import WrapperConfig
from flexchat_chromadb.store import WrapperStore
from flexchat_testing import DocumentStoreConformance


class TestWrapper(DocumentStoreConformance):
    """Without "embeddings" and "json_metadata": the wrapper makes the vectors, and Chroma keeps plain values."""

    supports = frozenset({"collections", "sorted_distances", "durable", "sources"})
    plugin = "flexchat_chromadb.plugin"

    @pytest.fixture(autouse=True)
    def _server(self, server):
        self.server = server

    def make_store(self, context):
        name = hashlib.sha256(str(context.folder).encode()).hexdigest()[:16]
        return WrapperStore(WrapperConfig(url=self.server.url(name)), context)
