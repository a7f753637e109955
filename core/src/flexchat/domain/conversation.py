"""Conversations as they are kept: turns with their messages whole, so that they can go on where they stopped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from .chat import Usage
from .messages import Message
from .retrieval import Citation

DEFAULT_TENANT = "default"
"""Whose conversations are meant where nobody says."""


@attrs.frozen(kw_only=True)
class ConversationTurn:
    """A turn of a conversation.

    Attributes:
        id: Turn.id.
        messages: Whole: the user's message, tool calls, their results, the answer, and what only its provider can
            read.
        at: When it was finished: ISO 8601, UTC.
    """

    id: str
    messages: tuple[Message, ...]
    topic: str = ""
    service: str = ""
    model: str = ""
    usage: Usage | None = None
    citations: tuple[Citation, ...] = ()
    at: str = ""


@attrs.frozen(kw_only=True)
class ConversationInfo:
    """A conversation without its messages.

    Attributes:
        started_at, used_at: ISO 8601, UTC.
        topic: That of its last turn.
    """

    id: str
    title: str
    turns: int
    started_at: str
    used_at: str
    topic: str = ""
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
