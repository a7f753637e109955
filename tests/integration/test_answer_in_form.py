"""Structured output: an answer of the form that was asked for, with and without tools, or an error that says why."""

import attrs
import pytest
from flexchat import ChatRequestError, ConfigError, FlexChat, ResponseFormatError, SyncFlexChat, TextDelta, TurnFinished
from flexchat_testing.scripted import ScriptedProvider, calls, says

CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "tools": {"registry": [{"name": "calculator"}]},
    "responses": [{"llm": "bot", "model": "m"}],
}
WITH_TOOLS = {"responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}]}
SUM = ("calculator", {"expression": "2+2"})
SCHEMA = {"type": "object", "properties": {"value": {"type": "integer"}}, "required": ["value"]}


@attrs.frozen
class Answer:
    value: int


class Splitting(ScriptedProvider):
    """A service that takes no response_format beside tools."""

    def combines_tools_and_format(self, model):
        return False


def chat(*replies, kind=ScriptedProvider, **changes):
    model = kind(replies)
    return FlexChat.from_config({**CONFIG, **changes}, providers={"bot": model}), model


async def test_a_class_in_an_instance_out():
    """What the library is asked for is what it gives."""
    made, model = chat(says('{"value": 4}'))

    turn = await made.respond("2+2?", response_format=Answer)

    assert turn.response.parsed == Answer(4)
    assert turn.response.content == '{"value": 4}'
    assert model.requests[0].options.response_format.name == "Answer"


async def test_a_rule_may_ask_for_a_form():
    """The same from the config; the caller's wish goes first."""
    rule = {"llm": "bot", "model": "m", "response_format": {"name": "sum", "schema": SCHEMA}}
    made, model = chat(says('{"value": 4}'), says('{"other": 1}'), responses=[rule])

    assert (await made.respond("2+2?")).response.parsed == {"value": 4}
    assert model.requests[0].options.response_format.schema == SCHEMA
    assert (await made.respond("2+2?", response_format={"type": "json_object"})).response.parsed == {"other": 1}


async def test_an_answer_that_does_not_fit_is_sent_back_once_with_what_is_wrong():
    """The second try knows the problem; the history keeps only the answer that counts."""
    made, model = chat(says("It is four."), says('{"value": 4}'))

    turn = await made.respond("2+2?", response_format=Answer)

    assert turn.response.parsed == Answer(4)
    complaint = model.requests[1].messages[-1].content
    assert "not valid JSON" in complaint
    assert '"value": {"type": "integer"}' in complaint
    assert [m.content for m in turn.response.messages] == ["2+2?", '{"value": 4}']


async def test_a_second_answer_that_does_not_fit_is_an_error():
    """Never a silent None."""
    made, _ = chat(says("four"), says('{"value": "four"}'))

    with pytest.raises(ResponseFormatError, match="value") as caught:
        await made.respond("2+2?", response_format=Answer)
    assert caught.value.content == '{"value": "four"}'


@pytest.mark.parametrize(
    ("reason", "words"), [("length", "token limit"), ("refusal", "refused"), ("content_filter", "filter")]
)
async def test_an_answer_that_is_none_is_not_asked_for_again(reason, words):
    """Asking again would end the same way; the error says why."""
    made, model = chat(says('{"val', finish_reason=reason), says('{"value": 1}'))

    with pytest.raises(ResponseFormatError, match=words):
        await made.respond("2+2?", response_format=Answer)
    assert len(model.requests) == 1


async def test_tools_and_form_go_together_where_the_service_can():
    """One request carries both."""
    made, model = chat(calls(SUM), says('{"value": 4}'), **WITH_TOOLS)

    turn = await made.respond("2+2?", response_format=Answer)

    assert turn.response.parsed == Answer(4)
    assert all(r.options.tools and r.options.response_format for r in model.requests)


async def test_tools_run_first_where_the_service_cannot_combine():
    """The last request asks for the form, without tools."""
    made, model = chat(calls(SUM), says("It is 4."), says('{"value": 4}'), kind=Splitting, **WITH_TOOLS)

    turn = await made.respond("2+2?", response_format=Answer)

    assert turn.response.parsed == Answer(4)
    assert [bool(r.options.tools) for r in model.requests] == [True, True, False]
    assert [r.options.response_format is not None for r in model.requests] == [False, False, True]
    assert [m.role for m in model.requests[2].messages] == ["user", "assistant", "tool"]
    assert [m.role for m in turn.response.messages] == ["user", "assistant", "tool", "assistant"]


async def test_no_request_is_made_for_a_form_the_answer_has_by_itself():
    """A model that was told by its prompt needs no second request."""
    made, model = chat(calls(SUM), says('{"value": 4}'), kind=Splitting, **WITH_TOOLS)

    assert (await made.respond("2+2?", response_format=Answer)).response.parsed == Answer(4)
    assert len(model.requests) == 2


async def test_at_the_limit_of_the_loop_the_form_is_asked_for_all_the_same():
    """The fixed sentence would be no answer of that form."""
    config = {"tools": {"registry": [{"name": "calculator"}], "max_iterations": 1}, **WITH_TOOLS}
    made, _ = chat(calls(SUM), says('{"value": 4}'), **config)

    turn = await made.respond("2+2?", response_format=Answer)

    assert turn.response.parsed == Answer(4)
    assert turn.response.max_iterations_reached


async def test_a_streamed_turn_ends_with_the_same_instance():
    """stream() and respond() are one thing."""
    made, _ = chat(says('{"value": 4}'))

    events = [event async for event in made.stream("2+2?", response_format=Answer)]

    assert isinstance(events[-1], TurnFinished)
    assert events[-1].turn.response.parsed == Answer(4)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == '{"value": 4}'


def test_the_same_without_an_event_loop():
    """SyncFlexChat."""
    made, _ = chat(says('{"value": 4}'))
    with SyncFlexChat(made) as sync:
        assert sync.respond("2+2?", response_format=Answer).response.parsed == Answer(4)


async def test_what_can_be_no_form_is_refused_before_anything_is_sent():
    """In the call, and when a config is loaded."""
    made, model = chat()
    with pytest.raises(ChatRequestError, match="object"):
        await made.respond("Hi", response_format={"type": "array"})
    assert model.requests == []

    rule = {"llm": "bot", "model": "m", "response_format": {"schema": {"type": "string"}}}
    with pytest.raises(ConfigError, match=r"responses\[0\]\.response_format: schema must be"):
        chat(responses=[rule])


@pytest.mark.parametrize("kind", [ScriptedProvider, Splitting])
async def test_a_stream_has_the_answer_that_fits_and_no_other_text(kind):
    """What a reader puts together is the content, whatever was said on the way."""
    replies = (calls(SUM, text="Let me see."), says("It is four."), says('{"value": 4}'))
    made, _ = chat(*replies, kind=kind, **WITH_TOOLS)

    events = [event async for event in made.stream("2+2?", response_format=Answer)]

    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == '{"value": 4}'
    assert events[-1].turn.content == '{"value": 4}'


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("fenced", ['```json\n{"value": 4}\n```', '\n```\n{"value": 4}\n```\n'])
async def test_a_fence_around_the_answer_is_no_part_of_it(fenced, streamed):
    """Whoever parses the content can."""
    made, _ = chat(says(fenced))

    turn = await made.respond("2+2?", response_format=Answer)
    if streamed:
        made, _ = chat(says(fenced))
        events = [event async for event in made.stream("2+2?", response_format=Answer)]
        turn = events[-1].turn
        assert [e.text for e in events if isinstance(e, TextDelta)] == ['{"value": 4}']

    assert turn.content == '{"value": 4}'
    assert turn.response.parsed == Answer(4)


@pytest.mark.parametrize(
    ("wanted", "said", "data"),
    [(Answer, '{"value": 4}', {"value": 4}), (list[int], "[1, 2]", [1, 2]), ({"type": "json_object"}, "{}", {})],
)
async def test_the_turns_json_has_what_was_parsed(wanted, said, data):
    """As JSON data, whatever class it is of; and not where nothing was asked for."""
    made, _ = chat(says(said))
    assert (await made.respond("x", response_format=wanted)).to_dict()["parsed"] == data
    made, _ = chat(says(said))
    assert "parsed" not in (await made.respond("x")).to_dict()
