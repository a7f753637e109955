"""flexchat ask: the answer on standard output, everything else on standard error."""

import json
import os
import sys

import pytest
from flexchat_cli import standard_input
from flexchat_cli.ask import first_block
from flexchat_cli.main import main
from hypothesis import given
from hypothesis import strategies as st

CALL = '{ tool_calls = [{ name = "calculator", arguments = { expression = "6 * 7" } }], text = "Let me see." }'
TWICE = (
    '{ tool_calls = [{ name = "calculator", arguments = { expression = "1 + 1" } }, '
    '{ name = "echo", arguments = { message = "hi" } }] }'
)


def test_without_a_configuration_the_rehearsal_model_answers_with_the_builtin_tools_and_says_so(run):
    """One line on standard error, with the command that connects a real model."""
    ran = run("ask", "What is 17% of 230?", terminal=True)

    assert ran.status == 0
    assert "39.1" in ran.out
    notices = [line for line in ran.err.splitlines() if "rehearsal model" in line]
    assert len(notices) == 1
    assert "flexchat init openai" in notices[0]


def test_a_key_in_the_environment_changes_nothing_without_a_configuration(run, monkeypatch):
    """No config is the rehearsal always: a key lying about must not cost money."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-abcdefgh")

    assert "rehearsal model" in run("ask", "hello", terminal=True).err


def test_standard_output_is_the_answer_and_standard_error_the_tool_calls(run, script):
    script('{ tool_calls = [{ name = "calculator", arguments = { expression = "6 * 7" } }] }', '{ text = "It is 42." }')

    ran = run("ask", "six times seven?")

    assert ran.out == "It is 42.\n"
    called, answered = ran.err.splitlines()
    assert called == '→ calculator(expression="6 * 7")'
    assert answered.startswith("← 42  (")


def test_what_a_model_says_between_calls_stands_on_a_line_of_its_own(run, script):
    script(CALL, '{ text = "It is 42." }')

    assert run("ask", "six times seven?").out == "Let me see.\nIt is 42.\n"


def test_without_streaming_standard_output_is_the_final_answer_alone(run, script):
    script(CALL, '{ text = "It is 42." }')

    assert run("ask", "--no-stream", "six times seven?").out == "It is 42.\n"


def test_calls_side_by_side_are_answered_with_their_names(run, script):
    script(TWICE, '{ text = "done" }', tools='registry = [{ name = "calculator" }, { name = "echo" }]')

    ran = run("ask", "both")

    answers = [line for line in ran.err.splitlines() if line.startswith("←")]
    assert sorted(line.split(":")[0] for line in answers) == ["← calculator", "← echo"]


def test_a_failed_call_is_shown_with_its_error_and_the_turn_goes_on(run, script):
    script(
        '{ tool_calls = [{ name = "calculator", arguments = { expression = "1 / 0" } }] }', '{ text = "It cannot be." }'
    )

    ran = run("ask", "divide")

    assert (ran.status, ran.out) == (0, "It cannot be.\n")
    assert "← failed: " in ran.err
    assert "division by zero" in ran.err


def test_a_call_that_cannot_be_read_is_shown_as_it_was_written(run, script):
    script('{ tool_calls = [{ name = "calculator", arguments = "{broken" }] }', '{ text = "Sorry." }')

    assert "→ calculator({broken)" in run("ask", "go").err


def test_a_long_result_stays_on_one_line_and_keeps_its_time(run, script):
    script(
        '{ tool_calls = [{ name = "echo", arguments = { message = "' + "long " * 100 + '" } }] }',
        '{ text = "ok" }',
        tools='registry = [{ name = "echo" }]',
    )

    ran = run("ask", "go")

    assert all(len(line) <= 100 for line in ran.err.splitlines())
    assert ran.err.rstrip().endswith(" ms)")


def test_the_turns_warnings_are_notes_on_standard_error(run, script):
    script('{ text = "Once upon", finish_reason = "length" }')

    ran = run("ask", "a story")

    assert ran.out == "Once upon\n"
    assert "note: the answer was cut off at the token limit" in ran.err


def test_json_is_the_whole_turn(run, script):
    """Phases, tool calls, usage and times."""
    script(CALL, '{ text = "It is 42." }')

    ran = run("ask", "--json", "six times seven?")

    turn = json.loads(ran.out)
    assert turn["content"] == "It is 42."
    assert turn["tool_calls"][0]["params"] == {"expression": "6 * 7"}
    assert [phase["phase"] for phase in turn["phases"]][-1] == "response generation"
    assert turn["elapsed_ms"] >= 0
    assert {"usage", "warnings", "finish_reason", "model", "service"} <= turn.keys()
    assert ran.err == ""


def test_words_are_joined_and_options_may_stand_between_them(run, script):
    script('{ text = "yes" }')

    turn = json.loads(run("ask", "do", "--json", "words", "join?").out)

    assert turn["topic"] == "do words join?"


def test_behind_two_dashes_everything_is_the_message(run, script):
    script('{ text = "it says more" }')

    ran = run("ask", "--json", "--", "what", "does", "-v", "--json", "do?")

    assert json.loads(ran.out)["topic"] == "what does -v --json do?"


@pytest.mark.parametrize(
    ("words", "stdin", "message"),
    [
        (["-"], "from a pipe\n", "from a pipe"),
        ([], "from a pipe\n", "from a pipe"),
        (["Sum", "it", "up:", "-"], "a report\n", "Sum it up:\n\na report"),
        (["5", "-", "3"], "", "5 - 3"),
        (["Sum", "it", "up:"], "\ufeffa report\n".encode(), "Sum it up:\n\na report"),
        (["Sum"], "ä report".encode("utf-16"), "Sum\n\nä report"),
        (["Sum"], "ä report".encode("utf-32"), "Sum\n\nä report"),
        (["Sum", "--no-stdin"], "a report", "Sum"),
        (["Sum"], "", "Sum"),
    ],
)
def test_the_message_comes_from_the_words_or_from_standard_input(run, script, words, stdin, message):
    script('{ text = "ok" }')

    assert json.loads(run("ask", "--json", *words, stdin=stdin).out)["topic"] == message


@pytest.mark.parametrize(
    ("words", "stdin", "terminal", "text"),
    [([], "", True, "ask needs a message"), ([], "", False, "empty"), (["-"], " \n", False, "empty")],
)
def test_no_message_is_a_usage_error(run, words, stdin, terminal, text):
    ran = run("ask", *words, stdin=stdin, terminal=terminal)

    assert ran.status == 2
    assert text in ran.err


@pytest.mark.parametrize("words", [["ask", ""], ["ask", " ", ""]])
def test_an_empty_message_is_refused_before_anything_else_is_said(run, words):
    ran = run(*words)

    assert (ran.status, ran.err) == (2, "flexchat: the message is empty\n")


def test_the_config_option_wins_over_the_variable_and_the_variable_over_the_folder(run, script, monkeypatch):
    script('{ text = "folder" }')
    script('{ text = "variable" }', name="variable.toml")
    script('{ text = "option" }', name="option.toml")

    assert run("ask", "who?").out == "folder\n"
    monkeypatch.setenv("FLEXCHAT_CONFIG", "variable.toml")
    assert run("ask", "who?").out == "variable\n"
    assert run("ask", "who?", "--config", "option.toml").out == "option\n"


def test_a_json_file_in_the_folder_is_found(run, tmp_path):
    config = {"llms": {"s": {"provider": "scripted", "replies": [{"text": "json"}]}}, "responses": [{"llm": "s"}]}
    config["responses"][0]["model"] = "m"
    (tmp_path / "flexchat.json").write_text(json.dumps(config))

    assert run("ask", "who?").out == "json\n"


def test_a_file_that_is_not_there_is_an_error_and_not_the_rehearsal(run):
    ran = run("ask", "--config", "nope.toml", "hello")

    assert ran.status == 2
    assert "nope.toml" in ran.err
    assert ran.out == ""


def test_what_the_configuration_leaves_out_is_pointed_at(run, script):
    """A tool that cannot be used is in check's notes; an answer must not hide that it is missing."""
    script('{ text = "ok" }', tools='registry = [{ name = "calculator" }, { name = "calculator" }]')

    assert "flexchat check shows" in run("ask", "go").err


