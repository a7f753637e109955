"""A server's question suspends the turn; another process goes on with the reply, and runs nothing twice."""

import contextlib
import json
import os
import signal
import time

import pytest

from .conftest import ERAS, output_of, start_flexchat

pytestmark = pytest.mark.slow

READS = {"name": "add", "description": "Add.", "inputSchema": {"type": "object"}}
WRITES = {"name": "count", "description": "Count something, for good.", "inputSchema": {"type": "object"}}
WITH_TASKS = {**WRITES, "execution": {"taskSupport": "required"}}
ANSWER = """
import asyncio
from flexchat import FlexChat, Reply
async def main():
    async with FlexChat.from_config("flexchat.json") as chat:
        (question,) = await chat.pending()
        handle = await chat.answer(question.id, Reply(action="accept", content={"seat": "aisle"}), by="ann")
        print((await handle.result()).content)
asyncio.run(main())
"""
ASK_LIVE = """
import asyncio
from flexchat import FlexChat
from flexchat.host import wait_for_answer
async def ask(question):
    print("asked", flush=True)
    return await wait_for_answer(question)
async def main():
    async with FlexChat.from_config("flexchat.json") as chat:
        await chat.respond("count with fake", conversation="c", on_question=ask)
asyncio.run(main())
"""
REPLY = {"action": "accept", "content": {"seat": "aisle"}}


@pytest.fixture
def flexchat(folder):
    """Return what starts a process in the server's folder."""

    def start(era, *words, faults=(), takes_keys=False, **rest):
        table = {"name": "fake", "command": folder.command(era, *faults), "restarts": 50, "effects": {"add": "read"}}
        keyed = {"idempotency_meta": "example.com/key"} if takes_keys else {}
        return start_flexchat(folder, {**table, **keyed}, *words, questions={"expires": "1d"}, **rest)

    return start


def suspend(flexchat, era, words="count with fake", **rest):
    """Run a turn until it is suspended; return its id."""
    process = flexchat(era, "ask", words, "--json", **rest)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 3, err
    turn = json.loads(out)
    assert (turn["status"], [each["question"]["message"] for each in turn["pending"]]) == ("suspended", ["Which seat?"])
    return turn["id"]


def answer(flexchat, era, **rest):
    return flexchat(era, program=("-c", ANSWER), **rest)


def kill(folder, process, name):
    """Kill a process and the server, once the server has noted something."""
    end = time.monotonic() + 30
    while not folder.lines(name):
        if time.monotonic() > end or process.poll() is not None:
            raise AssertionError(process.communicate())
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    for pid in folder.pids():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.communicate()


def effect(flexchat, era, **rest):
    (row,) = json.loads(output_of(flexchat(era, "effects", "list", "--json", **rest)))
    return row


def interrupted(flexchat, era):
    """Return the id of the turn of a process that was killed, once its lease has expired."""
    end = time.monotonic() + 30
    while True:
        (turn,) = json.loads(output_of(flexchat(era, "turns", "list", "--json")))
        if turn["state"] == "interrupted":
            return turn["id"]
        assert time.monotonic() < end, turn


def test_a_write_goes_on_where_the_server_asked(folder, flexchat):
    folder.tools(WRITES)
    folder.fault("ask")
    suspend(flexchat, "modern")
    pending = effect(flexchat, "modern")

    assert "aisle" in output_of(answer(flexchat, "modern"))

    assert (pending["state"], pending["handle"]["requestState"]) == ("pending", "s")
    assert effect(flexchat, "modern")["state"] == "done"
    assert [json.loads(line) for line in folder.lines("replies")] == [[REPLY, "s"]]
    assert (len(folder.lines("calls")), len(folder.lines("effects"))) == (1, 1)


