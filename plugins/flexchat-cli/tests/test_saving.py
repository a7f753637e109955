"""ask --save NAME."""

import json

import pytest

YAML = "# mine\nllms:\n  bot: {provider: rehearsal}\nresponses:\n  - {llm: bot, model: m}\n"
JSON = '{"llms": {"bot": {"provider": "rehearsal"}}, "responses": [{"llm": "bot", "model": "m"}]}'


@pytest.mark.parametrize("name", ["flexchat.toml", "flexchat.yaml", "flexchat.json", None])
def test_what_was_typed_becomes_a_named_prompt(run, script, tmp_path, name):
    """Of the configuration, whatever its form, or of a new one; no model is asked."""
    if name == "flexchat.toml":
        script('{ text = "done" }')
    elif name is not None:
        (tmp_path / name).write_text(YAML if name.endswith(".yaml") else JSON)
    words = [
        "-s",
        'Say "{{mood}}".\nAnd C:\\more \x7f',
        "-p",
        "mood",
        "calm",
        "-o",
        "temperature",
        "0",
        "-T",
        "calculator",
    ]

    saved = run("ask", *words, "--save", "calm", "Greet {{message}}")

    assert (saved.status, saved.out) == (0, "")
    shown = json.loads(run("prompts", "show", "calm", "--json").out)
    assert shown == {
        "name": "calm",
        "prompt": "Greet {{message}}",
        "system": 'Say "{{mood}}".\nAnd C:\\more \x7f',
        "tools": ["calculator"],
        "options": {"temperature": 0},
        "variables": {"mood": "calm"},
    }
    if name == "flexchat.yaml":
        assert (tmp_path / name).read_text().startswith("# mine\n")
    again = run("ask", "--save", "calm", "x")
    assert again.status == 2
    assert "has a prompt of that name" in again.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--save", "a b", "x"], "a name has letters, digits, _ and -"),
        (["--save", "a"], "--save needs a message, or options to save"),
        (["--save", "a", "--functions", "def f(): pass", "x"], "--save takes neither -t nor --functions"),
    ],
)
def test_what_cannot_be_saved_is_refused(run, tmp_path, words, said):
    ran = run("ask", *words)

    assert ran.status == 2
    assert said in ran.err
    assert [*tmp_path.glob("flexchat.*")] == []


def test_a_file_of_prompts_alone_leaves_the_default_model_in_place(run):
    run("models", "default", "rehearsal/any")
    run("ask", "-s", "Be brief.", "--save", "brief")

    assert run("ask", "-t", "brief", "hello").status == 0
    assert run("ask", "hello").status == 0
