"""Configurations of the Node original, said in our words."""

import copy
from typing import Any

from flexchat.config.document import document_of
from flexchat.config.normalise import normalise
from hypothesis import given
from hypothesis import strategies as st


def normalised(data: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    document, notes = normalise(document_of(data))
    return document.data, [str(note) for note in notes]


CLEAN = {
    "llms": {"gpt": {"provider": "openai", "api_key": "${KEY}", "timeout_s": 30.0, "default_model": "m"}},
    "tools": {
        "enabled": True,
        "registry": [
            {"name": "calculator"},
            {
                "name": "w",
                "description": "d",
                "type": "function",
                "parameters": {"type": "object", "properties": {"_x": {}, "comment": {}}},
                "implementation": {"type": "mock", "mock_response": {"_id": None, "comment": "kept"}},
            },
        ],
    },
    "intent": {"detection": {"comment": "a category", "_odd": "another"}},
    "responses": [{"llm": "gpt", "temperature": 0.5, "tools": {"allowed_tools": ["w"]}}],
}


def test_comments_in_prompts_are_left_out_and_names_are_kept():
    """As in other tables of core's."""
    table = {"prompt": "Hi", "comment": "mine", "_note": 1, "temperature": None}

    assert normalised({"prompts": {"comment": table}})[0] == {"prompts": {"comment": {"prompt": "Hi"}}}


def test_a_configuration_in_our_form_stays_as_it_is_and_gets_no_notes():
    """Free-form tables keep every key, whatever it is called."""
    assert normalised(CLEAN) == (CLEAN, [])


def test_comments_and_nulls_are_dropped_where_keys_are_ours():
    data, notes = normalised(
        {
            "$schema": "x",
            "comment": "a",
            "_b": 1,
            "llms": {"comment": "c", "_off": {"provider": "x"}, "gpt": {"provider": "x", "_d": 1, "a": None}},
            "tools": {"_e": 1, "registry": [{"comment": "f", "name": "calculator", "description": None}]},
            "responses": [
                {"_g": 1, "llm": "gpt", "match": {"comment": "h", "topic": "t"}},
                {"llm": "gpt", "match": None},
            ],
        }
    )

    assert data == {
        "llms": {"gpt": {"provider": "x"}},
        "tools": {"registry": [{"name": "calculator"}]},
        "responses": [{"llm": "gpt", "match": {"topic": "t"}}, {"llm": "gpt"}],
    }
    assert notes == []


def test_an_llm_may_be_called_comment():
    data, _ = normalised({"llms": {"comment": {"provider": "x"}}})

    assert data == {"llms": {"comment": {"provider": "x"}}}


def test_keys_of_the_originals_llms_get_our_names():
    """Its times were milliseconds; provider names could be written in any case."""
    old = {
        "provider": "OpenAI",
        "baseUrl": "http://x",
        "apiKey": "k",
        "timeout": 60000,
        "retryDelay": 1000,
        "defaultModel": "m",
    }

    data, _ = normalised({"llms": {"a": old}})

    assert data["llms"]["a"] == {
        "provider": "openai",
        "base_url": "http://x",
        "api_key": "k",
        "timeout_s": 60.0,
        "retry_delay_ms": 1000,
        "default_model": "m",
    }


def test_what_the_original_never_used_is_left_out_with_a_note():
    data, notes = normalised(
        {
            "llms": {"a": {"provider": "ollama", "maxTokens": 5, "embeddingModel": "e", "max_tokens": 3, "retries": 0}},
            "responses": [{"llm": "a", "max_tokens": 9, "reasoning": {"model": "r"}}],
        }
    )

    assert data["llms"]["a"] == {"provider": "ollama", "retries": 0}
    assert data["responses"] == [{"llm": "a", "max_tokens": 9}]
    assert len(notes) == 5


def test_the_temperature_of_an_llm_goes_to_its_rules():
    """There it counted and a rule's own was ignored; here a rule's own counts, and a note says so."""
    data, notes = normalised(
        {
            "llms": {"a": {"provider": "OpenAI", "temperature": 0.2}},
            "responses": [
                {"llm": "a", "max_tokens": 1},
                {"llm": "a", "temperature": 0.9, "max_tokens": 1},
                {"llm": "b"},
            ],
        }
    )

    assert [rule.get("temperature") for rule in data["responses"]] == [0.2, 0.9, None]
    assert "temperature" not in data["llms"]["a"]
    assert "responses[1].temperature: this counts; the Node original took llms.a.temperature" in notes


def test_two_spellings_of_one_key_keep_ours():
    data, notes = normalised({"llms": {"a": {"provider": "openai", "baseUrl": "x", "base_url": "y"}}})

    assert data["llms"]["a"] == {"provider": "openai", "base_url": "y"}
    assert notes == ["llms.a: both 'baseUrl' and 'base_url' are given; 'base_url' counts"]


def test_the_keys_of_other_providers_are_their_own():
    """A plugin may call a key timeout; the original had three providers."""
    table = {"provider": "mine", "timeout": 5, "baseUrl": "x", "maxTokens": 1}

    assert normalised({"llms": {"a": table}}) == ({"llms": {"a": table}}, [])


def test_a_flat_definition_becomes_a_canonical_one():
    """Its type is the implementation's; http is kept, for a plugin to offer (C9, C24)."""
    flat = {
        "name": "w",
        "description": "d",
        "parameters": {"type": "object"},
        "type": "mock",
        "mock_response": {"a": 1},
    }
    http = {**flat, "name": "h", "type": "http", "url": "http://x", "desciption": "typing error"}
    del http["mock_response"]

    data, notes = normalised({"tools": {"registry": [flat, http]}})

    assert data["tools"]["registry"] == [
        {
            "name": "w",
            "description": "d",
            "parameters": {"type": "object"},
            "implementation": {"type": "mock", "mock_response": {"a": 1}},
        },
        {
            "name": "h",
            "description": "d",
            "parameters": {"type": "object"},
            "desciption": "typing error",
            "implementation": {"type": "http", "url": "http://x"},
        },
    ]
    assert notes == []


def test_a_builtin_without_parameters_is_switched_on_by_its_name():
    """The original read nothing but name and description (C9)."""
    data, notes = normalised(
        {"tools": {"registry": [{"name": "calculator", "type": "builtin", "handler": "math_eval"}]}}
    )

    assert data["tools"]["registry"] == [{"name": "calculator"}]
    assert notes == [
        "tools.registry[0]: type and handler ignored: a name alone switches on a tool that a plugin offers"
    ]


def test_a_misspelt_function_is_no_flat_definition():
    entry = {"name": "w", "type": "funtion"}

    assert normalised({"tools": {"registry": [entry]}})[0]["tools"]["registry"] == [entry]


def test_the_first_of_two_tools_with_one_name_is_kept_and_places_stay_those_of_the_file():
    """TC-28, C25. What stands behind the second is still reported where it was written."""
    registry = [{"name": "a"}, {"name": "a", "description": "x"}, {"name": "b", "type": "mock", "parameters": {}}]

    document, notes = normalise(document_of({"tools": {"registry": registry}}))

    assert [entry["name"] for entry in document.data["tools"]["registry"]] == ["a", "b"]
    assert [str(n) for n in notes] == ['tools.registry[1]: a second tool is called "a"; the first is kept']
    place = ("tools", "registry", 1, "implementation", "type")
    assert document.problem(place, "no").path == "tools.registry[2].type"


def test_meanings_that_changed_are_noted_once_each():
    """Only where the file is the original's by its looks."""
    rules = [
        {"llm": "a", "temperature": 1, "tools": {}, "match": {"topic": "x"}},
        {"llm": "a", "temperature": 1, "tools": {"enabled": False}},
    ]
    tools = {"enabled": False, "apply_globally": True, "registry": []}
    data = {"llms": {"a": {"provider": "openai", "baseUrl": "x"}}, "tools": tools, "responses": rules}

    _, notes = normalised(data)
    _, none = normalised({**data, "llms": {"a": {"provider": "openai"}}})

    assert notes == [
        "responses[0]: no max_tokens meant 500 in the Node original; here the model's own limit counts",
        "responses[0].temperature: a rule's temperature was ignored by the Node original; here it counts",
        "responses[0].tools: without 'enabled' a rule used no tools in the Node original; here it does",
        "tools.enabled: the Node original ignored this; here it switches all tools off",
        "responses[1].tools.enabled: the Node original ignored this if apply_globally was set",
    ]
    assert none == []


OUR_KEYS = ["llms", "tools", "responses", "registry", "provider", "name", "type", "implementation", "match", "llm"]
OLD_KEYS = ["timeout", "baseUrl", "base_url", "retries", "temperature", "comment", "_x", "enabled", "reasoning", "a"]
KEYS = st.sampled_from([*OUR_KEYS, *OLD_KEYS])
WORDS = st.sampled_from(["openai", "Ollama", "mock", "builtin", "function", "a", "chromadb"])
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | WORDS,
    lambda v: st.lists(v, max_size=3) | st.dictionaries(KEYS, v, max_size=5),
    max_leaves=15,
)


