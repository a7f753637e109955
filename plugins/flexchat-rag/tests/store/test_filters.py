"""A filter in SQL means what flexchat.store.holds means."""

import json
import sqlite3

import pytest
from flexchat.store import holds, read_filter
from flexchat_rag.store.search import filter_sql
from hypothesis import example, given, settings
from hypothesis import strategies as st

from examples import examples

pytestmark = pytest.mark.slow

FIELDS = st.sampled_from(("a", "b.c", 'say "x"', "back\\slash", "$eq", "ä", "", "[0]"))
NUMBERS = st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-2, 2)
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), max_size=3)
SCALARS = st.booleans() | NUMBERS | TEXTS
VALUES = SCALARS | st.none() | st.lists(SCALARS, max_size=2) | st.dictionaries(TEXTS, SCALARS, max_size=2)


def comparisons(value):
    several = st.lists(st.just(value) | SCALARS, max_size=3)
    plain = st.sampled_from(("$eq", "$ne")).map(lambda operator: {operator: value})
    many = st.builds(lambda operator, values: {operator: values}, st.sampled_from(("$in", "$nin")), several)
    if isinstance(value, bool):
        return plain | many
    return plain | many | st.sampled_from(("$gt", "$gte", "$lt", "$lte")).map(lambda operator: {operator: value})


@st.composite
def cases(draw):
    metadata = draw(st.dictionaries(FIELDS, VALUES, max_size=3))
    known = [value for value in metadata.values() if isinstance(value, str | int | float)]

    def one():
        field = draw(FIELDS.filter(lambda f: f and not f.startswith("$")))
        value = draw(st.sampled_from(known) | SCALARS if known else SCALARS)
        return {field: draw(comparisons(value))}

    where = one()
    if draw(st.booleans()):
        where = {draw(st.sampled_from(("$or", "$and"))): [where, one(), {}]}
    return metadata, where


@example(({"a": True}, {"a": 1}))
@example(({"a": False}, {"a": {"$gte": 0}}))
@example(({"a": "1"}, {"a": {"$lt": 2}}))
@settings(max_examples=examples(300))
@given(cases())
def test_sql_and_holds_agree(case):
    """Whatever the metadata and the filter, types and missing fields included."""
    metadata, where = case
    condition = read_filter(where)
    sql, parameters = filter_sql(condition)
    connection = sqlite3.connect(":memory:")
    try:
        stored = json.dumps(metadata, ensure_ascii=False)
        (found,) = connection.execute(
            f"SELECT {sql} FROM (SELECT ? AS metadata) AS d", (*parameters, stored)
        ).fetchone()
    finally:
        connection.close()
    assert bool(found) == holds(condition, metadata)
