"""flexchat record."""

import json
import tomllib

import pytest


@pytest.fixture
def kept(run, script):
    """A conversation that was kept: a calculation, and thanks."""
    path = script('{ tool_calls = [{ name = "calculator", arguments = { expression = "2+2" } }] }', '{ text = "4" }')
    path.write_text(path.read_text() + '\n[conversations]\npath = "kept.db"\n')
    assert run("ask", "What is 2+2?").status == 0
    path.write_text(path.read_text().replace("replies = [", 'replies = [{ text = "Any time" }, '))
    assert run("ask", "-c", "Thanks").status == 0
    return path


def test_each_turn_of_the_last_conversation_becomes_a_case(run, kept):
    ran = run("record", "--tags", "a,b", "--tag", "c")
    first, second = tomllib.loads(ran.out)["cases"]
    assert first["calls"] == [{"tool": "calculator", "arguments": {"expression": "2+2"}}]
    assert first["mocks"]["calculator"]["result"] is not None
    assert (first["name"], first["tags"]) == ("What is 2+2?", ["a", "b", "c"])
    assert second == {"name": "Thanks", "message": "Thanks", "no_call": True, "tags": ["a", "b", "c"]}
    assert "--whole keeps them together" in ran.err


def test_one_turn_or_the_whole_conversation_can_be_asked_for(run, kept):
    (last,) = json.loads(run("record", "--turn", "-1", "--name", "n", "--json").out)["cases"]
    assert (last["name"], last["message"]) == ("n", "Thanks")
    (whole,) = json.loads(run("record", "--whole", "--json").out)["cases"]
    assert [turn["message"] for turn in whole["turns"]] == ["What is 2+2?", "Thanks"]


@pytest.mark.slow
def test_what_is_recorded_can_be_checked_and_is_not_added_twice(run, kept):
    assert run("record", "--out", "cases.toml").out == "2 cases added to cases.toml\n"
    assert run("cases", "check", "cases.toml").status == 0
    again = run("record", "--out", "cases.toml")
    assert (again.status, "already exists: choose another name" in again.err) == (2, True)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--turn", "3"], "turns 1 to 2"),
        (["--turn", "0"], "turns 1 to 2"),
        (["--turn", "1", "--whole"], "use one of the two"),
        (["nope"], "no conversation 'nope'"),
        (["--out", "x.yaml"], "a .toml or a .json file"),
    ],
)
def test_what_cannot_be_recorded_is_said(run, kept, words, said):
    ran = run("record", *words)
    assert ran.status in (1, 2)
    assert said in ran.err


def test_without_a_conversation_it_says_how_one_is_kept(run, script):
    path = script('{ text = "x" }')
    path.write_text(path.read_text() + '\n[conversations]\npath = "kept.db"\n')
    assert "flexchat ask --keep" in run("record").err
