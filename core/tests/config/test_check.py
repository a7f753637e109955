"""What one part of a configuration says about another."""

from typing import Any

import pytest
from flexchat.config.check import check, keys_in_the_file
from flexchat.config.document import document_of
from flexchat.errors import did_you_mean
from hypothesis import given
from hypothesis import strategies as st

GPT = {"provider": "openai", "default_model": "m"}
ANYTHING = {"llm": "gpt"}


def checked(given: tuple[str, ...] = (), **data: Any) -> tuple[list[str], list[str]]:
    found = check(document_of({"llms": {"gpt": GPT}, "responses": [ANYTHING], **data}), given)
    return [str(p) for p in found[0]], [str(n) for n in found[1]]


def test_a_sound_configuration_passes():
    assert checked() == ([], [])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"llms": {}}, "llms: no LLM is configured: add an entry to 'llms'"),
        ({"responses": []}, "responses: no response rule is configured: add an entry to 'responses'"),
        (
            {"responses": [{"llm": "gtp"}]},
            "responses[0].llm: no LLM is called 'gtp' (did you mean 'gpt'?); configured: gpt",
        ),
        (
            {"topic": {"llm": "x"}},
            "topic.llm: no LLM is called 'x'; configured: gpt",
        ),
        (
            {"intent": {"llm": "x"}},
            "intent.llm: no LLM is called 'x'; configured: gpt",
        ),
        (
            {"llms": {"gpt": {"provider": "openai"}}},
            "responses[0]: no model: write 'model' here, or 'default_model' in llms.gpt",
        ),
        (
            {"responses": [{**ANYTHING, "match": {"topic": "x"}}]},
            "responses: nothing would answer a message that fits no rule: add a rule without 'match' at the end",
        ),
        (
            {"tools": {"registry": [{"name": "w"}]}, "responses": [{**ANYTHING, "tools": {"allowed_tools": ["W"]}}]},
            "responses[0].tools.allowed_tools[0]: no tool in tools.registry is called 'W' (did you mean 'w'?); "
            "configured: w",
        ),
        (
            {"responses": [{**ANYTHING, "tools": {"allowed_tools": []}}]},
            "responses[0].tools.allowed_tools: an empty list is ambiguous: leave the key out to offer all tools, or "
            "write enabled = false for none",
        ),
    ],
)
def test_what_does_not_hold_together_is_a_problem(data, text):
    """C23 and the original's own validation among them."""
    assert checked(**data)[0] == [text]


@pytest.mark.parametrize(
    ("match", "text"),
    [
        ({"topc": "x"}, "unknown key 'topc' (did you mean 'topic'?)"),
        ({"qqq": "x"}, "unknown key 'qqq' (known: topic, user_message, rag_results, intent, service, collection, "),
        ({"documents": "x"}, "unknown key 'documents'"),
        ({"topic_regexp": "/(/"}, ".topic_regexp: this is not a regular expression: missing )"),
        ({"topic_regexp": "a{99999999999}"}, ".topic_regexp: this is not a regular expression"),
        ({"topic_regexp": "(" * 5000}, ".topic_regexp: this is not a regular expression"),
        ({"topic_contains": 3}, ".topic_contains: expected text, got the number 3"),
        ({"reasoning": "yes"}, '.reasoning: expected true or false, got the text "yes"'),
        ({"rag_results": "mach"}, 'expected one of "match", "partial", "none", "any", got the text "mach" (did'),
        ({"service": "dosc"}, ".service: no document store is called 'dosc' (did you mean 'docs'?)"),
    ],
)
def test_a_condition_that_cannot_be_met_is_a_problem(match, text):
    (problem,), _ = checked(responses=[{**ANYTHING, "match": match}, ANYTHING], stores={"docs": {}})

    assert text in problem


@pytest.mark.parametrize(
    "match",
    [
        {"rag_results": "any"},
        {"service": "docs", "collection_contains": "x"},
        {"intent_regexp": "/(weather|forecast)/gi", "topic": "", "user_message_regexp": "[[a]"},
        {"intent_regexp": "(?<name>x)"},
    ],
)
def test_conditions_of_the_original_pass(match):
    rules = [{**ANYTHING, "match": match}, ANYTHING]

    assert checked(responses=rules, stores={"docs": {}}) == ([], [])


