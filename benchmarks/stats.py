"""Time `flexchat stats --since 7d` over a large SQLite journal, and what the sums cost.

Turns are spread over 30 days; each has a request, an answer that calls a tool, its result, and a second answer.

    python benchmarks/stats.py --turns 1000000
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from flexchat_metrics.adding import TurnAdder
from flexchat_sqlite.conversations import SqliteConversations

CONFIG = """
[llms.bot]
provider = "scripted"

[[responses]]
llm = "bot"
model = "m"

[conversations]
path = "kept.db"
"""
CHUNK = 20_000
DAYS = 30


def steps(id: str, dice: random.Random, at: str) -> list[tuple[str, int, str, str, str]]:
    tool = dice.choice(["get_weather", "search", "pay", "book", "translate"])
    took = int(dice.lognormvariate(4, 1))
    result = {"success": dice.random() < 0.97, "tool_name": tool, "execution_time_ms": took, "error": "it is down"}
    record = {"tool": tool, "params": {"city": "Rome"}, "result": result, "iteration": 1}
    usage = {"input_tokens": dice.randint(100, 5_000), "output_tokens": dice.randint(5, 500)}
    price = {"input": "0.5", "output": "2", "source": "config"}
    asked = {"llm": "bot", "model": dice.choice(["small", "large"])}
    answer = {**asked, "result": {"message": {"parts": []}, "usage": usage}, "elapsed_ms": took * 9.5, "price": price}
    rule = {"index": 0, "outcome": {"name": dice.choice(["support", "sales", "desk"])}, "tools": [tool]}
    found = [("rule", rule), ("request", asked), ("answer", answer), ("tool", {"record": record, "iteration": 1})]
    found += [("request", asked), ("answer", answer)]
    return [(id, n, kind, json.dumps(data), at) for n, (kind, data) in enumerate(found, start=1)]


async def fill(store: SqliteConversations, turns: int) -> None:
    dice, now = random.Random(1), datetime.now(UTC)
    for first in range(0, turns, CHUNK):
        rows, entries = [], []
        for number in range(first, min(first + CHUNK, turns)):
            ended = now - timedelta(days=DAYS * (1 - number / turns))
            began = ended - timedelta(milliseconds=dice.lognormvariate(7, 1))
            at, id = began.isoformat(timespec="milliseconds"), f"t{number:08}"
            state = "done" if dice.random() < 0.98 else "failed"
            times = at, ended.isoformat(timespec="milliseconds")
            rows.append((id, "default", f"c{number // 4}", state, "hello", "o", 1, *times))
            entries += steps(id, dice, at)
        names = "id, tenant, conversation, state, message, owner, fence, began_at, ended_at"
        turn = f"INSERT INTO journal_turns ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

        def write(database, rows=rows, entries=entries, turn=turn):
            database.executemany(turn, rows)
            database.executemany("INSERT INTO journal_entries VALUES (?, ?, ?, ?, ?)", entries)

        await store.database.write(write)


async def measure(folder: Path, turns: int) -> None:
    store = SqliteConversations(folder / "kept.db")
    began = time.perf_counter()
    await fill(store, turns)
    print(f"{turns:,} turns written in {time.perf_counter() - began:.0f} s", flush=True)
    began, added = time.process_time(), 0
    while count := await store.journal.sums.add(TurnAdder(), limit=1_000):
        added += count
        if added % 100_000 == 0:
            print(f"{added:,} added, {(time.process_time() - began) / added * 1e6:.0f} us of CPU each", flush=True)
    size = "SELECT sum(length(packed)), count(*) FROM turn_sums"
    bytes_, rows = await store.database.read(lambda database: database.execute(size).fetchone())
    print(
        f"{rows} hours take {bytes_:,} bytes: a year of such hours takes {bytes_ / rows * 8766 / 1e6:.1f} MB",
        flush=True,
    )
    await store.aclose()


def time_commands(folder: Path) -> None:
    (folder / "flexchat.toml").write_text(CONFIG)
    for words in (["--version"], ["stats", "--since", "7d"], ["stats", "--since", "28d"]):
        times = []
        for _ in range(5):
            began = time.perf_counter()
            subprocess.run([sys.executable, "-m", "flexchat", *words], cwd=folder, check=True, capture_output=True)
            times.append(time.perf_counter() - began)
        print(f"flexchat {' '.join(words)}: {min(times):.2f} to {max(times):.2f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=1_000_000)
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(measure(Path(folder), parser.parse_args().turns))
        time_commands(Path(folder))


if __name__ == "__main__":
    main()
