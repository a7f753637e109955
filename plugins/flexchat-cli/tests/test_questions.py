"""Questions of tools at the terminal: a form, asked line by line."""

import asyncio
import getpass
import os
import subprocess
import sys
from pathlib import Path

import attrs
import click
import pytest
from flexchat import Question, Reply
from flexchat_cli.questions import Questions, fields_of, read_answer
from flexchat_cli.terminal import Terminal
from hypothesis import given
from hypothesis import strategies as st
from keyboard import typed as at_a_terminal

FORM = {
    "type": "object",
    "properties": {
        "seat": {"type": "string", "title": "Seat", "enum": ["window", "aisle"]},
        "bags": {"type": "integer", "minimum": 0, "default": 1},
        "priority": {"type": "boolean"},
    },
    "required": ["seat"],
}
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


def asked(schema=FORM, **more):
    async def ask():
        return await Questions(Terminal())(Question(message="Which seat?", schema=schema, tool="book", **more))

    return unsigned(asyncio.run(ask()))


def unsigned(reply):
    """Check that a reply names the person at the terminal; return it without the name."""
    if reply is None:
        return None
    assert reply.by == getpass.getuser()
    return attrs.evolve(reply, by="")


def test_a_form_is_filled_in_line_by_line(keyboard, capsys):
    keyboard("window\n2\ntrue\n")

    assert asked() == Reply(action="accept", content={"seat": "window", "bags": 2, "priority": True})
    said = capsys.readouterr().err
    assert "book asks: Which seat?" in said
    assert "Seat (window, aisle): " in said
    assert "bags [1]: " in said
    assert "priority (true, false): " in said


@pytest.mark.parametrize("choice", ["enum", "anyOf"])
def test_several_of_a_list_are_typed_as_json(keyboard, capsys, choice):
    values = ["ham", "egg"] if choice == "enum" else [{"const": "ham", "title": "Ham"}, {"const": "egg"}]
    keyboard('["egg"]\n')

    assert asked({"properties": {"with": {"type": "array", "items": {choice: values}}}}).content == {"with": ["egg"]}
    ham = "ham" if choice == "enum" else "ham: Ham"
    assert f"with (a JSON list of: {ham}, egg): " in capsys.readouterr().err


def test_an_empty_line_leaves_out_or_takes_the_default(keyboard):
    keyboard("aisle\n\n\n")

    assert asked() == Reply(action="accept", content={"seat": "aisle", "bags": 1})


def test_what_does_not_fit_is_asked_for_again(keyboard, capsys):
    keyboard("roof\n\nwindow\nmany\n-1\n0\n\n")

    assert asked() == Reply(action="accept", content={"seat": "window", "bags": 0})
    said = capsys.readouterr().err
    for problem in ("seat must be one of", "missing 'seat'", "bags must be an integer", "bags must be at least 0"):
        assert problem in said


@pytest.mark.parametrize(
    ("typed", "reply"), [("y\n", "accept"), ("YES\n", "accept"), ("\n", "decline"), ("no\n", "decline")]
)
def test_without_fields_it_is_yes_or_no(keyboard, typed, reply):
    keyboard(typed)

    assert asked(None) == Reply(action=reply)


def test_ctrl_d_declines(keyboard):
    keyboard("window\n\x04")

    assert asked() == Reply(action="decline")


def test_a_page_is_shown_and_not_opened(keyboard, capsys, monkeypatch):
    monkeypatch.setattr("webbrowser.open", lambda url: pytest.fail("opened"))
    keyboard("y\n")

    assert asked(None, url="https://pay.example/\x1b]0;x") == Reply(action="accept")
    said = capsys.readouterr().err
    assert "https://pay.example/" in said
    assert "\x1b" not in said


def test_nobody_is_asked_where_nobody_is():
    assert asked() is None


def test_questions_are_asked_one_after_the_other(keyboard, capsys):
    """Two calls of one answer run side by side."""
    keyboard("y\nn\n")

    async def ask():
        questions = Questions(Terminal())
        return await asyncio.gather(*(questions(Question(message=text)) for text in ("one", "two")))

    assert [reply.action for reply in asyncio.run(ask())] == ["accept", "decline"]
    said = capsys.readouterr().err
    assert said.index("one") < said.index("[y/N]") < said.index("two")


