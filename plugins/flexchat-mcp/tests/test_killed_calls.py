"""FlexChat and the server are killed in the middle of a call whose server acts once per key: it acts exactly once."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from .conftest import ERAS

pytestmark = pytest.mark.slow

TOOL = {"name": "count", "description": "Count something.", "inputSchema": {"type": "object"}}


@pytest.fixture
def flexchat(folder):
    """Return what starts the command line in the server's folder."""
    folder.tools(TOOL)

    def start(era, *words, takes_keys=True):
        table = {"name": "fake", "command": folder.command(era), "restarts": 50}
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["fake/*"]}}],
            "tools": {
                "mcp": [{**table, "idempotency_meta": "example.com/key"} if takes_keys else table],
                "effects": {"lease_s": 1, "store": "sqlite"},
            },
            "conversations": {"path": "kept.db"},
        }
        (folder.path / "flexchat.json").write_text(json.dumps(config))
        environment = {**os.environ, "FLEXCHAT_CONFIG": str(folder.path / "flexchat.json")}
        environment |= {"XDG_DATA_HOME": str(folder.path / "data"), "HOME": str(folder.path)}
        command = [sys.executable, "-m", "flexchat", *words]
        return subprocess.Popen(
            command, cwd=folder.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return start


def output(process):
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def kill_both(folder, process):
    """Kill FlexChat and the server once that has acted, before either has reported it."""
    end = time.monotonic() + 30
    while not folder.lines("effects"):
        if time.monotonic() > end or process.poll() is not None:
            raise AssertionError(process.communicate())
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    for pid in folder.pids():
        with contextlib.suppress(ProcessLookupError):  # its keeper may have been faster
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def keys_sent(folder):
    return [json.loads(line)["meta"].get("example.com/key") for line in folder.lines("calls")]


def interrupted_turn(flexchat, era, **rest):
    """Return the id of the turn, once the lease of the process that ran it has expired."""
    end = time.monotonic() + 30
    while True:
        (turn,) = json.loads(output(flexchat(era, "turns", "list", "--json", **rest)))
        if turn["state"] == "interrupted":
            return turn["id"]
        assert time.monotonic() < end


@pytest.mark.parametrize("era", ERAS)
def test_a_resumed_turn_repeats_its_call_with_the_same_key(folder, flexchat, era):
    folder.fault("hang")
    kill_both(folder, flexchat(era, "ask", "count with fake"))

    answer = output(flexchat(era, "turns", "resume", interrupted_turn(flexchat, era)))

    assert "unknown" not in answer
    sent = keys_sent(folder)
    assert (len(sent), len({*sent}), None in sent) == (2, 1, False)
    assert len(folder.lines("effects")) == 1
    (effect,) = json.loads(output(flexchat(era, "effects", "list", "--json")))
    assert (effect["tool"], effect["state"]) == ("count", "done")


@pytest.mark.parametrize("era", ERAS)
def test_another_process_repeats_a_call_under_a_key_of_its_caller(folder, flexchat, era):
    words = ("tools", "call", "count", "--key", "order 7")
    folder.fault("hang")
    kill_both(folder, flexchat(era, *words))

    assert "unknown" not in output(flexchat(era, *words))
    assert "unknown" not in output(flexchat(era, *words))  # from the ledger

    sent = keys_sent(folder)
    assert (len(sent), len({*sent})) == (2, 1)
    assert len(folder.lines("effects")) == 1


def test_a_key_that_the_first_attempt_did_not_send_repeats_nothing(folder, flexchat):
    """The setting may have been added after the crash: then the server cannot recognize the first call."""
    folder.fault("hang")
    kill_both(folder, flexchat("modern", "ask", "count with fake", takes_keys=False))

    output(flexchat("modern", "turns", "resume", interrupted_turn(flexchat, "modern")))

    assert keys_sent(folder) == [None]
    (effect,) = json.loads(output(flexchat("modern", "effects", "list", "--unknown", "--json")))
    assert effect["tool"] == "count"
