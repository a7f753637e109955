"""A thousand tools of a source cost nothing until they are needed, and a call of one costs no more than any other."""

import asyncio
import json
import time

import pytest
from flexchat import FlexChat
from flexchat.plugin.host import PluginHost
from flexchat_testing import ScriptedProvider, says

pytestmark = pytest.mark.slow

MANY = 1_000
PARAMETERS = {
    "type": "object",
    "properties": {f"p{n}": {"type": "string", "description": "One of its parameters."} for n in range(5)},
    "required": ["p0"],
}
OWN = """
[[tools.registry]]
name = "own"
description = "A tool of the configuration."
effect = "read"
implementation = { type = "mock", mock_response = {} }
parameters = { type = "object", required = ["p0"], properties = { p0 = { type = "string" } } }
"""
RULES = """
[llms.bot]
provider = "scripted"

[[responses]]
llm = "bot"
model = "m"
tools = { allowed_tools = ["own"] }
"""
SOURCE = '\n[[tools.listed]]\nname = "api"\nfile = "tools.json"\n'


@pytest.fixture
def files(tmp_path):
    """A configuration without a source, and one with a source whose tools were accepted."""
    host = PluginHost()
    host.load_installed()
    tools = [
        {"name": f"operation_{n}", "description": "Do one of many things.", "parameters": PARAMETERS, "effect": "read"}
        for n in range(MANY)
    ]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    none, many = tmp_path / "none.toml", tmp_path / "many.toml"
    none.write_text(RULES + OWN)
    many.write_text(RULES + OWN + SOURCE)

    def chat(path):
        return FlexChat.from_config(
            path, plugins=host, providers={"bot": ScriptedProvider([says("Yes.")], repeat=True)}
        )

    async def accept():
        async with chat(many) as opened:
            assert len(await opened.tools.sources.accept("api")) == 0
            assert len(opened.tools.get_registry().list()) == MANY + 1

    asyncio.run(accept())
    return none, many, chat


@pytest.mark.timed
def test_a_start_and_a_turn_without_them_cost_the_same(files):
    """1.2 times at most; processor time, the best of several."""
    none, many, chat = files

    def seconds(path):
        async def one():
            async with chat(path) as opened:
                await opened.respond("Hello.")

        began = time.process_time()
        asyncio.run(one())
        return time.process_time() - began

    best = {path: float("inf") for path in (none, many)}
    for _ in range(12):
        for path in best:
            best[path] = min(best[path], seconds(path))
    print(f"without {best[none] * 1000:.1f} ms, with {best[many] * 1000:.1f} ms")
    assert best[many] <= best[none] * 1.2 + 0.001


@pytest.mark.timed
def test_a_call_costs_the_same(files):
    """50 µs more at most: look-up and argument check among a thousand."""
    _, many, chat = files

    async def best_us(opened, name):
        found = []
        for _ in range(8):
            began = time.process_time()
            for _ in range(50):
                assert (await opened.call_tool(name, {"p0": "x"})).success
            found.append((time.process_time() - began) / 50 * 1e6)
        return min(found)

    async def compare():
        async with chat(many) as opened:
            return await best_us(opened, "own"), await best_us(opened, f"operation_{MANY - 1}")

    own, sourced = asyncio.run(compare())
    print(f"own {own:.0f} µs, of a source {sourced:.0f} µs")
    assert sourced <= own + 50
