"""What a call through FlexChat's MCP server costs: python benchmarks/mcp_server_cost.py

The same tool in FlexChat and in a server made with the MCP SDK (MCPServer), called by the SDK's client: in this
process, and over streamable HTTP, each server in a process of its own (flexchat serve, uvicorn). Rounds of both sides
alternate, and the median of their ratios counts; ends with status 1 if a call takes more than MAX_RATIO times as long.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from flexchat import FlexChat, tool
from flexchat_mcp.serve.server import McpServer
from flexchat_mcp.serve.settings import McpServerConfig
from mcp import Client
from mcp.server.mcpserver import MCPServer

MAX_RATIO = 1.3
START_S = 60
ERAS = {"2026-07-28": "auto", "2025-11-25": "legacy"}
CONFIG: dict[str, Any] = {
    "llms": {"bot": {"provider": "rehearsal"}},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}
SDK_PROGRAM = """
import uvicorn
from mcp.server.mcpserver import MCPServer
server = MCPServer("sdk", log_level="WARNING")
@server.tool()
async def add(a: int, b: int = 2) -> int:
    "Add two numbers."
    return a + b
uvicorn.run(server.streamable_http_app(), port=0)
"""
FLEXCHAT_CONFIG = """
[llms.bot]
provider = "rehearsal"
[[responses]]
llm = "bot"
model = "m"
tools = { enabled = true }
[conversations]
path = "kept.db"
[mcp_server]
[[tools.registry]]
name = "add"
description = "Add two numbers."
effect = "read"
implementation = { type = "python", function = "sums:add" }
[tools.registry.parameters]
type = "object"
required = ["a"]
properties = { a = { type = "integer" }, b = { type = "integer" } }
"""
SUMS = 'async def add(a: int, b: int = 2) -> int:\n    """Add two numbers."""\n    return a + b\n'


def process_s() -> float:
    """Return the CPU of this process."""
    return time.process_time()


def cpu_of(process: subprocess.Popen[bytes]) -> Callable[[], float]:
    """Return a function that returns the CPU seconds of a process."""
    path, ticks = Path(f"/proc/{process.pid}/stat"), os.sysconf("SC_CLK_TCK")

    def read() -> float:
        fields = path.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / ticks

    return read


async def compare(
    title: str, clients: Mapping[str, Client], cpu: Mapping[str, Callable[[], float]], rounds: int, calls: int
) -> float:
    """Call both servers in turn; print and return the median ratio of a call's time."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
    for number in range(rounds + 1):
        for name in [*clients][:: 1 if number % 2 else -1]:
            began, before = time.perf_counter(), cpu[name]()
            for _ in range(calls):
                result = await clients[name].call_tool("add", {"a": 1})
                assert result.content[0].text == "3", result
            if number:  # the first round fills caches
                spent[name].append(((time.perf_counter() - began) / calls, (cpu[name]() - before) / calls))
    ours, sdk = spent["flexchat"], spent["sdk"]
    time_ratio, cpu_ratio = (
        statistics.median(mine[of] / max(theirs[of], 1e-9) for mine, theirs in zip(ours, sdk, strict=True))
        for of in (0, 1)
    )
    for of, kind, ratio in ((0, "time", time_ratio), (1, "CPU", cpu_ratio)):
        mine, theirs = (statistics.median(each[of] for each in side) * 1e3 for side in (ours, sdk))
        print(f"{title}, {kind}: FlexChat {mine:.2f} ms, SDK {theirs:.2f} ms: {ratio:.2f} times", flush=True)
    return time_ratio


async def in_process(era: str, rounds: int, calls: int) -> float:
    """Compare the servers in this process."""
    sdk = MCPServer("sdk", log_level="WARNING")

    async def add(a: int, b: int = 2) -> int:
        """Add two numbers."""
        return a + b

    sdk.add_tool(add)
    folder = tempfile.mkdtemp()
    config = {**CONFIG, "conversations": {"provider": "sqlite", "path": f"{folder}/kept.db"}}
    async with FlexChat.from_config(config, tools=[tool(effect="read")(add)]) as chat:

        @contextlib.asynccontextmanager
        async def lend() -> AsyncIterator[FlexChat]:
            yield chat

        ours = McpServer(lend, McpServerConfig())
        async with Client(sdk, mode=ERAS[era]) as a, Client(ours.server, mode=ERAS[era]) as b:
            clients = {"sdk": a, "flexchat": b}
            return await compare(f"in process, {era}", clients, dict.fromkeys(clients, process_s), rounds, calls)


def start(folder: Path, name: str, command: list[str]) -> tuple[subprocess.Popen[bytes], str]:
    """Start a server, which logs into a file; return it, and its address."""
    log = folder / f"{name}.log"
    with log.open("wb") as file:  # a pipe that is not read would stop it
        environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=file, stderr=file)
    until = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < until:
        if found := re.search(r"http://127\.0\.0\.1:\d+", log.read_text()):
            return process, f"{found[0]}/mcp"
        time.sleep(0.05)
    raise RuntimeError(f"{command} does not serve: {log.read_text()[-2_000:]}")


async def over_http(era: str, rounds: int, calls: int) -> float:
    """Compare the servers over streamable HTTP."""
    folder = Path(tempfile.mkdtemp())
    (folder / "flexchat.toml").write_text(FLEXCHAT_CONFIG)
    (folder / "sums.py").write_text(SUMS)
    (folder / "sdk.py").write_text(SDK_PROGRAM)
    started = {
        "sdk": start(folder, "sdk", [sys.executable, "sdk.py"]),
        "flexchat": start(folder, "flexchat", [sys.executable, "-m", "flexchat", "serve", "--port", "0"]),
    }
    try:
        async with (
            Client(started["sdk"][1], mode=ERAS[era]) as a,
            Client(started["flexchat"][1], mode=ERAS[era]) as b,
        ):
            cpu = {name: cpu_of(process) for name, (process, _) in started.items()}
            return await compare(f"over HTTP, {era}", {"sdk": a, "flexchat": b}, cpu, rounds, calls)
    finally:
        for process, _ in started.values():
            process.kill()


def main() -> int:
    """Compare in both eras and both ways."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=200)
    given = parser.parse_args()
    ratios = [
        asyncio.run(measure(era, given.rounds, given.calls)) for measure in (in_process, over_http) for era in ERAS
    ]
    return any(ratio > MAX_RATIO for ratio in ratios)


if __name__ == "__main__":
    sys.exit(main())
