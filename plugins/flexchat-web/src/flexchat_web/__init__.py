"""FlexChat over HTTP.

``create_app`` creates an ASGI application, ``Settings`` holds its operator's limits.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .app import create_app
    from .serving import Settings

__all__ = ["Settings", "create_app"]

_MODULES = {"Settings": "serving", "create_app": "app"}


def __getattr__(name: str) -> Any:
    """Load exports on demand: the plugin, which every command loads, does not need them."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
