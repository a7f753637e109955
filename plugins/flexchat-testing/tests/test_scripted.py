"""The scripted model."""

import pytest
from flexchat.config.structure import structure_mapping
from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import (
    AnswerEnd,
    ChatOptions,
    ProviderAuthError,
    ProviderRateLimitError,
    ProviderRequestError,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    UserMessage,
)
from flexchat_testing import ScriptedProvider, calls, says
from flexchat_testing.scripted import ScriptedConfig, create
from hypothesis import given
from hypothesis import strategies as st

ASKED = (UserMessage(content="hello"),)


def configured(**table):
    config, problems = structure_mapping(table, ScriptedConfig)
    assert not problems, problems
    return create(config)


async def ask(provider, messages=ASKED):
    return await provider.generate_chat(messages, "any-model", ChatOptions())


async def stream(provider):
    return [event async for event in provider.stream_chat(ASKED, "any-model", ChatOptions())]


async def test_replies_come_in_order_and_what_was_asked_is_kept():
    """A text, a result, and calls, each for one request."""
    provider = ScriptedProvider(["one", says("two", finish_reason="length"), calls(("echo", {"a": 1}))])

    answers = [await ask(provider) for _ in range(3)]

    assert [a.content for a in answers] == ["one", "two", None]
    assert [a.finish_reason for a in answers] == ["stop", "length", "tool_calls"]
    assert answers[2].tool_calls[0].arguments == {"a": 1}
    assert provider.requests[0].messages == ASKED
    assert provider.requests[0].model == "any-model"
    assert provider.requests[0].options == ChatOptions()


async def test_broken_arguments_stay_as_they_were_written():
    """Scenario: the model writes arguments that are no JSON (C5): the call carries the text and the reason."""
    (call,) = (await ask(ScriptedProvider([calls(("echo", "{broken"))]))).tool_calls

    assert call.arguments is None
    assert call.raw_arguments == "{broken"
    assert "not valid JSON" in call.error


async def test_an_exception_is_raised_and_a_function_is_asked():
    """A function sees messages and options; what it returns may be any reply, awaited if need be."""

    async def later(messages, options):
        return lambda messages, options: messages[-1].content.upper()

    provider = ScriptedProvider([ProviderRateLimitError("slow down"), later])

    with pytest.raises(ProviderRateLimitError):
        await ask(provider)
    assert (await ask(provider)).content == "HELLO"


async def test_a_script_that_runs_out_says_what_was_asked():
    """The test that forgot a reply reads which one."""
    provider = ScriptedProvider(["only one"], name="my-model")
    await ask(provider)

    with pytest.raises(ProviderRequestError, match=r"no reply to request 2: it has 1.*user: 'hello'") as caught:
        await ask(provider)
    assert caught.value.provider == provider.name == "my-model"


async def test_complete_means_every_reply_was_asked_for():
    """Left-over replies fail the test that wrote them."""
    provider = ScriptedProvider(["one", "two"])
    await ask(provider)

    with pytest.raises(AssertionError, match="1 of 2"):
        provider.assert_complete()
    await ask(provider)
    provider.assert_complete()


async def test_a_repeated_script_calls_with_new_ids():
    """Call ids are unique for ever (C3), also in a script that begins again."""
    provider = ScriptedProvider([calls(("echo", {}), text="so")], repeat=True)

    answers = [await ask(provider) for _ in range(3)]

    assert len({a.tool_calls[0].id for a in answers}) == 3
    assert {a.content for a in answers} == {"so"}


async def test_a_config_tells_replies():
    """replies = [...] in an llms entry: texts, calls (also with broken arguments), finish reasons and errors."""
    provider = configured(
        replies=[
            {"text": "hi"},
            {"tool_calls": [{"name": "a", "arguments": {"x": 1}}, {"name": "b", "arguments": "{"}, {"name": "c"}]},
            {"tool_calls": [{"name": "a"}], "finish_reason": "stop"},
            {"error": "auth"},
            {"error": "quota"},
        ]
    )

    first, second, third = [await ask(provider) for _ in range(3)]

    assert (first.content, first.finish_reason) == ("hi", "stop")
    assert [c.arguments for c in second.tool_calls] == [{"x": 1}, None, {}]
    assert (second.finish_reason, third.finish_reason) == ("tool_calls", "stop")
    with pytest.raises(ProviderAuthError):
        await ask(provider)
    with pytest.raises(ProviderRateLimitError) as caught:
        await ask(provider)
    assert not caught.value.retryable


async def test_every_error_a_config_can_name_is_raised():
    """error = "…" gives each class of trouble."""
    names = ["auth", "connection", "content_filter", "context_length", "model_not_found", "overloaded"]
    names += ["protocol", "quota", "rate", "request", "timeout"]
    provider = configured(replies=[{"error": name} for name in names], repeat=False)

    kinds = []
    for _ in names:
        with pytest.raises(Exception, match="the script says") as caught:
            await ask(provider)
        kinds.append((type(caught.value).__name__, caught.value.retryable))

    assert len(set(kinds)) == len(names)


async def test_a_reply_may_say_what_it_took():
    """With calls or without; where it does not, the model counts nothing."""
    used = {"input_tokens": 9, "output_tokens": 5, "reasoning_tokens": 2, "cache_read_tokens": 3}
    replies = [{"text": "a", "usage": used}, {"tool_calls": [{"name": "echo"}], "usage": used}, {"text": "b"}]
    model = configured(replies=replies)

    usages = [(await ask(model)).usage for _ in replies]

    assert [usage and usage.to_dict() for usage in usages] == [used, used, None]


def test_a_wrong_error_name_is_a_config_error():
    """The names there are stand in the error."""
    _, problems = structure_mapping({"replies": [{"error": "nope"}]}, ScriptedConfig)

    assert "rate" in problems[0]


async def test_a_stream_tells_texts_by_word_and_calls_in_pieces():
    """TextDelta per word; ToolCallStart, deltas and ToolCallEnd per call; then the whole result."""
    result = calls(("echo", {"a": "b c"}), text="I will look.")

    events = await stream(ScriptedProvider([result]))

    assert [e.text for e in events if isinstance(e, TextDelta)] == ["I ", "will ", "look."]
    assert [type(e) for e in events[3:5]] == [ToolCallStart, ToolCallDelta]
    assert isinstance(events[-2], ToolCallEnd)
    assert events[-1] == AnswerEnd(result)


REPLIES = st.one_of(
    st.text().map(says),
    st.lists(
        st.tuples(st.text(min_size=1), st.one_of(st.text(), st.dictionaries(st.text(), st.integers()))), min_size=1
    ).map(lambda named: calls(*named, text="beside")),
)


@given(REPLIES)
async def test_the_pieces_of_a_stream_make_the_unstreamed_answer(result: ChatResult):
    """Whatever is said: deltas joined are the text and the arguments, and the end is the result itself."""
    events = await stream(ScriptedProvider([result]))

    assert events[-1].result is result
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (result.content or "")
    for index, part in enumerate(result.message.parts):
        if isinstance(part, ToolCall):
            written = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta) and e.index == index)
            assert ToolCall.from_text(part.name, written, id=part.id).arguments == part.arguments


async def test_there_is_one_model_and_nothing_to_close():
    """list_models, tool_format and aclose need no network."""
    provider = ScriptedProvider()

    assert [m.id for m in await provider.list_models()] == ["scripted"]
    assert provider.tool_format("x") == "scripted"
    await provider.aclose()
