"""--var NAME=VALUE of ask, chat and explain."""

import pytest
from flexchat_cli.context import UsageError
from flexchat_cli.prompts import read_variables
from flexchat_testing.scripted import ScriptedProvider

CONFIG = """
[variables]
tone = "calm"

[llms.bot]
provider = "scripted"
repeat = true
replies = [{ text = "hi" }]

[[responses]]
llm = "bot"
model = "m"
prompt = "{{tone}} {{who.name}}"
"""


@pytest.fixture
def prompts(tmp_path, monkeypatch):
    """The prompts that models are asked with."""
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    seen, generate = [], ScriptedProvider.generate_chat

    def watched(self, messages, model, options):
        seen.append(messages[0].content)
        return generate(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "generate_chat", watched)
    return seen


VARS = ("--var", "tone=glad", "--var", 'who={"name": "Ada"}')


@pytest.mark.parametrize("words", [["ask", "hello"], ["ask", "--json", "hello"], ["ask", "--keep", "hello"], ["chat"]])
def test_prompts_show_them_before_those_of_the_configuration(run, prompts, words, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    ran = run(*words, *VARS, stdin="hello\n" if words == ["chat"] else "")

    assert (ran.status, prompts) == (0, ["glad Ada"]), ran.err


@pytest.mark.parametrize("command", ["ask", "chat", "explain"])
def test_a_wrong_one_is_said_before_anything_is_asked(run, prompts, command):
    ran = run(command, *(["hello"] if command != "chat" else []), "--var", "topic=x", stdin="hello\n")

    assert (ran.status, prompts) == (2, [])
    assert "'topic' is FlexChat's own variable" in ran.err


def test_explain_takes_what_ask_takes(run, prompts):
    assert run("explain", "hello", *VARS).status == 0


@pytest.mark.parametrize(
    ("words", "read"),
    [
        ([], {}),
        (["a=b"], {"a": "b"}),
        (["a="], {"a": ""}),
        (["a=b=c"], {"a": "b=c"}),
        (['a={"b": [1]}', "c=[]"], {"a": {"b": [1]}, "c": []}),
        (["a=1", "b=true", "c=[not JSON"], {"a": "1", "b": "true", "c": "[not JSON"}),
    ],
)
def test_a_value_is_the_text_that_was_typed_or_a_list_or_table(words, read):
    assert read_variables(words) == read


@pytest.mark.parametrize("words", [["a"], ["=b"], ["a=1", "a=2"], ["a b=1"], ["topic=x"], ["a=[NaN]"]])
def test_what_is_no_variable_is_refused(words):
    with pytest.raises(UsageError, match="--var"):
        read_variables(words)


@pytest.mark.parametrize(
    "words", [("-s", "In {{language}}."), ("-t", "plain"), ("-m", "rehearsal/x", "-s", "In {{language}}.")]
)
def test_a_system_prompt_with_a_variable_that_has_no_value_is_refused(run, tmp_path, words):
    """The error names it, and how to give it; the model is not asked."""
    rule = 'llm = "main"\nmodel = "m"\nprompt = "{{topic}}"'
    prompt = '[prompts.plain]\nsystem = "In {{language}}, {{topic}}, {{message}}."'
    (tmp_path / "flexchat.toml").write_text(f'[llms.main]\nprovider = "rehearsal"\n[[responses]]\n{rule}\n{prompt}\n')

    refused, answered = run("ask", *words, "hello"), run("ask", *words, "--var", "language=French", "hello")

    assert (refused.status, refused.out, answered.status) == (2, "", 0)
    assert "language" in refused.err
    assert "--var language=…" in refused.err


def test_a_rules_prompt_with_a_variable_that_has_no_value_is_refused(run, tmp_path):
    rule = 'llm = "main"\nmodel = "m"\nprompt = "In {{language}}."'
    (tmp_path / "flexchat.toml").write_text(f'[llms.main]\nprovider = "rehearsal"\n[[responses]]\n{rule}\n')

    assert run("ask", "hello").status == 2
    assert run("ask", "--var", "language=French", "hello").status == 0
