"""CPU of an HTTP tool's call, beside the same request sent with httpx alone: python benchmarks/http_tools.py

Each side sends GET requests with a query to one server in another process, over kept connections. Rounds of both sides
alternate; the medians of CPU time per call are compared. Ends with status 1 if a tool's call costs more than 1.3 times
the request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
from flexchat import FlexChat

MOST = 1.3
SERVER = """
import asyncio, sys
BODY = b'{"temperature": 22, "condition": "sunny", "forecast": [1, 2, 3, 4, 5]}'
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\ncontent-length: %d\\r\\n\\r\\n"
ANSWER = HEAD % len(BODY) + BODY
async def handle(reader, writer):
    try:
        while True:
            await reader.readuntil(b"\\r\\n\\r\\n")
            writer.write(ANSWER)
    except (asyncio.IncompleteReadError, OSError):
        writer.close()
async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


def config(url: str) -> dict[str, object]:
    tool = {
        "name": "get_weather",
        "description": "Get the weather of a city.",
        "parameters": {"type": "object", "properties": {"location": {"type": "string"}}, "required": ["location"]},
        "implementation": {
            "type": "http",
            "url": url,
            "params_mapping": {"location": "q"},
            "headers": {"Authorization": "Bearer 0123456789"},
        },
    }
    return {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [{"llm": "r", "model": "any"}],
        "tools": {"registry": [tool]},
        "network": {"allow": ["127.0.0.1"]},
    }


async def cpu_us(calls: int, call: Callable[[int], Awaitable[object]]) -> float:
    """Return the CPU time of a call, in microseconds."""
    started = time.process_time()
    for number in range(calls):
        await call(number)
    return (time.process_time() - started) / calls * 1e6


async def measure(url: str, rounds: int, calls: int) -> tuple[float, float]:
    path = Path(tempfile.mkdtemp()) / "chat.json"
    path.write_text(json.dumps(config(url)))
    headers = {"Authorization": "Bearer 0123456789"}
    async with FlexChat.from_config(path) as chat, httpx.AsyncClient(headers=headers) as client:

        async def with_tool(number: int) -> None:
            result = await chat.call_tool("get_weather", {"location": f"Paris {number % 50}"})
            assert result.result["temperature"] == 22

        async def with_httpx(number: int) -> None:
            answer = await client.get(url, params={"q": f"Paris {number % 50}"})
            assert answer.json()["temperature"] == 22

        seen: dict[str, list[float]] = {"tool": [], "httpx": []}
        await cpu_us(200, with_tool)
        await cpu_us(200, with_httpx)
        for _ in range(rounds):
            seen["tool"].append(await cpu_us(calls, with_tool))
            seen["httpx"].append(await cpu_us(calls, with_httpx))
    return statistics.median(seen["tool"]), statistics.median(seen["httpx"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--calls", type=int, default=300)
    given = parser.parse_args()
    server = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/weather"
        tool, raw = asyncio.run(measure(url, given.rounds, given.calls))
    finally:
        server.kill()
        server.wait()
    print(f"tool {tool:.0f} µs, httpx {raw:.0f} µs: {tool / raw:.2f} times (at most {MOST})")
    return tool > MOST * raw


if __name__ == "__main__":
    sys.exit(main())
