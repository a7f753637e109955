"""Registers the provider ``ollama``. Imports little: httpx and aiohttp load when a provider is created."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat_sdk import ChatProvider, ProviderType, prompted_tools

from .config import OllamaConfig
from .tools import TOOLS, encode_tools


def create(config: OllamaConfig) -> ChatProvider:
    """Return a provider for one llms entry."""
    from .provider import OllamaProvider

    return OllamaProvider(config)


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="ollama",
        config_class=OllamaConfig,
        create=create,
        prompted=prompted_tools,
        tool_formats={"ollama": encode_tools},
        schema_dialects={TOOLS.name: TOOLS},
        summary="Ollama, over its native API: local models, and its cloud",
        models=r"(?!ft:)[\w.-]+:[\w.-]+",
    )
