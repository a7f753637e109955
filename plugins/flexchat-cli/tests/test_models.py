"""flexchat models."""

import json

import pytest

TWO = """
[llms.good]
provider = "scripted"

[llms.bad]
provider = "openai"
base_url = "http://127.0.0.1:9/v1"
retries = 0

[[responses]]
llm = "good"
model = "any"
"""


@pytest.mark.slow
def test_the_models_of_every_service_are_listed(run):
    ran = run("models")

    assert ran.status == 0
    assert "\nrehearsal\n" in ran.out
    assert "openai: no key is known: flexchat keys set openai" in ran.err


def test_a_service_that_does_not_answer_is_an_error_beside_the_others(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(TWO)

    ran = run("models")

    assert ran.status == 0
    assert ran.out.startswith("good\n")
    assert ran.err.startswith("flexchat: bad: ")


def test_if_no_service_answers_the_status_is_1(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        TWO.replace('[llms.good]\nprovider = "scripted"', "").replace('llm = "good"', 'llm = "bad"')
    )

    ran = run("models", "--json")

    assert ran.status == 1
    assert json.loads(ran.out)["bad"].keys() == {"error", "type"}


@pytest.mark.slow
def test_models_as_json(run):
    assert json.loads(run("models", "--json").out)["rehearsal"]["models"][0]["id"]
