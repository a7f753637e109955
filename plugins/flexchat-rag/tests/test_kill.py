"""What was acknowledged is there after kill -9, at whatever moment it comes."""

import asyncio
import os
import random
import signal
import subprocess
import sys

import pytest
from flexchat.store import DocumentStoreContext
from flexchat_rag.config import SqliteConfig
from flexchat_rag.retriever import SqliteStore
from flexchat_testing import HashingEmbedder

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("FLEXCHAT_KILLS", "10"))

WRITER = """
import asyncio, os, signal, sys, threading
from pathlib import Path
from flexchat.store import Document, DocumentStoreContext, Source
from flexchat_testing import HashingEmbedder
from flexchat_rag.config import SqliteConfig
from flexchat_rag.retriever import SqliteStore

async def main(folder, start):
    context = DocumentStoreContext(folder=Path(folder), embedder=HashingEmbedder())
    store = SqliteStore(SqliteConfig(path="k.db"), context)
    for number in range(start, start + 100_000):
        documents = [Document(id=f"{number}-{part}", text=f"word{number} part {part}") for part in range(5)]
        await store.add(documents, collection="c", source=Source(name=f"s{number}", digest="1"))
        print(number, flush=True)
        if number == start + int(sys.argv[3]):  # the end comes in the middle of something that follows
            threading.Timer(float(sys.argv[4]), os.kill, (os.getpid(), signal.SIGKILL)).start()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


def killed(folder, start, rng):
    """Let a process add until it kills itself, and return the last number it said was stored."""
    command = [sys.executable, "-c", WRITER, folder, start, rng.randrange(10), rng.uniform(0, 0.03)]
    writer = subprocess.run([*map(str, command)], stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert writer.returncode == -signal.SIGKILL
    return int(writer.stdout.rpartition("\n")[0].rpartition("\n")[2])


async def check(folder, last):
    """Every acknowledged source has its five documents, none has a part of them, and all are found."""
    store = SqliteStore(SqliteConfig(path="k.db"), DocumentStoreContext(folder=folder, embedder=HashingEmbedder()))
    try:
        sources = {s.name: s.documents for s in await store.sources(collection="c", limit=1_000_000)}
        assert {f"s{number}" for number in range(last + 1)} <= set(sources)
        assert set(sources.values()) == {5}
        (collection,) = await store.collections()
        assert collection.documents == 5 * len(sources)
        found = await store.query(f"word{last}", collection="c", top_k=100)
        assert {f"{last}-{part}" for part in range(5)} <= {d.id for d in found.documents}
        return len(sources)
    finally:
        await store.aclose()


def test_nothing_acknowledged_is_lost(tmp_path):
    """Killed again and again, the same file is readable each time and holds all that was said to be stored."""
    rng, start = random.Random(), 0
    for _ in range(KILLS):
        last = killed(tmp_path, start, rng)
        start = asyncio.run(check(tmp_path, last))
        assert start > last


def test_two_processes_fill_one_file(tmp_path):
    """Neither loses a document, and neither waits for the other for long."""
    script = WRITER.replace("100_000", "30")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), str(start), "-1", "0"], stdout=subprocess.DEVNULL
        )
        for start in (0, 1000)
    ]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]

    async def names():
        store = SqliteStore(SqliteConfig(path="k.db"), DocumentStoreContext(folder=tmp_path))
        try:
            return {s.name for s in await store.sources(collection="c")}
        finally:
            await store.aclose()

    assert asyncio.run(names()) == {f"s{start + number}" for start in (0, 1000) for number in range(30)}