def test_who_is_stopped_leaves_the_next_line_to_others(keyboard):
    """Ctrl-C in a chat ends the turn: what is typed then is the next message."""

    async def ask():
        asking = asyncio.create_task(Questions(Terminal())(Question(message="Sure?")))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait({asking})

    asyncio.run(ask())
    keyboard("the next message\n")

    assert sys.stdin.readline() == "the next message\n"


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.text() | st.dictionaries(st.text(), st.text())),
    st.text(min_size=1),
)
def test_no_form_of_a_server_breaks_it(fields, typed):
    schema = {"properties": fields}
    assert fields_of(schema).keys() == fields.keys()
    assert fields_of({"properties": typed}) == {}
    for name in fields_of(schema):
        if name:
            assert [*read_answer({"properties": {name: {"type": "string"}}}, name, typed).values()] == [typed]


ARGUMENTS = {"to": "Ann\u202e\u200b", "amount": 10, "note": "a\x1b]0;x\ufe0f é"}
APPROVAL = {
    "type": "object",
    "properties": {"arguments": {"type": "object", "properties": {"amount": {"type": "integer", "maximum": 100}}}},
}


@pytest.fixture
def typist(keyboard, monkeypatch):
    """Return a function that takes lines, each typed once a prompt is shown; and a first text, typed before all."""

    def prepare(*lines, early=""):
        left = iter(lines)
        keyboard(early)
        show = click.echo

        def echo(*args, **kwargs):
            show(*args, **kwargs)
            keyboard(next(left) + "\n")

        monkeypatch.setattr(click, "echo", echo)

    return prepare


def approval(schema=APPROVAL, arguments=ARGUMENTS, **more):
    question = Question(
        message="Pay?", schema=schema, tool="pay", digest="d1", details={"arguments": arguments}, **more
    )

    async def ask():
        return await Questions(Terminal())(question)

    return unsigned(asyncio.run(ask()))


def test_a_scope_without_a_name_is_no_choice(typist, capsys):
    """Any yes counts again in it."""
    typist("", "y")

    assert approval(remember={"": "k"}) == Reply(action="decline")
    assert "r no with a reason, e edit [n]:" in capsys.readouterr().err


@pytest.mark.parametrize("typed", ["y", "YES"])
def test_an_approval_shows_the_arguments_in_full_and_nothing_invisible(typist, capsys, typed):
    typist("what?", typed)
    arguments = ARGUMENTS | {"long": "x" * 50_000}

    assert approval(arguments=arguments) == Reply(action="accept")
    shown = capsys.readouterr().err
    assert "pay needs approval: Pay?" in shown
    assert r'"to": "Ann\u202e\u200b"' in shown
    assert r'"note": "a\u001b]0;x\ufe0f é"' in shown
    assert "x" * 50_000 in shown
    assert shown.count("Approve? y yes, n no, r no with a reason, e edit [n]:") == 2


@pytest.mark.parametrize("typed", ["n", "", "No"])
def test_no_and_an_empty_line_reject(typist, typed):
    typist(typed)

    assert approval() == Reply(action="decline")


def test_a_rejection_can_have_a_reason(typist):
    typist("r", "too much")

    assert approval() == Reply(action="decline", why="too much")


def test_ctrl_d_rejects(typist):
    typist("\x04")

    assert approval() == Reply(action="decline")


def test_what_was_typed_before_an_approval_is_shown_approves_nothing(typist):
    """The second of two approvals must be seen before it is given."""
    typist("n", early="y\ny\n")

    assert approval() == Reply(action="decline")


@pytest.mark.parametrize(
    ("remember", "typed", "reply"),
    [
        ({"conversation": "k1", "always": "k2"}, ["c"], Reply(action="accept", remember="conversation")),
        ({"conversation": "k1", "always": "k2"}, ["a"], Reply(action="accept", remember="always")),
        ({"conversation": "k1"}, ["a", "y"], Reply(action="accept")),
        ({}, ["c", "a", "n"], Reply(action="decline")),
    ],
)
def test_a_reply_is_remembered_only_where_the_question_allows_it(typist, capsys, remember, typed, reply):
    typist(*typed)

    assert approval(remember=remember) == reply
    shown = capsys.readouterr().err
    assert ("c yes for this conversation" in shown) == ("conversation" in remember)
    assert ("a yes always" in shown) == ("always" in remember)


