"""Registers the provider ``minilm``. numpy, ONNX Runtime and the model load with the first text."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat_sdk import ChatProvider, ProviderType

from .config import MODEL, MiniLMConfig


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
