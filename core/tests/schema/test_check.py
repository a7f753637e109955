"""What a model is told about its arguments, and what is done with them."""

import math
import subprocess
import sys

import pytest
from flexchat.schema.check import ArgumentChecker
from flexchat.schema.limits import schema_problems
from flexchat.schema.patterns import NOT_BLANK
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

WEATHER = {
    "type": "object",
    "properties": {
        "location": {"type": "string", "description": "City name"},
        "days": {"type": "integer", "minimum": 1, "maximum": 7},
        "units": {"type": "string", "enum": ["celsius", "fahrenheit"]},
    },
    "required": ["location"],
}


def problems(schema, params):
    schema = {"type": "object", **schema}
    assert schema_problems(schema) == []
    return list(ArgumentChecker(schema).check(params).problems)


def problem_of_value(schema, value):
    [problem] = problems({"properties": {"x": schema}}, {"x": value})
    return problem


def test_valid_arguments_come_back_as_the_same_object():
    """A valid call has no problems and no notes, and its params are not copied."""
    params = {"location": "Berlin", "days": 2}

    checked = ArgumentChecker(WEATHER).check(params)

    assert checked.params is params
    assert (checked.problems, checked.notes) == ((), ())


def test_a_missing_required_parameter_is_named():
    """Scenario: Required parameter check (TE-3, TE-5, TC-38, TC-107, C1)."""
    assert problems(WEATHER, {}) == ["missing 'location'"]


def test_a_parameter_that_is_null_is_there_and_fails_its_type():
    """Required means that the key is there (TC-38, C1)."""
    assert problems(WEATHER, {"location": None}) == ["location must be a string (got null)"]


def test_a_misspelt_parameter_is_shown_beside_the_missing_one():
    """A near miss tells the model what it sent."""
    assert problems(WEATHER, {"locaton": "Berlin"}) == ["missing 'location' (you sent 'locaton')"]
    assert problems(WEATHER, {"Location": "Berlin"}) == ["missing 'location' (you sent 'Location')"]
    assert problems(WEATHER, {"zzz": "Berlin"}) == ["missing 'location'"]


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"type": "integer"}, "two", 'x must be an integer (got the string "two")'),
        ({"type": "integer"}, 2.5, "x must be an integer (got 2.5)"),
        ({"type": "integer"}, True, "x must be an integer (got true)"),
        ({"type": "integer"}, "2.7", 'x must be an integer (got the string "2.7")'),
        ({"type": "integer"}, math.nan, "x must be an integer (got NaN)"),
        ({"type": "string"}, 5, "x must be a string (got 5)"),
        ({"type": "number"}, True, "x must be a number (got true)"),
        ({"type": "number"}, math.inf, "x must be a number (got Infinity)"),
        ({"type": "boolean"}, 1, "x must be a boolean (got 1)"),
        ({"type": "array"}, {}, "x must be an array (got the object {})"),
        ({"type": "object"}, [1], "x must be an object (got the array [1])"),
        ({"type": "null"}, "null", 'x must be null (got the string "null")'),
        ({"type": ["string", "null"]}, 5, "x must be a string or null (got 5)"),
        ({"type": ["string", "integer", "null"]}, [], "x must be a string, an integer or null (got the array [])"),
    ],
)
def test_a_wrong_type_is_said_in_the_specified_words(schema, value, text):
    """Scenario: Type checking (TE-6, TC-39, C19)."""
    assert problem_of_value(schema, value) == text


@pytest.mark.parametrize("value", [5, 5.0, -0.0, 1e30, 10**30])
def test_a_whole_number_is_an_integer(value):
    """Integer is Number.isInteger: 5.0 counts (TE-6, C19)."""
    assert problems({"properties": {"x": {"type": "integer"}}}, {"x": value}) == []


def test_an_enum_lists_its_options():
    """Scenario: Enum validation (TE-7, TC-40)."""
    assert problems(WEATHER, {"location": "x", "units": "kelvin"}) == [
        'units must be one of: celsius, fahrenheit (got "kelvin")'
    ]
    assert problem_of_value({"enum": [1, None, "a"]}, True) == "x must be one of: 1, null, a (got true)"
    assert problem_of_value({"enum": ["celsius"]}, "Celsius").endswith('(got "Celsius"; did you mean "celsius"?)')


def test_unknown_parameters_are_ignored():
    """Scenario: Allow extra parameters (TE-8, TC-41)."""
    params = {"location": "x", "mood": {"deep": [1, 2, "x"]}}

    assert ArgumentChecker(WEATHER).check(params).params is params


