"""A conversation in a service's words, encoded once."""

import json

import attrs
import pytest
from flexchat_sdk import (
    AssistantMessage,
    History,
    MediaPart,
    PerTools,
    ProviderData,
    ProviderRequestError,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    media_behind_results,
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


DATA = ProviderData(scope="s", origin="o", data={})


def call(wire_id, **rest):
    return attrs.evolve(ToolCall.from_object("f", {}, wire_id=wire_id, provider_data=DATA), **rest)


def pairs(say_calls, *calls):
    """The id of each call, in a message of its own, and the one its result answers."""

    def say_ids(message, ids):
        if isinstance(message, ToolMessage):
            return {"id": ids.answered}
        return {"id": say_calls(message.tool_calls[0], ids)}

    messages = [
        message
        for one in calls
        for message in (AssistantMessage(parts=(one,)), ToolMessage(tool_call_id=one.id, name="f", content=""))
    ]
    history = History("s", "o", say_ids)
    said = [each["id"] for each in json.loads(history.array(messages))]
    assert said == [each["id"] for each in json.loads(history.array(messages))], "what is remembered is the same"
    return [*zip(said[::2], said[1::2], strict=True)]


def test_calls_with_one_id_are_told_apart_and_so_are_their_results():
    """Servers that count from 0 in every answer."""
    one, two = call("0"), call("0")

    assert pairs(lambda call, ids: ids.of(call), one, two) == [("0", "0"), (two.id, two.id)]
    assert pairs(lambda call, ids: ids.of(call), two) == [("0", "0")]


def test_a_provider_may_choose_an_id_that_no_call_has():
    """Where an id of ours comes twice, too."""

    def choose(call, ids):
        told = next(name for name in (call.wire_id, call.id, call.id + "-2") if name not in ids.taken)
        ids.note(call, told)
        return told

    one, two, three = call("0"), call("0"), call("0", id="0")

    assert pairs(choose, one, two, three) == [("0", "0"), (two.id, two.id), ("0-2", "0-2")]


def test_messages_may_be_remembered_in_another_form():
    encoded = []

    def encode(said):
        encoded.append(said)
        return ("text", said["text"]) if said else None

    history = History("s", "o", say, encode=encode)
    messages = (SystemMessage(content="s"), UserMessage(content="hi"))

    assert history.pieces(messages) == history.pieces(messages) == [("text", "hi")]
    assert len(encoded) == 2


IMAGE = MediaPart(kind="image", mime_type="image/png", data=b"x", name="a.png")


def result(name, *media):
    return ToolMessage(tool_call_id=name, name=name, content="1", media=media)


def test_media_stand_behind_all_results_of_an_answer():
    """In one user's message for each answer; made once for the same results, and dying with them."""
    first, second = (result("f", IMAGE), result("g"), result("h", IMAGE)), (result("i", IMAGE),)
    messages = (*first, AssistantMessage("a"), *second)

    sent, again = (media_behind_results(messages, lambda part: True) for _ in range(2))

    assert [message.role for message in sent] == ["tool", "tool", "tool", "user", "assistant", "tool", "user"]
    assert (sent[3].media, sent[6].media) == ((IMAGE, IMAGE), (IMAGE,))
    assert "1. f: a.png (image/png, 1 byte)\n2. h: a.png (image/png, 1 byte)" in sent[3].content
    assert (again[3], again[6]) == (sent[3], sent[6])
    assert again[3] is sent[3]
    assert media_behind_results(first[:1], lambda part: True)[1].media == (IMAGE,)


def test_media_that_are_not_taken_are_words_and_no_message():
    (said,) = media_behind_results((result("f", IMAGE),), lambda part: False)

    assert said.content == "1\n[a.png (image/png, 1 byte): not shown, you cannot see it here]"
    plain = (result("f"), UserMessage("more"))
    assert media_behind_results(plain, lambda part: True) is plain


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("get_weather<|channel|>commentary", "get_weather__channel__commentary"),
        ("a b", "a_b"),
        ("", "_"),
        ("x" * 80, "x" * 64),
        ("get-weather_2", "get-weather_2"),
        ("\u00fc", "_"),
    ],
)
def test_a_name_that_a_model_invented_is_sent_as_services_accept_it(name, sent):
    """In the call and in its result; otherwise every further request of the conversation is refused."""

    def say(message, ids):
        calls = getattr(message, "tool_calls", ())
        return {"names": [call.name for call in calls] or [message.name]}

    call = ToolCall(id="c", name=name, arguments={})
    messages = [AssistantMessage(parts=(call,)), ToolMessage(tool_call_id="c", name=name, content="x")]

    assert json.loads(History("s", "o", say).array(messages)) == [{"names": [sent]}] * 2
    assert json.loads(History("s", "any", say, legal_name=None).array(messages)) == [{"names": [name]}] * 2
    assert call.name == name
