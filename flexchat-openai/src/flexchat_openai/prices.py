"""Prices of OpenAI's models, from model_prices.toml, and charges that other services report."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from flexchat_sdk import ModelPrice, PriceTable

MAX_CHARGE = 1_000_000
"""Maximum plausible charge for one answer, in US dollars."""


def charged(usage: Mapping[str, Any]) -> Decimal | None:
    """Read the charge in US dollars from a usage object; None if it has none.

    OpenRouter's ``cost`` is a number, to which the upstream charge of a user's own key is added; Perplexity's is an
    object with a total.
    """
    cost = usage.get("cost")
    amount = _dollars(cost.get("total_cost") if isinstance(cost, Mapping) else cost)
    if amount is not None and usage.get("is_byok") is True:
        details = usage.get("cost_details")
        upstream = _dollars(details.get("upstream_inference_cost") if isinstance(details, Mapping) else None)
        return None if upstream is None else amount + upstream
    return amount


def _dollars(value: object) -> Decimal | None:
    if type(value) not in (int, float) or not 0 <= value <= MAX_CHARGE:  # type: ignore[operator]
        return None
    return round(Decimal(repr(value)), 12)


def price_of(model: str) -> ModelPrice | None:
    """Look up a model's price; None if it is not in the table."""
    return table().find(model)


@functools.cache
def table() -> PriceTable:
    """Return the table."""
    import tomllib
    from importlib import resources

    text = resources.files(__package__).joinpath("model_prices.toml").read_text("utf-8")
    return PriceTable(tomllib.loads(text), "flexchat-openai")
