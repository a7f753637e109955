"""What is written, and where colours and control characters go."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from flexchat.cli.context import CommandContext
from flexchat.cli.terminal import Terminal, one_line
from flexchat.plugin.host import PluginHost
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


LOUD = """
print("loud at import")

def shout() -> str:
    '''Shout.'''
    print("loud when called")
    return "quiet"
"""
SHOUT = (
    'registry = [{ name = "shout", description = "Shout.", parameters = { type = "object" }, '
    'implementation = { type = "python", function = "MODULE:shout" } }]'
)


@pytest.fixture
def _loud(script, tmp_path, monkeypatch):
    module = f"loud_{tmp_path.name}"  # a name of its own: a module is imported once
    (tmp_path / f"{module}.py").write_text(LOUD)
    monkeypatch.syspath_prepend(tmp_path)
    script('{ tool_calls = [{ name = "shout" }] }', '{ text = "done" }', tools=SHOUT.replace("MODULE", module))


@pytest.mark.usefixtures("_loud")
@pytest.mark.parametrize("words", [["ask", "--json", "go"], ["chat", "--json"], ["tools", "call", "shout", "--json"]])
def test_what_a_tool_prints_does_not_get_into_the_json(run, words):
    """Standard output is the command's; a tool's print, at its import also, goes to standard error."""
    ran = run(*words, stdin="go\n")

    assert json.loads(ran.out)
    assert "loud at import\n" in ran.err
    assert "loud when called\n" in ran.err


def test_what_a_plugin_prints_does_not_get_into_the_json(run, monkeypatch):
    def loading(context, config=None):
        print("loud plugin")
        return PluginHost()

    monkeypatch.setattr(CommandContext, "load_plugins", loading)

    ran = run("plugins", "--json")

    assert (json.loads(ran.out), ran.err) == ([], "loud plugin\n")


def shell(line, **rest):
    line = line.replace("flexchat", f"{shlex.quote(sys.executable)} -m flexchat")
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False, **rest)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "status", "text"),
    [
        ("flexchat tools list >&-", 1, "standard output is closed"),
        ("flexchat ask --json hello >&-", 1, "standard output is closed"),
        ("flexchat ask <&-", 2, "ask needs a message"),
        ("flexchat ask - <&-", 2, "ask needs a message"),
        ("flexchat chat <&-", 1, "standard input, which is closed"),
    ],
)
def test_a_closed_stream_is_told_in_a_sentence(line, status, text):
    done = shell(line)

    assert (done.returncode, done.stdout) == (status, "")
    assert text in done.stderr
    assert done.stderr.startswith("flexchat: ")
    assert done.stderr.count("\n") == 1


def test_a_message_needs_no_standard_input_and_an_answer_no_standard_error(script):
    script('{ text = "here" }')

    assert shell("flexchat ask hello <&- 2>&-").stdout == "here\n"


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")
@pytest.mark.parametrize("words", ["tools list", "ask --json hello", "ask --help", "--version", "config schema"])
def test_a_full_disk_is_told_in_a_sentence(words):
    done = shell(f"flexchat {words} > /dev/full")

    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "flexchat: standard output cannot be written: No space left on device"
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
