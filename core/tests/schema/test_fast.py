"""The fast path against jsonschema."""

import jsonschema
import pytest
from flexchat.schema.fast import compile_fast
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

names = st.sampled_from(["a", "b", "c"])
scalars = (
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([0.5, 2.0, -1.0, 1e30]) | st.text("ab", max_size=3)
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=6
)
types = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object"])
counts = st.integers(0, 3)


def keywords(inner):
    return {
        "type": types | st.lists(types, min_size=1, max_size=3, unique=True),
        "enum": st.lists(scalars, max_size=4) | st.lists(st.text("ab", max_size=2), max_size=4),
        "const": scalars,
        "properties": st.dictionaries(names, inner, max_size=3),
        "required": st.lists(names, unique=True, max_size=2),
        "additionalProperties": st.booleans() | inner,
        "items": inner,
        "minItems": counts,
        "maxItems": counts,
        "minLength": counts,
        "maxLength": counts | st.just(2.0),
        "minimum": st.integers(-2, 3) | st.just(0.5),
        "maximum": st.integers(0, 9),
        "exclusiveMinimum": st.integers(-2, 3),
        "exclusiveMaximum": st.integers(0, 9),
        "description": st.just("x"),
        "format": st.just("email"),
        "title": st.just("t"),
        "default": scalars,
        "uniqueItems": st.booleans(),
        "not": inner,
        "x-unknown": scalars,
        "anyOf": st.lists(inner, min_size=1, max_size=2),
    }


def some_of(inner):
    return st.lists(st.sampled_from(list(keywords(st.nothing()))), max_size=4, unique=True).flatmap(
        lambda chosen: st.fixed_dictionaries({name: keywords(inner)[name] for name in chosen})
    )


schemas = st.recursive(st.booleans() | some_of(st.just({})), some_of, max_leaves=5)


@pytest.mark.slow
@given(schemas, values)
@settings(max_examples=examples(600), deadline=None)
def test_what_is_fast_said_to_be_valid_is_valid(schema, value):
    """Whenever the fast path says valid, jsonschema says valid (differential)."""
    if compile_fast(schema)(value):
        assert jsonschema.Draft202012Validator(schema).is_valid(value)


SIMPLE = {
    "type": "object",
    "properties": {
        "s": {"type": "string", "minLength": 1, "format": "email", "description": "d"},
        "i": {"type": "integer", "minimum": 1},
        "n": {"type": ["number", "null"]},
        "e": {"type": "string", "enum": ["a", "b"], "default": "a"},
        "c": {"const": "k"},
        "l": {"type": "array", "items": {"type": "string"}, "maxItems": 2},
        "o": {"type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]},
        "any": {},
        "hard": {"anyOf": [{"type": "string"}]},
    },
    "required": ["s"],
}


@pytest.mark.parametrize(
    "params",
    [
        {"s": "x"},
        {"s": "x", "i": 1, "n": None, "e": "b", "c": "k"},
        {"s": "x", "i": 5, "n": 2.5, "l": ["a", "b"], "o": {"x": True, "y": 1}},
        {"s": "x", "any": [1, {}], "extra": None},
    ],
)
def test_a_valid_call_of_a_simple_schema_is_recognised(params):
    """The fast path covers what most tools use."""
    assert compile_fast(SIMPLE)(params)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"s": ""},
        {"s": "x", "i": True},
        {"s": "x", "i": 1.5},
        {"s": "x", "n": float("nan")},
        {"s": "x", "n": float("inf")},
        {"s": "x", "e": "c"},
        {"s": "x", "e": 1},
        {"s": "x", "l": [1]},
        {"s": "x", "l": ["a", "b", "c"]},
        {"s": "x", "o": {}},
        {"s": "x", "hard": "covered by jsonschema only"},
    ],
)
def test_all_else_is_left_to_jsonschema(params):
    """An invalid call, or one that uses a parameter beyond the fast path, is asked about."""
    assert not compile_fast(SIMPLE)(params)
