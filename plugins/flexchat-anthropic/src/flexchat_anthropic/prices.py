"""Prices of Anthropic's models, from model_prices.toml."""

from __future__ import annotations

import functools

from flexchat_sdk import ModelPrice, PriceTable


def price_of(model: str, cache_ttl: str = "5m") -> ModelPrice | None:
    """Look up a model's price; None if it is not in the table.

    Args:
        cache_ttl: Lifetime of cache entries; writing for an hour costs more than for five minutes.
    """
    return table(cache_ttl).find(model)


@functools.cache
def table(cache_ttl: str = "5m") -> PriceTable:
    """Return the table for one of the two times."""
    import tomllib
    from importlib import resources

    text = resources.files(__package__).joinpath("model_prices.toml").read_text("utf-8")
    instead = {"cache_write": "cache_write_1h"} if cache_ttl == "1h" else {}
    return PriceTable(tomllib.loads(text), "flexchat-anthropic", instead=instead)
