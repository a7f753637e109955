"""Conformance subject: the provider that FlexChat's test kit exercises.

Used by tests/test_conformance.py and by ``flexchat plugins verify minilm``.
"""

from __future__ import annotations

from flexchat_sdk import EmbeddingProvider
from flexchat_testing import LocalEmbeddingsConformance

from .config import MODEL
from .provider import MiniLMProvider


class MiniLM(LocalEmbeddingsConformance):
    """The provider "minilm"."""

    model = MODEL

    def make_provider(self) -> EmbeddingProvider:
        """Return the provider."""
        return MiniLMProvider()
