"""Command lines as users of llm type them."""

import json

import pytest
from flexchat_cli.as_in_llm import COMMANDS, OPTIONS, joined_pairs
from flexchat_testing.scripted import ScriptedProvider

HELLO = '{ text = "Hello." }'


@pytest.fixture
def seen(monkeypatch):
    """The messages and options of each request."""
    asked = []
    original = ScriptedProvider.stream_chat

    def watched(self, messages, model, options):
        asked.append(([message.content for message in messages], options))
        return original(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "stream_chat", watched)
    return asked


@pytest.mark.slow
@pytest.mark.parametrize(
    "words",
    [
        ["Say hello"],
        ["greetings"],
        ["greetings", "friend"],
        ["-o", "temperature", "0", "greetings"],
        ["-s", "Be brief.", "greetings"],
        ["--no-stream", "greetings"],
        ["-n", "greetings"],
        ["--", "Say hello"],
    ],
)
def test_a_message_needs_no_command(run, script, words):
    """What begins with an option of ask, or with a word that is near no command, is asked."""
    script(HELLO)

    assert run(*words).out == "Hello.\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["aks", "hi"], "no command is called 'aks' (did you mean 'ask'?)"),
        (["modles"], "did you mean 'models'?"),
        (["install", "llm-gemini"], "here it is: pip install flexchat-NAME"),
        (["templates", "list"], "here it is: flexchat prompts list"),
        (["models", "list"], "here it is: flexchat models"),
        (["logs", "off"], "here it is: log = false in [conversations], or FLEXCHAT_NO_KEEP=1"),
        (["logs", "path"], "here it is: flexchat logs; [conversations] path names the file"),
        (["install", "llm-anthropic"], "pip install flexchat-NAME, or its folder of a checkout"),
        (["ask", "--cid", "3", "hi"], "unknown option '--cid' (here it is --conversation ID)"),
        (["--cid", "3", "hi"], "unknown option '--cid' (here it is --conversation ID)"),
        (["chat", "--cl", "3"], "unknown option '--cl' (here it is -o max_iterations N)"),
        (["--attachment-type", "cat.jpg", "hi"], "unknown option '--attachment-type' (here it is -a FILE"),
        (["--nonsense", "hi"], "unknown option '--nonsense'"),
    ],
)
def test_what_is_spelled_otherwise_is_named(run, script, words, said):
    script(HELLO)

    ran = run(*words)

    assert (ran.status, ran.out) == (2, "")
    assert said in ran.err


def test_every_command_of_llm_is_named_and_no_option_is_one_of_ours(run, script):
    script(HELLO)
    for command in COMMANDS:
        if command.partition(" ")[0] not in ("logs", "plugins"):
            assert run(*command.split()).status == 2, command
    for option in OPTIONS:
        assert "here it is" in run("ask", option, "x").err, option


@pytest.mark.parametrize(
    ("words", "joined"),
    [
        (["-o", "temperature", "0", "hi"], ["-o", "temperature=0", "hi"]),
        (["-o", "temperature=0", "hi"], ["-o", "temperature=0", "hi"]),
        (["-p", "code", "a=b", "--param", "x", "-1"], ["-p", "code=a=b", "--param", "x=-1"]),
        (["hi", "--", "-o", "a", "b"], ["hi", "--", "-o", "a", "b"]),
        (["-o", "temperature"], ["-o", "temperature"]),
        (["-o"], ["-o"]),
        (["-o", "-x", "hi"], ["-o", "-x", "hi"]),
    ],
)
def test_values_may_follow_their_names(words, joined):
    assert joined_pairs(words) == joined


def test_parameters_and_options_are_given_as_in_llm(run, script, seen):
    path = script(HELLO)
    path.write_text(path.read_text() + '\n[prompts.p]\nprompt = "In {{language}}: {{message}}"\n')

    run("-t", "p", "-p", "language", "French", "-o", "temperature", "0", "greetings")

    ((messages, options),) = seen
    assert (messages, options.temperature) == (["In French: greetings"], 0)


def test_td_shows_calls_and_results_in_full(run, script):
    script('{ tool_calls = [{ name = "calculator", arguments = { expression = "1 + 1" } }] }', HELLO)

    ran = run("ask", "--td", "count")

    assert '    "expression": "1 + 1"' in ran.err
    assert '    "result": 2' in ran.err
    assert ran.out == "Hello.\n"


def test_ta_is_approve(run, script):
    """A call nobody approves does not run."""
    script('{ tool_calls = [{ name = "calculator", arguments = { expression = "1 + 1" } }] }', HELLO)

    assert "← 2" not in run("ask", "--ta", "count").err


def test_logs_are_searched_with_q_and_m(run, script):
    script(HELLO, HELLO)
    run("ask", "pelicans")
    run("ask", "walruses")

    def messages(*words):
        return [turn["message"] for turn in json.loads(run("logs", "--json", *words).out)]

    assert messages("-q", "pelicans") == ["pelicans"]
    assert messages("-m", "script/any") == messages("-m", "any") == ["pelicans", "walruses"]
    assert messages("-m", "any", "-n", "1") == ["walruses"]
    assert messages("-m", "other") == []


def test_keys_get_prints_a_key_and_nothing_else(run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-environment")

    assert run("keys", "get", "openai").out == "sk-of-the-environment\n"
    monkeypatch.delenv("OPENAI_API_KEY")
    ran = run("keys", "get", "openai")
    assert (ran.status, ran.out) == (2, "")
    assert "flexchat keys set openai stores one" in ran.err
