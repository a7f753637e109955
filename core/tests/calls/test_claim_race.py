"""Many processes on one SQLite file: each effect happens once, whoever dies."""

import asyncio
import collections
import json
import multiprocessing
import os
import signal
import sys

import pytest
from flexchat import ToolContext, tool
from flexchat.calls.calls import ToolParts
from flexchat.calls.effects import Effects
from flexchat.calls.manager import ToolManager
from flexchat.conversations.memory_ledger import MemoryLedger
from flexchat.plugin.call import Call
from flexchat_sqlite.conversations import SqliteConversations

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="processes are forked and killed"),
]

PROCESSES, KEYS = 8, 100


def calls_of(folder, *tools, lease_s=30.0):
    manager = ToolManager(
        parts=ToolParts(effects=Effects(SqliteConversations(folder / "c.db").ledger(), lease_s=lease_s))
    )
    manager.add(tools)
    return manager


def call(number):
    return Call(name="pay", arguments={"n": number}, origin="program", path=f"{number}")


def happened(folder):
    """Return how often each effect was made, as the service itself wrote it down."""
    return collections.Counter(folder.joinpath("paid").read_text().split())


def paying(folder, **rest):
    @tool(**rest)
    async def pay(n: int, context: ToolContext) -> int:
        """Pay, and have the service write it down."""
        file = os.open(folder / "paid", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(file, f"{n}\n".encode())
        os.close(file)
        if n in killers:
            killers.discard(n)
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    return pay


killers = set()
"""Numbers that end the process that pays them, right after the service has acted."""


def work(folder, seed, results):
    """Ask for every effect, in an order of this process's own."""

    async def ask():
        manager = calls_of(folder, paying(folder))
        order = sorted(range(KEYS), key=lambda n: (n * 7919 + seed * 104729) % 997)
        return [(await manager.calls.run(call(n))).result for n in order]

    results.put(sorted(asyncio.run(ask())))


def forked(*works):
    """Run functions in processes of their own, and return how each ended."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=each[0], args=each[1:]) for each in works]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    return [process.exitcode for process in processes]


def test_eight_processes_that_race_make_each_effect_once(tmp_path):
    """And all of them get its result."""
    results = multiprocessing.get_context("fork").SimpleQueue()
    assert forked(*[(work, tmp_path, seed, results) for seed in range(PROCESSES)]) == [0] * PROCESSES
    assert happened(tmp_path) == {f"{n}": 1 for n in range(KEYS)}
    assert [results.get() for _ in range(PROCESSES)] == [[*range(KEYS)]] * PROCESSES


def die(folder, number, honours_key=False):
    killers.add(number)
    asyncio.run(calls_of(folder, paying(folder, honours_key=honours_key), lease_s=0.2).calls.run(call(number)))


def die_in_its_call(folder, number, honours_key=False):
    """Let a process call a tool that ends it. One that stood still for longer than its lease has not called it."""
    while (codes := forked((die, folder, number, honours_key))) == [0]:
        pass
    assert codes == [-signal.SIGKILL]


async def test_what_a_killed_process_did_is_unknown_and_is_not_done_again(tmp_path):
    die_in_its_call(tmp_path, 1)
    manager = calls_of(tmp_path, paying(tmp_path))
    result = await manager.calls.run(call(1))
    assert result.error.startswith("It is unknown whether 'pay' took effect: the process that ran it has died.")
    (row,) = await manager.effects.ledger.list(tenant="default", states=["unknown"])
    assert json.loads(row.arguments) == {"n": 1}
    assert happened(tmp_path) == {"1": 1}


async def test_a_service_that_takes_keys_is_asked_again_with_the_same_one(tmp_path):
    die_in_its_call(tmp_path, 1, honours_key=True)
    manager = calls_of(tmp_path, paying(tmp_path, honours_key=True))
    assert (await manager.calls.run(call(1))).result == 1
    (row,) = await manager.effects.ledger.list(tenant="default")
    assert row.state == "done"
    assert happened(tmp_path) == {"1": 2}  # the service counts requests; it acts once for both


class Leased(MemoryLedger):
    """A ledger whose claims need a lease, as those of a store do."""


def test_a_fork_is_an_owner_of_its_own(tmp_path):
    """Workers are often forked from a process that has loaded everything, and whose thread they do not have."""
    effects = Effects(Leased())
    manager = ToolManager(parts=ToolParts(effects=effects))
    manager.add([paying(tmp_path)])
    asyncio.run(manager.calls.run(call(0)))
    owners = multiprocessing.get_context("fork").SimpleQueue()

    def claim():
        asyncio.run(manager.calls.run(call(1)))
        owners.put((effects.owner, effects._lease._thread.is_alive()))

    assert forked((claim,)) == [0]
    owner, renews = owners.get()
    assert owner != effects.owner
    assert renews
