"""Turns that are suspended or accepted, on the command line: how they are reported, and how they go on."""

import asyncio
import getpass
import json
import sys
from datetime import datetime
from pathlib import Path

import pytest
from flexchat import FlexChat, Reply
from keyboard import typed

FLEXCHAT = Path(sys.executable).with_name("flexchat")
TOOLS = """
[[tools.registry]]
name = "pay"
description = "Pay."
approve = true
parameters = { type = "object", properties = { amount = { type = "integer" } } }
implementation = { type = "mock", mock_response = { paid = true } }

[conversations]
path = "kept.db"
"""
WAITS = TOOLS + '[questions]\nexpires = "1d"\n'
PAY = '{ tool_calls = [{ name = "pay", arguments = { amount = 5 } }] }'
PAID = '{ text = "It is paid." }'


@pytest.fixture
def waits(script):
    return script(PAY, PAID, tools=WAITS)


async def questions():
    async with FlexChat.from_config("flexchat.toml") as chat:
        return await chat.pending(states=["replied"])


def turns(run, *words):
    return json.loads(run("turns", "list", *words, "--json").out)


def test_ask_reports_a_suspended_turn_and_how_to_reply(run, waits):
    ran = run("ask", "pay")

    (turn,) = turns(run, "--suspended")
    assert (ran.status, ran.out) == (3, "")
    assert f'turn {turn["id"][:8]} is suspended; pay asks: Run pay with {{"amount": 5}}?' in ran.err
    assert "flexchat approvals approve call_" in ran.err
    assert f"flexchat turns resume {turn['id'][:8]} at a terminal" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize(("words", "state"), [((), "suspended"), (("--queue",), "accepted")])
def test_a_conversation_is_listed_before_its_first_turn_has_ended(run, waits, words, state):
    """With the state of that turn; its id is enough to delete it, and to continue it."""
    run("ask", *words, "pay  the bill")
    listed = run("conversations", "list", "--search", "BILL")
    (info,) = json.loads(run("conversations", "list", "--json").out)
    (turn,) = turns(run)
    shown = run("conversations", "show", info["id"][:5])

    assert f"0 turns  ({state}) pay the bill" in listed.out
    assert (info["status"], info["turns"]) == (state, 0)
    assert run("conversations", "list", "--search", "other", "--json").out.strip() == "[]"
    assert (shown.status, len(shown.err.splitlines())) == (2, 1)
    assert f"has not ended ({state}): flexchat turns show {turn['id'][:8]}" in shown.err
    assert run("conversations", "delete", "--yes", info["id"][:5]).status == 0
    assert (turns(run), run("conversations", "list", "--json").out.strip()) == ([], "[]")


def test_ask_as_json_has_the_pending_questions(run, waits):
    ran = run("ask", "pay", "--json", "--tenant", "acme")

    turn = json.loads(ran.out)
    assert (ran.status, turn["status"]) == (3, "suspended")
    assert [each["question"]["details"] for each in turn["pending"]] == [{"arguments": {"amount": 5}}]
    assert "--tenant acme" in ran.err


@pytest.mark.parametrize("words", [(), ("--no-stream",), ("-x",)])
def test_a_suspended_turn_has_no_answer(run, waits, words):
    ran = run("ask", "pay", *words)

    assert (ran.status, ran.out) == (3, "")


def test_without_kept_questions_a_sentence_names_the_alternatives(run, script):
    script(PAY, PAID, tools=TOOLS)

    ran = run("ask", "pay")

    assert (ran.status, ran.out) == (0, "It is paid.\n")
    assert 'pay asked, without a terminal: run this at one, or keep the question: questions.expires = "1d"' in ran.err


def test_lines_of_a_chat_end_with_its_last_turn(run, waits):
    ran = run("chat", "--json", stdin="pay\n")
    goes_on = run("chat", "--json", stdin="pay\nthanks\n")  # ends the suspended turn

    assert (ran.status, json.loads(ran.out)["status"]) == (3, "suspended")
    assert [json.loads(line)["status"] for line in goes_on.out.splitlines()] == ["suspended", "done"]
    assert goes_on.status == 0


def test_turns_show_what_is_asked_and_resume_asks_it_again(run, waits):
    run("ask", "pay")
    (turn,) = turns(run)

    listed, shown, resumed = run("turns", "list"), run("turns", "show", turn["id"]), run("turns", "resume", turn["id"])

    assert "suspended" in listed.out
    assert "to reply to the question of a suspended one: flexchat turns resume ID" in listed.err
    assert "call_" in shown.out
    assert 'Run pay with {"amount": 5}?' in shown.out
    assert (resumed.status, resumed.out) == (3, "")
    assert "is suspended; pay asks" in resumed.err


def test_turns_cancel_ends_a_suspended_turn(run, waits):
    run("ask", "pay")
    (turn,) = turns(run)

    ran = run("turns", "cancel", turn["id"])

    assert ran.status == 0
    assert "pay: Not executed" in ran.err
    assert [(each["state"], bool(each["cancelled_by"])) for each in turns(run)] == [("cancelled", True)]
    assert run("turns", "list", "--suspended").err.strip() == "no turn is suspended"