def test_unknown_parameters_are_refused_where_the_schema_says_so():
    """additionalProperties: false is followed, with the nearest name."""
    schema = {"properties": {"street": {}, "zip": {}}, "additionalProperties": False}

    assert problems(schema, {"sreet": 1, "mood": 2}) == [
        "unknown parameter 'sreet' (did you mean 'street'?)",
        "unknown parameter 'mood' (allowed: street, zip)",
    ]
    assert problems({"properties": {"a": schema}}, {"a": {"q": 1}}) == [
        "unknown property 'q' in a (allowed: street, zip)"
    ]


def test_missing_ones_come_first_then_the_order_of_the_call():
    """All problems are collected (C1, TE-5)."""
    schema = {
        "properties": {name: {"type": "integer"} for name in "abcd"},
        "required": ["d", "c"],
    }

    assert problems(schema, {"b": "x", "a": "y"}) == [
        "missing 'd'",
        "missing 'c'",
        'b must be an integer (got the string "x")',
        'a must be an integer (got the string "y")',
    ]


def test_missing_ones_come_first_however_much_else_is_wrong():
    """A thousand wrong items do not hide a missing parameter; the rest is counted."""
    schema = {"properties": {"x": {"type": "array", "items": {"type": "integer"}}}, "required": ["y"]}

    found = problems(schema, {"x": ["no"] * 3000})

    assert found[0] == "missing 'y'"
    assert found[1] == 'x[0] must be an integer (got the string "no")'
    assert len(found) == 21
    assert found[-1].endswith("more problems")


def test_nested_values_are_named_by_their_path():
    """A path reads as it would in a program."""
    address = {"type": "object", "properties": {"street": {"type": "string"}}, "required": ["street"]}
    schema = {
        "properties": {
            "address": address,
            "items": {"type": "array", "items": {"type": "object", "properties": {"qty": {"type": "integer"}}}},
            "odd": {"type": "object", "additionalProperties": {"type": "integer"}},
        }
    }

    assert problems(schema, {"address": {"street": 5}}) == ["address.street must be a string (got 5)"]
    assert problems(schema, {"address": {"stret": "x"}}) == ["missing 'street' in address (you sent 'stret')"]
    assert problems(schema, {"items": [{}, {}, {"qty": "z"}]}) == [
        'items[2].qty must be an integer (got the string "z")'
    ]
    assert problems(schema, {"odd": {"a b": "z"}}) == ['odd["a b"] must be an integer (got the string "z")']


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        ({"minimum": 0}, -5, "x must be at least 0 (got -5)"),
        ({"maximum": 7}, 9, "x must be at most 7 (got 9)"),
        ({"exclusiveMinimum": 0}, 0, "x must be greater than 0 (got 0)"),
        ({"exclusiveMaximum": 1}, 1, "x must be less than 1 (got 1)"),
        ({"multipleOf": 0.01}, 1.005, "x must be a multiple of 0.01 (got 1.005)"),
        ({"const": "a"}, "b", 'x must be "a" (got "b")'),
        ({"minLength": 1}, "", "x must have at least 1 character (got 0)"),
        ({"maxLength": 2}, "abc", "x must have at most 2 characters (got 3)"),
        ({"minItems": 2}, [1], "x must have at least 2 items (got 1)"),
        ({"maxItems": 1}, [1, 2], "x must have at most 1 item (got 2)"),
        ({"minProperties": 2}, {}, "x must have at least 2 entries (got 0)"),
        ({"maxProperties": 1}, {"a": 1, "b": 2}, "x must have at most 1 entry (got 2)"),
        ({"pattern": "^[a-z]+$"}, "A\n", 'x must match the pattern ^[a-z]+$ (got "A\\n")'),
        ({"uniqueItems": True, "maxItems": 9}, [1, 1.0], "x must not have the same item twice (got [1, 1.0])"),
        ({"not": {"type": "string"}}, "a", 'x must not be of the form {"type": "string"} (got "a")'),
        (False, 1, "x is not allowed here (got 1)"),
        (
            {"contains": {"const": 1}},
            [2],
            'x must have at least 1 of its items of the form {"const": 1} (got [2])',
        ),
        ({"pattern": NOT_BLANK}, " ", 'x must not be blank (got " ")'),
        ({"propertyNames": {"pattern": "^a"}}, {"b": 1}, 'the name "b" in x must match the pattern ^a (got "b")'),
        (
            {"dependentRequired": {"a": ["b"]}},
            {"a": 1},
            'x does not fit dependentRequired: {"a": ["b"]} (got {"a": 1})',
        ),
    ],
)
def test_other_keywords_say_what_they_expect_and_what_they_got(schema, value, text):
    """Each keyword has a short sentence of its own."""
    assert problem_of_value(schema, value) == text


