"""Conversations as they are kept: turns with their messages whole, so that they can go on where they stopped."""

from __future__ import annotations

import attrs

from .chat import Usage
from .messages import AssistantMessage, Message, UserMessage
from .retrieval import Citation
from .text import storable

DEFAULT_TENANT = "default"
"""Whose conversations are meant where nobody says."""

LONGEST_TITLE = 80


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

    @property
    def title(self) -> str:
        """What a conversation that begins with this turn is called: the user's first line, at most 80 characters."""
        first = next((m.content for m in self.messages if isinstance(m, UserMessage) and m.content.strip()), "")
        line = " ".join(storable(first).split())
        return line if len(line) <= LONGEST_TITLE else line[: LONGEST_TITLE - 1].rstrip() + "…"

    @property
    def text(self) -> str:
        """What user and model said in it, and not what tools did: where a search looks for words."""
        said = [m.content for m in self.messages if isinstance(m, (UserMessage, AssistantMessage)) and m.content]
        return storable("\n".join(said))


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
