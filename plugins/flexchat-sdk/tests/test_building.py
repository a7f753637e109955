"""An answer from its pieces."""

import pytest
from flexchat_sdk import (
    AnswerParts,
    MediaPart,
    OpaquePart,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCall,
    ToolCallDelta,
    usage_of,
)


def ended(parts, raw="stop", **rest):
    return [*parts.end(raw, **rest)][-1].result


def test_parts_stand_in_the_order_in_which_they_began():
    parts = AnswerParts("s", "o")
    parts.reasoning("hm", {"signature": "x"})
    assert [parts.text("a").index, parts.text("b").index] == [1, 1]
    [*parts.call("f", {"n": 1}, wire_id="c")]
    assert parts.text("c").index == 3

    thought, text, call, last = ended(parts).message.parts

    assert isinstance(thought, ReasoningPart)
    assert (thought.provider_data.scope, thought.provider_data.data) == ("s", {"signature": "x"})
    assert (text, last) == (TextPart(text="ab"), TextPart(text="c"))
    assert (call.name, call.arguments, call.wire_id) == ("f", {"n": 1}, "c")


def test_arguments_in_pieces_of_two_calls():
    """An id that comes twice is the first call's; a call is complete at the end."""
    parts = AnswerParts("s", "o")
    parts.begin_call(0, "f", wire_id="c")
    parts.begin_call(1, "g", wire_id="c")
    for key, piece in ((0, '{"a"'), (1, "{}"), (0, ": 1}")):
        parts.arguments(key, piece)
    assert parts.has_call(1)
    assert not parts.has_call(2)

    first, second, end = parts.end("stop")

    assert (first.call.arguments, first.call.wire_id) == ({"a": 1}, "c")
    assert (second.call.arguments, second.call.wire_id) == ({}, None)
    assert end.result.finish_reason == "tool_calls"
    assert end.result.raw_finish == "stop"


def test_a_part_that_is_closed_takes_no_more():
    """So that a signature stays with exactly its text; sources stand with the last text that says something."""
    parts = AnswerParts("s", "o")
    parts.text("a")
    parts.close()
    assert parts.text("b", {"signature": "x"}).index == parts.text("c").index == 1
    parts.close()
    parts.text("")
    parts.cite([{"uri": "u"}])
    parts.cite([{"uri": "v"}])
    picture = MediaPart(kind="image", mime_type="image/png", data=b"0", provider_data=parts.ours({"p": 1}))
    parts.add(picture)

    first, signed, empty, last = ended(parts).message.parts

    assert (first, empty, last) == (TextPart(text="a"), TextPart(text=""), picture)
    assert (signed.text, signed.citations) == ("bc", ({"uri": "u"}, {"uri": "v"}))
    assert signed.provider_data.data == {"signature": "x"}
    AnswerParts("s", "o").cite([{"uri": "u"}])  # there is no text it could stand with


@pytest.mark.parametrize("written", ["", '{"a": '])
def test_a_call_at_the_end_of_a_cut_answer_is_not_run(written):
    parts = AnswerParts("s", "o")
    parts.begin_call(0, "f")
    parts.arguments(0, written)

    result = ended(parts, "max", words={"max": "length"})

    assert result.finish_reason == "length"
    (call,) = result.message.parts
    assert isinstance(call, ToolCall)
    assert call.arguments is None


def test_a_refusal_is_one_only_without_text():
    parts = AnswerParts("s", "o")
    parts.refusal("no")
    assert ended(parts).finish_reason == "refusal"
    assert isinstance(ended(parts).message.parts[0], RefusalPart)
    parts.text("but")
    assert ended(parts).finish_reason == "stop"


def test_an_end_without_a_word_is_warned_of():
    parts = AnswerParts("s", "o")
    parts.warn("w")
    parts.warn("w")
    assert ended(parts, None).warnings == ("w", "the answer ended without a finish reason; it may be incomplete")


def test_usage_is_read_along_paths():
    table = {"in": 1, "out": True, "details": {"cached": 3}}
    found = usage_of(table, input="in", output="out", cache_read="details.cached", reasoning="nothing.there")

    assert (found.input_tokens, found.output_tokens, found.cache_read_tokens, found.reasoning_tokens) == (
        1,
        None,
        3,
        None,
    )
    assert found.raw is table
    assert usage_of(None, input="in") is usage_of("text", input="in") is None


def test_a_part_that_a_provider_makes_itself_keeps_its_place():
    parts = AnswerParts("s", "o")
    at = parts.add(OpaquePart(kind="held", provider_data=parts.ours({})))
    assert parts.text("b").index == 1
    parts.replace(at, TextPart(text="a", provider_data=parts.ours({"x": 1})))

    first, second = ended(parts).message.parts

    assert (first.text, first.provider_data.origin, first.provider_data.data) == ("a", "o", {"x": 1})
    assert second == TextPart(text="b")


def test_a_whole_call_shows_its_arguments_as_the_pieces_of_another_would():
    """As text; what the service wrote itself stays as it wrote it."""
    parts = AnswerParts("s", "o")

    assert [event.arguments for event in parts.call("f", {"n": 1}) if type(event) is ToolCallDelta] == ['{"n":1}']
    assert [event.arguments for event in parts.call("f", "{oops") if type(event) is ToolCallDelta] == ["{oops"]


def test_one_text_and_one_thought_where_the_service_has_no_more():
    """Their pieces come in any order."""
    parts = AnswerParts("s", "o", joined=True)
    places = [parts.reasoning("h").index, parts.text("a").index, parts.reasoning("m").index]
    [*parts.call("f", {})]
    places.append(parts.text("b").index)

    assert places == [0, 1, 0, 1]
    assert parts.content == "ab"
    assert [part.text for part in ended(parts).message.parts[:2]] == ["hm", "ab"]


@pytest.mark.parametrize(("data", "goes_back"), [(None, False), ({}, True)])
def test_a_thought_goes_back_where_the_service_wants_it(data, goes_back):
    parts = AnswerParts("s", "o")
    parts.reasoning("h", data)

    assert (ended(parts).message.parts[0].provider_data is not None) == goes_back


def test_our_word_for_the_end_where_the_services_does_not_decide():
    """Nothing is missing then; calls decide as ever."""
    parts = AnswerParts("s", "o")
    assert ended(parts, None, finish="stop").warnings == ()
    assert ended(parts, "length", finish="tool_calls").finish_reason == "tool_calls"
    [*parts.call("f", {})]
    assert ended(parts, None, finish="stop").finish_reason == "tool_calls"
