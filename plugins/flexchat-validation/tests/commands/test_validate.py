"""flexchat validate: which models with which cases, what is printed, the exit status."""

import asyncio
import json
import os
import signal
import sys
from xml.etree import ElementTree

import pytest
from flexchat_cli.terminal import Terminal
from flexchat_validation.commands.validate_report import duration, progress_line
from flexchat_validation.running import Progress
from hypothesis import given
from hypothesis import strategies as st

CALL = '{ tool_calls = [{ name = "calculator", arguments = { expression = "6 * 7" } }] }'
RIGHT = (CALL, '{ text = "42" }')
CASE = """
[[validation.cases]]
name = "{name}"
message = "What is 6 times 7?"
calls = [{{ tool = "calculator", arguments = {{ expression = "{expression}" }} }}]
tags = ["{tag}"]
"""


@pytest.fixture
def config(script):
    """Write a configuration whose scripted model says these replies; its cases by name: (expression, tag)."""

    def write(*replies, more="", **cases):
        path = script(*(replies or RIGHT))
        text = path.read_text().replace('provider = "scripted"', 'provider = "scripted"\nrepeat = true\nretries = 0')
        text += '\n[validation]\nconcurrency = 1\nstore = "results.db"\n' + more
        for name, (expression, tag) in (cases or {"sum": ("6 * 7", "easy")}).items():
            text += CASE.format(name=name, expression=expression, tag=tag)
        path.write_text(text)
        return path

    return write


def report(ran):
    return json.loads(ran.out)


def test_without_a_configuration_the_rehearsal_model_is_tried_with_sample_cases(run):
    """So that the command shows something at once: all pass, and six are too few for a verdict."""
    ran = run("validate")

    assert ran.status == 1
    assert ran.out.startswith("rehearsal/rehearsal\n  all cases        undecided  6 of 6 right  60-100 %  needs ")
    assert "6 different cases: this shows little about other questions" in ran.out
    assert "failed" not in ran.out
    assert "6 of 6 attempts in" in ran.out
    assert "no config found: the rehearsal model answers" in ran.err
    assert "6 attempts: 1 model x 6 cases x 1 run" in ran.err


def test_sixteen_of_sixteen_planned_is_validated(run, config, tmp_path):
    """Then the status is 0."""
    config()

    ran = run("validate", "--runs", "16")

    assert ran.status == 0, ran.out + ran.err
    assert "all cases        validated  16 of 16 right  80-100 %" in ran.out
    assert (tmp_path / "results.db").exists()


def test_four_of_five_is_never_validated(run, config):
    """The line of 80 % is held against the interval (TC-96)."""
    config(*RIGHT * 4, '{ text = "no" }')

    ran = run("validate", "--runs", "5")

    assert ran.status == 1
    assert "all cases        undecided  4 of 5 right  37-97 %" in ran.out


def test_json_is_one_document(run, config):
    """Run, models with aspects and cells, attempts with their calls."""
    config(sum=("6 * 7", "easy"), other=("1 + 1", "hard"))

    ran = run("validate", "--json", "--runs", "2")
    data = report(ran)

    assert data["run"]["state"] == "finished"
    assert (data["run"]["planned"], data["run"]["passed"], data["run"]["failed"]) == (4, 2, 2)
    (model,) = data["models"]
    assert (model["model_id"], model["verdict"], model["success_count"]) == ("script/any", "undecided", 2)
    assert [a["aspect"] for a in model["aspects"]] == ["right_tool", "right_arguments"]
    assert [(c["case"], c["passed"], c["failed"]) for c in model["cells"]] == [("sum", 2, 0), ("other", 0, 2)]
    assert sorted((a["case"], a["repetition"], a["outcome"]) for a in data["attempts"]) == [
        ("other", 0, "failed"),
        ("other", 1, "failed"),
        ("sum", 0, "passed"),
        ("sum", 1, "passed"),
    ]
    assert data["attempts"][0]["calls"][0]["tool"] == "calculator"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fail_on", "replies", "runs", "status"),
    [
        ("undecided", RIGHT, 2, 1),
        ("not-validated", RIGHT, 2, 0),
        ("not-validated", ('{ text = "no" }',), 20, 1),
        ("not-validated", ('{ error = "auth" }',), 1, 1),
        ("failure", RIGHT, 2, 0),
        ("failure", (*RIGHT, '{ text = "no" }'), 2, 1),
    ],
)
def test_the_status_says_what_fail_on_asks(run, config, fail_on, replies, runs, status):
    """What could not be tried fails always."""
    config(*replies)

    assert run("validate", "--runs", str(runs), "--fail-on", fail_on).status == status


