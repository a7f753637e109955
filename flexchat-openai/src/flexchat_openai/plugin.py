"""Registers the provider ``openai``. Light: httpx and aiohttp load when a provider is made."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import ChatProvider, ProviderType, hookimpl

from .chat_tools import encode_tools
from .config import OpenAIConfig


def create(config: OpenAIConfig) -> ChatProvider:
    """Return a provider for one llms entry."""
    from .provider import OpenAIProvider

    return OpenAIProvider(config)


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="openai",
        config_class=OpenAIConfig,
        create=create,
        tool_formats={"openai": encode_tools},
        summary="OpenAI, and every server that speaks its Chat Completions API",
    )