def test_a_question_that_was_open_when_its_process_died_is_answered_in_another(folder, flexchat):
    folder.tools(WRITES)
    folder.fault("ask")
    asking = flexchat("modern", program=("-c", ASK_LIVE))
    assert asking.stdout.readline() == "asked\n"
    kill(folder, asking, "calls")
    interrupted(flexchat, "modern")

    assert "aisle" in output_of(answer(flexchat, "modern"))

    assert (len(folder.lines("calls")), len(folder.lines("replies")), len(folder.lines("effects"))) == (1, 1, 1)
    assert effect(flexchat, "modern")["state"] == "done"


@pytest.mark.parametrize("takes_keys", [False, True])
def test_a_reply_that_was_sent_before_a_crash_runs_nothing_twice(folder, flexchat, takes_keys):
    """It is sent again only with the key that the server got the first time; otherwise the outcome is unknown."""
    folder.tools(WRITES)
    folder.fault("ask")
    suspend(flexchat, "modern", takes_keys=takes_keys)
    folder.fault("hang")
    kill(folder, answer(flexchat, "modern", takes_keys=takes_keys), "effects")
    id = interrupted(flexchat, "modern")

    told = output_of(flexchat("modern", "turns", "resume", id, takes_keys=takes_keys))

    assert ("aisle" in told) == takes_keys
    assert effect(flexchat, "modern")["state"] == ("done" if takes_keys else "unknown")
    assert (len(folder.lines("calls")), len(folder.lines("effects"))) == (1, 1)
    assert len(folder.lines("replies")) == (2 if takes_keys else 1)


def test_a_reply_is_not_sent_again_with_a_key_that_the_server_did_not_get(folder, flexchat):
    folder.tools(WRITES)
    folder.fault("ask")
    suspend(flexchat, "modern")
    folder.fault("hang")
    kill(folder, answer(flexchat, "modern"), "effects")
    id = interrupted(flexchat, "modern")

    output_of(flexchat("modern", "turns", "resume", id, takes_keys=True))

    assert (len(folder.lines("replies")), len(folder.lines("effects"))) == (1, 1)


@pytest.mark.parametrize("era", ERAS)
def test_a_read_is_made_again_with_the_reply(folder, flexchat, era):
    """In the older era its question belongs to a request, which is given up."""
    folder.tools(READS)
    folder.fault("always ask")
    suspend(flexchat, era, "add with fake")

    assert "aisle" in output_of(answer(flexchat, era))
    assert json.loads(output_of(flexchat(era, "turns", "list", "--json")))[0]["state"] == "done"
    assert len(folder.lines("calls")) == 2


@pytest.mark.parametrize("era", ERAS)
def test_a_task_waits_for_the_reply(folder, flexchat, era):
    folder.tools(WITH_TASKS)
    folder.fault('task {"ask": true}')
    suspend(flexchat, era, faults=["tasks"])

    assert "aisle" in output_of(answer(flexchat, era, faults=["tasks"]))

    assert (len(folder.lines("tasks_made")), len(folder.lines("effects")), folder.lines("cancels")) == (1, 1, [])


def test_a_write_of_the_older_era_is_not_suspended(folder, flexchat):
    """It has started, and its question belongs to the connection."""
    folder.tools(WRITES)
    folder.fault("ask")
    process = flexchat("handshake", "ask", "count with fake", "--json")

    turn = json.loads(output_of(process))

    assert turn["status"] == "done"
    assert len(folder.lines("calls")) == 1


def test_a_state_that_is_too_long_to_be_kept_is_asked_about_at_once(folder, flexchat):
    """As before: the call cannot be suspended then."""
    folder.tools(WRITES)
    form = {"mode": "form", "message": "Which seat?", "requestedSchema": {"type": "object", "properties": {}}}
    asked = {"q": {"method": "elicitation/create", "params": form}}
    result = {"resultType": "input_required", "inputRequests": asked, "requestState": "x" * 5_000}
    folder.fault(json.dumps(result))

    turn = json.loads(output_of(flexchat("modern", "ask", "count with fake", "--json")))

    assert turn["status"] == "done"
    assert json.loads(folder.lines("replies")[0])[1] == "x" * 5_000
