"""What is written, and where colours and control characters go."""

import json
import sys

import pytest
from flexchat.cli.terminal import Terminal, one_line
from hypothesis import given
from hypothesis import strategies as st

ESCAPE = "\x1b]0;stolen title\x07\x1b[2J"
CALL = '{ tool_calls = [{ name = "calculator", arguments = { expression = "6 * 7" } }] }'


def test_colours_are_for_terminals_only(run, script):
    script(CALL, '{ text = "42" }')

    assert "\x1b[" in run("ask", "go", terminal=True).err
    assert "\x1b[" not in run("ask", "go").err


@pytest.mark.parametrize("how", ["NO_COLOR", "--no-color", "dumb"])
def test_colours_can_be_refused(run, script, monkeypatch, how):
    script(CALL, '{ text = "42" }')
    if how == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")
    if how == "dumb":
        monkeypatch.setenv("TERM", "dumb")

    ran = run("ask", "go", *(["--no-color"] if how == "--no-color" else []), terminal=True)

    assert "\x1b" not in ran.err + ran.out


def test_a_model_cannot_steer_the_terminal(run, script):
    """Escape sequences in an answer, in arguments and in an error are made harmless where a terminal reads them."""
    toml = json.dumps(f"hello {ESCAPE}")
    script(
        f'{{ tool_calls = [{{ name = "echo", arguments = {{ message = {toml} }} }}] }}',
        f"{{ text = {toml} }}",
        tools='registry = [{ name = "echo" }]',
    )

    ran = run("ask", "--no-color", "go", terminal=True)

    assert "hello" in ran.out
    assert "\x1b" not in ran.out + ran.err
    assert "\x07" not in ran.out + ran.err


def test_a_file_gets_the_answer_as_it_is(run, script):
    script(f"{{ text = {json.dumps('hello ' + ESCAPE)} }}")

    assert ESCAPE in run("ask", "go").out


@given(st.text())
def test_json_survives_and_holds_no_control_characters(text):
    """What is printed as JSON reads back as the same data, whatever is in it."""
    import io
    from contextlib import redirect_stdout

    with redirect_stdout(io.StringIO()) as out:
        Terminal().json({"v": text})

    assert json.loads(out.getvalue()) == {"v": text}
    assert not any(ch in out.getvalue() for ch in "\x1b\x9b\u202e")


@given(st.text(), st.integers(min_value=3, max_value=50))
def test_one_line_is_one_line_and_not_longer(text, width):
    line = one_line(text, width)

    assert len(line) <= width
    assert len(line.splitlines()) <= 1


def test_an_open_line_is_ended_before_something_else_is_said(capsys, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    terminal = Terminal(color=False)

    terminal.write("half a")
    terminal.say("a step")
    terminal.write(" sentence")
    terminal.end_line()
    terminal.end_line()

    assert capsys.readouterr().out == "half a\n sentence\n"


def test_signs_that_cannot_be_shown_are_replaced(monkeypatch):
    class Ascii:
        encoding = "ascii"

    monkeypatch.setattr(sys, "stderr", Ascii())

    assert Terminal().symbol("→", "->") == "->"
