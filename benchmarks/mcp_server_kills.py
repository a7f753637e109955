"""Kill flexchat serve behind an MCP client that repeats calls, and count what its tool did.

Two processes serve one SQLite file. Each run calls a tool that appends a line to a file, at one of them; with
probability one half that process is killed (SIGKILL) a moment later, and the client repeats the call at the other until
it has an answer. With a key, no run may have two lines. Without one, a repetition is another call: then every line must
have its row in the ledger.

    python benchmarks/mcp_server_kills.py --runs 300
    python benchmarks/mcp_server_kills.py --runs 300 --without-key
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import os
import random
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from flexchat import FlexChat, tool
from flexchat_web import create_app
from flexchat_web.commands.server import Server
from flexchat_web.serving import Settings

KEY = "flexchat.dev/idempotency-key"
META = "io.modelcontextprotocol"
LEASE_S = 2.0
PATIENCE_S = 60.0


def config(folder: Path) -> dict[str, Any]:
    """Return the configuration of both processes."""
    return {
        "llms": {"bot": {"provider": "rehearsal"}},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        "conversations": {"provider": "sqlite", "path": str(folder / "c.db")},
        "tools": {"effects": {"lease_s": LEASE_S}},
        "mcp_server": {},
    }


def start(folder: Path, listening: socket.socket) -> int:
    """Fork a process that serves, and return its id."""
    if child := os.fork():
        return child
    os.setsid()
    out = os.open(folder / "server.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(out, 1)
    os.dup2(out, 2)

    @tool
    async def pay(run: str) -> str:
        """Pay."""
        await asyncio.sleep(random.uniform(0, 0.01))
        with (folder / "paid").open("a") as file:
            file.write(f"{run}\n")
        await asyncio.sleep(random.uniform(0, 0.02))
        return f"paid {run}"

    app = create_app(config(folder), settings=Settings())
    app.serving._current.chat.tools.add([pay])
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(Server(app, lambda: None, verbose=False, waiting=lambda text: None, proxies=()).serve([listening]))
    os._exit(0)


class Driver:
    """Makes the calls, and kills the processes that serve them."""

    def __init__(self, folder: Path, *, has_key: bool) -> None:
        self.folder, self.has_key = folder, has_key
        self.sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        self.processes = [start(folder, each) for each in self.sockets]
        self.kills, self.answers = 0, collections.Counter[str]()

    async def run(self, number: int, client: httpx.AsyncClient) -> None:
        """Make one call, and repeat it until it has an answer."""
        at, until = number % 2, time.monotonic() + PATIENCE_S
        killing = None
        if random.random() < 0.5:
            killing = asyncio.create_task(self._kill(at, random.uniform(0, 0.06)))
        while True:
            try:
                self.answers[await self._call(number, at, client)] += 1
                break
            except (httpx.HTTPError, KeyError):
                if time.monotonic() > until:
                    self.answers["none"] += 1
                    break
                at = 1 - at
                await asyncio.sleep(0.05)
        if killing is not None:
            await killing

    async def _call(self, number: int, at: int, client: httpx.AsyncClient) -> str:
        facts: dict[str, Any] = {f"{META}/protocolVersion": "2026-07-28", f"{META}/clientCapabilities": {}}
        if self.has_key:
            facts[KEY] = f"run {number}"
        params = {"name": "pay", "arguments": {"run": str(number)}, "_meta": facts}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": "tools/call",
            "mcp-name": "pay",
        }
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        url = f"http://127.0.0.1:{self.sockets[at].getsockname()[1]}/mcp"
        text = (await client.post(url, json=body, headers=headers)).text
        if '"result"' not in text:
            raise KeyError(text)
        return "paid" if f"paid {number}" in text else "unknown" if "unknown" in text else text[:200]

    async def _kill(self, at: int, after_s: float) -> None:
        await asyncio.sleep(after_s)
        os.kill(self.processes[at], signal.SIGKILL)
        os.waitpid(self.processes[at], 0)  # noqa: ASYNC222  it has been killed
        self.kills += 1
        self.processes[at] = start(self.folder, self.sockets[at])

    def stop(self) -> None:
        """End the processes."""
        for process in self.processes:
            os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)


async def judge(folder: Path, runs: int, *, has_key: bool) -> int:
    """Compare what was done with what is in the ledger; return how many runs are wrong."""
    lines = collections.Counter((folder / "paid").read_text().split())
    rows = collections.Counter[str]()
    states = collections.Counter[str]()
    async with FlexChat.from_config(config(folder)) as chat:
        before = None
        while page := await chat.effects(limit=200, before=before):
            for effect in page:
                states[effect.state] += 1
                rows[json.loads(effect.arguments)["run"]] += 1
            before = page[-1].key
    doubled = {run: count for run, count in lines.items() if count > 1}
    unrecorded = {run: count for run, count in lines.items() if rows[run] < count}
    print(f"{runs} runs, {sum(lines.values())} payments; ledger: {dict(states)}")
    print(f"paid twice or more: {len(doubled)}; payments without a row in the ledger: {len(unrecorded)}")
    return len(unrecorded) + (len(doubled) if has_key else 0)


async def main() -> int:
    """Run the driver."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--without-key", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, has_key = Path(name), not options.without_key
        driver = Driver(folder, has_key=has_key)
        try:
            async with httpx.AsyncClient(timeout=PATIENCE_S) as client:
                for number in range(options.runs):
                    await driver.run(number, client)
        finally:
            driver.stop()
        print(f"killed {driver.kills} times; answers: {dict(driver.answers)}")
        return await judge(folder, options.runs, has_key=has_key)


if __name__ == "__main__":
    sys.exit(1 if asyncio.run(main()) else 0)
