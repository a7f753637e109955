"""flexchat worker, as people and service managers run it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

CONFIG = """
[conversations]
provider = "postgresql"
dsn = "{dsn}"
schema = "{schema}"

[queue]
schema = "{schema}_queue"

[llms.bot]
provider = "scripted"
repeat = true
replies = [{reply}]

[tools.effects]
lease_s = 2.0

[[responses]]
llm = "bot"
model = "m"
tools = {{ enabled = true }}

[[tools.registry]]
name = "look"
description = "Look"
effect = "read"
timeout_ms = 60000
parameters = {{ type = "object", properties = {{}} }}
implementation = {{ type = "python", function = "looking:look" }}
"""
LOOKING = """
import pathlib, time

def look():
    here = pathlib.Path(__file__).parent
    (here / "looked").write_text((here / "looked").read_text() + "x" if (here / "looked").exists() else "x")
    while not (here / "go").exists():
        time.sleep(0.02)
    return "seen"
"""
SUBMIT = """
import asyncio, sys
from flexchat import FlexChat
async def main():
    async with FlexChat.from_config("flexchat.toml") as chat:
        print(await chat.submit("Hello", conversation=sys.argv[1]))
asyncio.run(main())
"""


def flexchat(folder, *words, **rest):
    command = [sys.executable, "-m", "flexchat", *words]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **rest)


@pytest.fixture
def folder(tmp_path, server, schema):
    def write(reply='{ text = "hi" }'):
        (tmp_path / "flexchat.toml").write_text(CONFIG.format(dsn=server.dsn(), schema=schema, reply=reply))
        (tmp_path / "looking.py").write_text(LOOKING)
        return tmp_path

    yield write
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema}_queue CASCADE")


def submit(folder, conversation="c"):
    command = [sys.executable, "-c", SUBMIT, conversation]
    return subprocess.check_output(command, cwd=folder, text=True).strip()


def states(folder):
    turns, errors = flexchat(folder, "--json", "turns", "list").communicate(timeout=60)
    assert turns, errors
    return {turn["id"]: turn["state"] for turn in json.loads(turns)}


def soon(condition, within_s=40.0):
    until = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < until, "it has not happened"
        time.sleep(0.05)  # another process has no event to wait for


def stopped(worker, number=signal.SIGTERM):
    worker.send_signal(number)
    out, errors = worker.communicate(timeout=40)
    assert worker.returncode == 0, errors
    return out.splitlines()


@pytest.mark.parametrize("kept", ['[conversations]\npath = "c.db"', "[queue]", "[conversations]\n[queue]"])
def test_without_postgresql_there_is_one_sentence(tmp_path, kept):
    (tmp_path / "flexchat.toml").write_text(
        f'{kept}\n[llms.bot]\nprovider = "scripted"\n[[responses]]\nllm = "bot"\nmodel = "m"\n'
    )
    worker = flexchat(tmp_path, "worker")
    _, errors = worker.communicate(timeout=60)
    assert worker.returncode == 2
    assert len(errors.strip().splitlines()) == 1, errors
    assert 'provider = "postgresql"' in errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('schema = "a b"', "schema must be a name"),
        ("concurrency = 0", "2: queue.concurrency: expected"),
        ("stuck_after_s = 0", "2: queue.stuck_after_s: expected"),
        ('provider = "celery"', "2: queue.provider: expected"),
        ("workers = 3", "2: queue: unknown key 'workers'"),
    ],
)
def test_a_wrong_setting_is_reported_with_its_line(tmp_path, line, text):
    (tmp_path / "flexchat.toml").write_text(
        f'[queue]\n{line}\n[llms.bot]\nprovider = "scripted"\n[[responses]]\nllm = "bot"\nmodel = "m"\n'
    )
    out, errors = flexchat(tmp_path, "check").communicate(timeout=60)
    assert text in out + errors


@pytest.mark.slow
def test_a_worker_runs_what_others_accept_until_it_is_stopped(folder):
    """It prints a line at its start, and one at its end."""
    here = folder()
    worker = flexchat(here, "worker", "--concurrency", "2")
    turns = [submit(here, f"c{n}") for n in range(3)]
    soon(lambda: [states(here)[turn] for turn in turns] == ["done"] * 3)
    lines = stopped(worker)
    assert len(lines) == 2
    assert lines[0].startswith("worker started: 2 turns at once")
    assert lines[1] == "worker stopped: 3 turns ended, 0 interrupted for others to resume"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_the_turn_of_a_worker_that_ends_goes_on_in_another(folder, number):
    """Whether it was asked to stop, interrupted at a terminal, or killed."""
    here = folder('{ tool_calls = [{ name = "look" }] }, { text = "done" }')
    first, second = flexchat(here, "worker"), None
    try:
        turn = submit(here)
        soon(lambda: (here / "looked").exists())
        if number == signal.SIGKILL:
            first.kill()
            first.wait()
        else:
            (here / "go").touch()  # a tool in a thread cannot be stopped
            assert "1 interrupted" in stopped(first, number)[-1] or states(here)[turn] == "done"
        (here / "go").touch()
        second = flexchat(here, "worker")
        soon(lambda: states(here)[turn] == "done")
        stopped(second)
    finally:
        for worker in filter(None, (first, second)):
            worker.kill()
            worker.communicate()


@pytest.mark.slow
def test_a_worker_survives_restarts_of_the_server(tmp_path, own_server):
    """It says once that the database is away, and goes on when it is back."""
    (tmp_path / "flexchat.toml").write_text(
        CONFIG.format(dsn=own_server.dsn(), schema="flexchat", reply='{ text = "hi" }')
    )
    (tmp_path / "looking.py").write_text(LOOKING)
    worker = flexchat(tmp_path, "worker")
    first = submit(tmp_path)
    soon(lambda: states(tmp_path)[first] == "done")
    for stop in (own_server.stop, own_server.crash):
        stop()
        own_server.start()
        turn = submit(tmp_path)
        soon(lambda turn=turn: states(tmp_path)[turn] == "done")
    assert worker.poll() is None
    assert "3 turns ended" in stopped(worker)[-1]


def test_help_names_what_it_does():
    out, _ = flexchat(Path.cwd(), "worker", "--help", env={**os.environ, "NO_COLOR": "1"}).communicate(timeout=60)
    assert "--concurrency" in out
