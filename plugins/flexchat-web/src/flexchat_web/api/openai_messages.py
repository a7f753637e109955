"""OpenAI's messages as FlexChat's: the last one is the question, those before it are the history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flexchat import ChatRequestError, Message, SystemMessage, UserMessage, read_history

from ..problems import ApiError


def read_messages(messages: Sequence[Mapping[str, Any]]) -> tuple[str, tuple[Message, ...]]:
    """Return the user's question and the history, including the client's instructions.

    The turn supplies a result for a call without one.

    Raises:
        ApiError: 400: a message cannot be read, or the last one is not the user's.

    Source: wire format of Chat Completions, "messages".
    """
    if unread := unread_part(messages):
        raise refused(unread.partition(": ")[2], unread.partition(": ")[0])
    try:
        history = [*read_history(messages, "messages")]
    except ChatRequestError as error:
        place, _, why = str(error).partition(": ")
        raise refused(why, place) from None
    place_of_question = next(
        (i for i in range(len(history) - 1, -1, -1) if not isinstance(history[i], SystemMessage)), None
    )
    if place_of_question is None or not isinstance(last := history.pop(place_of_question), UserMessage):
        raise refused("the last message must be the user's", "messages")
    if not last.content.strip():
        raise refused("the last message is empty", f"messages[{place_of_question}].content")
    return last.content, tuple(history)


def unread_part(messages: Any) -> str | None:
    """Return the sentence that refuses a message which is not text; None if all seem to be."""
    for index, message in enumerate(messages if isinstance(messages, list) else ()):
        content = message.get("content") if isinstance(message, dict) else None
        for at, part in enumerate(content if isinstance(content, list) else ()):
            if isinstance(part, dict) and part.get("type") not in ("text", "refusal"):
                return f"messages[{index}].content[{at}]: this server reads text only, not {part.get('type')!r:.40}"
    return None


def refused(text: str, param: str, *, code: str | None = None) -> ApiError:
    """Create the error for a request that cannot be answered unchanged."""
    return ApiError(400, f"{param}: {text}", kind="request", param=param, code=code)
