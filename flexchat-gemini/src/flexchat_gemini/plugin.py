"""Registers the provider ``gemini``. Imports little: httpx and aiohttp load when a provider is created."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat_sdk import ChatProvider, ProviderType, prompted_tools

from .config import GeminiConfig
from .dialects import JSON_SCHEMA, PARAMETERS
from .tools import encode_tools, encode_tools_as_parameters


def create(config: GeminiConfig) -> ChatProvider:
    """Return a provider for one llms entry."""
    from .provider import GeminiProvider

    return GeminiProvider(config)


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="gemini",
        config_class=GeminiConfig,
        create=create,
        prompted=prompted_tools,
        tool_formats={"gemini": encode_tools, "gemini.parameters": encode_tools_as_parameters},
        schema_dialects={"gemini": JSON_SCHEMA, "gemini.parameters": PARAMETERS},
        summary="Gemini, over its native API; also on Vertex AI",
        models=r"gemini-[\w.-]+",
    )
