"""Named prompts: -t NAME of ask and chat, flexchat prompts list and show."""

import json
import re
from pathlib import Path

import pytest
from flexchat.config.model import PromptEntry
from flexchat_cli.context import UsageError
from flexchat_cli.prompts import with_message
from flexchat_testing.scripted import ScriptedProvider
from hypothesis import given
from hypothesis import strategies as st

BOT = """
[llms.bot]
provider = "scripted"
repeat = true
replies = [{ text = "Right." }]

[llms.other]
provider = "scripted"
repeat = true
replies = [{ text = "Other." }]
default_model = "usual"

[variables]
house = "ACME"

[[responses]]
llm = "bot"
model = "m"
prompt = "The rule's."

[[tools.registry]]
name = "calculator"
"""

PROMPTS = """
[prompts.summarise]
description = "The gist"
prompt = "In {{language}}, for {{house}}: {{message}}"
system = "You write {{language}}."
variables = { language = "English" }
options = { temperature = 0, max_tokens = 5 }

[prompts.daily]
prompt = "What is new?"

[prompts.bare]
system = "Be short."
model = "other"
tools = ["calculator"]
schema = "name, age int"
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "flexchat.toml").write_text(BOT + PROMPTS)


@pytest.fixture
def asked(monkeypatch):
    """What each model was asked with: the model, the texts, the options."""
    seen, generate = [], ScriptedProvider.generate_chat

    def watched(self, messages, model, options):
        seen.append((model, [message.content for message in messages], options))
        return generate(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "generate_chat", watched)
    return seen


@pytest.mark.usefixtures("config")
def test_a_prompt_takes_the_message_in_and_sets_what_options_would(run, asked):
    ran = run("ask", "-t", "summarise", "{{language}} rules")
    ((model, texts, options),) = asked

    assert (ran.status, ran.out) == (0, "Right.\n")
    assert (model, texts) == ("m", ["You write English.", "In English, for ACME: {{language}} rules"])
    assert (options.temperature, options.max_tokens) == (0, 5)


@pytest.mark.usefixtures("config")
def test_options_of_the_command_line_come_first(run, asked):
    run("ask", "-t", "summarise", "-s", "Own.", "-o", "max_tokens=9", "--var", "language=French", "-m", "other", "x")
    ((model, texts, options),) = asked

    assert (model, texts) == ("usual", ["Own.", "In French, for ACME: x"])
    assert (options.temperature, options.max_tokens) == (0, 9)


@pytest.mark.usefixtures("config")
@pytest.mark.parametrize(
    ("words", "piped", "sent"),
    [
        (["daily"], "", "What is new?"),
        (["daily", "Here?"], "", "What is new?\n\nHere?"),
        (["daily"], "a\nb\n", "What is new?\n\na\nb"),
        (["daily", "-"], "a", "What is new?\n\na"),
        (["summarise"], "a", "In English, for ACME: a"),
        (["summarise", "x"], "a", "In English, for ACME: x\n\na"),
    ],
)
def test_a_prompt_needs_a_message_only_where_it_shows_it(run, asked, words, piped, sent):
    ran = run("ask", "-t", *words, stdin=piped)

    assert (ran.status, asked[0][1][-1]) == (0, sent)


@pytest.mark.usefixtures("config")
def test_without_a_text_it_is_options_with_a_name(run, asked):
    ran = run("ask", "-t", "bare", "Who?")
    model, texts, options = asked[0]

    assert (model, texts) == ("usual", ["Be short.", "Who?"])
    assert options.response_format.schema["required"] == ["name", "age"]
    assert [tool["function"]["name"] for tool in options.tools] == ["calculator"]
    assert ran.status == 1, "the answer is no JSON"


@pytest.mark.usefixtures("config")
def test_in_a_conversation_it_applies_to_every_message(run, asked):
    ran = run("chat", "-t", "summarise", "--no-keep", stdin="one\ntwo\n")

    assert ran.status == 0
    assert asked[-1][1] == ["You write English.", "In English, for ACME: one", "Right.", "In English, for ACME: two"]


def test_a_configuration_of_prompts_alone_will_do_with_a_providers_model(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text('[prompts.sum]\nprompt = "What is 17% of 230?"\nmodel = "rehearsal/any"\n')
    ran = run("ask", "-t", "sum", "-T", "calculator", "--no-stream")

    assert (ran.status, "39.1" in ran.out) == (0, True)
    assert run("check").out == "flexchat.toml is fine: 1 named prompt\n"
    assert "no LLM is configured" in run("ask", "x").err


def test_what_is_there_of_a_configuration_must_be_whole(run, tmp_path):
    """Prompts alone will do; prompts with half of a configuration will not."""
    (tmp_path / "flexchat.toml").write_text('[prompts.sum]\nprompt = "x"\n[[responses]]\nllm = "a"\n')
    assert "no LLM is configured" in run("check").out
    (tmp_path / "flexchat.toml").write_text('[prompts.sum]\nprompt = "x"\n[llms.a]\nprovider = "scripted"\n')
    assert "no response rule is configured" in run("check").out
    (tmp_path / "flexchat.toml").write_text("[prompts]\n")
    assert run("check").status == 2


def test_the_schema_of_a_prompt_may_be_a_file_beside_the_configuration(run, asked, tmp_path):
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "dog.schema.json").write_text(json.dumps(schema))
    config = tmp_path / "here" / "chat.toml"
    config.write_text(BOT + '[prompts.dog]\nschema = "dog.schema.json"\n')
    run("ask", "--config", str(config), "-t", "dog", "x")
    assert asked[0][2].response_format.schema == schema
    assert run("check", str(config)).status == 0

    config.write_text(BOT + '[prompts.dog]\nschema = "gone.json"\n')
    assert "prompts.dog: schema gone.json: there is no such file" in run("check", str(config)).out
    config.write_text(BOT + '[prompts.dog]\nschema = "gone.\\u0000.json"\n')
    assert run("check", str(config)).status == 2


@pytest.mark.parametrize(
    ("written", "words", "said"),
    [
        (PROMPTS, ["-t", "summarize", "x"], "no prompt is called 'summarize' (did you mean 'summarise'?)"),
        (PROMPTS, ["-t", "summarise"], "the prompt 'summarise' needs a message"),
        ('[prompts.p]\nprompt = "{{a}} {{b.c}}"', ["-t", "p"], "the prompt 'p' needs --var a=… --var b=…"),
        ('[prompts.p]\nprompt = "x"', ["-t", "p", "--var", "intent=a"], "FlexChat's own variable"),
        ("[prompts.p]\ntext = 1", ["-t", "p", "x"], "flexchat.toml:23: prompts.p: unknown key 'text'"),
        (
            "[prompts.p]\nprompt = 1",
            ["-t", "p", "x"],
            "flexchat.toml:23: prompts.p.prompt: expected text, got",
        ),
        ("[prompts]\np = 1", ["-t", "p", "x"], "flexchat.toml:23: prompts.p: expected a table, got the number 1"),
        ('[prompts.p]\nschema = "a integer"', ["-t", "p", "x"], "prompts.p: schema: 'integer' is not a type"),
        ("[prompts.p]\noptions = { temperature = 7 }", ["-t", "p", "x"], "prompts.p: temperature must be at most 2"),
        ("[prompts.p]\noptions = { temprature = 1 }", ["-t", "p", "x"], "no such option (did you mean 'temperature'?)"),
        ('[prompts.p]\ntools = ["calcluator"]', ["-t", "p", "x"], "no such tool (did you mean 'calculator'?)"),
        ('[prompts.p]\nvariables = { topic = "x" }', ["-t", "p", "x"], "'topic' is FlexChat's own variable"),
        ('[prompts.p]\nprompt_file = "../x"', ["-t", "p", "x"], "../x is not below the configuration's folder"),
    ],
)
def test_what_cannot_be_used_is_said(run, tmp_path, written, words, said):
    (tmp_path / "flexchat.toml").write_text(BOT.lstrip() + written)
    ran = run("ask", *words)

    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_without_a_configuration_there_are_none(run):
    assert "no prompt is called 'p'; there is no configuration" in run("ask", "-t", "p", "x").err
    assert run("prompts", "list").out == ""


def test_check_finds_what_using_one_would(run, tmp_path):
    (tmp_path / "flexchat.toml").write_text(
        BOT + '[prompts.a]\nschema = "a integer"\n[prompts.b]\noptions = { temperature = 7 }\n'
    )
    ran = run("check")

    assert ran.status == 2
    assert "prompts.a: schema: 'integer' is not a type" in ran.out
    assert "prompts.b: temperature must be at most 2" in ran.out


def test_a_prompt_comes_from_a_file(run, asked, tmp_path):
    (tmp_path / "daily.md").write_text("What is new in {{where}}?\n")
    (tmp_path / "flexchat.toml").write_text(BOT + '[prompts.daily]\nprompt_file = "daily.md"\n')
    run("ask", "-t", "daily", "--var", "where=Rome")

    assert asked[0][1][-1] == "What is new in Rome?"


@pytest.mark.usefixtures("config")
def test_they_are_listed_and_shown(run):
    listed, shown = run("prompts", "list"), run("prompts", "show", "summarise")

    assert listed.out.splitlines() == ["summarise  The gist", "daily      What is new?", "bare       Be short."]
    assert "prompt: In {{language}}, for {{house}}: {{message}}" in shown.out.splitlines()
    assert [prompt["name"] for prompt in json.loads(run("prompts", "list", "--json").out)] == [
        "summarise",
        "daily",
        "bare",
    ]
    assert json.loads(run("prompts", "show", "summarise", "--json").out)["needs"] == ["house"]
    assert "(did you mean 'daily'?)" in run("prompts", "show", "dayly").err


def test_the_example_of_the_docs(run, asked, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text("utf-8")
    example = re.search(r"## Named prompts.*?```toml\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "flexchat.toml").write_text(BOT + example.replace("openai/gpt-5.2", "other"))
    ran = run("ask", "-t", "summarise", "--var", "language=French", stdin="A long report.")
    run("ask", "-t", "invoice", stdin="Pay me.")

    assert ran.status == 0
    assert asked[0][1] == [
        "You leave out what does not matter.",
        "Summarise this in 3 sentences, in French:\n\nA long report.",
    ]
    assert asked[1][2].response_format.schema["required"] == ["payee", "amount"]


@given(message=st.text(min_size=1).map(str.strip).filter(bool), value=st.text())
def test_what_is_filled_in_is_not_searched_again(message, value):
    prompt = PromptEntry(prompt="<{{a}}|{{ message }}>")

    assert with_message("p", prompt, message, {"a": value}) == f"<{value}|{message}>"


@given(st.text())
def test_a_prompt_without_variables_stays_as_it_is(text):
    prompt = PromptEntry(prompt=text.replace("{{", ""))

    assert with_message("p", prompt, "", {}) == prompt.prompt


def test_a_missing_variable_is_named_once():
    with pytest.raises(UsageError, match=r"needs --var a=…$"):
        with_message("p", PromptEntry(prompt="{{a}} {{a.b}} {{message}}"), "x", {})
