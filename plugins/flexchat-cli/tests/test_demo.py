"""flexchat demo: the first thing a newcomer runs."""

import json

import pytest
from flexchat_cli.ask import QUESTION


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

    ran = run("demo", "--config", "mine.toml", "hello")

    assert ran.out == "You:   hello\nModel: line one\n       line two\n"


def test_the_demo_as_json_is_the_whole_turn(run):
    turn = json.loads(run("demo", "--json").out)

    assert {call["tool"] for call in turn["tool_calls"]} == {"calculator", "get_current_datetime"}


FRUIT = """
import click

@click.command
@click.argument("rest", nargs=-1)
@click.option("--loud", is_flag=True)
def fruit(rest, loud):
    'See fruit.'
    print("fruit", list(rest), loud)
"""


@pytest.fixture
def _fruit(install_commands):
    """A plugin's command of two words, which begins as the demo does."""
    install_commands(FRUIT, {"demo fruit": "fruit"})


@pytest.mark.usefixtures("_fruit")
@pytest.mark.parametrize(
    ("words", "out"),
    [
        (("demo", "fruit"), "fruit [] False\n"),
        (("demo", "fruit", "a", "b", "--loud"), "fruit ['a', 'b'] True\n"),
        (("-v", "demo", "--no-color", "fruit", "--loud"), "fruit [] True\n"),
    ],
)
def test_a_plugins_demo_goes_before_a_message_that_is_its_name(run, words, out):
    ran = run(*words)

    assert (ran.status, ran.out) == (0, out)


@pytest.mark.usefixtures("_fruit")
@pytest.mark.parametrize("words", [("demo", "fruit", "--help"), ("help", "demo", "fruit")])
def test_a_plugins_demo_has_help_of_its_own(run, words):
    assert "See fruit." in run(*words).out


@pytest.mark.usefixtures("_fruit")
@pytest.mark.parametrize("message", [("fruit salad",), ("--", "fruit"), ("What", "fruit"), ()])
def test_every_other_message_of_the_demo_is_a_message(run, message):
    ran = run("demo", *message)

    assert ran.status == 0
    assert (message[-1] if message else QUESTION) in ran.out.splitlines()[0]
