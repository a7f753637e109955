"""What the builtin tools say when they cannot do something. A model reads these texts."""

from __future__ import annotations

from flexchat.plugin import ToolError


class MathError(ToolError, ValueError):
    """An expression that the calculator refuses or that has no result (requirement TC-64).

    Attributes:
        reason: Why, without the specified introduction.
    """

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        self.reason = reason
        super().__init__(f"Math evaluation failed: {reason}", hint=hint)


class ParameterError(ValueError):
    """A handler's parameters cannot be used."""
