"""Vectors of length 1."""

import pytest
from flexchat.store import RetrievalError
from flexchat_rag.store.vectors import unit_vectors
from hypothesis import assume, given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "vectors",
    [
        [[1.0, float("nan")]],
        [[float("inf"), 1.0]],
        [[]],
        [],
        [[1.0], [1.0]],
        [["x", "y"]],
        [[None, 1.0]],
        1.0,
        [[[1.0]]],
        [[0.0, 0.0]],
        [[0.0, -0.0, 0]],
    ],
    ids=repr,
)
def test_odd_vectors_are_refused(vectors):
    """One text needs one vector of finite numbers, which are not all zero."""
    with pytest.raises(RetrievalError, match="test/odd"):
        unit_vectors(vectors, 1, "test/odd")


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_any_finite_vector_becomes_one_of_length_1(vector):
    """However large or small its numbers."""
    assume(any(vector))
    (row,) = unit_vectors([vector], 1, "test/any")
    assert (row @ row) == pytest.approx(1.0, abs=1e-5)
