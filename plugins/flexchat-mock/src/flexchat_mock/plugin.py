"""What this package brings: the implementation type "mock", the providers "scripted" and "rehearsal"."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from flexchat.plugin import ChatProvider, ImplementationType, ProviderType, hookimpl

from . import scripted
from .implementation import MOCK
from .rehearsal.config import RehearsalConfig
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
    """Offer two models that need no network."""
    yield ProviderType(
        name="scripted",
        config_class=scripted.ScriptedConfig,
        create=scripted.create,
        tool_formats={"scripted": encode_tools},
        summary="says what replies = [...] tells it, one reply a request",
    )
    yield ProviderType(
        name="rehearsal",
        config_class=RehearsalConfig,
        create=_rehearsal,
        tool_formats={"rehearsal": encode_tools},
        summary="works without a key: matches the message with your tools by their words, understands nothing",
    )
