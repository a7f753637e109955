"""Texts that spell what the schema wants."""

import copy

import pytest
from flexchat.schema.check import ArgumentChecker
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples


def checked(schema, value):
    return ArgumentChecker({"type": "object", "properties": {"x": schema}}).check({"x": value})


@pytest.mark.parametrize(
    ("schema", "sent", "read"),
    [
        ({"type": "integer"}, "2", 2),
        ({"type": "integer"}, "-7", -7),
        ({"type": "integer"}, "2.0", 2),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "number"}, "1e3", 1000),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "false", False),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "object"}, ' {"a": "b"} ', {"a": "b"}),
        ({"type": ["integer", "null"]}, "3", 3),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "3", 3),
        ({"anyOf": [{"type": "boolean"}, {"type": "array"}]}, "true", True),
        ({"enum": [1, 2]}, "2", 2),
        ({"type": "integer", "enum": [1, 2]}, "2", 2),
        ({"const": 7}, "7", 7),
        ({"$ref": "#/$defs/none/anyOf/0"}, "4", 4),
    ],
)
def test_a_text_is_read_as_what_it_spells(schema, sent, read):
    """Small models write numbers, booleans and whole objects as texts; the note says so."""
    found = ArgumentChecker(
        {"type": "object", "properties": {"x": schema}, "$defs": {"none": {"anyOf": [{"type": "integer"}]}}}
    ).check({"x": sent})

    assert found.problems == ()
    assert found.params == {"x": read}
    assert type(found.params["x"]) is type(read)
    assert len(found.notes) == 1


def test_the_note_says_what_was_read():
    """The record shows the adjustment."""
    assert checked({"type": "integer"}, "2").notes == ('x: "2" read as 2',)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "integer"}, "2.7"),
        ({"type": "integer"}, " 2x"),
        ({"type": "integer"}, " 2"),
        ({"type": "integer"}, "007"),
        ({"type": "integer"}, "٣"),
        ({"type": "integer"}, "true"),
        ({"type": "integer"}, ""),
        ({"type": "number"}, "NaN"),
        ({"type": "number"}, "1e999"),
        ({"type": "boolean"}, "1"),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, 1),
        ({"type": "null"}, "null"),
        ({"type": ["integer", "null"]}, "null"),
        ({"type": "string"}, 5),
        ({"type": "string"}, True),
        ({"type": "array"}, "1, 2"),
        ({"type": "array", "items": {"type": "integer"}}, 5),
        ({"type": "object"}, "[1]"),
        ({"type": "integer"}, "9" * 5000),
        ({"type": "array"}, "[" * 3000),
    ],
)
def test_a_lossy_reading_is_refused(schema, sent):
    """Nothing is rounded, trimmed or guessed."""
    found = checked(schema, sent)

    assert len(found.problems) == 1
    assert found.params == {"x": sent}
    assert found.notes == ()


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"type": "string"}, "2"),
        ({}, "2"),
        ({"type": ["string", "integer"]}, "2"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "2"),
        ({"enum": ["2", 2]}, "2"),
    ],
)
def test_a_valid_value_is_not_touched(schema, sent):
    """What the schema allows as it stands stays as it is."""
    found = checked(schema, sent)

    assert (found.problems, found.notes) == ((), ())
    assert found.params["x"] is sent


def test_readings_reach_into_objects_arrays_and_alternatives():
    """Each changed place has its note, and the sent arguments are left alone."""
    item = {"type": "object", "properties": {"qty": {"type": "integer"}}}
    schema = {
        "type": "object",
        "properties": {
            "items": {"type": "array", "items": item},
            "one": {"anyOf": [item, {"type": "null"}]},
            "text": {"type": "object", "properties": {"deep": {"type": "array", "items": {"type": "boolean"}}}},
        },
    }
    sent = {"items": [{"qty": 1}, {"qty": "2"}], "one": {"qty": "3"}, "text": '{"deep": ["true"]}'}
    before = copy.deepcopy(sent)

    found = ArgumentChecker(schema).check(sent)

    assert found.params == {"items": [{"qty": 1}, {"qty": 2}], "one": {"qty": 3}, "text": {"deep": [True]}}
    assert found.notes == (
        'items[1].qty: "2" read as 2',
        'one.qty: "3" read as 3',
        'text: "{\\"deep\\": [\\"true\\"]}" read as {"deep": [true]}',
    )
    assert sent == before


