"""Errors of the builtin tools. Their texts are written for a model."""

from __future__ import annotations

from flexchat.plugin import ToolError


class MathError(ToolError, ValueError):
    """An expression that is invalid or has no result (requirement TC-64).

    Attributes:
        reason: The reason, without the specified prefix.
    """

    def __init__(self, reason: str, *, hint: str | None = None) -> None:
        self.reason = reason
        super().__init__(f"Math evaluation failed: {reason}", hint=hint)


class ParameterError(ValueError):
    """A handler's parameters are invalid."""
