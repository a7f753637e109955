"""What a provider may do wrong, and how long it may take."""

import asyncio

import pytest
from engines import Answering
from flexchat.calls.calls import ToolParts
from flexchat.calls.manager import ToolManager
from flexchat.config.model import LimitsTable, ResponseRule, RuleTools, ToolsTable
from flexchat.domain import (
    AnswerEnd,
    AssistantMessage,
    ChatResponse,
    ChatResult,
    Profile,
    TextDelta,
    TextPart,
    ToolCall,
)
from flexchat.errors import ProviderOverloadedError, ProviderProtocolError, ProviderTimeoutError, TurnTimeoutError
from flexchat.turn.answer import TOO_MANY_CALLS


def says(text, reason="stop"):
    return ChatResult(message=AssistantMessage(parts=(TextPart(text=text),)), finish_reason=reason)


def asks():
    call = ToolCall(name="now", arguments={})
    return ChatResult(message=AssistantMessage(parts=(TextPart(text="…"), call)), finish_reason="tool_calls")


class Whole:
    """Answers in one piece."""

    name = "odd"

    def __init__(self, *replies):
        self.replies = [*replies]

    def tool_format(self, model):
        return "odd"

    async def generate_chat(self, messages, model, options):
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        return await reply if asyncio.iscoroutine(reply) else reply


class Streaming(Whole):
    """Yields what it is given."""

    closed = False

    async def stream_chat(self, messages, model, options):
        try:
            for event in self.replies:
                if isinstance(event, Exception):
                    raise event
                yield await event if asyncio.iscoroutine(event) else event
        finally:
            self.closed = True


def now() -> str:
    """Tell the time."""
    return "noon"


async def answer(provider, *, streamed=False, timeout_ms=60_000, **table):
    tools = ToolManager(ToolsTable(**table), ToolParts(formats={"odd": lambda tools: [{} for _ in tools]}))
    tools.add([now])
    limits = LimitsTable(turn_timeout_ms=timeout_ms)
    rule = ResponseRule(llm="bot", model="m", tools=RuleTools())
    made = Answering(provider, rule, tools, limits)
    if streamed:
        return await made.events(Profile(topic="x"), "x")
    return [await made.respond(Profile(topic="x"), "x")]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([], "NoneType, not ChatResult"),
        ([TextDelta(0, "a")], "NoneType, not ChatResult"),
        ([AnswerEnd(says("a")), AnswerEnd(says("b"))], "continues after AnswerEnd"),
        ([AnswerEnd(says("a")), TextDelta(0, "b")], "continues after AnswerEnd"),
        ([AnswerEnd("a")], "str, not ChatResult"),
    ],
)
async def test_a_stream_that_breaks_its_contract_is_a_typed_error(events, words):
    """ProviderProtocolError, also where Python drops assertions."""
    provider = Streaming(*events)

    with pytest.raises(ProviderProtocolError, match=words):
        await answer(provider, streamed=True)
    assert provider.closed


@pytest.mark.parametrize("streamed", [False, True])
async def test_an_answer_that_is_none_is_a_typed_error(streamed):
    """From a provider that cannot stream, too."""
    with pytest.raises(ProviderProtocolError, match="NoneType"):
        await answer(Whole(None), streamed=streamed)


async def test_a_provider_that_cannot_stream_answers_in_one_piece():
    """The reader sees the same kinds of events."""
    events = await answer(Whole(says("Hi")), streamed=True)

    assert events[1:3] == [TextDelta(0, "Hi"), AnswerEnd(says("Hi"))]
    assert isinstance(events[-1], ChatResponse)


@pytest.mark.parametrize("provider", [Whole, Streaming])
@pytest.mark.usefixtures("virtual_time")
async def test_a_silent_provider_is_not_waited_for_beyond_the_turn(provider):
    """Whether or not it looks at options.timeout_s; cancelled, not left behind."""
    before = asyncio.all_tasks()
    silent = provider(asyncio.Event().wait())

    with pytest.raises(TurnTimeoutError, match="40 ms"):
        await answer(silent, streamed=provider is Streaming, timeout_ms=40)
    assert asyncio.all_tasks() == before
    assert asyncio.current_task().cancelling() == 0


@pytest.mark.parametrize("provider", [Whole, Streaming])
@pytest.mark.parametrize(("slow", "expected"), [(True, TurnTimeoutError), (False, ProviderTimeoutError)])
async def test_a_providers_timeout_is_the_turns_where_the_turn_is_over(monkeypatch, provider, slow, expected):
    """The provider was told how long it may take, so it may notice first; streamed or not."""

    async def too_late():
        if slow:
            monkeypatch.setattr("flexchat.turn.clock.time.monotonic", lambda: float("inf"))
        raise ProviderTimeoutError("no answer in time")

    with pytest.raises(expected):
        await answer(provider(too_late()), streamed=provider is Streaming)


@pytest.mark.parametrize("last", [asks(), says("", "stop")])
async def test_at_the_limit_only_a_text_is_an_answer(last):
    """A model that asks for tools again, or says nothing, is spoken for (RG-24)."""
    *_, response = await answer(Whole(asks(), last), max_iterations=1, at_limit="answer")

    assert (response.content, response.max_iterations_reached, len(response.tool_calls)) == (TOO_MANY_CALLS, True, 1)
    assert all(not isinstance(m, AssistantMessage) or not m.tool_calls for m in response.messages[3:])


async def test_a_cut_answer_at_the_limit_says_so():
    """The last answer's finish reason is looked at like any other's."""
    *_, response = await answer(Whole(asks(), says("It is", "length")), max_iterations=1, at_limit="answer")

    assert (response.content, response.max_iterations_reached) == ("It is", True)
    assert any("token limit" in warning for warning in response.warnings)


async def test_a_providers_error_at_the_limit_is_raised():
    """As from any other exchange."""
    with pytest.raises(ProviderOverloadedError):
        await answer(Whole(asks(), ProviderOverloadedError("x")), max_iterations=1, at_limit="answer")
