"""An answer that breaks off: asked for again, or left to the fallback, as long as none of it was delivered."""

import asyncio
import contextlib

import attrs
import pytest
from flexchat import (
    AnswerEnd,
    FlexChat,
    ReasoningDelta,
    TextDelta,
    TurnFailed,
    TurnFinished,
    tool,
)
from flexchat.errors import ProviderConnectionError
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_sdk import ProviderType, ToolCallDelta, ToolCallStart
from flexchat_testing import ScriptedProvider, calls, says

TWO = (TextDelta(0, "It "), TextDelta(0, "is "))
FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Breaking(ScriptedProvider):
    """Breaks its first streams off after some pieces."""

    def __init__(self, *replies, broken=1, pieces=TWO, pause=False):
        super().__init__(replies or ("It is clear.",))
        self.broken, self.pieces, self.streams, self.pause = broken, pieces, 0, pause

    async def stream_chat(self, messages, model, options):
        self.streams += 1
        if self.streams <= self.broken:
            for piece in self.pieces:
                yield piece
                if self.pause:  # the reader takes it
                    for _ in range(5):
                        await asyncio.sleep(0)
            raise ProviderConnectionError("broke off", retryable=True, retry_after_s=0)
        async for event in super().stream_chat(messages, model, options):
            yield event


@attrs.frozen
class Settings:
    is_other: bool = False


def chat_of(model, other=None, *, rule=None, **rest):
    """A chat with a model whose requests are repeated, as those of services in a config are."""

    class Registering:
        @hookimpl
        def flexchat_register_providers(self):
            yield ProviderType(
                name="scripted",
                config_class=Settings,
                create=lambda settings: (other or ScriptedProvider()) if settings.is_other else model,
                tool_formats={"scripted": lambda tools: [{"name": each.name} for each in tools]},
            )

    config = {
        "llms": {
            "bot": {"provider": "scripted"},
            "other": {"provider": "scripted", "default_model": "o", "is_other": True},
        },
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}, **(rule or {})}],
    }
    host = PluginHost()
    host.register(Registering(), "breaking", "acme-breaking 1.0")
    return FlexChat.from_config(config, plugins=host, **rest)


async def by_respond_with_a_key(chat):
    return await chat.respond("x", idempotency_key="k-1")


async def by_start(chat):
    return await chat.start("x").result()


async def by_start_with_a_late_reader(chat):
    handle = chat.start("x")
    await handle.last()
    events = [event async for _, event in handle.events()]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == events[-1].turn.content
    assert [number async for number, _ in handle.events()] == [*range(1, len(events) + 1)]
    return events[-1].turn


async def by_a_whole_stream(chat):
    events = [event async for event in chat.stream("x", is_whole=True)]
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == events[-1].turn.content
    return events[-1].turn


async def by_a_whole_stream_with_a_key(chat):
    return [event async for event in chat.stream("x", is_whole=True, idempotency_key="k-1")][-1].turn


async def by_a_reader_that_waits(chat):
    return [event async for _, event in chat.start("x").events(waits=lambda: True)][-1].turn


WAYS = [
    by_respond_with_a_key,
    by_start,
    by_start_with_a_late_reader,
    by_a_whole_stream,
    by_a_whole_stream_with_a_key,
    by_a_reader_that_waits,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("pause", [False, True])
async def test_an_answer_that_was_not_delivered_is_asked_for_again(way, pause):
    model = Breaking(pause=pause)

    turn = await way(chat_of(model))

    assert turn.content == "It is clear."
    assert model.streams == 2


@pytest.mark.parametrize("way", WAYS)
async def test_an_answer_that_was_not_delivered_is_left_to_the_fallback(way):
    model, other = Breaking(broken=9, pause=True), ScriptedProvider(["Rome."])

    turn = await way(chat_of(model, other, rule={"fallback": ["other"]}))

    assert turn.content == "Rome."
    assert turn.response.llm == "other"


@pytest.mark.parametrize("key", [None, "k-1"])
async def test_a_stream_whose_text_is_held_back_for_its_format_is_asked_for_again(key):
    model = Breaking('{"name": "Ada"}', pieces=[TextDelta(0, '{"na')], pause=True)

    events = [event async for event in chat_of(model).stream("x", response_format=FORM, idempotency_key=key)]

    assert events[-1].turn.response.parsed == {"name": "Ada"}
    assert model.streams == 2


@pytest.mark.parametrize(
    "pieces",
    [
        [TextDelta(0, "It ")],
        [ReasoningDelta(0, "Hm ")],
        [ToolCallStart(0, "look"), ToolCallDelta(0, "{")],
    ],
    ids=["text", "thought", "call"],
)
@pytest.mark.parametrize("key", [None, "k-1"])
async def test_an_answer_is_not_asked_for_again_once_a_piece_was_delivered(pieces, key):
    model, events = Breaking(pieces=pieces, pause=True), []

    with contextlib.suppress(ProviderConnectionError):
        async for event in chat_of(model).stream("x", idempotency_key=key):
            events.append(event)

    assert model.streams == 1
    assert not isinstance(events[-1], TurnFinished)
    assert [event for event in events if type(event) in map(type, pieces)] == pieces


async def test_a_reader_that_is_behind_gets_only_the_second_answer():
    """The pieces of the first are still in the feed when it breaks off."""
    model = Breaking()

    events = [event async for event in chat_of(model).stream("x")]

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "It is clear."
    assert sum(isinstance(event, AnswerEnd) for event in events) == 1


@pytest.mark.parametrize("pause", [False, True])
async def test_what_there_is_of_the_last_attempt_reaches_the_reader_and_is_kept(pause):
    model, events = Breaking(broken=9, pause=pause), []
    handle = chat_of(model).start("x")

    last = await handle.last()
    events = [event async for _, event in handle.events()]

    assert model.streams == 3
    assert isinstance(last, TurnFailed)
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["It ", "is "]
    assert last.turn.content == "It is "


async def test_a_reader_that_comes_during_an_answer_gets_what_there_is():
    """From then on the answer counts as delivered."""
    went_on = asyncio.Event()

    class Waiting(Breaking):
        async def stream_chat(self, messages, model, options):
            self.streams += 1
            yield TextDelta(0, "It ")
            await went_on.wait()
            raise ProviderConnectionError("broke off", retryable=True, retry_after_s=0)

    model = Waiting()
    handle = chat_of(model).start("x")
    texts = []
    async for _, event in handle.events():
        if isinstance(event, TextDelta):
            texts.append(event.text)
            went_on.set()

    assert (model.streams, texts) == (1, ["It "])


async def test_a_write_before_it_forbids_another_service_and_not_another_attempt():
    """The second attempt asks the same model with the same messages."""
    wrote = []

    @tool(effect="write")
    async def save(n: int) -> int:
        """Save."""
        wrote.append(n)
        return n

    class Second(Breaking):
        async def stream_chat(self, messages, model, options):
            if not self.requests:
                async for event in ScriptedProvider.stream_chat(self, messages, model, options):
                    yield event
            else:
                async for event in super().stream_chat(messages, model, options):
                    yield event

    model = Second(calls(("save", {"n": 1})), says("Saved."))
    chat = chat_of(model, ScriptedProvider(["other"]), rule={"fallback": ["other"]}, tools=[save])

    turn = await chat.respond("x", idempotency_key="k-1")

    assert (turn.content, wrote) == ("Saved.", [1])
