"""Filters in Chroma's words let through what ours do."""

import pytest
from chroma_wrapper import passes
from flexchat.store import holds, read_filter
from flexchat_chromadb.documents import chroma_filter
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.integers(-3, 3) | st.sampled_from([2**53 + 1, -0.5, 0.5, 1.0, 2.5])
VALUES = NUMBERS | st.booleans() | st.sampled_from(["", "a", "1"])
FIELDS = st.sampled_from(["a", "b"])
COMPARISONS = st.one_of(
    st.dictionaries(FIELDS, VALUES, min_size=1),
    st.tuples(FIELDS, st.sampled_from(["$eq", "$ne"]), VALUES),
    st.tuples(FIELDS, st.sampled_from(["$gt", "$gte", "$lt", "$lte"]), NUMBERS | st.just("a")),
    st.tuples(FIELDS, st.sampled_from(["$in", "$nin"]), st.lists(VALUES, max_size=3)),
).map(lambda said: said if isinstance(said, dict) else {said[0]: {said[1]: said[2]}})
WHERE = st.recursive(
    COMPARISONS,
    lambda inner: st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=1, max_size=3)).map(
        lambda said: {said[0]: said[1]}
    ),
    max_leaves=5,
)


@given(WHERE, st.dictionaries(FIELDS, VALUES))
def test_nothing_that_passes_is_kept_back_and_nothing_else_comes_where_it_is_exact(where, metadata):
    """Chroma's own strictness about kinds and forms is in the server's passes, which refuses what Chroma refuses."""
    condition = read_filter(where)
    said = chroma_filter(condition)
    wanted, found = holds(condition, metadata), said.where is None or passes(said.where, metadata)

    assert found or not wanted
    assert found == wanted or not said.is_exact


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"lang": "de"}, {"lang": {"$eq": "de"}}),
        ({"lang": "de", "open": True}, {"$and": [{"lang": {"$eq": "de"}}, {"open": {"$eq": True}}]}),
        ({"year": 2024}, {"$or": [{"year": {"$eq": 2024}}, {"year": {"$eq": 2024.0}}]}),
        ({"year": {"$gte": 3.5}}, {"$or": [{"year": {"$gte": 4}}, {"year": {"$gte": 3.5}}]}),
        ({"lang": {"$in": ["de"]}}, {"lang": {"$eq": "de"}}),
        ({}, None),
        ({"lang": {"$gt": "a"}}, None),
        ({"$or": [{"a": {"$nin": []}}, {"b": "x"}]}, None),
    ],
)
def test_the_form_is_chromas(where, said):
    """Several keys under an explicit $and; a number as both kinds; what cannot be said is left out."""
    assert chroma_filter(read_filter(where)).where == said
