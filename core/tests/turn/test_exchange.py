"""One question to a model: who is asked, what gates may do to it, and what is told of it."""

import asyncio
import contextlib

import attrs
import pytest
from flexchat import FlexChat, ModelRequestFinished, ModelRequestStarted, UserMessage, tool
from flexchat.errors import ProviderConnectionError, ProviderProtocolError, RequestRefusedError, TurnTimeoutError
from flexchat.plugin import ToolContext, hookimpl
from flexchat_testing import ScriptedProvider, calls, says

DOWN = ProviderConnectionError("no", retryable=True)
RULE = {"llm": "bot", "model": "m", "tools": {"enabled": True}}


def chat_of(*replies, other=(), rule=None, **rest):
    config = {"llms": {"bot": {"provider": "scripted"}, "other": {"provider": "scripted", "default_model": "o"}}}
    config |= {"responses": [{**RULE, **(rule or {})}], **rest.pop("config", {})}
    models = {"bot": ScriptedProvider(replies), "other": ScriptedProvider(other)}
    return FlexChat.from_config(config, providers=models, **rest), models


def gate(decide):
    """A plugin that decides about requests."""

    class Gate:
        @hookimpl
        def flexchat_before_model_request(self, request):
            return decide(request)

    return Gate()


async def events_of(chat, message="x"):
    events = []
    with contextlib.suppress(Exception):
        async for event in chat.stream(message):
            events.append(event)
    return events


# gates


async def test_a_gate_may_change_what_is_sent_and_nothing_else_is_changed():
    def anonymous(request):
        messages = tuple(UserMessage(content=m.content.replace("Ann", "N.N.")) for m in request.messages)
        return attrs.evolve(request, messages=messages, model="small")

    chat, models = chat_of(says("ok"), hooks=[gate(anonymous)])
    turn = await chat.respond("I am Ann")

    (request,) = models["bot"].requests
    assert [message.content for message in request.messages] == ["I am N.N."]
    assert request.model == turn.response.model == turn.response.rounds[0].model == "small"
    assert turn.response.messages[0].content == "I am Ann"


@pytest.mark.parametrize(
    ("decide", "words"),
    [
        (lambda request: (_ for _ in ()).throw(RequestRefusedError("not today")), "not today"),
        (lambda request: 1 / 0, "Gate could not decide about this request"),
        (lambda request: "yes", "Gate returned str instead of a ModelRequest"),
        (lambda request: attrs.evolve(request, llm="other"), "moved the request from 'bot' to 'other'"),
        (lambda request: attrs.evolve(request, messages=["x"]), "messages are not messages"),
        (lambda request: attrs.evolve(request, messages=None), "messages are not messages"),
        (lambda request: attrs.evolve(request, options=None), "options are NoneType"),
        (lambda request: attrs.evolve(request, model=7), "model is int"),
    ],
    ids=["refuses", "breaks", "answers", "moves it", "texts", "no messages", "no options", "no model"],
)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_gate_that_refuses_or_breaks_stays_shut(decide, words, streamed):
    """Nothing is sent, to nobody; no other service is asked instead."""
    chat, models = chat_of(says("ok"), other=[says("ok")], rule={"fallback": ["other"]}, hooks=[gate(decide)])
    work = events_of_or_raise(chat) if streamed else chat.respond("x")
    with pytest.raises(RequestRefusedError, match=words) as caught:
        await work

    assert models["bot"].requests == models["other"].requests == []
    assert caught.value.turn.status == "failed"


async def events_of_or_raise(chat):
    return [event async for event in chat.stream("x")]


async def test_no_gate_is_asked_ahead_of_the_reader():
    """Whoever leaves a stream at a tool's result has sent nothing behind it, and no budget has been charged for it."""
    asked = []

    @tool
    async def add(a: int) -> int:
        """Add."""
        return a

    chat, _ = chat_of(calls(("add", {"a": 1})), says("ok"), tools=[add], hooks=[gate(asked.append)])
    async with contextlib.aclosing(chat.stream("x")) as events:
        async for event in events:
            if type(event).__name__ == "ToolFinished":
                for _ in range(20):
                    await asyncio.sleep(0)
                break

    assert len(asked) == 1


