"""Phase 4: everything known of the message, in one value."""

from __future__ import annotations

from ..domain import ChatRequest, Document, Profile


def build_profile(request: ChatRequest, topic: str, documents: tuple[Document, ...], intent: str | None) -> Profile:
    """Return the profile the rules are matched against."""
    return Profile(topic=topic, user_message=request.user_message, intent=intent, documents=documents)
