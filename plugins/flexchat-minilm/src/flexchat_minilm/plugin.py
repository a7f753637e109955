"""Registers the provider ``minilm``. Light: numpy, ONNX Runtime and the model load with the first text."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import ChatProvider, ProviderType, hookimpl

from .config import MODEL, MiniLMConfig


def create(config: MiniLMConfig) -> ChatProvider:
    """Return a provider for one llms entry, or for document stores whose config names no embedding."""
    from .provider import MiniLMProvider

    return MiniLMProvider()


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="minilm",
        config_class=MiniLMConfig,
        create=create,
        tool_formats={},
        local_embeddings=MODEL,
        summary=f"{MODEL} on this machine: embeddings with no key and no network",
    )
