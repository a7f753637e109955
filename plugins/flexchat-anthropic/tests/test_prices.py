"""Prices that depend on the settings; see tests/integration/test_vendors.py for the table."""

from flexchat_anthropic.models import price_of


def test_a_cache_of_an_hour_costs_more():
    """As the config chooses it."""
    assert price_of("claude-opus-4-5", "1h").price.cache_write > price_of("claude-opus-4-5").price.cache_write
