"""Prices of Gemini's models, from model_prices.toml."""

from __future__ import annotations

import functools

from flexchat_sdk import ModelPrice, PriceTable


def price_of(model: str) -> ModelPrice | None:
    """Look up a model's price; None if it is not in the table."""
    return table().find(model.removeprefix("models/"))


@functools.cache
def table() -> PriceTable:
    """Return the table."""
    import tomllib
    from importlib import resources

    text = resources.files(__package__).joinpath("model_prices.toml").read_text("utf-8")
    return PriceTable(tomllib.loads(text), "flexchat-gemini")
