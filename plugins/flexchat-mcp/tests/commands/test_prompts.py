"""flexchat mcp prompts: the prompts a server offers."""

import json

import pytest

from ..conftest import MODERN_FIRST


@pytest.fixture(params=MODERN_FIRST)
def offering(request, config, folder):
    config({"name": "fake", "command": folder.command(request.param, "readable")})


@pytest.mark.usefixtures("offering")
def test_prompts_are_listed_and_filled_in(run):
    assert run("prompts", "fake")[:2] == (0, "greet city=… tone?=…  Greet.\n")
    status, out, err = run("prompts", "fake", "greet", "city=Rome", "tone=calm = quiet")

    assert (status, err) == (0, "user:\n")
    assert out == 'Greet {"city": "Rome", "tone": "calm = quiet"}\n'
    assert json.loads(run("prompts", "fake", "greet", "--json")[1])["messages"][0]["role"] == "user"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fake", "gret"], "fake has no prompt 'gret' (did you mean 'greet'?); it has: greet"),
        (["fake", "greet", "Rome"], "'Rome' is not key=value"),
        (["fake", "greet", "a=1", "a=2"], "'a' is given twice"),
    ],
)
@pytest.mark.usefixtures("offering")
def test_what_goes_wrong_is_said(run, words, said):
    status, out, err = run("prompts", *words)

    assert (status, out) == (2, "")
    assert said in err


def test_a_server_without_prompts_has_none(config, run):
    config()

    assert run("prompts", "fake") == (0, "", "fake has no prompts\n")
