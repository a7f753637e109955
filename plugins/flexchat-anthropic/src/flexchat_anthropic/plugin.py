"""Registers the provider ``anthropic``. Imports little: httpx and aiohttp load when a provider is created."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import hookimpl
from flexchat_sdk import ChatProvider, ProviderType, prompted_tools

from .config import AnthropicConfig
from .dialects import LOOSE, STRICT
from .tools import encode_tools


def create(config: AnthropicConfig) -> ChatProvider:
    """Return a provider for one llms entry."""
    from .provider import AnthropicProvider

    return AnthropicProvider(config)


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="anthropic",
        config_class=AnthropicConfig,
        create=create,
        prompted=prompted_tools,
        tool_formats={"anthropic": encode_tools},
        schema_dialects={"anthropic": LOOSE, "anthropic.strict": STRICT},
        summary="Claude over Anthropic's Messages API, and servers that speak it",
        models=r"claude-[\w.-]+",
    )
