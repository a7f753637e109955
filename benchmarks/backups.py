"""Backups of a database while processes run turns on it and are killed, each restored elsewhere and compared.

    python benchmarks/backups.py [--backups 100] [--store postgresql] [--writers 2] [--kill-every 3.0]

Each turn calls a tool that appends the key of its effect to a file, which the original and all restored installations
share: the service that they call. Writers note each turn once it has ended. A restored backup must have every turn that
ended before it was begun, done and with its answer; nothing in it may go on by itself; and once its interrupted turns
are resumed, as a person would, each turn has had one key: a service that honours keys did nothing twice.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import itertools
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flexchat.assembly import installed_plugins
from flexchat.errors import LostTurnError

HERE = Path(__file__).resolve().parents[1]
TOGETHER, PAUSE_S = 4, 0.4
"""Of each writer: so many turns at once, with a pause after each, since every backup has all earlier turns."""
CONFIG = """
[conversations]
{kept}

[tools.effects]
lease_s = 5

[llms.bot]
provider = "scripted"

[[responses]]
llm = "bot"
model = "m"
tools = {{ enabled = true }}
"""


PLUGINS = installed_plugins()
"""Loaded once: the processes are forked from this one."""


def open_chat(folder: Path, service: Path) -> Any:
    """Return a chat of an installation, whose model calls the tool once in each turn."""
    import flexchat
    from flexchat import ToolMessage
    from flexchat.plugin import ToolContext
    from flexchat_testing import ScriptedProvider, calls, says

    @flexchat.tool(effect="write", honours_key=True)
    async def note(context: ToolContext) -> str:
        """Note the turn."""
        await asyncio.sleep(0.02)
        with (service / "notes").open("a") as file:
            file.write(f"{context.conversation} {context.key}\n")
        return f"noted {context.conversation}"

    def reply(messages: Any, options: Any) -> Any:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            return says(f"It is {json.loads(last.content)['result']}.")
        return calls(("note", {}))

    provider = ScriptedProvider([reply], repeat=True)
    path = folder / "flexchat.toml"
    return flexchat.FlexChat.from_config(path, tools=[note], providers={"bot": provider}, plugins=PLUGINS)


async def write(folder: Path) -> None:
    """Run turns in new conversations, and those that a killed process has left, until killed."""
    numbers = itertools.count()
    async with open_chat(folder, folder) as chat:

        async def begin() -> None:
            for number in numbers:
                with contextlib.suppress(LostTurnError):  # it took longer than its lease, and another goes on with it
                    note_end(await chat.respond("note it", conversation=f"{os.getpid()} {number}"))
                await asyncio.sleep(PAUSE_S)

        def note_end(turn: Any) -> None:
            with (folder / "ended").open("a") as file:
                file.write(json.dumps([time.time(), turn.id, turn.content]) + "\n")

        async def resume() -> None:
            while True:
                for handle in await chat.resume_interrupted():
                    with contextlib.suppress(LostTurnError):
                        note_end(await handle.result())
                await asyncio.sleep(0.1)

        await asyncio.gather(resume(), *(begin() for _ in range(TOGETHER)))


async def compare(restored: Path, original: Path, ended: dict[str, str]) -> tuple[int, list[str]]:
    """Return how many turns wait in a restored installation, and what is wrong with it; then run those that wait."""
    exported = {*re.findall(r"It is noted \d+ \d+\.", (restored / "all.jsonl").read_text("utf-8"))}
    faults = [f"the answer {content!r} is lost" for content in ended.values() if content not in exported]
    async with open_chat(restored, original) as chat:
        if going := await chat.resume_interrupted():
            faults.append(f"{len(going)} turns went on by themselves")
        states, waiting, before = {}, [], None
        while page := await chat.turns(limit=200, before=before):
            for turn in page:
                states[turn.id] = turn.state
                if turn.state not in ("done", "failed", "cancelled"):
                    waiting.append(turn.id)
            before = page[-1].id
        for id in ended:
            if states.get(id) != "done":
                faults.append(f"the turn {id} had ended, and is {states.get(id)}")
        for id in waiting:
            await chat.resume(id)
    return len(waiting), faults


@contextlib.contextmanager
def open_databases(kind: str) -> Iterator[Any]:
    """Yield a function that returns the address of a new database; None for files."""
    if kind == "sqlite":
        yield lambda: ""
        return
    sys.path.insert(0, str(HERE / "tests" / "servers"))
    import postgres_server
    import psycopg

    server = postgres_server.Server(postgres_server.binaries(), fsync=False)
    try:
        names = (f"installation_{number}" for number in itertools.count())

        def make() -> str:
            name = next(names)
            with psycopg.connect(server.dsn(), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}".encode())
            return server.dsn(name)

        yield make
    finally:
        server.remove()


def forked(work: Callable[[], object]) -> int:
    """Run it in another process, which has loaded everything already; return the id of that."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def start_writer(folder: Path) -> int:
    return forked(lambda: asyncio.run(write(folder)))


