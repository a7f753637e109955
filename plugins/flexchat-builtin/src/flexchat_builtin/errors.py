"""What the builtin tools say when they cannot do something. A model reads these texts."""

from __future__ import annotations


class MathError(ValueError):
    """An expression that the calculator refuses or that has no result (requirement TC-64).

    Attributes:
        reason: Why, without the specified introduction.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(f"Math evaluation failed: {reason}")


class ParameterError(ValueError):
    """A handler's parameters cannot be used."""