def test_tools_given_in_code_may_be_named():
    rule = {**ANYTHING, "tools": {"allowed_tools": ["mine", "w"]}}

    assert checked(("mine",), responses=[rule], tools={"registry": [{"name": "w"}]}) == ([], [])


@pytest.mark.parametrize(
    ("rules", "note"),
    [
        (
            [ANYTHING, {**ANYTHING, "match": {"topic": "x"}}],
            "responses[1]: never reached: the rule without 'match' answers everything before it",
        ),
        (
            [{**ANYTHING, "match": {"reasoning": True}}, ANYTHING],
            "responses[0].match: no phase decides 'reasoning' yet, so this rule never fits",
        ),
        (
            [{**ANYTHING, "match": {"service": "docs"}}, ANYTHING],
            "responses[0].match.service: no document store is configured (stores), so this rule never fits",
        ),
        (
            [{**ANYTHING, "match": {"topic_regexp": "/x/s"}}, ANYTHING],
            "responses[0].match.topic_regexp: the flags after the last / are g, i, m, u and y; with any other flag, "
            "both / are literal",
        ),
    ],
)
def test_what_works_but_is_hardly_meant_is_a_note(rules, note):
    assert checked(responses=rules) == ([], [note])


def test_a_key_written_in_the_file_is_a_note_without_the_key():
    """What local servers take for a key is none, nor is a placeholder."""
    document = document_of(
        {
            "llms": {
                "token-service": {"base_url": "http://long.example.com"},
                "my gpt": {"api_key": "sk-do-not-show-this"},
                "local": {"api_key": "ollama"},
                "good": {"api_key": "${OPENAI_API_KEY}"},
            },
            "stores": {"docs": {"auth": {"type": "bearer", "token": "do-not-show-this"}}},
        }
    )

    notes = [str(note) for note in keys_in_the_file(document)]

    assert notes == [
        'llms."my gpt".api_key: the secret is written in the file; better write "${MY_GPT_API_KEY}" and set that '
        "environment variable",
        'stores.docs.auth.token: the secret is written in the file; better write "${DOCS_TOKEN}" and set that '
        "environment variable",
    ]


def test_a_key_of_a_tool_or_a_source_is_such_a_note_too():
    """The names of a source's keys are its document's; parameters and mocks may speak of tokens."""
    http = {"type": "http", "url": "https://x.example", "headers": {"X-Api-Key": "do-not-show-this", "Accept": "a/b"}}
    oauth = {
        "type": "oauth2",
        "token_url": "https://id.example.com",
        "client_id": "me",
        "client_secret": "do-not-show-this",
    }
    mock = {"type": "mock", "mock_response": {"token": "a-made-up-token"}}
    tools = {
        "registry": [
            {"name": "weather", "implementation": http},
            {"name": "pay", "implementation": {"type": "http", "url": "https://x.example", "auth": oauth}},
            {"name": "m", "implementation": mock, "parameters": {"properties": {"token": {"description": "a token"}}}},
            "broken",
        ],
        "openapi": [{"name": "pets", "document": "pets.json", "auth": {"theirs": "do-not-show-this", "b": "${B}"}}],
        "max_iterations": 3,
    }

    notes = [str(note) for note in keys_in_the_file(document_of({"tools": tools}))]

    assert [note.partition(":")[0] for note in notes] == [
        "tools.registry[0].implementation.headers.X-Api-Key",
        "tools.registry[1].implementation.auth.client_secret",
        "tools.openapi[0].auth.theirs",
    ]
    assert "${WEATHER_X_API_KEY}" in notes[0]
    assert "${PETS_THEIRS}" in notes[2]
    assert not any("do-not-show" in note for note in notes)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.sampled_from(["llm", "match", "tools", "name", "a"]), v),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["llms", "responses", "tools", "topic", "embedding", "stores"]), JSON))
def test_values_of_any_type_are_passed_over(data):
    """Structuring reports them; here they raise nothing and are not reported twice."""
    problems, notes = check(document_of(data))

    assert all(" got a table" not in p.text and " got a list" not in p.text for p in (*problems, *notes))


def test_a_word_of_a_longer_key_is_a_hint():
    """Who writes 'model' means 'default_model'."""
    assert did_you_mean("model", ["default_model", "models", "retries"]) == " (did you mean 'models'?)"
    assert did_you_mean("model", ["default_model", "retries"]) == " (did you mean 'default_model'?)"
    assert did_you_mean("model", ["default_model", "embedding_model"]) == ""
