"""What OpenAI's models cost: data from model_prices.toml. What other services say that they charged."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from flexchat_sdk import ModelPrice, PriceTable

MAX_CHARGE = 1_000_000
"""US dollars; more is no charge for one answer."""


def charged(usage: Mapping[str, Any]) -> Decimal | None:
    """Return the US dollars that a usage table says were charged; None if it does not say.

    OpenRouter's ``cost`` is a number, to which what a user's own key is charged elsewhere is added; Perplexity's is a
    table with a total.
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
    """Return what a model costs; None for one that is not in the table."""
    return table().find(model)


@functools.cache
def table() -> PriceTable:
    """Return the table."""
    import tomllib
    from importlib import resources

    text = resources.files(__package__).joinpath("model_prices.toml").read_text("utf-8")
    return PriceTable(tomllib.loads(text), "flexchat-openai")
