"""What this package brings: the provider "scripted", and the tool source "listed"."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import ToolSourceType, hookimpl
from flexchat_sdk import ProviderType, prompted_tools

from .scripted import ScriptedConfig, create, encode_tools
from .tool_sources import LISTED

FLEXCHAT_API = (0, 1)


@hookimpl
def flexchat_register_providers() -> Iterable[ProviderType]:
    """Register the scripted model."""
    yield ProviderType(
        name="scripted",
        config_class=ScriptedConfig,
        create=create,
        prompted=prompted_tools,
        tool_formats={"scripted": encode_tools},
        summary="says what replies = [...] tells it, one reply a request",
    )


@hookimpl
def flexchat_register_tool_sources() -> Iterable[ToolSourceType]:
    """Offer tools that are listed in a file."""
    yield LISTED
