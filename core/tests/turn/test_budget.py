"""limits.turn_cost and limits.turn_tokens."""

import asyncio

import pytest
from flexchat import FlexChat, ModelRequestStarted, TurnLimitError, Usage, tool
from flexchat_testing import ScriptedProvider, calls, says

USAGE = {"input_tokens": 1000, "output_tokens": 100}
CALL = {"tool_calls": [{"name": "look", "arguments": {}}], "usage": USAGE}
END = {"text": "Done.", "usage": USAGE}
PRICES = {"m": {"input": 1, "output": 10}}  # each request costs $0.002


@tool(repeatable=True)
def look() -> str:
    """Look."""
    return "nothing"


async def asked(limits, *replies, prices=PRICES):
    """Return the turn or its error, and how often the model was asked."""
    llm = {"provider": "scripted", "replies": [*replies], "prices": prices}
    rule = {"llm": "bot", "model": "m", "tools": {"enabled": True, "max_iterations": 9}}
    config = {"llms": {"bot": llm}, "responses": [rule], "limits": limits}
    async with FlexChat.from_config(config, tools=[look]) as chat:
        try:
            turn = await chat.respond("Hi")
        except TurnLimitError as error:
            return str(error), len(error.turn.response.rounds)
        return turn.status, len(turn.response.rounds)


@pytest.mark.parametrize(
    ("limits", "ended", "rounds"),
    [
        ({"turn_cost": 0.01}, "done", 3),
        ({"turn_cost": 0.003}, "the turn has cost $0.004, and limits.turn_cost allows $0.003", 2),
        ({"turn_cost": 0.002}, "the turn has cost $0.002, and limits.turn_cost allows $0.002", 1),
        ({"turn_tokens": 10_000}, "done", 3),
        ({"turn_tokens": 1_101}, "the turn has used 2,200 tokens, and limits.turn_tokens allows 1,101", 2),
        ({"turn_tokens": 1}, "the turn has used 1,100 tokens, and limits.turn_tokens allows 1", 1),
    ],
)
async def test_no_model_is_asked_once_a_ceiling_is_reached(limits, ended, rounds):
    """The first answer alone may go beyond it; what was done by then is in the error's turn."""
    assert await asked(limits, CALL, CALL, END) == (ended, rounds)


async def test_a_cost_that_is_unknown_counts_as_reached():
    """No model is asked at all that has no price, and none a second time that does not say what it used."""
    text, rounds = await asked({"turn_cost": 1}, END, prices={})
    assert "no price is known for bot/m" in text
    assert rounds == 0
    without = {key: value for key, value in CALL.items() if key != "usage"}
    for limits in ({"turn_cost": 1}, {"turn_tokens": 10_000}):
        text, rounds = await asked(limits, without, END)
        assert "cannot be kept" in text
        assert rounds == 1


@pytest.mark.parametrize("limits", [{"turn_cost": 0}, {"turn_cost": -1}, {"turn_tokens": 0}, {"turn_cost": "1"}])
async def test_what_is_no_ceiling_is_a_problem(limits):
    from flexchat import ConfigError

    with pytest.raises(ConfigError, match=r"limits"):
        await asked(limits, END)


async def test_a_chat_adds_up_what_its_turns_cost_also_outside_of_conversations(tmp_path):
    llm = {"provider": "scripted", "replies": [END], "repeat": True, "prices": PRICES}
    config = {
        "llms": {"bot": llm},
        "responses": [{"llm": "bot", "model": "m"}],
        "conversations": {"path": str(tmp_path / "c.db")},
    }
    async with FlexChat.from_config(config) as chat:
        assert str(chat.cost()) == "$0"
        await chat.respond("Hi")
        for number in range(3):
            await chat.respond("Hi", conversation=f"c{number}")
        await chat.respond("Hi", conversation="c", tenant="ada")

        assert (str(chat.cost()), str(chat.cost(tenant="ada"))) == ("$0.008", "$0.002")
        kept = chat.conversations
        assert kept is not None
        assert str(await kept.cost()) == "$0.006"
        assert str(await kept.cost(tenant="ada")) == str(await kept.of("ada").cost()) == "$0.002"
        assert (await kept.cost(tenant="nobody")).known_amount == 0


@pytest.mark.parametrize("then", ["resume", "close"])
async def test_an_answer_of_an_interrupted_turn_is_counted_once(tmp_path, then):
    """The turn is resumed, or closed, in the process that has counted its first answer."""

    async def wait(messages, options):
        await asyncio.Event().wait()

    call = calls(("look", {}), usage=Usage(**USAGE))
    config = {
        "llms": {"bot": {"provider": "scripted", "prices": PRICES}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        "conversations": {"path": str(tmp_path / "c.db")},
    }
    model = ScriptedProvider([call, wait, says("Done.", usage=Usage(**USAGE))])
    async with FlexChat.from_config(config, tools=[look], providers={"bot": model}) as chat:
        handle = chat.start("Hi", conversation="c")
        requests = 0
        async for _, event in handle.events():
            requests += isinstance(event, ModelRequestStarted)
            if requests == 2:
                break
        handle.interrupt()
        await handle.last()
        interrupted = chat.cost()
        turn = await (chat.resume if then == "resume" else chat.close_turn)(handle.id)

        assert (str(interrupted), str(turn.cost)) == (
            "at least $0.002",
            "$0.004" if then == "resume" else "at least $0.002",
        )
        assert str(chat.cost()) == ("at least $0.004" if then == "resume" else "at least $0.002")


async def test_an_over_long_request_ends_with_advice():
    """Whichever end refuses it: the model's service, or the limit of a message."""
    from flexchat import ChatRequestError, ContextLengthError

    config = {
        "llms": {"bot": {"provider": "scripted", "replies": [{"error": "context_length"}]}},
        "responses": [{"llm": "bot", "model": "m"}],
        "limits": {"message_chars": 5},
    }
    async with FlexChat.from_config(config) as chat:
        with pytest.raises(ChatRequestError, match="shorten it, raise the limit, or search it"):
            await chat.respond("Hello!")
        with pytest.raises(ContextLengthError):
            await chat.respond("Hi")
