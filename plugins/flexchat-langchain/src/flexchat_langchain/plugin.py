"""Registers the provider ``langchain``. Light: LangChain loads when a provider is made."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import ChatProvider, ProviderType, hookimpl

from .config import LangChainConfig
from .tool_format import encode_tools


def create(config: LangChainConfig) -> ChatProvider:
    """Return a provider for one llms entry."""
    from .provider import LangChainProvider

    return LangChainProvider(config)


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="langchain",
        config_class=LangChainConfig,
        create=create,
        tool_formats={"langchain": encode_tools},
        summary="Any chat model of LangChain, by its class",
    )