@pytest.mark.usefixtures("virtual_time")
async def test_a_gate_that_hangs_ends_with_the_turns_time():
    async def hang(request):
        await asyncio.Event().wait()

    chat, _ = chat_of(says("ok"), hooks=[gate(hang)], config={"limits": {"turn_timeout_ms": 40}})
    with pytest.raises(TurnTimeoutError, match="40 ms"):
        await chat.respond("x")


# what is told


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (lambda *_: ProviderConnectionError("no"), ProviderConnectionError),
        (lambda *_: KeyError("a bug"), KeyError),
        (lambda *_: SystemExit(3), ProviderProtocolError),
    ],
)
async def test_a_request_that_fails_is_told_as_finished(trouble, kind):
    """Whatever fails: what has begun ends."""
    chat, _ = chat_of(trouble)
    events = await events_of(chat)

    (started,) = [event for event in events if isinstance(event, ModelRequestStarted)]
    (finished,) = [event for event in events if isinstance(event, ModelRequestFinished)]
    assert (started.llm, finished.llm, finished.result) == ("bot", "bot", None)
    assert isinstance(finished.error, kind)


async def test_a_fallback_is_a_request_of_its_own():
    chat, _ = chat_of(DOWN, other=[says("ok")], rule={"fallback": ["other"]})
    events = await events_of(chat)

    told = [event for event in events if isinstance(event, ModelRequestStarted | ModelRequestFinished)]
    assert [(type(event).__name__, event.llm) for event in told] == [
        ("ModelRequestStarted", "bot"),
        ("ModelRequestFinished", "bot"),
        ("ModelRequestStarted", "other"),
        ("ModelRequestFinished", "other"),
    ]
    assert told[1].error is not None
    assert told[3].result.content == "ok"


async def test_after_a_write_of_a_tool_that_another_called_nobody_takes_over():
    wrote = []

    @tool(effect="write")
    async def save(n: int) -> int:
        """Save."""
        wrote.append(n)
        return n

    @tool(effect="read")
    async def look(context: ToolContext) -> str:
        """Look."""
        await context.call_tool("save", {"n": 1})
        return "seen"

    chat, models = chat_of(
        calls(("look", {})),
        DOWN,
        other=[says("ok")],
        rule={"fallback": ["other"]},
        tools=[save, look],
    )
    with pytest.raises(ProviderConnectionError):
        await chat.respond("x")

    assert wrote == [1]
    assert models["other"].requests == []


TOPIC = {
    "topic": {"llm": "other", "model": "m"},
    "responses": [{"llm": "bot", "model": "m", "prompt": "On {{topic}}"}],
}


@pytest.mark.usefixtures("virtual_time")
async def test_a_phase_that_takes_too_long_ends_its_request():
    """The turn goes on with a warning, and whoever draws a span can close it."""

    async def never(messages, options):
        await asyncio.Event().wait()

    config = {**TOPIC, "limits": {"phase_timeout_ms": 20}}
    chat, _ = chat_of(says("ok"), other=[never], config=config)
    events = [event async for event in chat.stream("x", history=[{"role": "user", "content": "y"}])]

    (finished,) = [e for e in events if isinstance(e, ModelRequestFinished) and e.llm == "other"]
    assert isinstance(finished.error, TimeoutError)
    assert events[-1].turn.response.content == "ok"
    assert events[-1].turn.response.warnings


@pytest.mark.usefixtures("virtual_time")
async def test_a_slow_reader_takes_nothing_of_a_phases_time():
    config = {**TOPIC, "limits": {"phase_timeout_ms": 30}}
    chat, _ = chat_of(says("ok"), other=[says('{"topic": "tea", "status": "new_topic"}')], config=config)
    async for event in chat.stream("x", history=[{"role": "user", "content": "y"}]):
        if isinstance(event, ModelRequestStarted) and event.llm == "other":
            await asyncio.sleep(0.06)

    assert event.turn.response.warnings == ()
