"""Vectors as the service sends them."""

from typing import Any

import pytest
from flexchat_gemini.embeddings import read_embeddings


def test_vectors_are_read_whole_or_single() -> None:
    """Of a batch, and of one text."""
    assert read_embeddings({"embeddings": [{"values": [1, 0.5]}, {"values": [0, 1]}]}).vectors == (
        (1.0, 0.5),
        (0.0, 1.0),
    )
    assert read_embeddings({"embedding": {"values": [1]}}).vectors == ((1.0,),)


@pytest.mark.parametrize(
    "values", [None, 7, "x", [], {}, [None], ["1"], [True], [[1]], [float("nan")], [float("inf")], [10**400]]
)
def test_what_is_not_a_vector_is_refused(values: Any) -> None:
    """Numbers beyond all numbers too: they raise nothing of Python's own."""
    for body in ({"embeddings": [{"values": [1]}, {"values": values}]}, {"embedding": {"values": values}}):
        with pytest.raises(ValueError, match=r"vector|number"):
            read_embeddings(body)