def test_without_the_rehearsal_model_the_way_out_is_told(run):
    ran = run("ask", "hello", "--no-plugin", "mock")

    assert ran.status == 2
    assert "the rehearsal model, which answers without a configuration, is not there: " in ran.err
    assert "flexchat init openai" in ran.err
    assert "blocked" in ran.err


def test_a_blocked_plugin_of_the_configuration_is_not_loaded(run, script):
    path = script('{ text = "ok" }')
    path.write_text(path.read_text() + '\n[plugins]\nblock = ["builtin"]\n')

    ran = run("ask", "hello")

    assert ran.status == 2
    assert "plugins.block" in ran.err


INTERRUPTING = """
import asyncio, signal

async def press():
    '''Press Ctrl-C.'''
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)
"""


def test_ctrl_c_ends_the_turn_with_one_line_and_status_130(run, script, tmp_path, monkeypatch):
    (tmp_path / "presses_in_ask.py").write_text(INTERRUPTING)
    monkeypatch.syspath_prepend(tmp_path)
    script(
        '{ text = "Wait", tool_calls = [{ name = "press" }] }',
        tools='registry = [{ name = "press", description = "Press.", parameters = { type = "object" }, '
        'implementation = { type = "python", function = "presses_in_ask:press" } }]',
    )

    ran = run("ask", "go")

    assert ran.status == 130
    assert ran.out == "Wait\n"
    assert ran.err.endswith("flexchat: interrupted\n")


