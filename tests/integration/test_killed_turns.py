"""A process is killed in the middle of a turn: the turn goes on in another, and what it did, it did once."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFIG = """
[llms.bot]
provider = "rehearsal"

[[responses]]
llm = "bot"
model = "rehearsal"
tools = { enabled = true }

[tools.effects]
lease_s = 1

[[tools.registry]]
name = "pay"
description = "Pay an amount of money in euros."
parameters = { type = "object", properties = { amount = { type = "integer" } }, required = ["amount"] }
effect = "write"
implementation = { type = "python", function = "bank:pay" }

[conversations]
path = "kept.db"
"""
BANK = """
import os, signal
from pathlib import Path

def pay(amount: int) -> str:
    if Path("kill before").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    with open("paid.txt", "a") as file:
        file.write(f"{amount}\\n")
    if Path("kill after").exists():
        os.kill(os.getpid(), signal.SIGKILL)
    return "paid"
"""


@pytest.fixture
def flexchat(tmp_path):
    """Return what runs the command line in a folder with a tool that is killed."""
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    (tmp_path / "bank.py").write_text(BANK)

    def run(*words):
        command = [sys.executable, "-m", "flexchat", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)

    return run


def waiting(flexchat):
    """Return the turn that is interrupted, once its lease has ended."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        (turn,) = json.loads(flexchat("turns", "list", "--json").stdout)
        if turn["state"] == "interrupted":
            return turn["id"]
    raise AssertionError("the turn is not interrupted")


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_turn_whose_process_was_killed_goes_on(flexchat, tmp_path, when):
    """The effect is unknown, is not made twice, and is settled by a person; the answer knows of it."""
    kill = tmp_path / f"kill {when}"
    kill.touch()
    assert flexchat("ask", "pay an amount of 5 euros").returncode == -9
    kill.unlink()
    id = waiting(flexchat)
    steps = [step["kind"] for step in json.loads(flexchat("turns", "show", id, "--json").stdout)["steps"]]
    assert steps == ["started", "rule", "request", "answer"]

    said = flexchat("ask", "-c", "--no-stdin", "--conversation", "nothing")
    assert said.returncode == 2
    resumed = flexchat("turns", "resume", id[:6])

    assert resumed.returncode == 0, resumed.stderr
    assert "It is unknown whether 'pay' took effect" in resumed.stdout
    assert Path(tmp_path / "paid.txt").exists() is (when == "after")
    assert flexchat("turns", "resume", id).returncode == 1
    (effect,) = json.loads(flexchat("effects", "list", "--unknown", "--json").stdout)
    assert (effect["tool"], effect["turn"]) == ("pay", id)
    assert flexchat("effects", "settle", effect["key"], "done" if when == "after" else "failed").returncode == 0
    (turn,) = json.loads(flexchat("turns", "list", "--json").stdout)
    assert turn["state"] == "done"


def test_a_turn_that_was_interrupted_can_be_ended(flexchat, tmp_path):
    """Its conversation has it as far as it came."""
    (tmp_path / "kill after").touch()
    assert flexchat("ask", "pay an amount of 5 euros").returncode == -9
    (tmp_path / "kill after").unlink()
    id = waiting(flexchat)
    conversation = json.loads(flexchat("turns", "show", id, "--json").stdout)["conversation"]

    cancelled = flexchat("turns", "cancel", id)
    assert (cancelled.returncode, "It is unknown whether 'pay' took effect" in cancelled.stderr) == (0, True)
    shown = flexchat("conversations", "show", conversation).stdout
    assert "pay an amount of 5 euros" in shown
    assert (tmp_path / "paid.txt").read_text() == "5\n"
