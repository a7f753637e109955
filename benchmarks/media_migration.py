"""The media of old turns move out of their JSON while the process that moves them is killed again and again.

Writes turns as earlier versions did, with media as Base64, kills (SIGKILL) a process that migrates them at random
moments, lets one come to the end, and compares every turn with what was written. Exit status 1 if one was lost or
changed, or if a medium is stored twice or not at all.

    python benchmarks/media_migration.py --turns 10000 --kills 50 [--store postgresql]
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from flexchat import MediaPart, UserMessage
from flexchat.store import ConversationTurn, turn_to_dict, turn_to_json, turn_to_parts

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "servers"))

CONVERSATIONS = 100
BEGINNING = b"\x89PNG\r\n\x1a\n"


def open_store(address: str) -> Any:
    """Open the store at a path or a dsn."""
    if address.startswith("postgresql://") or "host=" in address:
        from flexchat_postgresql.config import PostgresqlConfig
        from flexchat_postgresql.conversation_store import PostgresqlConversations

        return PostgresqlConversations(PostgresqlConfig(dsn=address, schema="media_migration", pool_size=2))
    from flexchat_sqlite.conversations import SqliteConversations

    return SqliteConversations(address)


def turn_of(number: int, pictures: list[bytes]) -> ConversationTurn:
    """Return a turn whose pictures others have as well; every third has none, every fourth has two."""
    dice = random.Random(number)
    count = 0 if number % 3 == 0 else 2 if number % 4 == 0 else 1
    media = [MediaPart(kind="image", mime_type="image/png", data=dice.choice(pictures)) for _ in range(count)]
    return ConversationTurn(id=f"{number}", messages=(UserMessage(f"Message {number}", media=tuple(media)),))


async def write_old(store: Any, turns: list[ConversationTurn]) -> None:
    """Write turns as earlier versions did: in two texts, or, every fifth, in one."""
    for number, turn in enumerate(turns):
        plain = ConversationTurn(id=turn.id, messages=(UserMessage("plain"),))
        await store.append(f"c{number % CONVERSATIONS}", plain, tenant="t")
    rows = [
        (*((None, turn_to_json(turn)) if number % 5 == 0 else turn_to_parts(turn)), turn.id)
        for number, turn in enumerate(turns)
    ]
    if not hasattr(store, "connections"):
        update = "UPDATE turns SET history = ?, turn = ? WHERE id = ?"
        await store.database.write(lambda database: database.execute("CREATE INDEX by_id ON turns (id)"))
        await store.database.write(lambda database: database.executemany(update, rows))
        return
    async with store.connections.transaction(write=True) as connection:
        await connection.execute("CREATE INDEX by_id ON {s}.turns (id)")
        for row in rows:
            await connection.execute("UPDATE {s}.turns SET history = %s, turn = %s WHERE id = %s", row)


async def migrate(address: str) -> None:
    """Migrate to the end, and print a dot for each step."""
    store = open_store(address)
    while await store.media.migrate():
        print(".", end="", flush=True)
    await store.aclose()


async def count(store: Any) -> tuple[int, int, int]:
    """Return how many media there are, how many bytes they have, and in how many turns there is Base64."""
    queries = (
        "SELECT count(*), sum(bytes) FROM {s}media",
        """SELECT count(*) FROM {s}turns WHERE coalesce(history, '') || turn LIKE '%"data":"%'""",
    )
    if not hasattr(store, "connections"):
        read = [query.replace("{s}", "") for query in queries]
        ((media, size), (old,)) = await store.database.read(lambda d: [d.execute(query).fetchone() for query in read])
    else:
        async with store.connections.transaction() as connection:
            ((media, size), (old,)) = [await connection.row(query.replace("{s}", "{s}.")) for query in queries]
    return media, int(size), old


def kill_one(address: str, most: int, dice: random.Random) -> bool:
    """Kill a process after some steps, somewhere within one; return False if it had come to the end."""
    with subprocess.Popen([sys.executable, __file__, "--migrate", address], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(dice.randint(0, max(most, 1)))
        time.sleep(dice.uniform(0, 0.01))
        is_running = process.poll() is None
        process.send_signal(signal.SIGKILL)
    return is_running


async def run(address: str, turns: int, kills: int, size: int) -> int:
    """Write, kill, finish, compare; return how many problems there are."""
    dice = random.Random(1)
    pictures = [BEGINNING + dice.randbytes(size) for _ in range(max(turns // 20, 1))]
    written = [turn_of(number, pictures) for number in range(turns)]
    store = open_store(address)
    await write_old(store, written)
    began = time.monotonic()
    killed = sum([await asyncio.to_thread(kill_one, address, turns // 50 // kills, dice) for _ in range(kills)])
    between = (await count(store))[2]
    await migrate(address)
    problems = 0
    for number in range(CONVERSATIONS):
        for turn in await store.turns(f"c{number}", tenant="t"):
            expected = written[int(turn.id)]
            problems += turn_to_dict(turn) != turn_to_dict(expected)
            written[int(turn.id)] = expected
    listed = sum([len(await store.turns(f"c{n}", tenant="t")) for n in range(CONVERSATIONS)])
    used = {part.data for turn in written for m in turn.messages for part in m.media}
    media, stored, old = await count(store)
    problems += abs(listed - turns) + old + (media != len(used)) + (stored != sum(map(len, used)))
    print(
        f"{turns:,} old turns, {killed} of {kills} processes killed, {between:,} turns left after them, "
        f"{media:,} media with {stored:,} bytes, {time.monotonic() - began:.0f} s: {problems} problems"
    )
    await store.aclose()
    return problems


def main() -> int:
    """Run the benchmark, or one of its processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--bytes", type=int, default=4_000, help="of a picture")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--migrate", metavar="ADDRESS", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.migrate:
        asyncio.run(migrate(options.migrate))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        address = f"{folder}/conversations.db"
        if options.store == "postgresql":
            from postgres_server import Server, binaries

            server = Server(binaries(), fsync=True)
            atexit.register(server.remove)
            address = server.dsn()
        return min(asyncio.run(run(address, options.turns, options.kills, options.bytes)), 1)


if __name__ == "__main__":
    sys.exit(main())
