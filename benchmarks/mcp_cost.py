"""What MCP servers cost: python benchmarks/mcp_cost.py

1. A program with 20 configured servers, none of which a rule offers, against the same program without any: CPU from its
   start to its first answer. No server may be started. At most 1.05 times.
2. A tool's call over stdio against the same call by the MCP SDK alone: at most 1.2 times as long; and CPU.

Rounds of both sides alternate, and medians are compared; ends with status 1 if a limit does not hold.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from flexchat import FlexChat
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

MAX_START, MAX_CALL = 1.05, 1.2
START = """
import asyncio, sys
from flexchat import FlexChat
async def main():
    async with FlexChat.from_config(sys.argv[1]) as chat:
        await chat.respond("Hello")
asyncio.run(main())
"""
SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("calc")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
server.run("stdio")
"""


def written(folder: Path, name: str, servers: list[dict[str, object]], *, offers: bool) -> Path:
    """Write a configuration with these servers."""
    rule = {"llm": "r", "model": "any", "tools": {"enabled": offers}}
    config = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [rule],
        "tools": {"registry": [{"name": "calculator"}], "mcp": servers},
    }
    path = folder / f"{name}.json"
    path.write_text(json.dumps(config))
    return path


def started_cpu_s(path: Path) -> float:
    """Return the CPU seconds of a program that answers one message."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", START, str(path)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def starts(folder: Path, rounds: int) -> float:
    """Return how many times as much a start with 20 servers costs."""
    touch = ["sh", "-c", f"touch {folder}/started; exec cat"]
    servers: list[dict[str, object]] = [
        {"name": f"s{n}", "command": touch, "effects": {"*": "read"}} for n in range(20)
    ]
    paths = {
        "none": written(folder, "none", [], offers=False),
        "twenty": written(folder, "twenty", servers, offers=False),
    }
    seen: dict[str, list[float]] = {"none": [], "twenty": []}
    for number in range(rounds + 1):
        for name, path in paths.items():
            spent = started_cpu_s(path)
            if number:  # the first one fills caches
                seen[name].append(spent)
    assert not (folder / "started").exists(), "a server was started that no rule offers"
    none, twenty = (statistics.median(seen[name]) for name in ("none", "twenty"))
    print(f"start to first answer: no server {none:.3f} s, 20 servers {twenty:.3f} s of CPU: {twenty / none:.3f} times")
    return twenty / none


async def spent_us(calls: int, call: Callable[[], Awaitable[object]]) -> tuple[float, float]:
    """Return the time of a call and its CPU in this process, in microseconds."""
    began, cpu = time.perf_counter(), time.process_time()
    for _ in range(calls):
        await call()
    return (time.perf_counter() - began) / calls * 1e6, (time.process_time() - cpu) / calls * 1e6


async def calls(folder: Path, rounds: int, count: int) -> float:
    """Return how many times as much a tool's call takes as the SDK's own."""
    program = folder / "server.py"
    program.write_text(SERVER)
    table: dict[str, object] = {
        "name": "calc",
        "command": [sys.executable, str(program)],
        "effects": {"*": "read"},
        "timeout_ms": 60_000,
    }
    parameters = StdioServerParameters(command=sys.executable, args=[str(program)])
    seen: dict[str, list[tuple[float, float]]] = {"tool": [], "sdk": []}
    path = written(folder, "calc", [table], offers=True)
    async with FlexChat.from_config(path) as chat, Client(stdio_client(parameters)) as client:

        async def with_tool() -> None:
            result = await chat.call_tool("add", {"a": 1, "b": 2})
            assert result.result == 3, result

        async def with_sdk() -> None:
            result = await client.call_tool("add", {"a": 1, "b": 2})
            assert result.structured_content == {"result": 3}, result

        await spent_us(50, with_tool)
        await spent_us(50, with_sdk)
        for _ in range(rounds):
            seen["tool"].append(await spent_us(count, with_tool))
            seen["sdk"].append(await spent_us(count, with_sdk))
    (tool, tool_cpu), (sdk, sdk_cpu) = (
        (statistics.median(each[0] for each in seen[name]), statistics.median(each[1] for each in seen[name]))
        for name in ("tool", "sdk")
    )
    print(f"a call over stdio: tool {tool:.0f} µs, SDK {sdk:.0f} µs: {tool / sdk:.2f} times")
    print(f"of it, CPU in this process: tool {tool_cpu:.0f} µs, SDK {sdk_cpu:.0f} µs: {tool_cpu / sdk_cpu:.2f} times")
    return tool / sdk


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    start = starts(folder, given.rounds)
    call = asyncio.run(calls(folder, given.rounds, given.calls))
    return start > MAX_START or call > MAX_CALL


if __name__ == "__main__":
    sys.exit(main())
