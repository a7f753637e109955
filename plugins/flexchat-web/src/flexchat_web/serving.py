"""What all requests share: the chat that is in force, how it is exchanged for another, and what the operator allows."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import FlexChat

if TYPE_CHECKING:
    from flexchat.plugin.host import PluginHost


@attrs.frozen(kw_only=True)
class Settings:
    """What the operator allows.

    Attributes:
        tokens: Tenant of each token; empty: no token is asked for, and everybody is the default tenant.
        hosts: Names a request's Host may have, without port; None for loopback's own, "*" for any.
        origins: Origins of other pages that may call the API: "https://app.example".
        edit: Whether the configuration may be changed.
        max_body_bytes: Of a request.
        allow_env: Environment variables that a configuration which comes with a request may use.
    """

    tokens: Mapping[str, str] = attrs.field(factory=dict)
    hosts: tuple[str, ...] | None = None
    origins: tuple[str, ...] = ()
    edit: bool = True
    max_body_bytes: int = 8 * 1024 * 1024
    allow_env: frozenset[str] = frozenset()


class Serving:
    """The chat in force. A turn keeps the one it began with; what was replaced is closed when its last turn ends.

    Args:
        source: The configuration's file, or tables (the demo's; then nothing can be saved).

    Attributes:
        plugins: The installed plugins.
        settings: What the operator allows.
    """

    def __init__(self, source: Path | Mapping[str, Any], plugins: PluginHost, settings: Settings) -> None:
        self.source = source
        self.plugins = plugins
        self.settings = settings

    @contextlib.asynccontextmanager
    async def chat(self) -> AsyncIterator[FlexChat]:
        """Lend the chat in force: it stays open as long as it is lent."""
        raise NotImplementedError
        yield
