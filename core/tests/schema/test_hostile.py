"""Schemas and arguments made to cost time, memory or a connection. Bounds are generous: a busy machine must pass."""

import socket
import time

import pytest
from flexchat.schema.check import ArgumentChecker
from flexchat.schema.limits import schema_problems


def check(schema, params, accepted=True):
    schema = {"type": "object", **schema}
    if accepted:
        assert schema_problems(schema) == []
    started = time.thread_time()
    checked = ArgumentChecker(schema).check(params)
    return checked, time.thread_time() - started


@pytest.fixture(autouse=True)
def _warm():
    check({"required": ["a"], "properties": {"b": {"pattern": "x"}}}, {"b": "x"})  # imports jsonschema and RE2


@pytest.fixture
def no_sockets(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)


@pytest.mark.timed
@pytest.mark.parametrize(
    ("schema", "params"),
    [
        ({"properties": {"x": {"pattern": "^(a+)+$"}}}, {"x": "a" * 60_000 + "!"}),
        ({"patternProperties": {"^(a+)+$": False}}, {"a" * 60_000 + "!": 1}),
        ({"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False}, {"a" * 60_000 + "!": 1}),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {"a" * 60_000 + "!": 1}),
    ],
)
def test_a_pattern_that_backtracks_takes_linear_time(schema, params):
    """^(a+)+$ on 60,000 characters, also on names: Python's own engine would never end."""
    _, seconds = check(schema, params)

    assert seconds < 0.2


@pytest.mark.timed
@pytest.mark.parametrize("schema", [{}, {"properties": {"a": {"$ref": "#"}}}])
def test_deep_arguments_are_a_problem_not_a_crash(schema):
    """200 and 100,000 levels: a sentence instead of a RecursionError."""
    for levels in (200, 100_000):
        params = {}
        inner = params
        for _ in range(levels):
            inner["a"] = {}
            inner = inner["a"]

        checked, seconds = check(schema, params)

        assert checked.problems == ("a.a.a is nested too deeply (at most 32 levels); send a flatter value",)
        assert seconds < 0.5


def test_arguments_of_the_greatest_depth_are_checked():
    """32 levels through a recursive schema of alternatives still fit on the stack."""
    node = {"anyOf": [{"allOf": [{"type": "object", "properties": {"a": {"$ref": "#"}}}]}, {"type": "null"}]}
    params = {}
    inner = params
    for _ in range(31):
        inner["a"] = {}
        inner = inner["a"]

    checked, _ = check(node, params)

    assert checked.problems == ()


@pytest.mark.slow
@pytest.mark.timed
def test_references_that_double_at_every_level_end():
    """Two ways through a recursive schema and 31 levels of arguments would be 2^31 steps."""
    branch = {"properties": {"a": {"$ref": "#"}}}
    params = {}
    inner = params
    for _ in range(30):
        inner["a"] = {}
        inner = inner["a"]

    checked, seconds = check({"allOf": [branch, branch, {"minProperties": 0}]}, params)

    assert checked.problems == ("the arguments hold too many values to be checked in time; send less at once",)
    assert seconds < 2


@pytest.mark.timed
def test_equal_items_are_found_in_linear_time():
    """1,000 objects that must differ: jsonschema would compare each with each."""
    schema = {"properties": {"x": {"type": "array", "uniqueItems": True, "maxItems": 1_000}}}
    params = {"x": [{"a": [i], "b": {"c": i}} for i in range(1_000)]}

    checked, seconds = check(schema, params)

    assert checked.problems == ()
    assert seconds < 0.2


@pytest.mark.timed
def test_unevaluated_names_do_not_take_quadratic_time():
    """Looking up 5,000 names in a list is counted as the work it is."""
    schema = {"properties": {"x": {"type": "object", "unevaluatedProperties": False}}}

    checked, seconds = check(schema, {"x": {f"n{i}": 0 for i in range(5_000)}})

    assert len(checked.problems) == 1
    assert seconds < 2


def test_patterns_do_not_reach_pythons_engine_by_unevaluated_properties():
    """The one way around RE2 is closed at registration."""
    for schema in (
        {"patternProperties": {"a": {}}, "unevaluatedProperties": False},
        {"unevaluatedProperties": False, "allOf": [{"patternProperties": {"a": {}}}]},
    ):
        [problem] = schema_problems({"type": "object", **schema})
        assert "unevaluatedProperties cannot be combined with patternProperties" in problem


def test_a_remote_reference_is_refused_and_never_fetched(no_sockets):
    """jsonschema fetches a remote $ref by default; ours is refused, and even unchecked opens no socket."""
    schema = {"properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}}

    [problem] = schema_problems({"type": "object", **schema})
    assert "leaves the schema" in problem
    with pytest.raises(Exception, match="Unresolvable"):
        check(schema, {"x": 1}, accepted=False)


@pytest.mark.timed
def test_a_huge_value_is_refused_briefly():
    """5 MB of text is named by its size, not repeated."""
    for schema in ({}, {"properties": {"x": {"type": "integer"}}}):
        checked, seconds = check(schema, {"x": "y" * 5_000_000})

        assert checked.problems == ("the arguments are longer than 64 KiB; send less at once",)
        assert seconds < 0.2


def test_no_sentence_grows_with_its_value():
    """A value of 60,000 characters, and a name of them, are cut."""
    schema = {"properties": {"x": {"type": "integer"}, "o": {"type": "object", "additionalProperties": False}}}

    for params in ({"x": "y" * 60_000}, {"o": {"n" * 60_000: 1}}):
        checked, _ = check(schema, params)
        assert all(len(problem) < 300 for problem in checked.problems)
        assert checked.problems


def test_a_long_array_is_refused():
    """10,000 items are allowed, one more is not."""
    assert check({}, {"x": [0] * 10_000})[0].problems == ()
    [problem] = check({}, {"x": [0] * 10_001})[0].problems
    assert problem == "x must have at most 10000 items (got 10001); send fewer"


def test_a_text_that_spells_too_much_is_refused():
    """What a text holds obeys the limits too."""
    text = "[" * 40 + "]" * 40

    checked, _ = check({"properties": {"x": {"type": "array"}}}, {"x": text})

    assert len(checked.problems) == 1
    assert "nested too deeply" in checked.problems[0]


def test_what_is_no_json_is_refused():
    """Python objects, cycles and names that are no texts cannot come from a model, and do no harm."""
    cycle = {}
    cycle["x"] = cycle

    assert "nested too deeply" in check({}, cycle)[0].problems[0]
    assert check({}, {"x": {1, 2}})[0].problems == ("x is not JSON data (got set)",)
    assert check({}, {"x": {5: 1}})[0].problems == ("x has a name that is not a string",)
    assert len(check({}, {"x": [10**5000]})[0].problems) == 1


@pytest.mark.timed
def test_the_largest_honest_call_is_checked_in_time():
    """64 KiB of records that need jsonschema stay below the limit of work."""
    record = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "required": ["id"],
    }
    params = {"rows": [{"id": i, "name": "some name"} for i in range(1_900)]}

    checked, seconds = check({"properties": {"rows": {"type": "array", "items": record}}}, params)

    assert checked.problems == ()
    assert seconds < 2
