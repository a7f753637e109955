"""Phase 1: what the message is about."""

from __future__ import annotations

from ..domain import ChatRequest


async def detect_topic(request: ChatRequest) -> str:
    """Return the topic: with no model configured for it, the message itself."""
    return request.user_message
