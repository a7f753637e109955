"""flexchat chat: a conversation that outlives its turns."""

import builtins
import json

import pytest
from flexchat_cli.terminal import Terminal


@pytest.fixture
def talk(run, monkeypatch):
    """Run flexchat chat with a person at the terminal, who types these lines and then Ctrl-D (or what is raised)."""

    def call(*lines, words=()):
        typed = iter(lines)

        def answer(prompt=""):
            line = next(typed, EOFError())
            if isinstance(line, BaseException):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", answer)
        monkeypatch.setattr(Terminal, "interactive", lambda self: True)
        return run("chat", *words)

    return call


def test_each_line_is_answered_until_the_end(talk, script):
    script('{ text = "one" }', '{ text = "two" }')

    ran = talk("first", "", "second")

    assert ran.status == 0
    assert ran.out == "one\ntwo\n\n"


def test_the_history_goes_along_and_new_forgets_it(run, script):
    """The rehearsal of a real model's memory: what it was sent, as JSON of each turn."""
    script(
        '{ tool_calls = [{ name = "calculator", arguments = { expression = "6 * 7" } }] }',
        '{ text = "42" }',
        '{ text = "as I said" }',
        '{ text = "hello" }',
    )
    seen = []
    from flexchat_testing import ScriptedProvider

    original = ScriptedProvider.stream_chat

    def watched(self, messages, model, options):
        seen.append([message.role for message in messages])
        return original(self, messages, model, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedProvider, "stream_chat", watched)
        run("chat", stdin="six times seven\nagain?\n/new\nhi\n")

    assert seen == [
        ["user"],
        ["user", "assistant", "tool"],
        ["user", "assistant", "tool", "assistant", "user"],
        ["user"],
    ]


def test_a_failed_turn_is_told_and_the_conversation_goes_on(talk, script):
    script('{ text = "one" }', '{ error = "content_filter" }', '{ text = "three" }')

    ran = talk("a", "b", "c")

    assert ran.status == 0
    assert ran.out == "one\nthree\n\n"
    assert "flexchat: the script says: content_filter error" in ran.err


def test_without_a_person_a_failed_turn_makes_the_exit_status_1(run, script):
    script('{ error = "content_filter" }', '{ text = "two" }')

    ran = run("chat", stdin="a\nb\n")

    assert (ran.status, ran.out) == (1, "two\n")


INTERRUPTING = """
import asyncio, signal

async def press():
    '''Press Ctrl-C.'''
    signal.raise_signal(signal.SIGINT)
    await asyncio.sleep(60)
"""


@pytest.fixture
def _pressing(script, tmp_path, monkeypatch):
    (tmp_path / "presses_in_chat.py").write_text(INTERRUPTING)
    monkeypatch.syspath_prepend(tmp_path)
    script(
        '{ tool_calls = [{ name = "press" }] }',
        '{ text = "still here" }',
        tools='registry = [{ name = "press", description = "Press.", parameters = { type = "object" }, '
        'implementation = { type = "python", function = "presses_in_chat:press" } }]',
    )


@pytest.mark.usefixtures("_pressing")
def test_ctrl_c_stops_the_turn_and_not_the_program(talk):
    """The next line is answered, by a model that knows what was asked and run before."""
    from flexchat_testing import ScriptedProvider

    seen = []
    original = ScriptedProvider.stream_chat

    def watched(self, messages, model, options):
        seen.append(messages)
        return original(self, messages, model, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScriptedProvider, "stream_chat", watched)
        ran = talk("go", "are you there?", words=["--no-keep"])

    assert ran.status == 0
    assert "stopped" in ran.err
    assert ran.out == "still here\n\n"
    assert [m.role for m in seen[-1]] == ["user", "assistant", "tool", "user"]
    assert "Interrupted: " in seen[-1][2].content


@pytest.mark.usefixtures("_pressing")
def test_ctrl_c_ends_a_conversation_that_nobody_types(run):
    assert run("chat", stdin="go\nare you there?\n").status == 130


def test_ctrl_c_at_the_prompt_ends(talk, script):
    script('{ text = "one" }')

    assert talk("first", KeyboardInterrupt(), "never").status == 0


def test_slash_commands_do_not_go_to_the_model(talk, script):
    script('{ text = "only answer" }')

    ran = talk("/tools", "/help", "/new", "/tols", "hello", "/quit", "never")

    assert ran.out == "only answer\n"
    assert "calculator(expression: string)" in ran.err
    assert "/new" in ran.err
    assert "did you mean '/tools'?" in ran.err


@pytest.mark.parametrize("word", ["exit", "quit", "/quit", "/exit"])
def test_a_conversation_ends_at_a_word(talk, script, word):
    """Alone on its line; in a sentence it is a word like others."""
    script('{ text = "one" }')

    assert talk(f"how do I {word}?", word, "never").out == "one\n"


def test_only_a_near_command_is_suggested(talk, script):
    script('{ text = "-" }')

    ran = talk("/foo", "/hlep")

    assert "no command /foo; /help lists them" in ran.err
    assert "no command /hlep (did you mean '/help'?)" in ran.err


def test_without_tools_the_command_says_so(talk, script):
    script('{ text = "-" }', tools="registry = []")

    assert "no tools" in talk("/tools").err


def test_json_is_a_line_per_turn_errors_included(run, script):
    script('{ text = "one" }', '{ error = "auth" }', '{ text = "three" }')

    ran = run("chat", "--json", stdin="a\nb\nc\n")

    first, second, third = map(json.loads, ran.out.splitlines())
    assert (first["content"], third["content"]) == ("one", "three")
    assert second["type"] == "ProviderAuthError"
    assert third["topic"] is not None