@pytest.mark.slow
def test_a_run_that_came_to_nothing_fails_whatever_was_validated_before(run, config):
    """Earlier results say nothing of this run; stale ones say nothing at all, and are shown as what they are."""
    config()
    assert run("validate", "--runs", "16").status == 0
    config('{ error = "auth" }')
    assert run("validate").status == 1
    config('{ error = "auth" }', more="temperature = 0.5\n")
    ran = run("validate")
    assert ran.status == 1
    assert "stale results    validated  16 of 16 right" in ran.out
    assert "these results no longer count" in ran.out


def test_models_are_those_named_else_those_of_the_table_else_those_of_the_rules(run, config):
    """LLM alone is its default_model; nothing is tried twice."""
    config(more='models = ["script/a", "script/b"]\n')

    assert report(run("validate", "--json"))["run"]["models"] == ["script/a", "script/b"]
    named = run("validate", "--json", "--model", "script/c/d:e", "--model", "script/c/d:e")
    assert report(named)["run"]["models"] == ["script/c/d:e"]


@pytest.mark.slow
def test_cases_are_chosen_by_name_tag_and_file(run, config, tmp_path):
    """A file takes the place of the configuration's cases."""
    config(sum=("6 * 7", "easy"), other=("1 + 1", "hard"))
    (tmp_path / "more.toml").write_text('[[cases]]\nname = "quiet"\nmessage = "hi"\nno_call = true\n')

    def tried(*words):
        return report(run("validate", "--json", *words))["run"]["cases"]

    assert tried() == ["sum", "other"]
    assert tried("--cases", "other") == ["other"]
    assert tried("--tag", "easy") == ["sum"]
    assert tried("--cases", "more.toml") == ["quiet"]


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--cases", "smu"], "no case is called 'smu' (did you mean 'sum'?)"),
        (["--tag", "eays"], "no case has the tag 'eays' (did you mean 'easy'?)"),
        (["--cases", "gone.toml"], "gone.toml"),
        (["--cases", "sum", "--tag", "hard"], "none of the cases named has one of the tags"),
        (["--runs", "0"], "--runs is at least 1, not 0"),
        (["--concurrency", "0"], "--concurrency is at least 1, not 0"),
        (["--resume"], "is unfinished"),
        (["--resume", "abc"], "--resume abc: there is no such run"),
        (["--resume", "--runs", "2"], "leave out --runs"),
        (["--fail-on", "failed"], "--fail-on: 'failed' is not one of"),
    ],
)
def test_what_cannot_be_run_is_a_sentence_and_status_2(run, config, words, text):
    """Nothing is asked."""
    config(sum=("6 * 7", "easy"), other=("1 + 1", "hard"))

    ran = run("validate", *words)

    assert ran.status == 2, ran.err
    assert text in ran.err
    assert "Traceback" not in ran.err


def test_a_model_of_no_service_is_a_sentence(run, config):
    """With the services there are."""
    config()

    ran = run("validate", "--model", "scirpt/x")

    assert ran.status == 2
    assert "no service is called 'scirpt' (did you mean 'script'?)" in ran.err


def test_without_cases_it_says_how_to_write_one(run, script):
    """The example in the text can be used as it stands."""
    script(*RIGHT)

    ran = run("validate")

    assert ran.status == 2
    assert "[[validation.cases]]" in ran.err


