"""Filters in SQL mean what flexchat.store.holds means."""

import json

import psycopg
import pytest
from flexchat.store import holds, read_filter
from flexchat_pgvector.tables import condition_sql, facts, metadata_text
from hypothesis import example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from examples import examples

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, -0.0, 0.1, 2**53, 2**53 + 1, 2.0**60, 2**60, 2**60 + 1, 1e300, 5e-324, 1, 1.0]),
)
SCALARS = st.one_of(
    st.booleans(), NUMBERS, st.text(max_size=4), st.sampled_from(["a", "ä", "Z", "\U0001f600", "｡", "1", "true"])
)
FIELDS = st.sampled_from(["a", "b", "it's", 'say "x"', "%s", "", "a\0b", "a.b"])
ANYTHING = (
    SCALARS | st.none() | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=2), SCALARS, max_size=1)
)
COMPARISONS = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne"]), SCALARS),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS | st.text(st.characters(), max_size=3)),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(SCALARS, max_size=3)),
)
TABLES = st.dictionaries(FIELDS.filter(bool), COMPARISONS.map(lambda pair: dict([pair])), max_size=3)
WHERES = st.recursive(
    TABLES,
    lambda inner: st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)).map(
        lambda pair: dict([pair])
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def connection(server):
    with psycopg.connect(server.dsn(), autocommit=True) as connection:
        yield connection


def passes(connection, where, metadata):
    test, parameters = condition_sql(read_filter(where))
    statement = sql.SQL("SELECT {} FROM (SELECT %s::jsonb AS facts) d").format(test)
    # The row comes after the test in the text, and so do its parameters.
    return connection.execute(statement, [*parameters, facts(metadata)]).fetchone()[0]


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(where=WHERES, metadata=st.dictionaries(FIELDS, ANYTHING, max_size=4))
@example(where={"a": 2**60}, metadata={"a": 2.0**60})
@example(where={"a": {"$gt": 2.0**60}}, metadata={"a": 2**60 + 1})
@example(where={"a": {"$lt": "a\0"}}, metadata={"a": "a"})
@example(where={"a": {"$ne": True}}, metadata={"a": 1})
@example(where={"a": {"$in": []}}, metadata={})
@example(where={"a\0b": {"$ne": 1}}, metadata={"ab": 1})
def test_sql_agrees_with_the_reference(connection, where, metadata):
    """Whatever the filter and the metadata, the database passes what holds() passes of what is stored."""
    stored, _ = metadata_text(metadata, "x")
    assert passes(connection, where, stored) is holds(read_filter(where), stored)


def test_a_half_character_in_a_filter_equals_nothing(connection):
    """No stored text has one, and the database is not troubled by it."""
    assert passes(connection, {"a": "\ud83d"}, {"a": "?"}) is False
    assert passes(connection, {"\ud83d": {"$ne": 1}}, {"a": "?"}) is True


@given(metadata=st.dictionaries(st.text(max_size=3), ANYTHING, max_size=3))
@settings(max_examples=examples(50))
def test_what_filters_read_is_legal_json(metadata):
    """Facts are JSON in which no number is a constant that PostgreSQL does not know."""
    json.loads(facts(metadata), parse_constant=pytest.fail)
