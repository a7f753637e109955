"""The prompts of a batch: what a line may be, what is said of one that cannot be used, and what tells lines apart."""

import json
from functools import partial
from pathlib import Path

import pytest
from flexchat.errors import ConfigError
from flexchat.request import CommonRequestOptions, read_request
from flexchat_cli.batch import KEYS, read_prompts
from hypothesis import given
from hypothesis import strategies as st

READ = partial(read_request, message_chars=1_000, stores=("docs",), variables={})


def prompts_of(text):
    return read_prompts(text, "p.jsonl", READ)


def problems_of(text):
    with pytest.raises(ConfigError) as caught:
        prompts_of(text)
    return [str(problem) for problem in caught.value.problems]


def test_a_line_is_a_text_or_an_object_with_keywords():
    """What respond takes per call, a line takes."""
    lines = [
        '"Hello"',
        "",
        '{"message": "Hi", "id": "a-7", "temperature": 0.5, "history": [{"role": "user", "content": "Before"}]}',
    ]

    first, second = prompts_of("\r\n".join(lines) + "\n")

    assert (first.id, first.line, first.request.user_message) == (1, 1, "Hello")
    assert (second.id, second.line, second.request.user_message) == ("a-7", 3, "Hi")
    assert (second.request.temperature, second.request.history[0].content) == (0.5, "Before")


def test_all_keys_are_keywords_of_respond():
    """Where a prompt is kept, whose it is and what no JSON can hold is not a line's to say."""
    assert {*CommonRequestOptions.__annotations__, "message", "id", "response_format"} - {*KEYS} == {
        "continuation",
        "conversation",
        "tenant",
        "principal",
        "traceparent",
        "tracestate",
        "context",
        "on_question",
        "idempotency_key",
        "extra_body",
        "approve",
        "pin",
        "attachments",
        "caller_tools",
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("Hello", "p.jsonl:1: is not JSON"),
        ("7", "p.jsonl:1: is a number; a prompt is a text in quotes"),
        ("[]", "p.jsonl:1: is a list;"),
        ('{"mesage": "Hi"}', "p.jsonl:1: has the unknown key 'mesage' (did you mean 'message'?)"),
        ('{"id": 1}', "p.jsonl:1: has no 'message'"),
        ('{"message": 1}', "p.jsonl:1: a message is a text"),
        ('{"message": " "}', "p.jsonl:1: the message is empty"),
        ('{"message": "Hi", "id": [1]}', "p.jsonl:1: 'id' is a text or a whole number"),
        ('{"message": "Hi", "id": true}', "p.jsonl:1: 'id' is a text or a whole number"),
        ('{"message": "Hi", "temperature": "hot"}', "p.jsonl:1: temperature"),
        ('{"message": "Hi", "collections": ["dosc"]}', "did you mean 'docs'?"),
        ('{"message": "Hi", "history": [{"role": "wizard"}]}', "p.jsonl:1: "),
        ("[" * 100_000, "p.jsonl:1: is nested too deeply"),
        ("\ud800", "p.jsonl:1: is not JSON"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(line, said):
    """Before anything is asked."""
    (problem,) = problems_of(line)

    assert said in problem


def test_everything_that_is_wrong_is_said_at_once():
    """With an id that two lines have."""
    text = '{"message": "a", "id": 2}\n"b"\nc\n'

    assert [problem[:12] for problem in problems_of(text)] == ["p.jsonl:2: t", "p.jsonl:3: i"]


@given(st.lists(st.sampled_from(['"a"', '"b"', '{"message": "a"}', ' "a" ']), max_size=8))
def test_no_two_lines_have_one_digest(lines):
    """A line asked twice is two prompts."""
    digests = [prompt.digest for prompt in prompts_of("\n".join(lines))]

    assert len({*digests}) == len(lines)


@given(st.lists(st.text(min_size=1).map(json.dumps), max_size=8), st.data())
def test_a_line_keeps_its_digest_wherever_it_stands(lines, data):
    """A file may grow or be sorted between two runs."""
    lines = [line for line in lines if json.loads(line).strip()]
    shuffled = data.draw(st.permutations(lines))

    before, after = ({prompt.digest for prompt in prompts_of("\n".join(each))} for each in (lines, shuffled))

    assert before == after


def test_the_page_names_every_key():
    """docs/batch.md."""
    page = (Path(__file__).resolve().parents[3] / "docs" / "batch.md").read_text(encoding="utf-8")

    assert [key for key in KEYS if f"`{key}`" not in page] == []