def test_what_came_to_nothing_is_told_apart_and_made_by_resuming(run, config):
    """The state is failed; --resume goes on with that run, and needs no more options."""
    path = config('{ error = "auth" }')
    ran = run("validate", "--runs", "2")

    assert ran.status == 1
    assert "ended in an error and is not counted:\n  2 attempts with script/any: the script says: auth error" in ran.out
    assert "0 of 2 attempts are kept; flexchat validate --resume makes the others" in ran.err
    path.write_text(path.read_text().replace('{ error = "auth" }', ", ".join(RIGHT)))
    again = run("validate", "--resume", "--json")
    assert report(again)["run"]["state"] == "finished"
    assert [a["outcome"] for a in report(again)["attempts"]] == ["passed", "passed"]
    assert run("validate", "--resume").status == 2


@pytest.mark.slow
def test_a_service_that_is_down_is_named_once_and_its_cause_once_for_each_model(run, tmp_path, monkeypatch):
    """Not each time it is asked again, and not what its breaker says; other services are not asked at all."""
    dead = 'provider = "openai"\nbase_url = "http://127.0.0.1:1"\napi_key = "x"\nretry_delay_ms = 1\n'
    case = CASE.format(name="sum", expression="6 * 7", tag="easy")
    rules = '[[responses]]\nllm = "gone"\nmodel = "m"\n[[tools.registry]]\nname = "calculator"\n'
    table = f'[validation]\nmodels = ["gone/m"]\nstore = "r.db"\n{case}'
    text = f'[llms.gone]\n{dead}[llms.away]\n{dead}[llms.rehearsal]\nprovider = "rehearsal"\n{rules}{table}'
    (tmp_path / "flexchat.toml").write_text(text)
    monkeypatch.setattr("flexchat_validation.running.MAX_ROUNDS", 1)

    ran = run("validate")

    assert ran.status == 1
    assert ran.err.count("note: gone: nothing listens at 127.0.0.1:1") == ran.err.count("note: ") == 1
    assert ran.out.count("nothing listens at") == 1
    assert "1 attempt with gone/m: nothing listens" in ran.out
    assert "1 of 1 attempts ended in an error\n" in ran.out
    assert "note: " not in run("validate", "--model", "rehearsal/rehearsal").err
    assert run("validate", "-v").err.count("retrying") > 1


def test_a_resumed_run_finds_the_files_of_its_cases(run, config, tmp_path):
    """They are kept with the run."""
    path = config('{ error = "auth" }')
    (tmp_path / "more.toml").write_text('[[cases]]\nname = "quiet"\nmessage = "hi"\nno_call = true\n')
    run("validate", "--cases", "more.toml")
    path.write_text(path.read_text().replace('{ error = "auth" }', '{ text = "hello" }'))

    assert [a["case"] for a in report(run("validate", "--resume", "--json"))["attempts"]] == ["quiet"]


