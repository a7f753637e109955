"""Registers the provider ``minilm``. numpy, ONNX Runtime and the model load with the first text."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
from flexchat.plugin import hookimpl
from flexchat_sdk import ChatProvider, ProviderType

MODEL = "all-MiniLM-L6-v2"
DIMENSIONS = 384
MAX_TOKENS = 256
"""Tokens the model reads, begin and end among them: ``max_seq_length`` of sentence-transformers/all-MiniLM-L6-v2."""


@attrs.frozen(kw_only=True)
class MiniLMConfig:
    """An llms entry with provider = "minilm"; it needs no settings."""


def create(config: MiniLMConfig) -> ChatProvider:
    """Create the provider for one ``llms`` entry, or for document stores whose config names no embedding."""
    from .provider import MiniLMProvider

    return MiniLMProvider()


THRESHOLDS = (0.5, 0.7)
"""Measured: questions that a collection answers have their nearest passage at 0.16 to 0.65 (our documentation, twelve
questions; 219 of Cranfield's 225 are below 0.5), questions about something else at 0.75 and more.
"""


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="minilm",
        config_class=MiniLMConfig,
        create=create,
        tool_formats={},
        local_embeddings=MODEL,
        embedding_thresholds={MODEL: THRESHOLDS},
        summary=f"{MODEL} on this machine: embeddings with no key and no network",
    )