def test_a_queued_turn_is_accepted_and_runs_later(run, script):
    script(PAID)
    ran = run("ask", "--queue", "hello")
    (turn,) = turns(run, "--accepted")
    shown = run("turns", "show", turn["id"]).out
    resumed = run("turns", "resume", turn["id"])

    assert (ran.status, ran.out.strip()) == (0, turn["id"])
    assert "accepted  hello" in shown
    assert (resumed.status, resumed.out) == (0, "It is paid.\n")
    assert turns(run)[0]["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize("at", ["2h", "2090-12-24T18:00", "2090-12-24T18:00+01:00"])
def test_a_queued_turn_has_a_time_and_a_priority(run, script, at):
    script(PAID)
    ran = run("ask", "--queue", "--at", at, "--priority", "3", "--json", "hello")
    (turn,) = turns(run)

    assert (ran.status, json.loads(ran.out)["turn"], turn["priority"]) == (0, turn["id"], 3)
    assert datetime.fromisoformat(turn["due_at"]) > datetime.now().astimezone()
    assert "(from 20" in run("turns", "list").out


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--at", "2h"), "add --queue"),
        (("--priority", "1"), "add --queue"),
        (("--queue", "--at", "tomorrow"), "neither a time such as"),
        (("--queue", "--no-keep"), "leave out --no-keep"),
    ],
)
def test_what_cannot_be_queued_is_refused(run, script, words, text):
    script(PAID)
    ran = run("ask", *words, "hello")

    assert ran.status == 2
    assert text in ran.err
    assert len(ran.err.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
class TestAtATerminal:
    """The whole program; what is typed follows what is shown."""

    def test_ctrl_c_at_a_prompt_leaves_the_turn_suspended(self, run, waits):
        status, shown = typed([FLEXCHAT, "ask", "pay"], ("[n]:", b"\x03"))
        (turn,) = turns(run)

        assert (status, turn["state"]) == (3, "suspended"), shown
        assert "is suspended; pay asks" in shown
        assert run("effects", "list", "--json").out.strip() in ("", "[]")

        status, shown = typed([FLEXCHAT, "turns", "resume", turn["id"]], ("[n]:", b"y\n"), ("[n]:", b"n\n"))
        assert status == 0, shown
        assert {question.replied_by for question in asyncio.run(questions())} == {getpass.getuser()}
        assert [each["state"] for each in json.loads(run("effects", "list", "--json").out)] == ["done"]

    def test_a_reply_from_another_process_ends_the_prompt(self, run, waits):
        async def reply():
            async with FlexChat.from_config("flexchat.toml") as chat:
                (waiting,) = await chat.pending()
                await chat.answer(waiting.id, Reply(action="accept"), by="ann")

        status, shown = typed([FLEXCHAT, "ask", "pay"], ("[n]:", lambda: asyncio.run(reply())))

        assert status == 0, shown
        assert "It is paid." in shown

    def test_ctrl_c_ends_a_turn_whose_questions_are_not_kept(self, run, script):
        script(PAY, PAID, tools=TOOLS)
        status, shown = typed([FLEXCHAT, "ask", "pay"], ("[n]:", b"\x03"))

        assert (status, turns(run)[0]["state"]) == (130, "cancelled"), shown

    def test_ctrl_c_in_a_chat_leaves_the_chat_open(self, run, waits):
        status, shown = typed(
            [FLEXCHAT, "chat"], ("> ", b"pay\n"), ("[n]:", b"\x03"), ("at a terminal", b""), ("> ", b"/quit\n")
        )

        assert (status, turns(run)[0]["state"]) == (0, "suspended"), shown


def test_a_batch_goes_on_with_its_suspended_turns(run, tmp_path):
    """The same command resumes the turn, instead of asking again."""
    text = '[llms.bot]\nprovider = "rehearsal"\n[[responses]]\nllm = "bot"\nmodel = "m"\ntools.enabled = true\n'
    (tmp_path / "flexchat.toml").write_text(text + WAITS)
    (tmp_path / "prompts.jsonl").write_text('"pay"\n')

    first = run("batch", "prompts.jsonl")
    (turn,) = turns(run, "--suspended")
    second = run("batch", "prompts.jsonl")
    run("turns", "cancel", turn["id"])

    assert (first.status, second.status) == (1, 1)
    assert json.loads(first.out)["type"] == "SuspendedTurnError"
    assert turn["id"] in json.loads(second.out)["error"]
    assert "the same command goes on from there" in first.err
    assert [each["state"] for each in turns(run)] == ["cancelled"]


def test_the_last_conversation_may_have_no_turn_that_has_ended(run, waits, script):
    first = json.loads(run("ask", "pay", "--json").out)["conversation"]
    ran = run("ask", "-c", "thanks", "--json")

    assert f"continuing {first[:8]} (0 turns): pay" in ran.err
    assert json.loads(ran.out)["conversation"] == first


def test_the_last_conversation_is_that_of_the_newest_turn(run, script):
    script('{ text = "one" }', tools=WAITS)
    first = json.loads(run("ask", "one", "--json").out)["conversation"]
    second = json.loads(run("ask", "two", "--json").out)["conversation"]
    script(PAY, PAID, tools=WAITS)
    run("ask", "--conversation", first, "pay")

    assert f"continuing {first[:8]} (1 turn)" in run("ask", "-c", "thanks").err
    assert first != second