def test_junit_is_written_beside_the_report(run, config, tmp_path):
    """A failure for each attempt that failed."""
    config(*RIGHT, '{ text = "no" }')

    ran = run("validate", "--runs", "2", "--junit", "results.xml")

    root = ElementTree.parse(tmp_path / "results.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("2", "1")
    assert ran.out


def test_a_file_that_cannot_be_written_is_known_before_anything_is_asked(run, config):
    """A run may take an hour."""
    config()

    ran = run("validate", "--junit", "no/such/folder.xml")

    assert ran.status == 2
    assert "attempts" not in ran.err
    assert (ran := run("validate", "--junit", ".")).status == 2
    assert "--junit: '.' cannot be written: this is a folder" in ran.err


def test_a_file_that_cannot_be_written_in_the_end_takes_the_report_away_from_nobody(run, config, monkeypatch):
    """The disk is full, say."""
    config()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flexchat_validation.commands.validate_report.replacing", full)
    ran = run("validate", "--junit", "results.xml")

    assert ran.status == 1
    assert "1 of 1 right" in ran.out
    assert "'results.xml' cannot be written: No space left on device" in ran.err


def test_a_choice_of_cases_is_not_all_cases(run, config):
    """However many of them were right."""
    config(sum=("6 * 7", "easy"), other=("6 * 7", "hard"), third=("6 * 7", "hard"))

    ran = run("validate", "--cases", "sum", "--cases", "other")

    assert "\n  2 of 3 cases     undecided  2 of 2 right" in ran.out
    assert "all cases" not in ran.out


@pytest.mark.slow
def test_what_the_columns_do_not_explain_is_said(run, config):
    """A number that was not fixed beforehand, a rate on the line, cases of which none expects a call."""
    quiet = '[[validation.cases]]\nname = "q"\nmessage = "hi"\nno_call = true\n'
    config()
    run("validate", "--runs", "1")
    ran = run("validate", "--runs", "19")
    lacking = "their number was not fixed beforehand, so they are not enough to be sure of 80 %"
    assert "needs 4 more" in ran.out
    assert f"all cases, right tool, right arguments: {lacking}" in " ".join(ran.out.split())
    path = config(*RIGHT * 4, '{ text = "no" }')
    assert "too near to 80 % to be distinguished from it" in run("validate", "--store", "b.db", "--runs", "5").out
    text = path.read_text()
    path.write_text(text[: text.index("[[validation.cases]]")] + quiet)
    path.write_text(path.read_text().replace(CALL, '{ text = "hello" }'))
    ran = run("validate", "--store", "c.db", "--runs", "16")
    assert ran.status == 1
    assert "all cases: no case expects a call, so this shows nothing about calling tools" in ran.out


def test_one_blank_line_parts_the_report(run, config):
    """Never two."""
    config()
    assert "\n\n\n" not in run("validate").out
    config('{ text = "no" }')
    assert "\n\n\n" not in run("validate").out
    config('{ error = "auth" }')
    assert "\n\n\n" not in run("validate").out


@pytest.mark.skipif(not hasattr(signal, "SIGTERM") or sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_to_end_ends_as_ctrl_c_does(run, config, monkeypatch):
    """With the report, and how to go on."""
    config()

    def attempt(*_, **__):
        os.kill(os.getpid(), signal.SIGTERM)
        return asyncio.sleep(60)

    monkeypatch.setattr("flexchat_validation.running.attempt_case", attempt)
    ran = run("validate")

    assert ran.status == 130
    assert "interrupted: 0 of 1 attempt" in ran.out
    assert "flexchat validate --resume" in ran.err


def test_costs_are_told_where_prices_are_known(run, config):
    """Else it says where a price goes."""
    config()
    assert "validation.prices" not in run("validate").out  # a scripted model counts no tokens


def test_the_progress_is_a_line_on_a_terminal_only(run, config):
    """It is taken away before anything else is written."""
    config()

    assert "[####" in run("validate", terminal=True).err
    assert "[" not in run("validate").err.replace("[[", "")


def test_verbose_tells_each_attempt(run, config):
    """With what was wrong."""
    config('{ text = "no" }')

    assert "failed: script/any: sum; " in run("validate", "-v").err


@given(
    done=st.integers(0, 10**6),
    planned=st.integers(0, 10**6),
    errors=st.integers(0, 99),
    eta=st.none() | st.floats(0, 1e6),
    waiting=st.text(max_size=20),
    width=st.integers(20, 200),
)
def test_the_progress_line_is_one_line(done, planned, errors, eta, waiting, width):
    """Its bar fits; the terminal cuts what does not."""
    progress = Progress(
        run="r",
        state="running",
        planned=planned,
        done=done,
        errors=errors,
        eta_s=eta,
        waiting=waiting.replace("\n", ""),
    )

    line = progress_line(progress, width)

    assert f"{done} of {planned}" in line
    assert len(line) < width or "[" not in line.split(f"{done} of")[0]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "40 ms"), (9.94, "9.9 s"), (9.99, "10 s"), (59.6, "1 min 0 s"), (125, "2 min 5 s"), (7860, "2 h 11 min")],
)
def test_times_are_for_people(seconds, text):
    assert duration(seconds) == text


def test_a_status_line_is_replaced_and_then_gone(capsys, monkeypatch):
    """Nothing of it stays before what is written next."""
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    terminal = Terminal(color=False)
    terminal.status("one")
    terminal.status("two")
    terminal.status("two")
    terminal.say("done")
    terminal.status("")

    assert capsys.readouterr().err == "one\r\x1b[Ktwo\r\x1b[Kdone\n"
