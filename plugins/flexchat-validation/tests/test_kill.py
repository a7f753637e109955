"""kill -9 while tests are recorded: nothing that was acknowledged is lost, and the file can be read."""

import json
import os
import random
import sqlite3
import subprocess
import sys

import pytest
from flexchat_validation.store import ValidationStore

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("FLEXCHAT_KILLS", "20"))
# Half of the programs record with the tracker, half add to the store as a run does.
PROGRAM = """
import asyncio, sys
from flexchat_validation import ModelValidationTracker, ValidationStore
from flexchat_validation.attempts import Attempt, ModelKey
from flexchat_validation.store import Run

path, name, how = sys.argv[1:]

def track():
    tracker = ModelValidationTracker(path)
    for number in range(100_000):
        tracker.record_success(f"m/{name}-{number}", {"number": number})
        print(f"m/{name}-{number}", flush=True)

async def run():
    store = ValidationStore(path)
    await store.save_run(Run(id=name, state="running", models=("m",), cases=("c",)))
    for number in range(100_000):
        key = ModelKey(model_id=f"m/{name}-{number}")
        await store.add(Attempt(id=key.model_id, key=key, outcome="passed", at="x", run=name, case="c"))
        print(key.model_id, flush=True)

track() if how == "tracker" else asyncio.run(run())
"""


def recording(path, name, how):
    words = [sys.executable, "-c", PROGRAM, str(path), name, how]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("how", ["tracker", "run"])
async def test_nothing_acknowledged_is_lost(tmp_path, how):
    """FLEXCHAT_KILLS sets how often; two processes write into one file."""
    chance = random.Random(9)
    path = tmp_path / "v.db"
    acknowledged, names = [], []
    for kill in range(0, KILLS // 2, 2):
        names += [f"{kill}a", f"{kill}b"]
        processes = [recording(path, name, how) for name in names[-2:]]
        for process in processes:
            for _ in range(chance.randint(1, 25)):
                acknowledged.append(process.stdout.readline().strip())
            process.kill()
        for process in processes:
            acknowledged += [line.strip() for line in process.stdout if line.endswith("\n")]
            process.wait()
            process.stdout.close()
    store = ValidationStore(path)
    kept = {attempt.key.model_id for attempt in await store.attempts()}
    interrupted = {run.id for run in await store.interrupted()}
    await store.aclose()
    connection = sqlite3.connect(path)
    sound = connection.execute("PRAGMA integrity_check").fetchone()[0]
    connection.close()

    assert len(acknowledged) >= KILLS // 2
    assert set(acknowledged) <= kept
    assert sound == "ok"
    assert interrupted == (set(names) if how == "run" else set())


SAVING = """
import asyncio, sys
from flexchat_validation import ModelValidationTracker

async def main():
    tracker = ModelValidationTracker()
    for number in range(100_000):
        tracker.record_success("m", "x" * 2000)
        await tracker.save(sys.argv[1])
        print(number + 1, flush=True)

asyncio.run(main())
"""


def test_a_file_that_is_being_saved_is_the_old_one_or_the_new_one(tmp_path):
    """Never a part of one, and never one that is older than what was acknowledged."""
    path = tmp_path / "saved.json"
    for kill in range(max(KILLS // 10, 1)):
        with subprocess.Popen([sys.executable, "-c", SAVING, str(path)], stdout=subprocess.PIPE, text=True) as process:
            for _ in range(5 + 9 * kill % 30):
                process.stdout.readline()
            process.kill()
            last = [line for line in process.stdout if line.endswith("\n")]
        saved = json.loads(path.read_text())["records"][0]["test_count"]
        assert saved >= (int(last[-1]) if last else 5 + 9 * kill % 30)