@given(st.dictionaries(KEYS, DATA, max_size=5))
def test_any_tables_are_taken_and_left_alone(data):
    """It never raises, does not touch what it was given, and is done in one go."""
    before = copy.deepcopy(data)

    document, _ = normalise(document_of(data))

    assert data == before
    assert normalise(document)[0].data == document.data


def test_document_stores_and_who_detects_get_our_names():
    """rag_services and provider = {llm, model}; what is wrong is told where it is written."""
    data, notes = normalised(
        {
            "rag_services": {"docs": {"provider": "memory"}},
            "topic": {"provider": {"llm": "a", "model": "m", "_note": "x"}, "prompt": "p"},
            "intent": {"provider": {"llm": "a"}, "detection": {"provider": "who sells it"}},
        }
    )
    assert notes == []
    assert data["stores"] == {"docs": {"provider": "memory"}}
    assert data["topic"] == {"llm": "a", "model": "m", "prompt": "p"}
    assert data["intent"] == {"llm": "a", "detection": {"provider": "who sells it"}}
    document, _ = normalise(document_of({"topic": {"provider": {"llm": "a"}}, "rag_services": {"d": {}}}))
    assert document.original_path(("topic", "llm")) == ("topic", "provider", "llm")
    assert document.original_path(("stores", "d", "url")) == ("rag_services", "d", "url")


def test_of_two_spellings_of_a_table_or_a_phases_model_ours_counts():
    data, notes = normalised(
        {"stores": {"a": {}}, "rag_services": {"b": {}}, "topic": {"llm": "ours", "provider": {"llm": "theirs"}}}
    )
    assert data == {"stores": {"a": {}}, "topic": {"llm": "ours"}}
    assert len(notes) == 2
    assert "'stores' counts" in notes[0]
    assert "'llm' counts" in notes[1]


def test_an_entry_with_values_of_wrong_types_is_left_out_if_asked_for():
    """The others stay, and the note has the reasons (TC-69)."""
    registry = [{"name": "odd", "description": 7, "parameters": "none"}, {"name": "calculator"}]

    data, notes = normalised({**CLEAN, "tools": {"on_error": "leave out", "registry": registry}})

    assert data["tools"]["registry"] == [{"name": "calculator"}]
    assert notes == [
        "tools.registry[0]: this tool is left out: description: expected text, got the number 7; "
        'parameters: expected a table, got the text "none"'
    ]
