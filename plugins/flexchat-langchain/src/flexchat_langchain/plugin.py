"""Registers the provider and the implementation type ``langchain``. LangChain is imported on first use."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import ImplementationType, hookimpl
from flexchat_sdk import ChatProvider, ProviderType, prompted_tools

from .config import LangChainConfig
from .implementation import LANGCHAIN, encode_tools


def create(config: LangChainConfig) -> ChatProvider:
    """Create the provider for one ``llms`` entry."""
    from .provider import LangChainProvider

    return LangChainProvider(config)


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer the provider."""
    yield ProviderType(
        name="langchain",
        config_class=LangChainConfig,
        create=create,
        prompted=prompted_tools,
        tool_formats={"langchain": encode_tools},
        summary="Any chat model of LangChain, by its class",
    )


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Register LangChain tools, which are passed in code."""
    yield LANGCHAIN
