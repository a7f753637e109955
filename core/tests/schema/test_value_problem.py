"""Validation of values from elsewhere."""

import functools

import pytest
from flexchat.schema.check import value_problem
from flexchat.schema.limits import UncheckedError
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

INTEGERS = {"type": "array", "items": {"type": "integer"}}
NESTED = {"$ref": "#/$defs/node", "$defs": {"node": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/node"}}]}}}


@pytest.mark.parametrize(
    ("value", "schema", "reason"),
    [
        ([1] * 60_000 + ["x"], INTEGERS, "too many values to be checked in time"),
        (functools.reduce(lambda inner, _: [inner], range(10_000), []), NESTED, "values nested too deeply"),
        ({"n": 10**5_000}, {"properties": {"n": {"multipleOf": 2}}}, "a number too large to be checked"),
        ({}, {"$ref": "#/$defs/nowhere"}, "a schema that cannot be used"),
        ({}, {"type": 7}, "a schema that cannot be used"),
        ({}, [], "a schema that cannot be used"),
        ("a", {"type": "string", "pattern": "(?=a)"}, "a schema that cannot be used"),
    ],
)
def test_a_value_that_was_not_checked_is_not_valid(value, schema, reason):
    with pytest.raises(UncheckedError, match=reason):
        value_problem(value, schema)


def test_a_long_plain_list_is_checked_in_full():
    assert value_problem([1] * 60_000, INTEGERS) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
SCHEMAS = st.sampled_from(
    [
        INTEGERS,
        {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]},
        {"type": ["integer", "null", "string"], "minLength": 1},
        {"anyOf": [{"type": "boolean"}, {"type": "number", "minimum": 0}]},
        {"enum": ["", 1, None]},
    ]
)


@given(VALUES, SCHEMAS)
def test_valid_means_what_json_schema_says(value, schema):
    assert (value_problem(value, schema) is None) == Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({"seat": 1}, "unknown property 'seat' (did you mean 'seats'?)"),
        ({"row": 1}, "unknown property 'row' (allowed: seats)"),
        ([], "the value must be an object (got the array [])"),
    ],
)
def test_a_problem_is_a_sentence(value, problem):
    schema = {"type": "object", "properties": {"seats": {"type": "integer"}}, "additionalProperties": False}

    assert value_problem(value, schema) == problem