def test_bytes_that_are_no_text_are_a_usage_error(run, monkeypatch):
    import io
    import sys

    from flexchat_cli.main import main

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\xfe\xfa"), encoding="utf-8"))

    assert main(["ask", "-"]) == 2


def test_waiting_for_a_service_is_said_and_a_failed_tools_log_is_not(run, script):
    """Of the log a person sees what they must know; what the turn shows anyway is not said twice."""
    path = script(
        '{ tool_calls = [{ name = "calculator", arguments = { expression = "1 / 0" } }] }',
        '{ error = "overloaded" }',
        '{ text = "done" }',
    )
    path.write_text(path.read_text().replace("[llms.script]", "[llms.script]\nretry_delay_ms = 1"))

    ran = run("ask", "--no-stream", "go")

    assert ran.out == "done\n"
    assert [line.split(":")[0] for line in ran.err.splitlines() if not line.startswith(("→", "←"))] == ["note"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("naïve".encode("latin-1"), "standard input is not UTF-8: see line 1 (byte 3)"),
        (b"one\ntwo\n\xff", "see line 3 (byte 9)"),
        (b"\x7fELF\0\0", "standard input is not text: it contains binary data"),
        (b"\xff\xfe\xfa", "standard input is not UTF-16"),
        (b"y\n" * (4 * 1024 * 1024 + 1), "standard input is larger than 8 MiB"),
    ],
    ids=["latin-1", "line", "binary", "utf-16", "huge"],
)
def test_what_is_no_text_on_standard_input_is_a_usage_error(run, script, content, said):
    """With words before it, too: what somebody gave is not left out without a word."""
    script('{ text = "ok" }')

    for words in (["ask"], ["ask", "Sum"], ["explain", "Sum"]):
        ran = run(*words, stdin=content)
        assert ran.status == 2
        assert said in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("command", ["ask", "explain"])