def test_arguments_are_edited_on_a_line(typist, capsys, monkeypatch):
    """What is no object, or does not fit the schema, approves nothing."""
    monkeypatch.delenv("EDITOR", raising=False)
    monkeypatch.delenv("VISUAL", raising=False)
    typist("e", "[1]", "e", '{"amount": 1, "amount": 2}', "e", '{"amount": 500}', "e", "", "e", '{"amount": 5}')

    assert approval() == Reply(action="accept", content={"arguments": {"amount": 5}})
    shown = capsys.readouterr().err
    for problem in ("not a JSON object", "'amount' is given twice", "arguments.amount must be at most", "unchanged"):
        assert problem in shown


@pytest.mark.parametrize("is_changed", [True, False])
def test_arguments_are_edited_in_the_editor(typist, monkeypatch, tmp_path, is_changed):
    editor = tmp_path / "editor.py"
    text = "import sys, pathlib\nfile = pathlib.Path(sys.argv[1])\n"
    editor.write_text(text + "file.write_text(file.read_text().replace('10', '20'))\n" * is_changed)
    monkeypatch.setenv("VISUAL", f"{sys.executable} {editor}")
    typist("e", "n")

    edited = Reply(action="accept", content={"arguments": ARGUMENTS | {"amount": 20}})
    assert approval() == (edited if is_changed else Reply(action="decline"))


def test_a_broken_editor_edits_nothing(typist, capsys, monkeypatch):
    monkeypatch.setenv("VISUAL", "no-such-editor-at-all")
    typist("e", "n")

    assert approval() == Reply(action="decline")
    assert "no-such-editor-at-all" in capsys.readouterr().err


def test_arguments_without_a_schema_cannot_be_edited(typist, capsys):
    typist("e", "y")

    assert approval(schema=None) == Reply(action="accept")
    assert "edit" not in capsys.readouterr().err


SHOP = """
from flexchat import ToolContext, tool


@tool(effect="read")
async def order(context: ToolContext) -> str:
    '''Order a pizza.'''
    reply = await context.ask("Which size?", {"properties": {"size": {"enum": ["small", "large"]}}})
    return f"{reply.action} {dict(reply.content)} {reply.why}"
"""


@pytest.mark.slow
def test_ask_asks_at_the_terminal(tmp_path):
    """The whole program, at a pseudo-terminal."""
    (tmp_path / "shop.py").write_text(SHOP)
    program = Path(sys.executable).with_name("flexchat")
    command = [program, "ask", "-m", "rehearsal/any", "-T", "shop:order", "Order a pizza"]
    typing, terminal = os.openpty()
    os.write(typing, b"large\n")
    done = subprocess.run(command, cwd=tmp_path, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    shown = os.read(typing, 65536).decode()
    os.close(typing)
    piped = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    assert done.returncode == 0, shown
    assert "order asks: Which size?" in shown
    assert "accept {'size': 'large'}" in shown
    assert "decline {} nobody can be asked here" in piped.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("typed", "result"), [(b"y\n", "ordered"), (b"n\n", "did not approve"), (b"\n", "did not approve")]
)
def test_ask_approve_asks_before_each_call(tmp_path, typed, result):
    """At a terminal a person decides; without one, nothing runs."""
    (tmp_path / "shop.py").write_text(SHOP.partition("    reply =")[0] + "    return 'ordered'\n")
    program = Path(sys.executable).with_name("flexchat")
    command = [program, "ask", "--approve", "-m", "rehearsal/any", "-T", "shop:order", "Order a pizza"]
    status, shown = at_a_terminal(command, ("[n]:", typed), cwd=tmp_path)
    piped = subprocess.run(command, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True)

    assert status == 0, shown
    assert "Run order without arguments?" in shown
    assert result in " ".join(shown.split())
    assert "nobody approved" in piped.stdout
