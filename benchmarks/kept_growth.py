"""CPU of a turn as its kept conversation grows: in one process, and the first turn of a fresh one.

    .venv/bin/python benchmarks/kept_growth.py                                 in a SQLite file
    .venv/bin/python benchmarks/kept_growth.py --postgresql                    in PostgreSQL, in a server of its own
    .venv/bin/python benchmarks/kept_growth.py --postgresql DSN --schema NAME  in a server that runs

The model is the rehearsal. A figure is the least of several, as others use the machine too. Aims at 1,000 turns: 3 ms
in one process, 12 ms for the first turn of a fresh one.
"""

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from flexchat import FlexChat

MARKS = (50, 200, 400, 1000)


def config_of(args):
    kept = {"path": args.path} if args.postgresql is None else None
    if kept is None:
        kept = {"provider": "postgresql", "dsn": args.postgresql, "schema": args.schema}
    llms = {"main": {"provider": "rehearsal", "default_model": "any"}}
    return {"llms": llms, "conversations": kept, "responses": [{"llm": "main"}]}


async def cpu_of_a_turn(chat, conversation):
    start = time.process_time()
    await chat.respond("again", conversation=conversation)
    return 1000 * (time.process_time() - start)


async def grow(args):
    async with FlexChat.from_config(config_of(args)) as chat:
        count = 0
        for mark in MARKS:
            while count < mark:
                count += 1
                await chat.respond(f"hello number {count}", conversation="long")
            figures = [await cpu_of_a_turn(chat, "long") for _ in range(10)]
            count += len(figures)
            fresh = min(first_turn(args) for _ in range(3))
            count += 3
            print(f"{mark:>6} turns: {sorted(figures)[5]:.1f} ms a turn, {fresh:.1f} ms the first of a fresh process")


def first_turn(args):
    command = [sys.executable, __file__, "--first", "--path", args.path, "--schema", args.schema]
    command += [] if args.postgresql is None else ["--postgresql", args.postgresql]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


async def first(args):
    async with FlexChat.from_config(config_of(args)) as chat:
        for _ in range(2):  # imports, and the connection
            await chat.respond("hello", conversation="short")
        print(await cpu_of_a_turn(chat, "long"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--postgresql", metavar="DSN", nargs="?", const="")
    parser.add_argument("--schema", default="kept_growth")
    parser.add_argument("--path", default="", help=argparse.SUPPRESS)
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.first:
        asyncio.run(first(args))
        return
    with contextlib.ExitStack() as stack:
        args.path = str(Path(stack.enter_context(tempfile.TemporaryDirectory())) / "conversations.db")
        if args.postgresql == "":
            args.postgresql = stack.enter_context(own_server()).dsn()
        asyncio.run(grow(args))


@contextlib.contextmanager
def own_server():
    """Run a PostgreSQL server in a temporary folder."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))
    import postgres_server

    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    server = postgres_server.Server(debian[-1] if debian else postgres_server.binaries(), fsync=False)
    try:
        yield server
    finally:
        server.remove()


if __name__ == "__main__":
    main()