def test_an_open_pipe_that_stays_silent_does_not_hold_a_message_of_words(command, script, monkeypatch, capfd):
    """As a service or a test runner leaves it to the programs it starts."""
    script('{ text = "ok" }')
    monkeypatch.setattr(standard_input, "PATIENCE_S", 0.05)
    receiving, sending = os.pipe()

    with os.fdopen(receiving) as pipe, os.fdopen(sending, "w"):
        monkeypatch.setattr(sys, "stdin", pipe)
        assert main([command, "hello"]) == 0

    assert "nothing arrived on standard input, which is ignored; a - waits for its end" in capfd.readouterr().err


def test_a_pipe_that_has_begun_is_read_to_its_end(script, monkeypatch, capfd):
    script('{ text = "ok" }')
    receiving, sending = os.pipe()
    os.write(sending, b"a report")
    os.close(sending)

    with os.fdopen(receiving) as pipe:
        monkeypatch.setattr(sys, "stdin", pipe)
        assert main(["ask", "--json", "Sum"]) == 0

    assert json.loads(capfd.readouterr().out)["topic"] == "Sum\n\na report"


def test_what_standard_input_adds_is_said(run, script):
    script('{ text = "ok" }')

    ran = run("ask", "Sum", stdin="a\nb\n")

    assert "standard input: 2 lines, 3 characters appended to the message (--no-stdin" in ran.err
    assert "--no-stdin" not in run("ask", "Sum", "--no-stdin", stdin="a\nb\n").err


def test_standard_input_cannot_be_wanted_and_left_out(run, script):
    script('{ text = "ok" }')

    assert "give only one of them" in run("ask", "Sum", "-", "--no-stdin", stdin="a").err
    assert "ask needs a message" in run("ask", "--no-stdin", stdin="a").err


def test_without_a_configuration_and_a_terminal_nothing_is_rehearsed_unasked(run):
    """A program would take the rehearsal's answer for a model's."""
    for words in (["ask", "hello"], ["ask", "--json", "hello"], ["chat"]):
        ran = run(*words)
        assert (ran.status, ran.out if "--json" not in words else "") == (2, "")
        assert "flexchat init openai" in ran.err
        assert "--demo" in ran.err


def test_with_demo_the_rehearsal_model_answers_whatever_is_configured(run, script):
    assert "39.1" in run("ask", "--demo", "What is 17% of 230?").out
    assert run("chat", "--demo", stdin="What is 1 + 1?\n").status == 0
    path = script('{ text = "ok" }')

    assert "rehearsal" in run("ask", "--demo", "hello").out
    assert "no config found" not in run("ask", "--demo", "hello").err
    assert "--demo: the rehearsal model answers" in run("chat", "--demo", stdin="hello\n").err
    assert run("ask", "--demo", "--config", str(path), "hello").status == 2


@pytest.mark.parametrize(
    ("answer", "block"),
    [
        ("Here:\n```python\nx = 1\n\ny\n```\nDone.\n```\nno\n```", "x = 1\n\ny"),
        ("~~~~\n```\na\n```\n~~~~", "```\na\n```"),
        ("```\ncut o", "cut o"),
        ("no ```block``` here", "no ```block``` here"),
        ("````\n```\n````", "```"),
        ("", ""),
        ("```python\r\na = 4\r\n\r\nb\r\n```\r\nDone.\r\n", "a = 4\r\n\r\nb"),
        ("1. do\n\n   ```bash\n   ls\n     -l\n   ```\n", "ls\n  -l"),
        ("10. do\n\n    ```\n    ls\n    ```\n", "ls"),
        ("- do\n\n\t```\n\tls\n\t```", "ls"),
        ("  ```\nless\n  more\n  ```", "less\nmore"),
    ],
)
def test_the_first_block_of_an_answer(answer, block):
    assert first_block(answer) == block


@given(st.text(alphabet="`~\r\n a"))
def test_any_answer_has_a_first_block(answer):
    """It is part of the answer, but for the indentation of its fence."""
    assert first_block(answer).replace(" ", "") in answer.replace(" ", "")
