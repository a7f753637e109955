"""What this package brings: the implementation type "mock" and the provider "rehearsal"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flexchat.plugin import ImplementationType, hookimpl
from flexchat_sdk import ChatProvider, ProviderType

from .implementation import MOCK
from .rehearsal import RehearsalConfig
from .tool_format import encode_tools


def _rehearsal(config: Any) -> ChatProvider:
    from .rehearsal.provider import RehearsalProvider  # its word lists are needed only where it is configured

    return RehearsalProvider(config)


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Offer mock tools."""
    yield MOCK


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Offer a model that needs no network."""
    yield ProviderType(
        name="rehearsal",
        config_class=RehearsalConfig,
        create=_rehearsal,
        tool_formats={"rehearsal": encode_tools},
        summary="works without a key: matches the message with your tools by their words, understands nothing",
    )
