"""Messages as JSON: nothing is lost on the way there and back."""

import json

import attrs
import pytest
from flexchat.domain import (
    AssistantMessage,
    ChatResponse,
    Citation,
    ConversationTurn,
    MediaPart,
    Profile,
    ReasoningPart,
    TextPart,
    ToolCall,
    ToolCallRecord,
    ToolMessage,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
)
from flexchat.domain.codec import message_from_dict, message_to_dict, value_from_dict, value_to_dict
from flexchat.domain.conversation import (
    history_from_json,
    result_from_json,
    result_to_json,
    turn_from_dict,
    turn_from_json,
    turn_from_parts,
    turn_to_dict,
    turn_to_json,
    turn_to_parts,
)
from generated_values import messages, records, turns
from hypothesis import given


@given(turns)
def test_a_turn_comes_back_from_json_text_as_it_was(turn):
    """Bytes, opaque parts, signatures, raw arguments, NUL and halves of surrogate pairs: all of it."""
    text = turn_to_json(turn)

    assert turn_from_json(text) == turn
    assert text.isascii()
    assert "\0" not in text


@given(turns)
def test_a_turn_comes_back_from_its_parts(turn):
    """Its history is read from the first part alone, and from a whole text in the same way."""
    history, rest = turn_to_parts(turn)

    assert turn_from_parts(history, rest) == turn
    assert turn_from_parts(None, turn_to_json(turn)) == turn
    for one in history_from_json([history, turn_to_json(turn)]):
        assert (one.id, one.messages, one.topic, one.replay) == (turn.id, turn.messages, turn.topic, turn.replay)
    assert history_from_json([]) == ()


@pytest.mark.parametrize(
    "text",
    [
        "1",
        "[]",
        "{}",
        "{} {}",
        '{"id": 1, "messages": []}',
        '{"id": "1", "messages": {}}',
        '{"id": "1", "messages": [{"role": "user", "content": 1}]}',
        '{"id": "1", "messages": [{"role": "user", "text": "x"}]}',
        '{"id": "1", "messages": [{"role": "assistant", "parts": [{"type": "text", "text": null}]}]}',
        '{"id": "1", "messages": [{"role": "assistant", "parts": [{"type": "new", "text": ""}]}]}',
        '{"id": "1", "messages": [], "replay": "no"}',
        "[" * 100_000,
    ],
)
def test_a_history_that_is_none_is_refused(text):
    """With an error that a store can explain."""
    with pytest.raises(ValueError):
        history_from_json([text])


@given(messages)
def test_a_message_comes_back_from_json_data_as_it_was(message):
    assert message_from_dict(json.loads(json.dumps(message_to_dict(message)))) == message


def test_what_is_not_set_is_not_written():
    data = message_to_dict(AssistantMessage(parts=(TextPart(text="hello"),)))

    assert data == {"role": "assistant", "parts": [{"type": "text", "text": "hello"}]}


def test_the_form_of_every_field_is_known():
    """A field that a class gets later must be thought of here: what it is as JSON, and how it is read."""
    plain = (str, int, float, bool, type(None), dict, list)
    full = ConversationTurn(
        id="t",
        messages=(
            UserMessage(content="x", media=(MediaPart(kind="image", mime_type="image/png", data=b"\0\xff"),)),
            AssistantMessage(parts=(ToolCall(name="f", arguments={"a": 1}),)),
        ),
        usage=Usage(input_tokens=1),
        citations=(Citation(title="t", source=None, collection=None),),
    )

    def check(value):
        assert type(value) in plain
        for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(inner)

    check(turn_to_dict(full))
    assert turn_from_dict(turn_to_dict(full)) == full


@given(records)
def test_a_record_and_its_result_come_back_with_their_media(record):
    """As journals and the ledger keep them, an infinity in a service's data beside a medium included."""
    assert value_from_dict(ToolCallRecord, json.loads(json.dumps(value_to_dict(record)))) == record
    assert result_from_json(result_to_json(record.result)) == record.result


IMAGE = MediaPart(kind="image", mime_type="image/png", data=bytes(range(256)) * 12, name="a.png")


def with_image(call_id="c1", sent=(IMAGE,)):
    result = ToolResult(success=True, tool_name="f", result=1, media=(IMAGE,))
    record = ToolCallRecord(tool="f", params={}, result=result, iteration=1, call_id="c1")
    messages = (ToolMessage(tool_call_id=call_id, name="f", content="1", media=sent),)
    return ConversationTurn(id="t", messages=messages, tool_calls=(record,))


@pytest.mark.parametrize(
    ("turn", "times"),
    [(with_image(), 1), (with_image("c2"), 2), (with_image(sent=()), 1), (with_image(sent=(IMAGE, IMAGE)), 3)],
)
def test_the_bytes_of_a_result_are_in_a_turn_once(turn, times):
    """If its message has the same ones."""
    data = message_to_dict(UserMessage(content="", media=(IMAGE,)))["media"][0]["data"]

    text = turn_to_json(turn)

    assert text.count(data) == times
    assert turn_from_json(text) == turn