CIRCLE = {"type": "object", "properties": {"kind": {"const": "circle"}, "r": {"type": "number"}}, "required": ["r"]}
SQUARE = {"type": "object", "properties": {"kind": {"const": "square"}, "a": {"type": "number"}}, "required": ["a"]}


@pytest.mark.parametrize(
    ("schema", "value", "text"),
    [
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "seven",
            'x must be an integer or null (got the string "seven")',
        ),
        ({"anyOf": [CIRCLE, {"type": "null"}]}, {"kind": "circle"}, "missing 'r' in x"),
        ({"oneOf": [CIRCLE, SQUARE]}, {"kind": "square"}, "missing 'a' in x"),
        ({"oneOf": [{"const": "a"}, {"const": "b"}]}, "c", 'x must be one of: a, b (got "c")'),
        (
            {"oneOf": [{"type": "integer"}, {"type": "number"}]},
            1,
            "x fits more than one of the 2 forms it may have (got 1)",
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
            {},
            "x fits none of the 2 forms it may have: missing 'a' in x / missing 'b' in x",
        ),
    ],
)
def test_alternatives_speak_of_the_one_that_was_meant(schema, value, text):
    """anyOf and oneOf do not answer with all that was tried if one is plainly meant."""
    assert problem_of_value(schema, value) == text


def test_a_multiple_is_counted_in_decimals():
    """19.99 is a multiple of 0.01; a number that no float holds is not one of a fraction."""
    schema = {"properties": {"x": {"multipleOf": 0.01}}}

    assert problems(schema, {"x": 19.99}) == []
    assert problems(schema, {"x": 10**300}) == []
    assert len(problems(schema, {"x": 10**400})) == len(problems(schema, {"x": -(10**400)})) == 1
    assert problems({"properties": {"x": {"multipleOf": 10}}}, {"x": 10**400}) == []


def test_local_references_are_followed():
    """$ref within the schema works, also where it is recursive."""
    schema = {
        "properties": {"tree": {"$ref": "#/$defs/node"}},
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}}}
        },
    }

    assert problems(schema, {"tree": {"next": {"v": 1}}}) == []
    assert problems(schema, {"tree": {"next": {"v": []}}}) == ["tree.next.v must be an integer (got the array [])"]


