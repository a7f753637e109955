"""A rule's fallback: other services stand in while the first does not answer, and never where that could do harm."""

import asyncio

import pytest
from flexchat import ConfigError, FlexChat, TextDelta, TurnFinished, tool
from flexchat_sdk import ProviderAuthError, ProviderConnectionError, ProviderOverloadedError, ProviderRateLimitError
from flexchat_testing.scripted import ScriptedProvider, calls, says

DOWN = ProviderOverloadedError("the service failed with status 503", provider="scripted", status=503)


@tool(effect="read")
def look() -> str:
    """Look something up."""
    return "found"


@tool
def order() -> str:
    """Order something."""
    return "ordered"


def chat(first, second, third=(), *, tools=()):
    names = ("one", "two", "three")
    config = {
        "llms": {name: {"provider": "scripted", "default_model": f"{name}-model"} for name in names},
        "responses": [{"llm": "one", "fallback": ["two", "three"], "tools": {"enabled": bool(tools)}}],
    }
    models = [m if isinstance(m, ScriptedProvider) else ScriptedProvider(m) for m in (first, second, third)]
    return FlexChat.from_config(config, tools=tools, providers=dict(zip(names, models, strict=True))), models


@pytest.mark.parametrize(
    "trouble",
    [DOWN, ProviderRateLimitError("too often"), ProviderConnectionError("no connection", retryable=True)],
    ids=["overloaded", "rate", "connection"],
)
async def test_the_next_service_answers_with_its_own_model(trouble):
    """The answer names who really gave it, and a warning says why."""
    made, (_, second, _) = chat([trouble], [says("Hello")])

    response = (await made.respond("Hi")).response

    assert (response.content, response.llm, response.model) == ("Hello", "two", "two-model")
    assert second.requests[0].model == "two-model"
    assert any("one did not answer" in warning and "two" in warning for warning in response.warnings)


async def test_the_list_is_gone_through_in_order():
    """Until one answers."""
    made, _ = chat([DOWN], [DOWN], [says("Hello")])

    assert (await made.respond("Hi")).response.llm == "three"


async def test_when_all_fail_the_last_error_is_raised():
    """There is nobody left."""
    made, _ = chat([DOWN], [DOWN], [ProviderRateLimitError("too often")])

    with pytest.raises(ProviderRateLimitError):
        await made.respond("Hi")


async def test_an_error_that_would_come_back_elsewhere_does_not_fall_back():
    """Only retryable ones: a wrong key is for a person to mend."""
    made, (_, second, _) = chat([ProviderAuthError("no key")], [says("Hello")])

    with pytest.raises(ProviderAuthError):
        await made.respond("Hi")
    assert second.requests == []


async def test_the_turn_goes_on_elsewhere_after_a_tool_that_only_reads():
    """The second service is handed the whole conversation, tools and their results."""
    made, (_, second, _) = chat([calls(("look", {})), DOWN], [says("It was found")], tools=[look])

    response = (await made.respond("Look!")).response

    assert (response.content, response.llm) == ("It was found", "two")
    assert [m.role for m in second.requests[0].messages] == ["user", "assistant", "tool"]
    assert second.requests[0].options.tools


async def test_never_after_a_tool_with_side_effects_ran():
    """Another model might order once more."""
    made, (_, second, _) = chat([calls(("order", {})), DOWN], [says("Done")], tools=[order])

    with pytest.raises(ProviderOverloadedError):
        await made.respond("Order!")
    assert second.requests == []


async def test_a_call_that_was_refused_has_no_side_effect():
    """Nothing ran, so somebody else may take over."""
    made, _ = chat([calls(("order", "{broken")), DOWN], [says("Sorry")], tools=[order])

    assert (await made.respond("Order!")).response.llm == "two"


async def test_a_stream_falls_back_before_its_first_piece():
    """Nothing had been shown."""
    made, _ = chat([DOWN], [says("Hello")])

    events = [event async for event in made.stream("Hi")]

    assert isinstance(events[-1], TurnFinished)
    assert events[-1].turn.response.llm == "two"
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello"


class Breaking(ScriptedProvider):
    """A service whose stream breaks after its first piece."""

    def __init__(self, *, pause):
        super().__init__([])
        self.pause = pause

    async def stream_chat(self, messages, model, options):
        yield TextDelta(0, "He")
        if self.pause:  # the reader takes the piece
            for _ in range(5):
                await asyncio.sleep(0)
        raise DOWN


async def test_a_stream_whose_first_piece_was_not_delivered_falls_back():
    """The piece is taken back, and the reader gets one answer."""
    made, _ = chat(Breaking(pause=False), [says("Hello")])

    events = [event async for event in made.stream("Hi")]

    assert events[-1].turn.response.llm == "two"
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == "Hello"


async def test_a_stream_that_has_begun_does_not_fall_back():
    """Half an answer of one model and half of another is none."""
    made, (_, second, _) = chat(Breaking(pause=True), [says("Hello")])

    with pytest.raises(ProviderOverloadedError):
        _ = [event async for event in made.stream("Hi")]
    assert second.requests == []


@pytest.mark.parametrize(
    ("fallback", "words"),
    [(["tow"], r"did you mean 'two'"), (["bare"], "default_model"), ([3], "text"), ("two", "list")],
)
def test_a_fallback_that_cannot_work_is_a_problem_of_the_config(fallback, words):
    """Said when the file is read, not in the night it is needed."""
    config = {
        "llms": {
            "one": {"provider": "scripted", "default_model": "m"},
            "two": {"provider": "scripted", "default_model": "m"},
            "bare": {"provider": "scripted"},
        },
        "responses": [{"llm": "one", "fallback": fallback}],
    }
    with pytest.raises(ConfigError, match=words):
        FlexChat.from_config(config)
