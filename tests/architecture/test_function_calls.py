"""How many Python functions a turn in memory calls: a figure that does not depend on the machine."""

import sys
import tomllib
from pathlib import Path

import pytest
from flexchat import FlexChat, tool
from flexchat_testing import ScriptedProvider, calls, says

BUDGETS = tomllib.loads(Path(__file__).with_name("budgets.toml").read_text())["function_calls"]
ALLOWED = 1.1
TURNS = 10


async def count_calls(replies, effect):
    @tool(name="get_weather", effect=effect)
    async def get_weather(city: str) -> str:
        """Get the weather."""
        return "19"

    model = ScriptedProvider(replies, repeat=True)
    config = {
        "llms": {"it": {"provider": "scripted"}},
        "responses": [{"llm": "it", "model": "m", "prompt": "Be brief.", "tools": {"enabled": True}}],
    }
    chat, count = FlexChat.from_config(config, tools=[get_weather], providers={"it": model}), 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    for number in range(2 * TURNS):
        if number == TURNS:  # the first turns import and prepare
            earlier = sys.getprofile()
            sys.setprofile(note)
        await chat.respond("How is the weather?")
        model.requests.clear()
    sys.setprofile(earlier)
    return count / TURNS


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the standard library of another Python calls others")
@pytest.mark.parametrize("turn", ["no_tools", "read_tool", "write_tool"])
async def test_a_turn_calls_no_more_functions_than_its_budget(turn):
    answer = says("It is nineteen degrees.")
    replies = [answer] if turn == "no_tools" else [calls(("get_weather", {"city": "Paris"})), answer]
    count = await count_calls(replies, "write" if turn == "write_tool" else "read")
    over = count / BUDGETS[turn]
    assert over <= ALLOWED, f"{turn}: {count:.0f} function calls, {over:.2f} times the recorded {BUDGETS[turn]}"
