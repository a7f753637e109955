"""Which models really call tools: cases, attempts, and what they prove."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .store import ValidationStore
    from .summary import ValidationRecord
    from .tracker import ModelValidationTracker

__all__ = ["ModelValidationTracker", "ValidationRecord", "ValidationStore"]

_MODULES = {"ModelValidationTracker": "tracker", "ValidationRecord": "summary", "ValidationStore": "store"}


def __getattr__(name: str) -> Any:
    """Import modules that open a database only when asked for: every start loads this plugin."""
    if name not in _MODULES:
        raise AttributeError(f"module 'flexchat_validation' has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
