"""Registers the implementation type "mock" and the provider "rehearsal"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flexchat.plugin import ImplementationType, hookimpl
from flexchat_sdk import ChatProvider, ProviderType

from .implementation import MOCK
from .rehearsal import RehearsalConfig, encode_tools


def _rehearsal(config: Any) -> ChatProvider:
    from .rehearsal.provider import RehearsalProvider  # its word lists are only needed if it is configured

    return RehearsalProvider(config)


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Register the implementation type "mock"."""
    yield MOCK


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Register the provider "rehearsal"."""
    yield ProviderType(
        name="rehearsal",
        config_class=RehearsalConfig,
        create=_rehearsal,
        tool_formats={"rehearsal": encode_tools},
        summary="works without a key: matches the message with your tools by their words, understands nothing",
    )
