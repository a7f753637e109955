"""One message in, one turn out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .chat import ChatResponse
from .messages import Message
from .retrieval import Profile


@attrs.frozen(kw_only=True)
class ChatRequest:
    """A user's message and what led to it.

    Attributes:
        user_message: At most limits.message_chars characters.
        history: Earlier messages, oldest first; ``ChatResponse.messages`` of earlier turns, chained.
        topic: The topic of the conversation so far; None at its start.
    """

    user_message: str
    history: tuple[Message, ...] = ()
    topic: str | None = None


@attrs.frozen(kw_only=True)
class PhaseRecord:
    """One of the six phases, as it went.

    Attributes:
        phase: "topic detection", "rag collection", "intent detection", "profile building",
            "response matching" or "response generation".
        outcome: What came of it, in a form that can be printed.
        elapsed_ms: Milliseconds it took.
    """

    phase: str
    outcome: Any
    elapsed_ms: float


@attrs.frozen(kw_only=True)
class Turn:
    """A finished turn.

    Attributes:
        id: 32 hexadecimal digits; the same in every plugin event of the turn.
        rule: Index of the response rule that answered, from 0.
        elapsed_ms: Milliseconds from request to response.
    """

    id: str
    profile: Profile
    rule: int
    response: ChatResponse
    phases: tuple[PhaseRecord, ...]
    elapsed_ms: float

    @property
    def content(self) -> str:
        """The text for the user."""
        return self.response.content

    def to_dict(self) -> dict[str, Any]:
        """Return the whole turn as JSON data: the answer, and how it came about."""
        response = self.response
        details: Mapping[str, Any] = {
            "id": self.id,
            "topic": self.profile.topic,
            "intent": self.profile.intent,
            "rule": self.rule,
            "finish_reason": response.finish_reason,
            "usage": response.usage.to_dict() if response.usage else None,
            "warnings": list(response.warnings),
            "phases": [
                {"phase": p.phase, "outcome": p.outcome, "elapsed_ms": round(p.elapsed_ms, 3)} for p in self.phases
            ],
            "elapsed_ms": round(self.elapsed_ms, 3),
        }
        return {**response.to_dict(), **details}
