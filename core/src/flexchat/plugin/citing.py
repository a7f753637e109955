"""What tools find for a turn, so that the turn can name its sources."""

from __future__ import annotations

import contextvars

import attrs

from ..domain import RetrievalHits


@attrs.frozen
class Found:
    """Passages that a tool has found."""

    tool: str
    service: str
    hits: RetrievalHits


found_in_turn: contextvars.ContextVar[list[Found] | None] = contextvars.ContextVar("flexchat_found", default=None)
"""Of the turn this code runs in; None outside of turns."""
