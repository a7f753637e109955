"""Two versions of FlexChat on one database: turns are submitted, run, killed and resumed by processes of both.

    python benchmarks/rolling_upgrade.py --old FOLDER [--turns 1000] [--kill-every 2.0] [--store postgresql]

FOLDER is a checkout of the version before (``git worktree add FOLDER COMMIT``), whose code runs in this environment.
Each turn calls a tool that appends the key of its effect to a file: every turn must end, with one key.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
CONFIG = """
[conversations]
{kept}

[tools.effects]
lease_s = 3

[llms.bot]
provider = "scripted"

[[responses]]
llm = "bot"
model = "m"
tools = {{ enabled = true }}
"""


def sources(checkout: Path) -> str:
    """Return the import path of all packages of a checkout."""
    return os.pathsep.join(str(path) for path in sorted(checkout.glob("**/src")) if ".venv" not in path.parts)


def open_chat(folder: Path) -> Any:
    """Return a chat whose model calls the tool once in each turn."""
    import flexchat
    from flexchat import ToolMessage
    from flexchat.plugin import ToolContext
    from flexchat_testing import ScriptedProvider, calls, says

    @flexchat.tool(effect="write", honours_key=True)
    async def note(context: ToolContext) -> str:
        """Note the turn."""
        await asyncio.sleep(0.02)
        with (folder / "notes").open("a") as file:
            file.write(f"{context.conversation} {context.key}\n")
        return "noted"

    def reply(messages: Any, options: Any) -> Any:
        return says("done") if isinstance(messages[-1], ToolMessage) else calls(("note", {}))

    provider = ScriptedProvider([reply], repeat=True)
    return flexchat.FlexChat.from_config(folder / "flexchat.toml", tools=[note], providers={"bot": provider})


async def work(folder: Path) -> None:
    """Run turns until killed."""
    async with open_chat(folder) as chat:
        while True:
            for handle in await chat.resume_interrupted(most=4):
                await handle.result()
            await asyncio.sleep(0.02)


async def submit(folder: Path, turns: int) -> None:
    """Accept all turns."""
    async with open_chat(folder) as chat:
        for number in range(turns):
            await chat.submit("note it", conversation=f"c{number}")


async def count(folder: Path) -> dict[str, int]:
    """Count the turns by their state."""
    states: dict[str, int] = {}
    async with open_chat(folder) as chat:
        before = None
        while page := await chat.turns(limit=200, before=before):
            for turn in page:
                states[turn.state] = states.get(turn.state, 0) + 1
            before = page[-1].id
    return states


def run(command: str, folder: Path, turns: int, checkout: Path) -> subprocess.Popen[bytes]:
    """Start this file with the code of a checkout."""
    words = [sys.executable, __file__, command, "--folder", folder, "--turns", str(turns)]
    return subprocess.Popen(words, env={**os.environ, "PYTHONPATH": sources(checkout)})


@contextlib.contextmanager
def open_store(kind: str) -> Iterator[str]:
    """Yield the settings of a new conversation store."""
    if kind == "sqlite":
        yield 'path = "turns.db"'
        return
    sys.path.insert(0, str(HERE / "tests" / "servers"))
    import postgres_server

    server = postgres_server.Server(postgres_server.binaries(), fsync=False)
    try:
        yield f'provider = "postgresql"\ndsn = "{server.dsn()}"'
    finally:
        server.remove()


def main(old: Path, turns: int, kill_every: float, store: str) -> int:
    """Run all turns; return the exit status."""
    with tempfile.TemporaryDirectory() as name, open_store(store) as kept:
        folder, kills, chance = Path(name), 0, random.Random(1)
        (folder / "flexchat.toml").write_text(CONFIG.format(kept=kept))
        checkouts = {"old": old, "new": HERE}
        # Before the newer version has seen the database.
        assert run("submit", folder, turns, old).wait() == 0
        running = {"old": run("work", folder, 0, old), "new": run("work", folder, 0, HERE)}
        until = time.monotonic() + max(120.0, turns)
        while time.monotonic() < until:
            time.sleep(kill_every)
            version = chance.choice(("old", "new"))
            running[version].send_signal(signal.SIGKILL)
            running[version].wait()
            kills += 1
            running[version] = run("work", folder, 0, checkouts[version])
            if {*asyncio.run(count(folder))} <= {"done", "failed", "cancelled"}:
                break
        for process in running.values():
            process.kill()
            process.wait()
        states = asyncio.run(count(folder))
        notes = collections.Counter(line.split()[1] for line in (folder / "notes").read_text().splitlines())
        doubled = sum(number > 1 for number in notes.values())
        print(f"{store}: {kills} kills, turns {states}, {len(notes)} effects, {doubled} sent again under the same key")
        return int(states != {"done": turns} or len(notes) != turns)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", nargs="?", choices=["work", "submit"])
    parser.add_argument("--old", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--turns", type=int, default=1_000)
    parser.add_argument("--kill-every", type=float, default=2.0)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    options = parser.parse_args()
    if options.command == "work":
        asyncio.run(work(options.folder))
    elif options.command == "submit":
        asyncio.run(submit(options.folder, options.turns))
    else:
        sys.exit(main(options.old, options.turns, options.kill_every, options.store))