def flexchat(folder: Path, address: str, *words: object) -> None:
    """Run a command in a folder. Raises RuntimeError if it fails."""
    from flexchat_cli.main import main

    def run() -> None:
        os.chdir(folder)
        os.environ.update(DATABASE_URL=address, FLEXCHAT_DATA=str(folder / "data"))
        output = (folder / "output").open("w")
        with output, contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            sys.exit(main([*map(str, words)]))

    _, status = os.waitpid(forked(run), 0)
    if status:
        raise RuntimeError(f"flexchat {words[0]}: {(folder / 'output').read_text()}")


def read_ended(folder: Path) -> dict[str, str]:
    path = folder / "ended"
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    return {id: content for _, id, content in map(json.loads, lines)}


def main(backups: int, count: int, kill_every: float, store: str) -> int:
    """Make and compare the backups; return the exit status."""
    faults: list[str] = []
    resumed = 0
    with tempfile.TemporaryDirectory() as name, open_databases(store) as new_database:
        folder, began = Path(name), time.monotonic()
        next_kill, kills = began + kill_every, 0
        address = new_database()
        os.environ["DATABASE_URL"] = address
        kept = 'path = "turns.db"' if store == "sqlite" else 'provider = "postgresql"\ndsn = "${DATABASE_URL}"'
        (folder / "flexchat.toml").write_text(CONFIG.format(kept=kept))
        writers = [start_writer(folder) for _ in range(count)]
        try:
            while not read_ended(folder):
                time.sleep(0.1)
            for number in range(backups):
                if time.monotonic() > next_kill:
                    victim = writers.pop(number % count)
                    os.kill(victim, signal.SIGKILL)
                    os.waitpid(victim, 0)
                    writers.append(start_writer(folder))
                    next_kill, kills = time.monotonic() + kill_every, kills + 1
                ended = read_ended(folder)
                flexchat(folder, address, "backup", f"backup {number}")
                elsewhere = folder / f"restored {number}"
                os.environ["DATABASE_URL"] = new_database()
                flexchat(folder, os.environ["DATABASE_URL"], "restore", f"backup {number}", "--to", elsewhere)
                exporting = ("conversations", "export", "--all", "--json", "--output", "all.jsonl")
                flexchat(elsewhere, os.environ["DATABASE_URL"], *exporting)
                waiting, wrong = asyncio.run(compare(elsewhere, folder, ended))
                os.environ["DATABASE_URL"] = address
                resumed += waiting
                faults += [f"backup {number}: {fault}" for fault in wrong]
                shutil.rmtree(elsewhere)
                shutil.rmtree(folder / f"backup {number}")
                if number % 10 == 9:
                    print(
                        f"{number + 1} backups, {len(ended)} turns, {resumed} resumed, {len(faults)} faults", flush=True
                    )
        finally:
            for writer in writers:
                os.kill(writer, signal.SIGKILL)
                os.waitpid(writer, 0)
        keys = collections.defaultdict(set)
        for line in (folder / "notes").read_text().splitlines():
            conversation, key = line.rsplit(" ", 1)
            keys[conversation].add(key)
        faults += [f"{each} had the keys {found}" for each, found in keys.items() if len(found) > 1]
        total, seconds = len(read_ended(folder)), time.monotonic() - began
    print(f"{store}: {backups} backups in {seconds:.0f} s, {kills} kills, {total} turns ended, {resumed} resumed")
    for fault in faults[:20]:
        print(fault)
    print(f"{len(faults)} faults")
    return int(bool(faults))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backups", type=int, default=100)
    parser.add_argument("--writers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=3.0)
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    options = parser.parse_args()
    sys.exit(main(options.backups, options.writers, options.kill_every, options.store))