def test_a_turn_that_was_told_has_the_bytes_once_and_comes_back():
    """Turn.to_dict tells of media in its calls, and has them in its messages."""
    kept = with_image()
    response = ChatResponse(content="", llm="l", model="m", messages=kept.messages, tool_calls=kept.tool_calls)
    turn = Turn(id="t", profile=Profile(topic=""), rule=None, response=response, phases=(), elapsed_ms=1)

    told = json.loads(json.dumps(turn.to_dict()))

    digest = IMAGE.sha256
    assert told["tool_calls"][0]["result"]["media"] == [
        {"kind": "image", "mime_type": "image/png", "bytes": 3072, "name": "a.png", "sha256": digest}
    ]
    assert Turn.from_dict(told).response.tool_calls[0].result.media == (IMAGE,)
    assert Turn.from_dict({**told, "messages": []}).response.tool_calls[0].result.media == ()


def test_keys_of_a_newer_version_are_ignored():
    turn = ConversationTurn(id="1", messages=(UserMessage(content="hi"),))
    data = turn_to_dict(turn)
    data["mood"] = "good"
    data["messages"][0]["colour"] = "red"

    assert turn_from_dict(data) == turn


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"role": "oracle", "content": "x"}, "role 'oracle'"),
        ({"content": "x"}, "no role"),
        ({"role": ["user"]}, "cannot read"),
        ({"role": "user"}, "is incomplete"),
        ({"role": "assistant", "parts": [{"type": "hologram"}]}, "type 'hologram'"),
        ({"role": "assistant", "parts": "text"}, "a list was expected"),
        ({"role": "assistant", "parts": ["text"]}, "no type"),
        ({"role": "user", "content": "x", "media": [{"kind": "image", "mime_type": "", "data": "?"}]}, "base64"),
        ({"role": "user", "content": "x", "media": [{"kind": "image", "mime_type": "", "data": 1}]}, "Base64"),
        ({"role": "assistant", "provider_data": "x"}, "JSON object was expected"),
        ([], "cannot read"),
    ],
)
def test_what_is_no_message_is_refused_with_a_sentence(data, said):
    with pytest.raises(ValueError, match=said):
        message_from_dict(data)


@pytest.mark.parametrize("text", ["", "[]", "{}", "{", '"x"', '{"id": "1", "messages": 3}', "[" * 100_000])
def test_what_is_no_turn_is_refused_with_a_value_error(text):
    with pytest.raises(ValueError):
        turn_from_json(text)


def test_data_nested_too_deeply_is_refused_with_a_value_error():
    deep = {}
    for _ in range(100_000):
        deep = {"a": deep}
    call = ToolCall(name="f", arguments=deep)
    turn = ConversationTurn(id="1", messages=(AssistantMessage(parts=(call,)),))

    with pytest.raises(ValueError, match="turn 1 cannot be written"):
        turn_to_json(turn)


def test_the_title_is_the_first_line_of_the_user_cut_to_80_characters():
    def title(text):
        return ConversationTurn(id="1", messages=(UserMessage(content=text),)).title

    assert title("  What\n is\0 this? ") == "What is this?"
    assert title("x" * 80) == "x" * 80
    assert title("x" * 81) == "x" * 79 + "…"
    assert title("\ud800") == "\ufffd"
    assert title(" ") == ""


def test_the_text_of_a_turn_is_what_user_and_model_said():
    turn = ConversationTurn(
        id="1",
        messages=(
            UserMessage(content="question"),
            AssistantMessage(parts=(ReasoningPart(text="hidden"), TextPart(text="let me see"))),
            ToolMessage(tool_call_id="c", name="f", content="result"),
            AssistantMessage(parts=(TextPart(text="answer"),)),
        ),
    )

    assert turn.text == "question\nlet me see\nanswer"
    assert attrs.evolve(turn, messages=()).text == ""


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("# Hello **world**", "Hello world"),
        ("- *one* and `two`\n- three", "one and two three"),
        ("> ~~no~~ [yes](https://a.example) ![cat](c.png)", "no yes cat"),
        ("```python\nprint(1)\n```", "print(1)"),
        ("What is 5 * 3 * 2, and 2 ** 3?", "What is 5 * 3 * 2, and 2 ** 3?"),
        ("What does __init__ do in a[0](1 + 2)?", "What does __init__ do in a[0](1 + 2)?"),
        ("#hash and a_b_c", "#hash and a_b_c"),
        ("**", "**"),
        ("```", "```"),
        ('{"city": "Rome", "days": [1, 2], "at": {"hour": "12:30"}}', "city: Rome, days: 1, 2, at: hour: 12:30"),
        ('[{"a":1,"b":null},{"a":2}]', "a: 1, b: null, a: 2"),
        ('```json\n{\n  "city": "Rome"\n}\n```', "city: Rome"),
        ('{"text": "' + "x" * 2000 + '"}', "text: " + "x" * 73 + "…"),
        ("[1] is a source, {2} is not", "[1] is a source, {2} is not"),
        ('Say "{"', 'Say "{"'),
        ('{"": {}}', ":"),
    ],
)
def test_a_title_has_no_marks_of_markdown_and_json(text, title):
    """And what only looks like them stays."""
    assert ConversationTurn(id="1", messages=(UserMessage(content=text),)).title == title
