"""Random conversations, and the rules that every service has for them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from flexchat import MediaPart, Message, SystemMessage, ToolCall, ToolMessage, UserMessage
from flexchat_sdk import AssistantMessage, ReasoningPart, RefusalPart, TextPart
from hypothesis import strategies as st

PICTURE = MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\r\n\x1a\n" + bytes(3_000), name="photo.png")
PINNED = "fact"
"""The name of a tool whose results are pinned."""

_numbers = itertools.count()


@st.composite
def answered_calls(draw) -> list[Message]:
    """An answer with parallel calls, and a result for each."""
    names = draw(st.lists(st.sampled_from(["look", "look", "find", PINNED]), min_size=1, max_size=3))
    calls = [ToolCall(name=name, arguments={"at": draw(st.integers(0, 2))}, id=f"c{next(_numbers)}") for name in names]
    thoughts = [ReasoningPart(text="Let me see.")] if draw(st.booleans()) else []
    results = [
        ToolMessage(
            tool_call_id=call.id,
            name=call.name,
            content=draw(st.sampled_from(["yes", "x" * 500, "é" * 1_000, "y" * 3_000])),
            is_error=draw(st.booleans()),
            media=draw(st.sampled_from([(), (), (PICTURE,)])),
        )
        for call in calls
    ]
    return [AssistantMessage((*thoughts, *calls)), *results]


@st.composite
def turns(draw) -> list[Message]:
    """A turn: done, refused, or cancelled after its calls."""
    media = draw(st.sampled_from([(), (), (), (PICTURE,)]))
    text = draw(st.sampled_from(["Hello?", "And now?", "z" * 800]))
    messages: list[Message] = [UserMessage(text, media=media, pinned=draw(st.integers(0, 5)) == 0)]
    if draw(st.integers(0, 9)) == 0:
        messages.insert(0, SystemMessage("From now on, be brief."))
    for group in draw(st.lists(answered_calls(), max_size=2)):
        messages += group
    end = draw(st.sampled_from(["done", "done", "done", "refused", "cancelled"]))
    if end != "cancelled":
        said = RefusalPart("No.") if end == "refused" else TextPart("w" * draw(st.integers(1, 600)))
        messages.append(AssistantMessage((said,)))
    return messages


histories = st.lists(turns(), max_size=14).map(lambda all_turns: [each for turn in all_turns for each in turn])


def broken_rule(messages: Sequence[Message]) -> str | None:
    """Return the rule of the services that messages break: pairs in order, and no message without content."""
    waiting: list[str] = []
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            if message.tool_call_id not in waiting:
                return f"message {index} answers no call"
            waiting.remove(message.tool_call_id)
            continue
        if waiting:
            return f"calls before message {index} have no result"
        if isinstance(message, AssistantMessage):
            if not message.parts:
                return f"message {index} is empty"
            waiting = [call.id for call in message.tool_calls]
        elif not message.content and not getattr(message, "media", ()):
            return f"message {index} is empty"
    return "the last calls have no result" if waiting else None
