"""Phase 4: the facts about the message, in one value."""

from __future__ import annotations

from ..domain import ChatRequest, Profile, RagResults
from .topic import Topic


def build_profile(request: ChatRequest, topic: Topic, rag: RagResults, intent: str | None) -> Profile:
    """Return the profile the rules are matched against.

    It has a store and a collection if a document matches, or if the intent is that of a partial result.

    Source: the original's profile building; requirement C21.
    """
    if not rag.hits:
        return Profile(topic=topic.text, user_message=request.user_message, intent=intent)
    named = next((hit for hit in rag.hits if hit.category == intent), None)
    if rag.result == "match":
        named = rag.hits[0]
    return Profile(
        topic=topic.text,
        user_message=request.user_message,
        rag_results=rag.result,
        intent=intent,
        service=named.store if named else None,
        collection=named.collection if named else None,
        documents=tuple(document for hit in rag.hits for document in hit.documents),
    )
