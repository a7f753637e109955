"""Whatever JSON value stands in place of any part of a configuration: it loads, or a ConfigError says what is wrong."""

import contextlib
import copy

import pytest
from flexchat import ConfigError, FlexChat
from flexchat.config.document import walk
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

WHOLE = {
    "llms": {"robot": {"provider": "scripted", "replies": [{"text": "hi"}], "default_model": "m", "retries": 1}},
    "responses": [
        {
            "name": "first",
            "llm": "robot",
            "match": {"topic_contains": "x", "rag_results": "any"},
            "stop": ["."],
            "reasoning": {"effort": "low"},
            "response_format": {"schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
            "fallback": ["robot"],
            "extra_body": {"a": [1]},
            "tools": {"allowed_tools": ["calculator"], "max_iterations": 2},
        },
        {"llm": "robot", "prompt": "{{company}}"},
    ],
    "tools": {
        "on_error": "stop",
        "registry": [
            {"name": "calculator"},
            {
                "name": "t",
                "description": "T",
                "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]},
                "implementation": {"type": "mock", "mock_response": {"a": 1}, "timeout_ms": 5},
            },
        ],
    },
    "stores": {"docs": {"provider": "memory", "documents": [{"text": "x"}], "match_threshold": 0.2}},
    "topic": {"llm": "robot"},
    "intent": {"llm": "robot", "detection": {"a": "b"}},
    "variables": {"company": {"name": "Acme"}},
    "conversations": {"provider": "sqlite"},
    "validation": {"cases": [{"name": "c", "message": "m", "calls": [{"tool": "t"}]}], "prices": {}},
    "plugins": {"block": ["none-such"], "require": ["mock"]},
    "limits": {"turn_timeout_ms": 5},
}
PLACES = [place for place, _ in walk(WHOLE)]
VALUES = [None, True, 1, -1, 1.5, "", "x", [], [1], {}, {"a": 1}, [[]], {"": None}]


def loads_or_says(place, value, plugins):
    config = copy.deepcopy(WHOLE)
    holder = config
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    with contextlib.suppress(ConfigError):
        FlexChat.from_config(config, plugins=plugins)


@pytest.mark.parametrize("table", sorted(WHOLE))
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_any_value_in_place_of_a_table(table, value, host):
    """validation = 1 among them."""
    loads_or_says((table,), value, host)


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(
    place=st.sampled_from(PLACES),
    value=st.sampled_from(VALUES)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=5,
    ),
)
def test_any_value_in_place_of_any_part(place, value, host):
    """Never another exception."""
    loads_or_says(place, value, host)


@pytest.fixture(scope="module")
def host():
    from flexchat.assembly import installed_plugins

    return installed_plugins()
