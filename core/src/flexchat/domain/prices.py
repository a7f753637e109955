"""Tokens of exchanges with models, their prices, and sums of them: in decimal numbers, never in floats."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypedDict

import attrs

CURRENCY = "USD"
PLACES = 6  # decimal places of a price: costs are whole millionths of a millionth, and sums stay exact

_MILLION = Decimal(1_000_000)
_MAX_TOKENS = 1_000_000_000  # of one answer; no model reads a hundredth of it
_MAX_ADDED = 10**18  # trillionths: a million dollars, a hundredth of what 64 bits hold


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens of one exchange, or of several added up; None where the provider reports no count.

    Attributes:
        input_tokens: Tokens the model read, cached or not.
        output_tokens: Tokens it wrote, reasoning included.
        reasoning_tokens: Part of output_tokens.
        cache_read_tokens, cache_write_tokens: Part of input_tokens.
        cost: The service's own charge in US dollars; None if it reports none.
        raw: The provider's own table; empty in a sum.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None
    cost: Decimal | None = None
    raw: Mapping[str, Any] = attrs.field(factory=dict)

    def __add__(self, other: Usage) -> Usage:
        return Usage(**{name: _sum(getattr(self, name), getattr(other, name)) for name in (*_COUNTS, "cost")})

    def to_dict(self) -> dict[str, int]:
        """Return the known counts."""
        return {name: count for name in _COUNTS if (count := getattr(self, name)) is not None}


_COUNTS = ("input_tokens", "output_tokens", "reasoning_tokens", "cache_read_tokens", "cache_write_tokens")


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _exact(instance: object, attribute: attrs.Attribute[Any], value: Decimal | None) -> None:
    if value is None:
        return
    if not isinstance(value, Decimal) or not value.is_finite() or value < 0:
        raise ValueError(f"{attribute.name} must be a decimal number of at least 0, got {value!r}")
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -PLACES and value != round(value, PLACES):
        raise ValueError(f"{attribute.name} may have {PLACES} decimal places, got {value}")


@attrs.frozen(kw_only=True)
class Price:
    """A model's price at a service, in US dollars per million tokens.

    Attributes:
        input: For tokens it reads, except cached ones.
        output: For tokens it writes.
        cached_input: For tokens it reads from the service's cache; None for the price of input.
        cache_write: For tokens it reads that the service caches; None for the price of input.
        reasoning: For tokens it writes as thoughts; None for the price of output.
        source: Where the price comes from: "config", or a table and its date.
    """

    input: Decimal = attrs.field(validator=_exact)
    output: Decimal = attrs.field(validator=_exact)
    cached_input: Decimal | None = attrs.field(default=None, validator=_exact)
    cache_write: Decimal | None = attrs.field(default=None, validator=_exact)
    reasoning: Decimal | None = attrs.field(default=None, validator=_exact)
    source: str = ""

    def amount(self, usage: Usage | None) -> Decimal | None:
        """Return the price of these tokens in US dollars; None if the counts are missing or cannot be true."""
        if usage is None or usage.input_tokens is None or usage.output_tokens is None:
            return None
        cached, cache_writes = usage.cache_read_tokens or 0, usage.cache_write_tokens or 0
        reasoning = usage.reasoning_tokens or 0
        read, output = usage.input_tokens - cached - cache_writes, usage.output_tokens - reasoning
        counts = (read, output, cached, cache_writes, reasoning)
        if min(counts) < 0 or max(counts) > _MAX_TOKENS:
            return None
        return (
            read * self.input
            + cached * (self.input if self.cached_input is None else self.cached_input)
            + cache_writes * (self.input if self.cache_write is None else self.cache_write)
            + output * self.output
            + reasoning * (self.output if self.reasoning is None else self.reasoning)
        ) / _MILLION

    def to_dict(self) -> dict[str, str]:
        """Return it as JSON data: decimal numbers as text."""
        values = attrs.asdict(self)
        return {name: plain(v) if isinstance(v, Decimal) else v for name, v in values.items() if v is not None}


class PriceSettings(TypedDict, total=False):
    """A model's price as a config sets it ([llms.NAME.prices.MODEL]), in US dollars per million tokens.

    input, output: For tokens it reads and writes; both, or neither for the window alone.
    cached_input, cache_write: For tokens read from the service's cache, and put into it; default: as input.
    reasoning: For tokens it thinks; default: as output.
    window: Tokens it can read.
    """

    input: float
    output: float
    cached_input: float
    cache_write: float
    reasoning: float
    window: int


@attrs.frozen(kw_only=True)
class ModelPrice:
    """A model's price and size, as far as they are known.

    Attributes:
        price: None if only its size is known.
        window: Tokens it can read; None if unknown.
        above: Other prices for requests above a number of input tokens, in ascending order.
    """

    price: Price | None
    window: int | None = None
    above: tuple[tuple[int, Price], ...] = ()

    def of(self, usage: Usage | None) -> Price | None:
        """Return the price of a request: a long one may cost more, from its first token on."""
        read = 0 if usage is None else usage.input_tokens or 0
        longer = [price for limit, price in self.above if read > limit]
        return longer[-1] if longer else self.price


def _without_zeros(amount: Decimal | None) -> Decimal | None:
    # Not normalize(), which rounds to the context's 28 digits.
    return None if amount is None else Decimal(plain(amount))


@attrs.frozen(kw_only=True)
class Cost:
    """A cost in US dollars, and its gaps.

    Attributes:
        amount: The known part of the cost, without trailing zeros; None if none is known.
        unpriced: Why something is missing from the amount, one sentence each; empty if it is the whole cost.
    """

    amount: Decimal | None = attrs.field(default=None, converter=_without_zeros)
    unpriced: tuple[str, ...] = ()
    currency: str = CURRENCY

    @classmethod
    def total(cls, costs: Iterable[Cost]) -> Cost:
        """Return the sum: exact, in any order. Of nothing it is 0."""
        parts = list(costs)
        # The usual cases of a turn: one answer, or several without a known price.
        if parts and parts.count(parts[0]) == len(parts) and (len(parts) == 1 or parts[0].amount is None):
            return parts[0]
        amounts = [part.amount for part in parts if part.amount is not None]
        why = tuple(dict.fromkeys([reason for part in parts for reason in part.unpriced]))
        return cls(amount=sum(amounts, Decimal(0)) if amounts or not parts else None, unpriced=why)

    def __add__(self, other: Cost) -> Cost:
        return Cost.total((self, other))

    @classmethod
    def of_turns(cls, trillionths: int | None, unpriced: int) -> Cost:
        """Return the cost of several turns, as a store adds up their summands: trillionths, and turns with a gap."""
        amount = None if trillionths is None else Decimal(trillionths).scaleb(-2 * PLACES)
        why = "1 turn is not fully priced" if unpriced == 1 else f"{unpriced:,} turns are not fully priced"
        return cls(amount=amount, unpriced=(why,) if unpriced else ())

    @property
    def summand(self) -> tuple[int | None, int]:
        """Summands for a store: the amount in trillionths of a dollar, None if nothing is known, and 1 for a gap.

        The trillionths are a whole number of at most 10**18: an amount beyond a million dollars is no cost of a turn,
        and counts as a gap.
        """
        trillionths = None if self.amount is None else int(self.amount.scaleb(2 * PLACES))
        if trillionths is not None and trillionths > _MAX_ADDED:
            trillionths = None
        return trillionths, int(trillionths is None or bool(self.unpriced))

    @property
    def known_amount(self) -> Decimal:
        """The known part of the cost, 0 if none is: to add up and compare. See ``unpriced``."""
        return Decimal(0) if self.amount is None else self.amount

    @property
    def is_complete(self) -> bool:
        """Whether the amount is the whole cost."""
        return self.amount is not None and not self.unpriced

    def explained(self) -> str:
        """Return it for people, with the first reason if something is missing."""
        return f"{self} ({self.unpriced[0]})" if self.unpriced else str(self)

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON data; the amount is a decimal number as text, or null."""
        amount = None if self.amount is None else plain(self.amount)
        return {"amount": amount, "currency": self.currency, "unpriced": list(self.unpriced)}

    def __str__(self) -> str:
        """Return it for people: "$0.0042", "at least $0.0042", "unpriced"."""
        if self.amount is None:
            return "unpriced"
        return f"{'at least ' if self.unpriced else ''}${dollars(self.amount)}"


@functools.lru_cache(maxsize=256)
def unknown_cost(reason: str) -> Cost:
    """Return a cost of which nothing is known, with the reason as a sentence."""
    return Cost(unpriced=(reason,))


def dollars(amount: Decimal) -> str:
    """Return an amount for people: to the cent, or with two digits if it is less than a dime."""
    if amount == 0:
        return "0"
    if amount >= Decimal("0.1"):
        return f"{amount:,.2f}"
    return plain(round(amount, 1 - amount.adjusted()))


def plain(number: Decimal) -> str:
    """Return a decimal number without exponent and trailing zeros."""
    text = f"{number:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
