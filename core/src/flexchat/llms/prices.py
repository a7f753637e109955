"""What a model costs: by the config, by the table of the provider's package, by genai-prices if it is installed."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from ..config.model import PriceEntry
from ..domain.prices import PLACES, ModelPrice, Price
from ..plugin.contracts import ChatProvider
from ..plugin.foreign import contained

log = logging.getLogger(__name__)

ALL_OTHERS = "*"


def configured(entries: Mapping[str, PriceEntry]) -> dict[str, ModelPrice]:
    """Return the prices that a config sets, by model."""
    prices = {}
    for model, entry in entries.items():
        rates = {
            name: abs(Decimal(repr(rate)))  # -0.0 is 0
            for name in ("input", "output", "cached_input", "cache_write", "reasoning")
            if (rate := getattr(entry, name)) is not None
        }
        price = Price(**rates, source="config") if entry.input is not None and entry.output is not None else None
        prices[model] = ModelPrice(price=price, window=entry.window)
    return prices


def known_price(
    provider: ChatProvider, set_prices: Mapping[str, ModelPrice], model: str, answered: str | None = None
) -> ModelPrice | None:
    """Return a model's price at a provider's service; see LLM.price_of."""
    names = _names(model, answered)
    set_price = _set_price(set_prices, names)
    if _is_whole(set_price):
        return set_price
    price = _price_from_provider(provider, names)
    if price is None and (endpoint := _known_address(provider)) is not None:
        price = next(filter(None, (_of_genai_prices(endpoint, name) for name in names)), None)
    return price if set_price is None else _completed(set_price, price or ModelPrice(price=None))


def takes_long(
    provider: ChatProvider, set_prices: Mapping[str, ModelPrice], model: str, answered: str | None = None
) -> bool:
    """Whether known_price imports genai-prices, or searches it: a quarter of a second, and some milliseconds."""
    names = _names(model, answered)
    if _is_whole(_set_price(set_prices, names)) or _known_address(provider) is None:
        return False
    return _price_from_provider(provider, names) is None


def _names(model: str, answered: str | None) -> list[str]:
    """Return the names to look for, the better first: a name such as "latest" stands for other models in time."""
    return [answered, model] if answered and answered != model else [model]


def _set_price(set_prices: Mapping[str, ModelPrice], names: list[str]) -> ModelPrice | None:
    # The config prices a model under the name the user gives it.
    return next((set_prices[name] for name in (*reversed(names), ALL_OTHERS) if name in set_prices), None)


def _is_whole(price: ModelPrice | None) -> bool:
    return price is not None and price.price is not None and price.window is not None


def _completed(price: ModelPrice, other: ModelPrice) -> ModelPrice:
    """Return a price of the config; what it leaves out is taken from elsewhere."""
    if price.price is None:
        return ModelPrice(price=other.price, window=price.window or other.window, above=other.above)
    return ModelPrice(price=price.price, window=other.window)


def _price_from_provider(provider: ChatProvider, names: list[str]) -> ModelPrice | None:
    own = getattr(provider, "price_of", None)
    if own is None:
        return None
    for name in names:
        try:
            with contained():
                price = own(name)
        except Exception:
            log.exception("provider %s: its price_of failed", provider.name)
        else:
            if isinstance(price, ModelPrice):
                return price
    return None


def _known_address(provider: ChatProvider) -> str | None:
    """Return the address of the provider's service, if genai-prices may list it."""
    endpoint = getattr(provider, "endpoint", None)
    return endpoint if isinstance(endpoint, str) and endpoint.startswith("https://") else None


def _of_genai_prices(endpoint: str, model: str) -> ModelPrice | None:
    """Look up a price in the data that came with the package genai-prices; nothing is downloaded."""
    try:
        import genai_prices
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return None
    try:
        for provider in get_snapshot().providers:
            if re.match(provider.api_pattern, endpoint) and (entry := provider.find_model(model)) is not None:
                version = getattr(genai_prices, "__version__", "")
                return _read(entry, f"genai-prices {version}".strip())
    except Exception:  # its interface is young and changes
        log.warning("genai-prices cannot be read: is its version right?", exc_info=True)
    return None


def _read(found: Any, source: str) -> ModelPrice | None:
    import datetime

    prices = found.get_prices(datetime.datetime.now(datetime.UTC))
    if getattr(prices, "requests_kcount", None):
        return ModelPrice(price=None, window=found.context_window)  # a price per request does not follow from tokens
    theirs = {"input": "input", "output": "output", "cached_input": "cache_read", "cache_write": "cache_write"}
    rates = {name: getattr(prices, f"{key}_mtok", None) for name, key in theirs.items()}
    limits = sorted({tier.start for rate in rates.values() for tier in getattr(rate, "tiers", ())})
    return ModelPrice(
        price=_price(rates, 0, source),
        window=found.context_window,
        above=tuple((limit, price) for limit in limits if (price := _price(rates, limit, source)) is not None),
    )


def _price(rates: Mapping[str, Any], limit: int, source: str) -> Price | None:
    if rates["input"] is None or rates["output"] is None:
        return None
    return Price(**{name: _rate(rate, limit) for name, rate in rates.items() if rate is not None}, source=source)


def _rate(rate: Any, limit: int) -> Decimal:
    tiers = getattr(rate, "tiers", None)
    if tiers is not None:
        reached = [tier.price for tier in tiers if tier.start <= limit]
        rate = reached[-1] if reached and limit else rate.base
    return round(Decimal(rate), PLACES)
