"""flexchat demo: the first thing a newcomer runs."""

import json

from flexchat.cli.demo import QUESTION


def test_the_demo_shows_question_calls_results_answer_and_the_next_step(run):
    """No key, no network, no configuration; the tools really run."""
    ran = run("demo")

    assert ran.status == 0
    lines = ran.out.splitlines()
    assert lines[0].endswith(QUESTION)
    assert '→ calculator(expression="17% of 230")' in ran.out
    assert 'get_current_datetime(timezone="Asia/Tokyo")' in ran.out
    assert "39.1" in ran.out
    assert "flexchat init" in lines[-1]
    assert ran.err == ""


def test_the_demo_takes_a_question_and_has_no_canned_answer(run):
    assert "56088" in run("demo", "What", "is", "123 * 456?").out


def test_the_demo_does_not_depend_on_the_folder(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text("[[[")

    assert run("demo").status == 0


def test_the_demo_of_a_named_configuration_is_that_configurations(run, script):
    script('{ text = "line one\\nline two" }', name="mine.toml")

    ran = run("demo", "-c", "mine.toml", "hello")

    assert ran.out == "You:   hello\nModel: line one\n       line two\n"


def test_the_demo_as_json_is_the_whole_turn(run):
    turn = json.loads(run("demo", "--json").out)

    assert {call["tool"] for call in turn["tool_calls"]} == {"calculator", "get_current_datetime"}
