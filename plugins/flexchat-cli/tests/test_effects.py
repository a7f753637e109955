"""flexchat effects: what tools have changed, and what nobody knows of."""

import json

import pytest

TOOLS = """
[[tools.registry]]
name = "pay"
description = "Pay."
parameters = { type = "object", properties = { amount = { type = "integer" } } }
implementation = { type = "mock", mock_response = { paid = true } }

[[tools.registry]]
name = "book"
description = "Book, and never answer."
parameters = { type = "object" }
implementation = { type = "mock", mock_response = {}, delay_ms = 5000 }
timeout_ms = 10

[conversations]
path = "kept.db"
"""


@pytest.fixture
def config(script):
    return script(tools=TOOLS)


@pytest.fixture
def unknown(run, config):
    """The key of an effect that nobody knows of; another one is done."""
    run("tools", "call", "pay", "amount=5")
    assert run("tools", "call", "book").status == 1
    return json.loads(run("effects", "list", "--unknown", "--json").out)[0]["key"]


def test_the_list_shows_what_was_changed_and_what_to_do(run, unknown):
    lines = run("effects", "list").out.splitlines()
    assert lines[0].startswith(unknown[:8])
    assert lines[0].split(None, 3)[3] == "unknown  book(): it was not finished after 10 ms"
    assert lines[1].split(None, 3)[3] == "done     pay(amount=5)"
    (line,) = run("effects", "list", "--unknown").out.splitlines()
    assert line == lines[0]
    assert len(run("effects", "list", "--limit", "1").out.splitlines()) == 1


def test_show_says_all_that_is_known(run, unknown):
    text = run("effects", "show", unknown[:6]).out
    assert "state:        unknown" in text
    data = json.loads(run("effects", "show", unknown, "--json").out)
    assert (data["tool"], data["note"]) == ("book", "it was not finished after 10 ms")


def test_a_person_settles_what_is_unknown_once(run, unknown):
    run("effects", "settle", unknown[:8], "done", "--note", "the hotel says so")
    data = json.loads(run("effects", "show", unknown, "--json").out)
    assert (data["state"], data["note"], bool(data["settled_by"])) == ("done", "the hotel says so", True)
    assert run("effects", "list", "--unknown").out == ""
    again = run("effects", "settle", unknown[:8], "failed")
    assert again.status == 2
    assert "('book') is done since" in again.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("show", "ffff"), "there is no effect 'ffff'"),
        (("settle", "ffff", "done"), "there is no effect 'ffff'"),
        (("list", "--limit", "0"), "--limit is at least 1, not 0"),
        (("settle", "abc", "gone"), "gone"),
    ],
)
def test_what_cannot_be_done_is_said(run, config, words, text):
    said = run("effects", *words)
    assert (said.status, text in said.err) == (2, True)


def test_effects_in_memory_are_not_to_be_found(run, config):
    config.write_text(config.read_text() + '\n[tools.effects]\nstore = "memory"\n')
    said = run("effects", "list")
    assert (said.status, "effects are kept in memory and end with their program" in said.err) == (2, True)


def test_a_wrong_store_is_said_with_its_line(run, config):
    config.write_text(config.read_text() + '\n[tools.effects]\nstore = "sqlit"\n')
    said = run("effects", "list").err
    assert "tools.effects.store: effects can be kept in memory, sqlite, not in 'sqlit' (did you mean 'sqlite'?)" in said


def test_without_a_configuration_the_usual_file_is_meant(run, data_folder):
    assert run("effects", "list").out == ""


def test_the_same_key_again_runs_nothing(run, config):
    for _ in range(2):
        said = run("tools", "call", "pay", "amount=5", "--key", "order 7")
    assert "the stored result of an earlier call" in said.err
    assert len(run("effects", "list").out.splitlines()) == 1
