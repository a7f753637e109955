"""FlexChat over HTTP.

``create_app`` creates an ASGI application, ``Settings`` holds its operator's limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import create_app
    from .serving import Settings

__all__ = ["Settings", "create_app"]


def __getattr__(name: str) -> Any:
    """Load exports on demand: the plugin, which every command loads, does not need them."""
    if name == "create_app":
        from .app import create_app

        return create_app
    if name == "Settings":
        from .serving import Settings

        return Settings
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
