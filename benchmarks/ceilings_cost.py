"""What roles, budgets and limits cost: nothing where none is configured, and with all of them two commits a tool call.

    python benchmarks/ceilings_cost.py --rounds 15

Turns with a tool call in memory, with flexchat-policy installed but nothing of it configured, beside the same with the
package left out; and tool calls with roles, budgets and limits on SQLite, beside the same calls without any of them and
bare commits to a file of the same folder. All are interleaved in one run; within a round the figure is the median.
"""

import argparse
import asyncio
import contextlib
import sqlite3
import statistics
import tempfile
import time
from pathlib import Path

from flexchat import FlexChat, Principal, tool
from flexchat_testing import ScriptedProvider, calls, says

TABLES = {
    "roles": {"staff": {"tools": ["*"]}},
    "budgets": [
        {"scope": "tenant", "per": "day", "usd": 1000},
        {"scope": "tool", "per": "day", "calls": 10**9},
        {"scope": "principal", "per": "hour", "calls": 10**9},
    ],
    "rate_limits": [
        {"tools": ["look_up"], "rate": "1000000/s", "scope": "tenant"},
        {"tools": ["look_up"], "concurrency": 1000, "scope": "principal"},
    ],
}
ANN = Principal("ann", ("staff",))


@tool(effect="read", price={"usd": 0.0001})
def look_up(number: int) -> str:
    """Look a number up."""
    return "found"


def open_chat(folder, **tables):
    llms = {"it": {"provider": "scripted", "prices": {"m": {"input": 1.0, "output": 1.0, "window": 1000}}}}
    config = {"llms": llms, "responses": [{"llm": "it", "model": "m", "tools": {"enabled": True}}], **tables}
    if folder is not None:
        config["conversations"] = {"path": str(folder / "kept.db")}
    provider = ScriptedProvider([calls(("look_up", {"number": 1})), says("Found.")], repeat=True)
    return FlexChat.from_config(config, providers={"it": provider}, tools=[look_up])


async def call(chat, count):
    times = []
    for number in range(count):
        began = time.perf_counter()
        result = await chat.call_tool("look_up", {"number": number}, principal=ANN)
        times.append(time.perf_counter() - began)
        assert result.success, result
    return statistics.median(times)


async def turns(chat, count):
    times = []
    for _ in range(count):
        chat.llms["it"].provider.requests.clear()
        began = time.process_time()
        await chat.respond("Hello")
        times.append(time.process_time() - began)
    return statistics.median(times)


def commits(path, count):
    times = []
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS bare (number INTEGER)")
        for number in range(count):
            began = time.perf_counter()
            connection.execute("INSERT INTO bare VALUES (?)", (number,))
            times.append(time.perf_counter() - began)
    return statistics.median(times)


async def measure(folder, rounds, count):
    rows, ratios = [], []
    (folder / "with").mkdir()
    (folder / "without").mkdir()
    async with (
        open_chat(folder / "with", **TABLES) as on,
        open_chat(folder / "without") as off,
        open_chat(None) as installed,
        open_chat(None, plugins={"block": ["access"]}) as absent,
    ):
        for chat in (on, off):
            await call(chat, 20)
        for number in range(rounds):
            bare = commits(folder / "bare.db", count)
            rows.append((await call(on, count), await call(off, count), bare))
            pair = [installed, absent] if number % 2 else [absent, installed]
            times = {id(chat): await turns(chat, count) for chat in pair}
            ratios.append(times[id(installed)] / times[id(absent)])
    return rows, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--count", type=int, default=200, help="of calls, turns and commits in a round")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as name:
        rows, ratios = asyncio.run(measure(Path(name), options.rounds, options.count))
    on, off, bare = (statistics.median(column) * 1e6 for column in zip(*rows, strict=True))
    added = statistics.median((row[0] - row[1]) / row[2] for row in rows)
    print(f"a turn where none is configured: {statistics.median(ratios):.3f} of one without the package")
    print(f"a tool call: {off:.0f} µs without, {on:.0f} µs with roles, budgets and limits; a bare commit {bare:.0f} µs")
    print(f"added: {added:.2f} bare commits")


if __name__ == "__main__":
    main()