def test_the_prompt_is_not_written_where_nobody_reads_it(run, script):
    script('{ text = "one" }')

    assert run("chat", stdin="a\n").out == "one\n"


@pytest.fixture
def seen(monkeypatch):
    """The texts each model was asked with."""
    from flexchat_testing import ScriptedProvider

    found, stream = [], ScriptedProvider.stream_chat

    def watched(self, messages, model, options):
        found.append([message.content for message in messages])
        return stream(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "stream_chat", watched)
    return found


PAY = """
[[tools.registry]]
name = "calculator"

[[tools.registry]]
name = "pay"
description = "Pay."
parameters = { type = "object" }
implementation = { type = "mock", mock_response = "paid" }
effect = "write"
"""


@pytest.mark.parametrize("words", [("--no-keep",), ("--keep",)])
def test_a_turn_can_be_taken_back(talk, script, seen, words):
    """Also two of them, kept or not; what follows does not know of them."""
    script('{ text = "1" }', '{ text = "2" }', '{ text = "3" }', '{ text = "4" }', '{ text = "5" }')
    ran = talk("one", "two", "/undo", "three", "/undo", "/undo", "four", "five", "/undo", "/undo", "/undo", words=words)

    assert seen[2] == ["one", "1", "three"]
    assert seen[3] == ["four"]
    assert seen[4] == ["four", "4", "five"]
    assert [line for line in ran.err.splitlines() if "taken back" in line] == [
        "taken back: two",
        "taken back: three",
        "taken back: one",
        "taken back: five",
        "taken back: four",
    ]
    assert "there is nothing to take back" in ran.err


def test_what_was_taken_back_stays_in_the_kept_conversation(talk, script, run):
    script('{ text = "1" }', '{ text = "2" }', '{ text = "3" }')
    talk("one", "two", "/undo", "three", words=("--keep",))
    kept = json.loads(run("conversations", "list", "--json").out)

    assert sorted(each["turns"] for each in kept) == [2, 2]


def test_continuing_goes_on_without_what_was_taken_back(talk, script, seen):
    script('{ text = "1" }', '{ text = "2" }', '{ text = "3" }', '{ text = "4" }')
    talk("one", "two", "/undo", "three", words=("--keep",))
    script('{ text = "4" }')
    talk("four", words=("-c",))

    assert seen[-1] == ["one", "1", "three", "3", "four"]


@pytest.mark.parametrize("words", [("--no-keep",), ("--keep",)])
def test_a_turn_that_failed_is_taken_back_like_another(talk, script, seen, words):
    """It may have paid before the service refused."""
    script(
        '{ text = "1" }',
        '{ tool_calls = [{ name = "pay" }] }',
        '{ error = "request" }',
        '{ text = "2" }',
        tools=PAY,
    )
    ran = talk("one", "pay", "/undo", "two", words=words)

    assert "taken back: pay" in ran.err
    assert "what its tools did stays done: pay" in ran.err
    assert seen[-1] == ["one", "1", "two"]


def test_what_the_tools_of_a_turn_did_is_said_to_stay(talk, script):
    script(
        '{ tool_calls = [{ name = "calculator", arguments = { expression = "1" } }, { name = "pay" }] }',
        '{ text = "paid" }',
        tools=PAY,
    )
    ran = talk("pay", "/undo")

    assert "what its tools did stays done: pay" in ran.err


USED = "usage = { input_tokens = 1000, output_tokens = 100 }"
PRICED = '\n[llms.script.prices."*"]\ninput = 2\noutput = 10\n'


@pytest.fixture
def priced(script):
    """Write a script whose model has a price, and tells its tokens if its replies do."""

    def write(*replies):
        path = script(*replies)
        path.write_text(path.read_text() + PRICED)

    return write


@pytest.mark.parametrize("words", [("--no-keep",), ("--keep",)])
def test_usage_is_that_of_the_conversation_so_far(talk, priced, words):
    """With what was taken back, and what failed; /new begins to count again."""
    priced(f'{{ text = "1", {USED} }}', f'{{ text = "2", {USED} }}', '{ error = "content_filter" }', '{ text = "4" }')

    lines = "/usage", "one", "/usage", "two", "/undo", "/usage", "three", "/usage", "/new", "/usage", "four", "/usage"
    told = talk(*lines, words=words).err.splitlines()

    assert "/usage" not in "".join(told)
    assert [line for line in told if line.startswith(("no turn", "1 turn", "2 turns", "3 turns", "not in it"))] == [
        "no turn yet",
        "1 turn: 1,000 tokens in, 100 out, $0.003",
        "2 turns: 2,000 tokens in, 200 out, $0.006",
        "3 turns: 2,000 tokens in, 200 out, at least $0.006",
        "not in it: the turn did not end, and what was under way may have cost something",
        "no turn yet",
        "1 turn: tokens not counted, unpriced",
        "not in it: script did not say how many tokens any read and wrote",
    ]


def test_usage_of_a_continued_conversation_says_what_came_before(talk, priced, script):
    """At the prices of then."""
    priced(f'{{ text = "1", {USED} }}')
    talk("one", words=("--keep",))
    script(f'{{ text = "2", {USED} }}')

    told = talk("/usage", "two", "/usage", words=("-c",)).err.splitlines()

    assert [line for line in told if "turn" in line and "continuing" not in line] == [
        "before that: 1 turn, $0.003",
        "1 turn: 1,000 tokens in, 100 out, unpriced",
        "before that: 1 turn, $0.003",
    ]
    assert "not in it: no price is known for any of script" in told


def test_usage_is_listed_in_help(talk, script):
    script('{ text = "1" }')
    assert "/usage  the tokens and the cost" in talk("/help").err
