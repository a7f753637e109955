"""The table is whole, and is for the vendor's own service only."""

import pytest
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.models import price_of, table
from flexchat_anthropic.provider import AnthropicProvider


def test_every_row_is_a_price():
    """Cached input costs at most what input costs; a long request at least what a short one does."""
    assert len([*table()]) > 10
    for name in table():
        known = price_of(name)
        assert known.price is not None
        assert known.price.source.startswith("flexchat-anthropic, 20")
        assert known.price.cached_input is None or known.price.cached_input <= known.price.input
        assert all(price.input >= known.price.input for _, price in known.above)


def test_an_unknown_model_is_unpriced():
    """Also one whose name begins like a known one's."""
    assert price_of("claude-opus-4-5-2025-12-11") == price_of("claude-opus-4-5")
    assert [price_of(name) for name in ("", "no-such-model", "claude-opus-4-5-gold")] == [None] * 3


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000", "https://gateway.example.org/v1"])
async def test_other_servers_have_other_prices(address):
    """Whatever they call their models."""
    for config, known in ((AnthropicConfig(base_url=address), None), (AnthropicConfig(), price_of("claude-opus-4-5"))):
        provider = AnthropicProvider(config)
        assert provider.price_of("claude-opus-4-5") == known
        await provider.aclose()


def test_a_cache_of_an_hour_costs_more():
    """As the config chooses it."""
    assert price_of("claude-opus-4-5", "1h").price.cache_write > price_of("claude-opus-4-5").price.cache_write
