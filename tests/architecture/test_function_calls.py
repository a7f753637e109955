"""How many Python functions a turn in memory calls: a figure that does not depend on the machine."""

import asyncio
import json
import os
import subprocess
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


async def count_all():
    answer = says("It is nineteen degrees.")
    with_tool = [calls(("get_weather", {"city": "Paris"})), answer]
    return {
        "no_tools": await count_calls([answer], "read"),
        "read_tool": await count_calls(with_tool, "read"),
        "write_tool": await count_calls(with_tool, "write"),
    }


@pytest.fixture(scope="module")
def counts():
    """Return the counts of a process of its own, which has no secrets to look for in results."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the standard library of another Python calls others")
@pytest.mark.parametrize("turn", ["no_tools", "read_tool", "write_tool"])
def test_a_turn_calls_no_more_functions_than_its_budget(turn, counts):
    over = counts[turn] / BUDGETS[turn]
    assert over <= ALLOWED, f"{turn}: {counts[turn]:.0f} function calls, {over:.2f} times the recorded {BUDGETS[turn]}"


if __name__ == "__main__":
    print(json.dumps(asyncio.run(count_all())))
