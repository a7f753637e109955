"""A package's table prices exact names and their dated versions, nothing else."""

from decimal import Decimal

import pytest
from flexchat_sdk import PriceTable

ROW = {"names": ["a", "a-alias"], "window": 9, "input": "1", "output": "2", "cache_write": "3", "cache_write_1h": "4"}
TABLE = {
    "source": "s",
    "date": "2026-01-01",
    "models": [{**ROW, "above": [{"tokens": 5, "input": "7", "output": "8"}]}],
}


@pytest.mark.parametrize("name", ["a", "a-alias", "a-2026-03-05", "a-20260305", "a-001", "a-latest", "a-alias-latest"])
def test_a_name_and_its_versions(name):
    found = PriceTable(TABLE, "acme").find(name)
    assert (found.window, found.price.input, found.price.source) == (9, 1, "acme, 2026-01-01")
    assert [(limit, price.output) for limit, price in found.above] == [(5, 8)]


@pytest.mark.parametrize("name", ["", "a-pro", "a-mini-2026-03-05", "aa", "A", "a-2026", "a-alias-x"])
def test_a_longer_name_is_another_model(name):
    assert PriceTable(TABLE, "acme").find(name) is None


def test_a_rate_may_stand_in_for_another():
    table = PriceTable(TABLE, "acme", instead={"cache_write": "cache_write_1h"})
    assert table.find("a").price.cache_write == Decimal(4)
