"""A conversation in a service's words, encoded once."""

import json

import pytest
from flexchat.provider import (
    AssistantMessage,
    History,
    PerTools,
    ProviderRequestError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
)


def say(message, ids):
    """A wire format that tells calls by name and place, and leaves instructions out."""
    match message:
        case AssistantMessage():
            for place, call in enumerate(message.tool_calls):
                ids.note(call, (call.id, place, call.name))
            return [{"call": call.name} for call in message.tool_calls]
        case ToolMessage():
            return {"answers": ids.answered, "text": message.content}
        case SystemMessage():
            return None
    return {"text": message.content}


def test_a_message_has_its_place_also_if_it_says_nothing():
    """Of several objects, of one, of none; what a call is told by comes back with its answer."""
    one, two = ToolCall.from_object("f", {}), ToolCall.from_object("g", {})
    messages = (
        SystemMessage(content="s"),
        UserMessage(content="hi"),
        AssistantMessage(parts=(one, two)),
        ToolMessage(tool_call_id=two.id, name="g", content="2"),
        ToolMessage(tool_call_id="nobody", name="x", content="?"),
    )
    history = History("scope", "origin", say)

    entries = history.entries(messages)

    assert [piece for piece, _ in entries] == [
        b"",
        b'{"text":"hi"}',
        b'{"call":"f"},{"call":"g"}',
        json.dumps({"answers": [two.id, 1, "g"], "text": "2"}, separators=(",", ":")).encode(),
        b'{"answers":"nobody","text":"?"}',
    ]
    assert entries[3][1] == (two.id, 1, "g")
    assert history.pieces(messages) == [piece for piece, _ in entries if piece]
    assert all(entry is again for entry, again in zip(entries, history.entries(messages), strict=True))


def test_what_cannot_be_written_is_an_error_of_the_request():
    """However the conversation is asked for."""
    history = History("scope", "origin", lambda message, ids: {"text": object()})

    for ask in (history.array, history.pieces, history.entries):
        with pytest.raises(ProviderRequestError, match="cannot be written as JSON"):
            ask((UserMessage(content="hi"),))


def test_what_is_made_of_tools_is_made_once():
    """For one tuple, and for each other thing it depends on."""
    made = []
    tools = ({"name": "f"},)
    kept = PerTools(lambda tools, *more: made.append(more) or len(made))

    assert [kept.of(tools, "a"), kept.of(tools, "a"), kept.of(tools, "b"), kept.of(({"name": "f"},), "a")] == [
        1,
        1,
        2,
        3,
    ]
    assert made == [("a",), ("b",), ("a",)]
