"""The first call of a tool, and the first price, hold up no other turn: nothing is imported on the event loop."""

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, sys, threading
from typing import Annotated
import pydantic
from flexchat import FlexChat, SyncFlexChat, tool
from flexchat_testing import ScriptedProvider, calls, says

class Guest(pydantic.BaseModel):
    name: str

@tool
def add(a: int, b: int = 1) -> int:
    "Add."
    return a + b

@tool
async def welcome(guests: list[Guest], nights: Annotated[int, pydantic.Field(ge=1)] = 1) -> str:
    "Welcome."
    return ", ".join(guest.name for guest in guests)

CONFIG = {
    "llms": {"m": {"provider": "scripted"}},
    "tools": {"registry": [{"name": "calculator"}, {"name": "get_current_datetime"}, {
        "name": "mocked", "description": "Mocked.", "parameters": {"type": "object", "properties": {}},
        "implementation": {"type": "mock", "mock_response": {"a": 1}}}]},
    "responses": [{"llm": "m", "model": "m", "tools": {}}],
}
MODEL = ScriptedProvider([
    calls(("add", {"a": 1})),
    calls(("add", {"a": "1", "b": 2})),  # read as a number, which takes jsonschema
    calls(("add", {"a": []}), ("nothing", {})),
    calls(("calculator", {"expression": "1 + 2"})),
    calls(("get_current_datetime", {}), ("mocked", {})),
    calls(("welcome", {"guests": [{"name": "Ann"}]}), ("welcome", {"guests": [{}]})),
    says("done"),
])
seen = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            seen.append(name)

async def main():
    async with FlexChat.from_config(CONFIG, tools=[add, welcome], providers={"m": MODEL}) as chat:
        sys.meta_path.insert(0, Watch())
        turn = await chat.respond("Go.", max_iterations=9)
    print([record.result.success for record in turn.tool_calls])
    print(seen)

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_first_call_of_a_tool_imports_nothing_on_the_event_loop():
    """Python functions, ready-made tools, a mock, pydantic; right arguments, repairable ones, wrong ones."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60)

    assert done.stdout.splitlines() == ["[True, True, False, False, True, True, True, True, False]", "[]"], done.stderr


PRICED = """
import asyncio, sys, threading
from flexchat import FlexChat, Usage
from flexchat_testing import ScriptedProvider, says

class Model(ScriptedProvider):
    endpoint = "https://api.groq.com"

CONFIG = {
    "llms": {"m": {"provider": "scripted"}},
    "responses": [{"llm": "m", "model": "llama-3.1-8b-instant"}],
}
MODEL = Model([says("Hello.", usage=Usage(input_tokens=1_000_000, output_tokens=0))] * 2)
seen = []

class Watch:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is threading.main_thread():
            seen.append(name)

async def main():
    async with FlexChat.from_config(CONFIG, providers={"m": MODEL}) as chat:
        sys.meta_path.insert(0, Watch())
        first, second = [await chat.respond("Hi") for _ in range(2)]
    print(first.cost.amount > 0, first.cost == second.cost, "genai_prices" in sys.modules)
    print(seen)

asyncio.run(main())
"""


@pytest.mark.slow
def test_the_first_price_imports_nothing_on_the_event_loop():
    """genai-prices takes a quarter of a second to import, with all its data."""
    done = subprocess.run([sys.executable, "-c", PRICED], capture_output=True, text=True, timeout=60)

    assert done.stdout.splitlines() == ["True True True", "[]"], done.stderr
