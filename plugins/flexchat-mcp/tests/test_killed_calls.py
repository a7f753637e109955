"""FlexChat and the server are killed in the middle of a call whose server acts once per key: it acts exactly once."""

import contextlib
import json
import os
import signal
import time

import pytest

from .conftest import ERAS, output_of, start_flexchat

pytestmark = pytest.mark.slow

TOOL = {"name": "count", "description": "Count something.", "inputSchema": {"type": "object"}}


@pytest.fixture
def flexchat(folder):
    """Return what starts the command line in the server's folder."""
    folder.tools(TOOL)

    def start(era, *words, takes_keys=True):
        table = {"name": "fake", "command": folder.command(era), "restarts": 50}
        keyed = {"idempotency_meta": "example.com/key"} if takes_keys else {}
        return start_flexchat(folder, {**table, **keyed}, *words)

    return start


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
        (turn,) = json.loads(output_of(flexchat(era, "turns", "list", "--json", **rest)))
        if turn["state"] == "interrupted":
            return turn["id"]
        assert time.monotonic() < end


@pytest.mark.parametrize("era", ERAS)
def test_a_resumed_turn_repeats_its_call_with_the_same_key(folder, flexchat, era):
    folder.fault("hang")
    kill_both(folder, flexchat(era, "ask", "count with fake"))

    answer = output_of(flexchat(era, "turns", "resume", interrupted_turn(flexchat, era)))

    assert "unknown" not in answer
    sent = keys_sent(folder)
    assert (len(sent), len({*sent}), None in sent) == (2, 1, False)
    assert len(folder.lines("effects")) == 1
    (effect,) = json.loads(output_of(flexchat(era, "effects", "list", "--json")))
    assert (effect["tool"], effect["state"]) == ("count", "done")


@pytest.mark.parametrize("era", ERAS)
def test_another_process_repeats_a_call_under_a_key_of_its_caller(folder, flexchat, era):
    words = ("tools", "call", "count", "--key", "order 7")
    folder.fault("hang")
    kill_both(folder, flexchat(era, *words))

    assert "unknown" not in output_of(flexchat(era, *words))
    assert "unknown" not in output_of(flexchat(era, *words))  # from the ledger

    sent = keys_sent(folder)
    assert (len(sent), len({*sent})) == (2, 1)
    assert len(folder.lines("effects")) == 1


def test_a_key_that_the_first_attempt_did_not_send_repeats_nothing(folder, flexchat):
    """The setting may have been added after the crash: then the server cannot recognize the first call."""
    folder.fault("hang")
    kill_both(folder, flexchat("modern", "ask", "count with fake", takes_keys=False))

    output_of(flexchat("modern", "turns", "resume", interrupted_turn(flexchat, "modern")))

    assert keys_sent(folder) == [None]
    (effect,) = json.loads(output_of(flexchat("modern", "effects", "list", "--unknown", "--json")))
    assert effect["tool"] == "count"