def test_draft_07_is_checked_as_draft_07():
    """A list of items means positions there, and $schema does not bring back jsonschema's own pattern."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$id": "http://example.invalid/x",
        "properties": {
            "pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]},
            "again": {"$ref": "#"},
        },
    }

    assert problems(schema, {"pair": [1, 2]}) == ["pair[1] must be a string (got 2)"]
    assert problems(schema, {"again": {"pair": ["a"]}}) == ['again.pair[0] must be an integer (got the string "a")']


def test_format_is_an_annotation():
    """format promises nothing about the value."""
    assert problems({"properties": {"x": {"type": "string", "format": "email"}}}, {"x": "nobody"}) == []


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_nan_and_infinity_are_refused_wherever_they_hide(number):
    """JSON has no such numbers, also in parameters that the schema does not know."""
    assert len(problems({}, {"x": number})) == 1
    [problem] = problems({}, {"x": {"y": [number]}})
    assert problem.startswith("x.y[0] must be a finite number")


def test_the_text_of_a_problem_can_always_be_sent():
    """Half of a surrogate pair, which a model can write as an escape, does not come back in a sentence."""
    [problem] = problems({"properties": {"x": {"enum": ["a"]}}}, {"x": "\ud83d"})

    assert problem.encode()


@pytest.mark.slow
def test_a_valid_simple_call_does_not_import_jsonschema():
    """Neither loading schema nor a valid call costs the 0.1 s of jsonschema, or RE2."""
    code = (
        "import sys\n"
        "from flexchat.schema import check, from_function, limits\n"
        f"schema = {WEATHER!r}\n"
        "assert limits.schema_problems(schema) == []\n"
        "assert not check.ArgumentChecker(schema).check({'location': 'x', 'days': 2}).problems\n"
        "assert not {'jsonschema', 're2', 'referencing'} & set(sys.modules)\n"
        "assert check.ArgumentChecker(schema).check({}).problems\n"
        "assert 'jsonschema' in sys.modules\n"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr


json_data = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.sampled_from(["2", "true", "{}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
SHAPES = {
    "properties": {
        "a": {"type": "integer", "multipleOf": 0.3, "enum": [3, 6]},
        "b": {"anyOf": [{"$ref": "#/properties/a"}, {"type": "array", "uniqueItems": True, "maxItems": 9}]},
        "c": {
            "type": "object",
            "patternProperties": {"^x": {"$ref": "#"}},
            "additionalProperties": {"type": "boolean"},
        },
        "d": {"oneOf": [{"type": "string", "pattern": "^(a+)+$"}, {"contains": {"type": "null"}}]},
        "e": {"if": {"type": "object"}, "then": {"minProperties": 2}, "else": {"not": {"type": "number"}}},
    },
    "propertyNames": {"maxLength": 2},
    "required": ["a"],
    "unevaluatedItems": False,
}


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from("abcdex") | st.text(max_size=3), json_data, max_size=5))
@settings(max_examples=examples(300), deadline=None)
def test_whatever_a_model_sends_gets_an_answer(params):
    """No arguments make the checker raise, and what it accepts it accepts again, unchanged."""
    checker = ArgumentChecker({"type": "object", **SHAPES})

    checked = checker.check(params)

    assert all(problem.encode() for problem in checked.problems)
    if not checked.problems:
        assert checker.check(checked.params).params is checked.params


@pytest.mark.parametrize(("wrong", "end"), [(21, "and 1 more problem"), (22, "and 2 more problems")])
def test_the_problems_that_are_not_told_are_counted(wrong, end):
    schema = {"type": "object", "properties": {f"p{n}": {"type": "integer"} for n in range(wrong)}}
    found = ArgumentChecker(schema).check({f"p{n}": [] for n in range(wrong)}).problems
    assert found[-1] == end


LONG = 10**5000


@pytest.mark.parametrize(
    ("schema", "value", "name"),
    [
        ({"type": "integer"}, LONG, "x"),
        ({"type": "integer"}, -LONG, "x"),
        ({"type": "string"}, LONG, "x"),
        ({"enum": ["a"]}, LONG, "x"),
        ({"type": "number", "multipleOf": 3}, LONG, "x"),
        ({"type": "array"}, [1, LONG], "x[1]"),
        ({"type": "object"}, {"a": {"b": LONG}}, "x.a.b"),
    ],
    ids=["integer", "negative", "string", "enum", "multiple", "array", "object"],  # pytest's own would write them
)
def test_an_integer_that_cannot_be_written_is_refused(schema, value, name):
    """Wherever it hides: no JSON of it could be sent, kept or shown."""
    assert problem_of_value(schema, value) == f"{name} must be an integer of at most 4,300 digits"


def test_a_long_integer_that_can_be_written_is_one():
    """JSON knows no limit of 64 bits."""
    assert problems({"properties": {"x": {"type": "integer"}}}, {"x": 10**4000}) == []


@pytest.mark.parametrize("text", ["1e400", "-1e400", "9" * 5000])
@pytest.mark.parametrize("schema", [{"type": "number"}, {"type": "integer"}, {"anyOf": [{"type": "number"}]}])
def test_a_text_beyond_all_numbers_is_not_read_as_one(schema, text):
    """1e400 is infinite to Python, and JSON has no such number."""
    assert "must be" in problem_of_value(schema, text)


@pytest.mark.parametrize(
    ("items", "are_unique"),
    [
        ([1, 1.0], False),
        ([0, -0.0], False),
        ([1, True], True),
        ([0, False], True),
        ([[1], [True]], True),
        ([[1], [1.0]], False),
        ([{"a": 1}, {"a": True}], True),
        ([{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], False),
        (["1", 1], True),
        ([None, False], True),
        (["a", ["a"], {"a": "a"}], True),
    ],
)
def test_items_are_equal_as_json_says(items, are_unique):
    """1 and 1.0 are one number; true is not a number."""
    schema = {"properties": {"x": {"type": "array", "uniqueItems": True, "maxItems": 9}}}

    assert (problems(schema, {"x": items}) == []) is are_unique


@pytest.mark.parametrize(
    ("allowed", "value"),
    [(1, True), (0, False), (True, 1), (False, 0), (True, 1.0), ([1], [True]), ({"a": 1}, {"a": True})],
)
@pytest.mark.parametrize("keyword", ["const", "enum"])
def test_true_is_not_one(keyword, allowed, value):
    """Python takes them for equal, JSON does not; nested in what is compared, too."""
    schema = {keyword: allowed if keyword == "const" else [allowed]}

    assert problem_of_value(schema, value)
    assert problems({"properties": {"x": schema}}, {"x": allowed}) == []
