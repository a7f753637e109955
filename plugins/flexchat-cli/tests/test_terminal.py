"""What is written, and where colours and control characters go."""

import json
import os
import shlex
import subprocess
import sys

import pytest
from flexchat.plugin.host import PluginHost
from flexchat_cli.context import CommandContext
from flexchat_cli.terminal import Terminal, one_line
from hypothesis import given
from hypothesis import strategies as st

ESCAPE = "\x1b]0;stolen title\x07\x1b[2J"
CALL = '{ tool_calls = [{ name = "calculator", arguments = { expression = "6 * 7" } }] }'


def test_colours_are_for_terminals_only(run, script):
    script(CALL, '{ text = "42" }')

    assert "\x1b[" in run("ask", "go", terminal=True).err
    assert "\x1b[" not in run("ask", "go").err


@pytest.mark.slow
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


def test_an_answer_is_formatted_where_a_person_reads_it(run, script):
    """The address of a link is shown, whatever its text says."""
    script(r'{ text = "# Plan\n\n**Two** steps: [bank](https://evil.example)" }')

    assert run("ask", "go").out == "# Plan\n\n**Two** steps: [bank](https://evil.example)\n"
    on_terminal = run("ask", "go", terminal=True).out
    assert "#" not in on_terminal
    assert "**" not in on_terminal
    assert "https://evil.example" in on_terminal
    assert "\x1b]8" not in on_terminal  # a link whose text hides where it leads


@pytest.mark.parametrize("why", ["no rich", "--no-color", "-x", "JSON"])
def test_markdown_stays_as_it_is_where_it_must(run, script, monkeypatch, why):
    text = '{"a": "**b**"}' if why == "JSON" else "see\n```\n**b**\n```" if why == "-x" else "**b**"
    script(f"{{ text = {json.dumps(text)} }}")
    if why == "no rich":
        monkeypatch.setitem(sys.modules, "rich", None)

    ran = run("ask", *[why] * why.startswith("-"), "go", terminal=True)

    assert ran.out == ('{"a": "**b**"}' if why == "JSON" else "**b**") + "\n"


def a_terminal(monkeypatch, width=None, *, color=False):
    """Let capsys's streams pass for a terminal of that width; for a pipe if there is none."""
    monkeypatch.setenv("COLUMNS", str(width or 40))
    for stream in (sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: width is not None, raising=False)
    return Terminal(color=color)


ROWS = [("a", "", "short"), ("bcd", "", "a text that is much longer than the terminal is wide")]


def test_a_table_has_columns_and_fits_the_terminal(capsys, monkeypatch):
    """A column without a text is left out; a pipe gets everything."""
    a_terminal(monkeypatch, 30).table(("id", "cost", "what"), ROWS)
    assert capsys.readouterr().out == "a    short\nbcd  a text that is much lon …\n"

    a_terminal(monkeypatch).table(("id", "cost", "what"), ROWS)
    assert capsys.readouterr().out == f"a    short\nbcd  {ROWS[1][2]}\n"

    a_terminal(monkeypatch, 30).table(("id", "what"), [])
    assert capsys.readouterr().out == ""


def test_progress_is_one_line_that_the_next_replaces(capsys, monkeypatch):
    terminal = a_terminal(monkeypatch, 40)
    terminal.progress(1, 1_000, "answered")
    terminal.progress(2, 1_000, "answered, 1 failed")
    terminal.status("")

    assert capsys.readouterr().err == "1 of 1,000 answered\r\x1b[K2 of 1,000 answered, 1 failed\r\x1b[K"
    a_terminal(monkeypatch).progress(1, 2, "answered")
    assert capsys.readouterr().err == ""


def test_an_answer_that_breaks_off_is_kept_and_gives_the_cursor_back(capsys, monkeypatch):
    terminal = a_terminal(monkeypatch, 40, color=True)
    terminal.write_markdown("**half** of")
    terminal.write_markdown(" an answer")
    assert capsys.readouterr().out.count("\x1b[?25l") == 1

    terminal.error("the connection broke")

    ran = capsys.readouterr()
    assert ran.out.count("\x1b[?25h") == 1
    assert ran.out.endswith("\x1b[1mhalf\x1b[0m of an answer\n")
    assert "the connection broke" in ran.err


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


@pytest.mark.slow
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
