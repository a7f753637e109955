"""Which models really call tools: cases, attempts, and what they prove."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .store import ValidationStore
    from .summary import ValidationRecord
    from .tracker import ModelValidationTracker

__all__ = ["ModelValidationTracker", "ValidationRecord", "ValidationStore"]


def __getattr__(name: str) -> Any:
    """Import modules that open a database only when asked for: every start loads this plugin."""
    if name == "ValidationStore":
        from .store import ValidationStore

        return ValidationStore
    if name in __all__:
        from . import tracker

        return getattr(tracker, name)
    raise AttributeError(f"module 'flexchat_validation' has no attribute {name!r}")
