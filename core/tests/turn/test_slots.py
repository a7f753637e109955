"""A service gets at most max_parallel requests at a time; the others wait, and nothing keeps a slot."""

import asyncio

import pytest
from flexchat import FlexChat
from flexchat.config.reading import read_config
from flexchat.errors import ConfigError, TurnTimeoutError
from flexchat_testing import ScriptedProvider, says


class Counting:
    """A model that answers when it is let, and counts how many ask at once."""

    name = "counting"

    def __init__(self):
        self.now = self.most = self.asked = 0
        self.go_on = asyncio.Event()

    def tool_format(self, model):
        return "scripted"

    async def generate_chat(self, messages, model, options):
        self.now, self.asked = self.now + 1, self.asked + 1
        self.most = max(self.most, self.now)
        try:
            await self.go_on.wait()
        finally:
            self.now -= 1
        return await ScriptedProvider([says("ok")]).generate_chat(messages, model, options)

    async def aclose(self):
        pass

    async def list_models(self):
        return ()


def chat_of(provider, **limits):
    config = {
        "llms": {"bot": {"provider": "scripted", "max_parallel": 2}},
        "responses": [{"llm": "bot", "model": "m"}],
        "limits": limits,
    }
    return FlexChat.from_config(config, providers={"bot": provider})


async def asked(provider, times):
    while provider.asked < times:  # noqa: ASYNC110  # the event would be set by the code under test
        await asyncio.sleep(0)


async def test_no_more_than_allowed_ask_at_a_time():
    """Seven turns at once, two slots: all are answered, two at a time."""
    provider = Counting()
    async with chat_of(provider) as chat:
        turns = [asyncio.create_task(chat.respond(f"Hello {number}")) for number in range(7)]
        await asked(provider, 2)
        for _ in range(50):
            await asyncio.sleep(0)
        assert provider.asked == 2
        provider.go_on.set()
        answers = [turn.response.content for turn in await asyncio.gather(*turns)]

    assert (answers, provider.most) == (["ok"] * 7, 2)


async def test_who_leaves_frees_its_slot_and_who_waits_can_leave():
    """Cancelled while it is answered, and while it waits."""
    provider = Counting()
    async with chat_of(provider) as chat:
        first, second, third, fourth = (asyncio.create_task(chat.respond("Hello")) for _ in range(4))
        await asked(provider, 2)
        third.cancel()
        first.cancel()
        await asked(provider, 3)
        provider.go_on.set()
        done = await asyncio.gather(first, second, third, fourth, return_exceptions=True)

    assert [type(each).__name__ for each in done] == ["CancelledError", "Turn", "CancelledError", "Turn"]


@pytest.mark.usefixtures("virtual_time")
async def test_waiting_counts_as_time_of_the_turn_and_the_error_says_so():
    """Nobody waits longer than a turn may take."""
    async with chat_of(Counting(), turn_timeout_ms=50) as chat:
        slots = chat.llms["bot"].slots.here()
        async with slots, slots:
            with pytest.raises(TurnTimeoutError, match=r"waiting until 'bot' has fewer requests \(max_parallel\)"):
                await chat.respond("Hello")


def test_each_event_loop_has_its_own_slots():
    """One chat used by several asyncio.run."""
    provider = ScriptedProvider([says("ok")], repeat=True)
    chat = chat_of(provider)

    async def three():
        return await asyncio.gather(*(chat.respond("Hello") for _ in range(3)))

    for _ in range(2):
        assert [turn.response.content for turn in asyncio.run(three())] == ["ok"] * 3


def test_less_than_one_is_refused(tmp_path):
    """Nothing would ever be answered."""
    file = tmp_path / "flexchat.toml"
    file.write_text('[llms.bot]\nprovider = "scripted"\nmax_parallel = 0\n[[responses]]\nllm = "bot"\n')

    with pytest.raises(ConfigError, match="max_parallel"):
        FlexChat.from_config(read_config(file))
