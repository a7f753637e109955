"""What document stores do with rankings."""

import logging
import math

import pytest
from flexchat.store import fused, reranked
from hypothesis import given
from hypothesis import strategies as st

RANKINGS = st.lists(st.lists(st.integers(0, 20), unique=True, max_size=10), max_size=4)


class Scores:
    """Gives the scores it was told, or raises them."""

    def __init__(self, scores):
        self.scores = scores

    async def rerank(self, query, passages):
        if isinstance(self.scores, Exception):
            raise self.scores
        return self.scores


@given(RANKINGS)
def test_fusing_keeps_everything_once_and_never_turns_what_all_agree_on(rankings):
    merged = fused(rankings)

    assert sorted(merged) == sorted({number for ranking in rankings for number in ranking})
    for one in merged:
        for other in merged:
            if all(one in r and other in r and r.index(one) < r.index(other) for r in rankings):
                assert merged.index(one) < merged.index(other)


def test_what_two_rankings_have_comes_before_the_best_of_one():
    assert fused([[1, 2], [3, 2]]) == [2, 1, 3]


async def test_passages_come_in_the_order_of_their_scores_equal_ones_as_they_were():
    assert await reranked(Scores([0.1, 0.9, 0.1, 0.5]), "q", ["a", "b", "c", "d"], store="docs") == [1, 3, 0, 2]
    assert await reranked(Scores([]), "q", [], store="docs") == []


@pytest.mark.parametrize("scores", [[1.0], [1.0, math.nan], [1.0, math.inf], ["x", "y"], None, OSError("gone")])
async def test_a_reranker_that_fails_leaves_the_order_and_a_warning(scores, caplog):
    with caplog.at_level(logging.WARNING):
        assert await reranked(Scores(scores), "q", ["a", "b"], store="docs") == [0, 1]

    assert "docs: hits keep their order, because the reranker failed" in caplog.text