def test_a_reading_that_is_still_wrong_is_spoken_of_as_what_it_spells():
    """The model learns about the number, not that texts are no numbers; nothing is changed."""
    found = checked({"type": "integer", "maximum": 7}, "9")

    assert found.problems == ("x must be at most 7 (got 9)",)
    assert found.params == {"x": "9"}


def test_alternatives_that_read_differently_are_not_chosen_between():
    """Where two alternatives would read a value in two ways, it stays and is refused."""
    schema = {
        "anyOf": [
            {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 0}}},
            {"type": "object", "properties": {"a": {"const": True}}},
        ]
    }

    assert checked(schema, {"a": "5", "b": "z"}).problems


def test_many_texts_are_read_and_few_notes_written():
    """A long array of quoted numbers is read; the notes are cut."""
    found = checked({"type": "array", "items": {"type": "integer"}}, ["5"] * 900)

    assert found.params == {"x": [5] * 900}
    assert len(found.notes) == 21


@given(
    st.one_of(st.integers(-(10**20), 10**20), st.booleans(), st.floats(allow_nan=False, allow_infinity=False)),
    st.sampled_from(["integer", "number", "boolean"]),
)
@settings(max_examples=examples(300), deadline=None)
def test_a_spelt_value_is_read_exactly_if_it_would_be_valid_itself(value, kind):
    """Reading "v" gives v where v is valid, and a refusal where it is not."""
    import json

    bare, spelt = checked({"type": kind}, value), checked({"type": kind}, json.dumps(value))

    assert bool(bare.problems) == bool(spelt.problems)
    if not spelt.problems:
        assert spelt.params["x"] == value


OPTIONAL = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer"},
        "unit": {"enum": ["c", "f"]},
        "note": {"type": ["string", "null"]},
        "at": {"$ref": "#/$defs/at"},
    },
    "required": ["city"],
    "$defs": {"at": {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]}},
}


def same(a, b):
    """Equal, and of the same types: 3 is not 3.0."""
    return repr(a) == repr(b)


@pytest.mark.parametrize(
    ("schema", "sent", "read"),
    [
        ({"type": "integer"}, 3.0, 3),
        ({"type": "integer"}, -0.0, 0),
        ({"type": "integer"}, 1e30, int(1e30)),
        ({"type": ["integer", "null"]}, 3.0, 3),
        ({"type": ["integer", "string"]}, 3.0, 3),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 3.0, 3),
        ({"enum": [1, 2, 3]}, 3.0, 3),
        ({"const": 3}, 3.0, 3),
        ({"type": "array", "items": {"type": "integer"}}, [1, 2.0, "3"], [1, 2, 3]),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}}, {"a": 3.0}, {"a": 3}),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}, [3.0], [3]),
        ({"type": "number"}, 3.0, 3.0),
        ({"type": ["integer", "number"]}, 3.0, 3.0),
        ({"enum": [1, 2.0]}, 2.0, 2.0),
        ({}, 3.0, 3.0),
        ({"type": "number", "not": {"type": "string"}}, 3.0, 3.0),
    ],
)
def test_a_whole_number_for_an_integer_is_an_int(schema, sent, read):
    """JSON makes no difference between 3 and 3.0; a Python function does (C19)."""
    checker = ArgumentChecker({"type": "object", "properties": {"x": schema}, "$defs": {"n": {"type": "integer"}}})

    checked = checker.check({"x": sent})

    assert checked.problems == ()
    assert same(checked.params["x"], read)
    assert bool(checked.notes) == (not same(sent, read))
    assert checker.check(checked.params).params is checked.params


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ({"city": "x", "days": None}, {"city": "x"}),
        ({"city": "x", "unit": None, "at": None}, {"city": "x"}),
        ({"city": "x", "note": None}, {"city": "x", "note": None}),
        ({"city": "x", "days": None, "at": {"hour": "3"}}, {"city": "x", "at": {"hour": 3}}),
    ],
)
def test_null_for_a_parameter_that_need_not_be_given_is_not_given(given, read):
    """Under a strict schema a model has no other way to say it; a null that is allowed stays.

    A departure from C1, where a null that the schema forbids fails its type check.
    """
    checked = ArgumentChecker(OPTIONAL).check(given)

    assert (checked.params, checked.problems) == (read, ())
    assert len(checked.notes) == len(given) - len(read) + ("at" in read)


@pytest.mark.parametrize("given", [{"city": None}, {"city": "x", "at": {"hour": None}}])
def test_null_for_a_required_parameter_is_wrong(given):
    """Leaving it out would not be what the schema wants either."""
    checked = ArgumentChecker(OPTIONAL).check(given)

    assert len(checked.problems) == 1
    assert "null" in checked.problems[0]
