"""flexchat explain."""

import json

import pytest

CONFIG = """
[llms.bot]
provider = "scripted"
default_model = "m"
replies = [{ text = '{"topic_status": "new_topic", "topic_summary": "rain"}' }, { text = "Weather" }]

[intent]
llm = "bot"
detection = { weather = "about the weather", billing = "about invoices" }

[stores.docs]
provider = "memory"
collection = "faq"
documents = [{ title = "Rain", text = "It rains in Rome." }]

[[responses]]
llm = "bot"
match = { intent = "billing" }

[[responses]]
llm = "bot"
match = { intent = "weather", topic_regexp = "/RAIN/i" }
prompt = "{{rag_context}}"

[[responses]]
llm = "bot"
"""


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "chat.toml"
    file.write_text(CONFIG)
    return str(file)


def test_it_shows_the_phases_and_why_each_rule_fits_or_not(run, config):
    ran = run("explain", "--config", config, "Rain", "in", "Vienna?")

    assert ran.status == 0
    assert "Message: Rain in Vienna?" in ran.out
    assert '1 topic detection    "rain" (new topic)' in ran.out
    assert "2 rag collection     " in ran.out
    assert "rule 1  intent = " in ran.out
    assert "fits (intent = 'weather', topic_regexp = '/RAIN/i'): bot (m) answers" in ran.out
    assert "rule 3  fits too; an earlier one answers" in ran.out


def test_as_json_it_is_the_same_for_programs(run, config):
    ran = run("explain", "--config", config, "--json", "--topic", "weather", "Rain?")

    told = json.loads(ran.out)
    assert ran.status == 0
    assert (told["rule"], told["message"]) == (1, "Rain?")
    assert [rule["fits"] for rule in told["rules"]] == [False, True, True]
    assert [phase["phase"] for phase in told["phases"]][:2] == ["topic detection", "rag collection"]
    assert told["phases"][0]["input"]["topic"] == "weather"


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "the message on standard input is empty"),
        (["--collection", "dox/faq", "hi"], 2, "no document store is called 'dox'"),
        (["--config", "nowhere.toml", "hi"], 2, "nowhere.toml"),
    ],
)
def test_what_cannot_be_explained_is_said(run, config, words, status, said):
    ran = run("explain", *([] if "--config" in words else ["--config", config]), *words)

    assert ran.status == status
    assert said in ran.err


def test_without_a_configuration_it_explains_the_rehearsal(run):
    ran = run("explain", "hello")

    assert ran.status == 0
    assert "rule 1  fits (no condition)" in ran.out


def test_the_tools_that_would_be_offered_are_named(run, script):
    script('{ text = "hi" }', tools='registry = [{ name = "calculator" }, { name = "echo" }]')

    assert "with the tools calculator, echo\n" in run("explain", "hi").out
    assert json.loads(run("explain", "--json", "hi").out)["tools"] == ["calculator", "echo"]


def test_a_rule_is_told_by_its_number_and_its_name_and_values_as_a_configuration_writes_them(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "rehearsal"\n[[responses]]\nname = "deep"\nllm = "a"\nmodel = "x"\n'
        'match.reasoning = true\n[[responses]]\nname = "rest"\nllm = "a"\nmodel = "x"\n'
    )

    ran = run("explain", "hi")

    assert "rule 1 'deep'  reasoning = true: reasoning is not set\n" in ran.out
    assert "rule 2 'rest'  fits (no condition)" in ran.out
    assert "rule 2 'rest' (a)" in ran.out
    assert [rule["name"] for rule in json.loads(run("explain", "--json", "hi").out)["rules"]] == ["deep", "rest"]


def test_a_prompt_that_cannot_be_filled_in_is_a_warning(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        '[llms.a]\nprovider = "rehearsal"\n[[responses]]\nllm = "a"\nmodel = "x"\nprompt = "Answer in {{language}}"\n'
    )

    warnings = json.loads(run("explain", "--json", "hi").out)["phases"][-1]["warnings"]

    assert len(warnings) == 1
    assert warnings[0].startswith("the rule's answer would fail: the prompt shows {{language}}, which has no value")
    assert "would fail" not in run("explain", "--var", "language=French", "hi").out
