"""What a turn costs at each provider, without a network: CPU time of FlexChat and the adapter alone.

    .venv/bin/python benchmarks/providers.py

Answers come from memory, in the wire format of each provider. Ratios are to Chat Completions in the same run, which the
other benchmark (flexchat_agent.py) compares with other libraries.
"""

import asyncio
import gc
import sys
import time
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))
from agent_server import DIALECTS
from flexchat import FlexChat, TextDelta, tool
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import OllamaProvider
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider

CALL = ("get_weather", {"city": "Paris"})
URL = "http://127.0.0.1:9"
MAKE = {
    "chat": lambda t: OpenAIProvider(OpenAIConfig(base_url=URL, api_key="k"), transport=t),
    "responses": lambda t: OpenAIProvider(OpenAIConfig(base_url=URL, api_key="k", api="responses"), transport=t),
    "ollama": lambda t: OllamaProvider(OllamaConfig(base_url=URL, num_ctx=8192, check_models=False), transport=t),
    "gemini": lambda t: GeminiProvider(GeminiConfig(base_url=URL, api_key="k"), transport=t),
    "anthropic": lambda t: AnthropicProvider(AnthropicConfig(base_url=URL, api_key="k", max_tokens=4096), transport=t),
}


class Pieces(httpx.AsyncByteStream):
    def __init__(self, pieces):
        self.pieces = pieces

    async def __aiter__(self):
        for piece in self.pieces:
            yield piece


class Memory(httpx.AsyncBaseTransport):
    """Answers each request with the next answer, over and over."""

    def __init__(self, answers):
        self.answers, self.asked = answers, 0

    async def handle_async_request(self, request):
        kind, pieces = self.answers[self.asked % len(self.answers)]
        self.asked += 1
        return httpx.Response(200, headers={"content-type": kind}, stream=Pieces(pieces))


@tool(effect="read", repeatable=True)
async def get_weather(city: str) -> dict:
    """Get the weather of a city."""
    return {"city": city, "celsius": 18}


def chat(name, answers):
    config = {
        "llms": {"it": {"provider": "scripted"}},
        "tools": {"max_iterations": 50},
        "limits": {"tool_calls_per_turn": 100},
        "responses": [{"llm": "it", "model": "gemini-3-test", "prompt": "Be brief.", "tools": {"enabled": True}}],
    }
    return FlexChat.from_config(config, tools=[get_weather], providers={"it": MAKE[name](Memory(answers))})


def whole(name, text, calls, mark):
    kind, body = DIALECTS[name].whole({}, text, [(f"call_{mark}", *call) for call in calls], f"opaque-{mark}")
    return kind, [body]


async def conversations(name, iterations, times):
    """CPU µs of a turn with so many answers that ask for a tool."""
    answers = [whole(name, "", [CALL], n) for n in range(iterations)] + [whole(name, "It is 18 degrees.", [], "end")]
    made = chat(name, answers)
    await made.respond("Weather?")
    gc.collect()
    started = time.process_time()
    for _ in range(times):
        turn = await made.respond("Weather?")
    took = time.process_time() - started
    assert len(turn.response.tool_calls) == iterations
    return took / times * 1e6


async def stream(name, letters):
    """CPU µs of an answer of so many pieces, each of one letter and one read."""
    kind, body = DIALECTS[name].streamed({}, "x" * letters, [], "opaque-1")
    end = b"\n" if name == "ollama" else b"\r\n\r\n"
    made = chat(name, [(kind, [line + end for line in body.split(end) if line.strip()])])
    best = 1e9
    for _ in range(5):
        gc.collect()
        started = time.process_time()
        text = [event.text async for event in made.stream("Hi") if type(event) is TextDelta]
        best = min(best, time.process_time() - started)
        assert len(text) == letters
    return best * 1e6


async def main():
    rows = {}
    for name in DIALECTS:
        one = min([await conversations(name, 1, 300) for _ in range(3)])
        ten = min([await conversations(name, 10, 30) for _ in range(3)])
        fifty = min([await conversations(name, 49, 6) for _ in range(3)])
        piece = (await stream(name, 2_000) - await stream(name, 200)) / 1_800
        rows[name] = (one, fifty, ((fifty - ten) / 39) / ((ten - one) / 9), piece)
    base = rows["chat"]
    print(f"{'':10} {'1 tool round':>20} {'49 rounds':>22} {'growth':>8} {'streamed piece':>20}")
    for name, (one, fifty, growth, piece) in rows.items():
        print(
            f"{name:10} {one:8.0f} µs {one / base[0]:6.2f} x {fifty:10.0f} µs {fifty / base[1]:6.2f} x {growth:8.2f}"
            f" {piece:8.1f} µs {piece / base[3]:6.2f} x"
        )


asyncio.run(main())
