"""What a filter may say, and what passes it."""

import math

import pytest
from flexchat.domain.filters import MAX_CONDITIONS, AllOf, AnyOf, Compare, holds, read_filter
from flexchat.errors import FilterError
from hypothesis import given
from hypothesis import strategies as st

VALUES = st.integers(-3, 3) | st.sampled_from([0.5, 1.0, -0.0, "", "a", "1"]) | st.booleans()
ANYTHING = VALUES | st.none() | st.lists(VALUES, max_size=2) | st.dictionaries(st.just("a"), VALUES)
JSON = st.recursive(
    ANYTHING, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


def passes(where, **metadata):
    return holds(read_filter(where), metadata)


@pytest.mark.parametrize(
    ("where", "condition"),
    [
        (None, AllOf(())),
        ({}, AllOf(())),
        ({"year": 2024}, AllOf((Compare("year", "$eq", 2024),))),
        ({"year": {"$gte": 1, "$lt": 2}}, AllOf((Compare("year", "$gte", 1), Compare("year", "$lt", 2)))),
        ({"a": {"$in": ["x", 1]}}, AllOf((Compare("a", "$in", ("x", 1)),))),
        (
            {"$or": [{"a": 1}, {"b": 2, "c": 3}]},
            AllOf(
                (AnyOf((AllOf((Compare("a", "$eq", 1),)), AllOf((Compare("b", "$eq", 2), Compare("c", "$eq", 3))))),)
            ),
        ),
    ],
)
def test_a_filter_is_read_as_a_tree(where, condition):
    """Several keys must all hold; a plain value means $eq."""
    assert read_filter(where) == condition


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ([], "where must be a table of conditions, got list"),
        ("a = 1", "where must be a table of conditions, got str"),
        ({"a": None}, "where.a takes a text, a number or a truth value, got NoneType"),
        ({"a": [1]}, "where.a takes a text"),
        ({"a": {}}, "where.a is empty"),
        ({"a": {"$gtt": 1}}, "no operator is called '$gtt' (did you mean '$gt'?)"),
        ({"a": {"b": 1}}, "no operator is called 'b'"),
        ({"a": {1: 1}}, "no operator is called 1"),
        ({"$ne": 1}, "where.$ne: no such operator"),
        ({"$ro": []}, "did you mean '$or'?"),
        ({"$or": []}, "where.$or takes a non-empty list of filters"),
        ({"$and": {"a": 1}}, "where.$and takes a non-empty list"),
        ({"$or": [{"a": 1}, 5]}, "where.$or[1] must be a table"),
        ({"a": {"$in": "x"}}, "where.a.$in takes a list"),
        ({"a": {"$in": [None]}}, "where.a.$in takes a text"),
        ({"a": {"$lt": True}}, "where.a.$lt: a truth value is neither less nor greater"),
        ({"a": math.nan}, "where.a: nan is not a number to compare with"),
        ({"a": {"$gt": math.inf}}, "inf is not a number"),
        ({"a": 2**63}, "has more than 64 bits"),
        ({"": 1}, "a field's name is a text, got ''"),
        ({5: 1}, "a field's name is a text, got 5"),
        ({f"f{i}": i for i in range(MAX_CONDITIONS + 1)}, "at most 100 conditions"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(where, words):
    """Nothing is guessed: a filter that is dropped shows what it should have hidden."""
    with pytest.raises(FilterError) as caught:
        read_filter(where)

    assert words in str(caught.value)


def test_a_filter_may_be_nested_but_not_without_end():
    """Ten deep is more than anybody writes."""
    where = {"a": 1}
    for _ in range(10):
        where = {"$and": [where]}

    assert passes(where, a=1)
    with pytest.raises(FilterError, match="more than 10 deep"):
        read_filter({"$or": [where]})


@pytest.mark.parametrize(
    ("found", "wanted", "is_equal"),
    [
        (1, 1.0, True),
        (True, 1, False),
        (1, True, False),
        (False, 0, False),
        ("1", 1, False),
        (None, 0, False),
        (None, "", False),
        ([1], 1, False),
        (2**53 + 1, float(2**53), False),
        (-0.0, 0, True),
        ("a", "A", False),
    ],
)
def test_values_are_equal_only_within_their_kind(found, wanted, is_equal):
    """A number equals a number; true is none, and no list or null equals anything."""
    assert passes({"k": wanted}, k=found) is is_equal
    assert passes({"k": {"$ne": wanted}}, k=found) is not is_equal


@pytest.mark.parametrize("operator", ["$gt", "$gte", "$lt", "$lte"])
@pytest.mark.parametrize("found", [None, True, [2], {"a": 2}, "2"])
def test_what_is_missing_or_of_another_kind_is_neither_less_nor_greater(operator, found):
    """Nor is it equal: only $ne and $nin hold."""
    assert not passes({"k": {operator: 2}}, k=found)
    assert not passes({"k": {operator: 2}})
    assert passes({"k": {"$ne": 2}})
    assert passes({"k": {"$nin": [2]}})


def test_texts_are_ordered_by_code_points():
    """As every database can."""
    assert passes({"k": {"$lt": "a"}}, k="Z")
    assert passes({"k": {"$gt": "z"}}, k="ä")


def test_an_empty_list_holds_nothing_and_excludes_nothing():
    """$in of no values is no document, $nin of none is all."""
    assert not passes({"k": {"$in": []}}, k=1)
    assert passes({"k": {"$nin": []}}, k=1)


@given(VALUES, ANYTHING)
def test_each_operator_is_the_opposite_of_another_or_made_of_others(wanted, found):
    """$ne of $eq, $nin of $in; $lte is $lt or $eq, $gte is $gt or $eq."""
    said = {op: passes({"k": {op: wanted}}, k=found) for op in ("$eq", "$ne")}
    listed = {op: passes({"k": {op: [wanted]}}, k=found) for op in ("$in", "$nin")}

    assert said["$eq"] is not said["$ne"]
    assert listed["$in"] is said["$eq"]
    assert listed["$in"] is not listed["$nin"]
    if not isinstance(wanted, bool):
        order = {op: passes({"k": {op: wanted}}, k=found) for op in ("$lt", "$lte", "$gt", "$gte")}
        assert order["$lte"] is (order["$lt"] or said["$eq"])
        assert order["$gte"] is (order["$gt"] or said["$eq"])
        assert not (order["$lt"] and order["$gt"])


@given(JSON, st.dictionaries(st.text(max_size=4), JSON, max_size=3))
def test_anything_is_read_or_refused_and_what_is_read_can_be_held_against_anything(where, metadata):
    """FilterError is the only error."""
    try:
        condition = read_filter(where)
    except FilterError:
        return

    assert holds(condition, metadata) in (True, False)
