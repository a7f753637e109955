"""Registers the provider ``openai``. Imports little: httpx and aiohttp load when a provider is created."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat_sdk import ChatProvider, ProviderType, prompted_tools

from .config import OpenAIConfig
from .dialects import LOOSE, STRICT
from .tools import encode_responses_tools, encode_tools


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
        prompted=prompted_tools,
        tool_formats={"openai": encode_tools, "openai.responses": encode_responses_tools},
        schema_dialects={LOOSE.name: LOOSE, STRICT.name: STRICT},
        summary="OpenAI, and every server that speaks its Chat Completions or Responses API",
        models=r"(gpt|chatgpt|codex|o[1-9])(-[\w.:-]+|\d[\w.:-]*)?",
    )
