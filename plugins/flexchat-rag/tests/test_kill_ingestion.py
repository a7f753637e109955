"""kill -9 in the middle of an ingestion: what was acknowledged is there, and running again finishes the rest."""

import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import sys

import pytest
from flexchat.store import DocumentStoreContext
from flexchat_rag.config import SqliteConfig
from flexchat_rag.ingest.pipeline import add_files
from flexchat_rag.retriever import SqliteStore

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("FLEXCHAT_KILLS", "4"))
FILES = 120

PROGRAM = """
import asyncio, sys
from flexchat.store import DocumentStoreContext
from flexchat_rag.config import SqliteConfig
from flexchat_rag.ingest.pipeline import add_files
from flexchat_rag.retriever import SqliteStore

class Acknowledging(SqliteStore):
    async def add(self, documents, *, collection, source=None):
        added = await super().add(documents, collection=collection, source=source)
        for document in documents:
            print(document.source, document.text.split()[0], flush=True)
        return added

store = Acknowledging(SqliteConfig(path=sys.argv[1], search="keyword"), DocumentStoreContext())
print("begin", flush=True)
asyncio.run(add_files(store, [sys.argv[2]], collection="docs"))
"""


def write_files(folder):
    folder.mkdir()
    for number in range(FILES):
        parts = [f"# Part {part}\n\nword{number}x{part} " + "some text of no interest " * 30 for part in range(4)]
        (folder / f"{number:03}.md").write_text("\n\n".join(parts))


def killed(database, folder, after):
    """Run an ingestion and kill it when it has acknowledged so many passages; return those it had."""
    acknowledged = []
    words = [sys.executable, "-c", PROGRAM, str(database), str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as program:
        for line in program.stdout:
            if line != "begin\n":
                acknowledged.append(line.split()[-1])
            if len(acknowledged) >= after:
                break
        program.send_signal(signal.SIGKILL)
        acknowledged += [line.split()[-1] for line in program.stdout if line.endswith("\n") and line != "begin\n"]
    return acknowledged


async def texts_of(store):
    found, after = set(), None
    while page := await store.list(collection="docs", limit=500, after=after):
        found |= {document.text.split()[0] for document in page}
        after = page[-1].id
    return found


async def test_nothing_acknowledged_is_lost_and_the_rest_comes_with_the_next_run(tmp_path):
    chance = random.Random(4)
    folder = tmp_path / "files"
    write_files(folder)
    everything = {f"word{number}x{part}" for number in range(FILES) for part in range(4)}
    for kill in range(KILLS):
        database = tmp_path / f"{kill}.db"

        acknowledged = killed(database, folder, after=chance.randint(0, len(everything) - 20))

        if database.exists():
            with contextlib.closing(sqlite3.connect(database)) as connection:
                assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        store = SqliteStore(SqliteConfig(path=str(database), search="keyword"), DocumentStoreContext())
        try:
            if acknowledged:
                assert set(acknowledged) <= await texts_of(store)
            report = await add_files(store, [str(folder)], collection="docs")
            assert (report.failed, report.added + report.changed + report.unchanged) == (0, FILES)
            assert await texts_of(store) == everything
        finally:
            await store.aclose()
