"""What a tool asks in the middle of a call: answered by words, at a terminal, or declined."""

import asyncio
import json
import os
import signal
import subprocess
import sys

import mcp_types as types
import pytest
from flexchat_cli import Terminal
from flexchat_mcp.commands.answers import Answers
from flexchat_mcp.settings import McpConfig

needs_pty = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Your name"},
        "age": {"type": "integer", "default": 30, "minimum": 0},
        "kind": {"type": "string", "enum": ["a", "b"]},
    },
    "required": ["name"],
}


def ask(words, schema=FORM):
    return asked(words, schema)[0]


def asked(words, schema=FORM):
    """Return the answer, and why it did not fit."""
    answers = Answers(Terminal(), McpConfig(command="x"), words)
    question = types.ElicitRequestFormParams(message="Who?", requested_schema=schema)
    return asyncio.run(answers.answer(question)), answers.problem


@pytest.mark.parametrize(
    ("words", "content"),
    [
        (["name=Ada"], {"name": "Ada", "age": 30}),
        (["name=Ada", "age=5", "kind=b"], {"name": "Ada", "age": 5, "kind": "b"}),
        (['{"name": "Ada", "age": 5}'], {"name": "Ada", "age": 5}),
        (["name=Ada", "of_another_question=1"], {"name": "Ada", "age": 30}),
    ],
)
def test_words_answer_it_and_defaults_fill_in(words, content):
    assert ask(words) == types.ElicitResult(action="accept", content=content)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "missing 'name'"),
        (["nmae=Ada"], "--answer nmae: not asked for (did you mean 'name'?); asked for: name, age, kind"),
        (["name=Ada", "age=old"], "age must be an integer"),
        (["name=Ada", "age=-1"], "age must be at least 0"),
        (["name=Ada", "kind=c"], "kind must be one of: a, b"),
    ],
)
def test_an_answer_that_does_not_fit_is_said(words, said):
    answer, problem = asked(words)

    assert answer.action == "cancel"
    assert said in problem
    assert problem.endswith(" (the tool asks: Who?)")


def test_where_nobody_is_there_it_is_declined_and_said(capsys):
    assert ask(None).action == "decline"
    assert "(declined: --answer KEY=VALUE answers it; asked for: name, age, kind)" in capsys.readouterr().err


def test_an_address_is_shown_and_not_opened(capsys, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("opened"))
    there = types.ElicitRequestURLParams(message="Pay\x1b[31m", url="https://pay.example/\x1b]0;x", elicitation_id="1")
    answer = asyncio.run(Answers(Terminal(), McpConfig(command="x"), ["a=b"]).answer(there))
    said = capsys.readouterr().err

    assert answer.action == "decline"
    assert "https://pay.example/" in said
    assert "\x1b" not in said


@needs_pty
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Ada\n\n\n", {"name": "Ada", "age": 30}),
        ("Ada\n7\na\n", {"name": "Ada", "age": 7, "kind": "a"}),
        ("Ada\n\x04", None),
    ],
)
def test_a_person_is_asked_for_each_value(keyboard, text, answer):
    keyboard(text)
    expected = types.ElicitResult(action="decline") if answer is None else None

    assert ask(None) == (expected or types.ElicitResult(action="accept", content=answer))


@needs_pty
@pytest.mark.parametrize(("text", "action"), [("y\n", "accept"), ("\n", "decline")])
def test_a_question_without_values_is_yes_or_no(keyboard, text, action):
    keyboard(text)

    assert ask(None, {"type": "object", "properties": {}}).action == action


@needs_pty
@pytest.mark.slow
def test_ctrl_c_at_a_question_ends_the_command(config, folder):
    """Nothing is left that reads from the terminal: Python aborts at its end if a thread does."""
    path = config({"name": "fake", "command": folder.command("modern")})
    folder.fault("ask")
    typing, terminal = os.openpty()
    command = [sys.executable, "-m", "flexchat", "--config", str(path), "mcp", "call", "fake", "add", "a=1"]
    child = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, env={**os.environ, "TERM": "dumb"}
    )
    os.close(terminal)
    shown = b""
    while b"declines)" not in shown:
        shown += os.read(typing, 65536)
    child.send_signal(signal.SIGINT)
    status = child.wait(30)
    shown += os.read(typing, 65536)
    os.close(typing)

    assert status == 130, shown
    assert b"interrupted" in shown
    assert b"Fatal" not in shown


@pytest.mark.parametrize(
    ("words", "reply", "said"),
    [
        ((), {"action": "decline"}, "declined: --answer"),
        (("--defaults",), {"action": "accept", "content": {"seat": "any"}}, ""),
    ],
)
def test_the_call_is_made_again_with_the_answer(config, run, folder, words, reply, said):
    config({"name": "fake", "command": folder.command("modern")})
    folder.fault("ask")
    status, out, err = run("call", "fake", "add", "a=1", *words)

    assert (status, json.loads(out)) == (0, reply)
    assert said in err


def test_what_else_a_server_wants_is_refused(config, run, folder):
    wants = {"s": {"method": "roots/list", "params": {}}}
    config({"name": "fake", "command": folder.command("modern")})
    folder.fault(json.dumps({"resultType": "input_required", "inputRequests": wants}))
    status, _, err = run("call", "fake", "add", "a=1")

    assert status == 2
    assert "the tool asks something (roots/list) that cannot be answered here; it has not run" in err


def test_an_answer_that_does_not_fit_fails_the_command(config, run, folder):
    wants = {
        "q": {"method": "elicitation/create", "params": {"mode": "form", "message": "Who?", "requestedSchema": FORM}}
    }
    config({"name": "fake", "command": folder.command("modern")})
    folder.fault(json.dumps({"resultType": "input_required", "inputRequests": wants}))
    status, _, err = run("call", "fake", "add", "a=1", "--answer", "age=5")

    assert status == 2
    assert "the answer does not fit: missing 'name' (the tool asks: Who?)" in err
