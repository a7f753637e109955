"""Budgets, ``[[budgets]]``: what may be spent, and the most that a request can cost, so that it never is more."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any, Literal

import attrs
from flexchat.host import CIRCUIT_OPEN
from flexchat.plugin import ServiceRequest, key
from flexchat.store import Charge
from flexchat_sdk import (
    NO_CONNECTION,
    ModelPrice,
    ProviderAuthError,
    ProviderError,
    ProviderRateLimitError,
    ProviderRequestError,
    Usage,
)

from .subjects import Scope, Subject

MAX_USD = 1_000_000
UNITS = ("usd", "tokens", "calls")

_TRILLION = 12  # a price has at most six decimal places, for a million tokens
_TOKENS_OF_MESSAGE = 64  # what a service adds to each: its role and its marks
_TOKENS_OF_TOOLS = 1024  # what a service adds if there are any: instructions of its own


def _is_amount(instance: object, attribute: attrs.Attribute[Any], value: float | None) -> None:
    # A number that is not finite is reported in every table.
    if value is not None and math.isfinite(value) and not 0 < value <= MAX_USD:
        raise ValueError(f"{attribute.name} must be US dollars above 0, at most {MAX_USD:,}; got {value!r}")


def _is_count(instance: object, attribute: attrs.Attribute[Any], value: int | None) -> None:
    if value is not None and not 0 < value <= 10**15:
        raise ValueError(f"{attribute.name} must be a whole number above 0; got {value!r:.40}")


@attrs.frozen(kw_only=True)
class Budget:
    """One [[budgets]] table: a ceiling for each tenant, role, tool … of its scope."""

    scope: Scope = key(  # noqa: RUF009  an attrs field, as all others
        "What has a budget of its own: all, tenant, principal, role, rule, tool or conversation."
    )
    per: Literal["turn", "hour", "day", "month"] = key(
        "For how long it is: a turn, or an hour, a day or a month of the calendar (UTC)."
    )
    usd: float | None = key("US dollars.", default=None, validator=_is_amount)
    tokens: int | None = key("Tokens that models read and write.", default=None, validator=_is_count)
    calls: int | None = key("Calls of tools.", default=None, validator=_is_count)
    only: tuple[str, ...] | None = key(
        "Names of the scope that it is for, with * for any characters. Default: all.", default=None
    )

    def __attrs_post_init__(self) -> None:
        if all(getattr(self, unit) is None for unit in UNITS):
            raise ValueError("a budget needs a ceiling: usd, tokens or calls")
        if self.only is not None and not self.only:
            raise ValueError("only is empty, so that it is for nothing; leave it out for all")

    def ceiling(self, unit: str) -> int | None:
        """Return the ceiling in a unit, US dollars in trillionths; None if it has none."""
        value = getattr(self, unit)
        return trillionths_of(value) if unit == "usd" and value is not None else value

    def charges(self, subject: Subject, amounts: Mapping[str, int], *, has_spare: bool = False) -> Iterator[Charge]:
        """Yield what a subject's amounts, by unit, take from the budget's counters.

        Args:
            has_spare: Whether the same must be possible once more.
        """
        for names in subject.in_scope(self.scope, self.only):
            of_turn = (subject.turn,) if self.per == "turn" else ()
            for unit, amount in amounts.items():
                ceiling = self.ceiling(unit)
                if ceiling is not None:
                    yield Charge(
                        key=json.dumps(["budget", unit, self.per, self.scope, *names, *of_turn]),
                        amount=amount,
                        ceiling=ceiling,
                        spare=amount if has_spare else 0,
                        period=self.per,
                    )

    def explained(self, charge: Charge, left: int) -> str:
        """Return the sentence that refuses a charge."""
        _, unit, per, scope, *names = json.loads(charge.key)
        shown = names[:-1] if per == "turn" else names
        what = f"the budget of {scope} '{shown[-1]}' per {per}" if shown else f"the budget per {per}"
        amounts = (
            _format_amount(unit, left),
            _format_amount(unit, charge.ceiling),
            _format_amount(unit, charge.amount),
        )
        return f"{what} has {amounts[0]} of {amounts[1]} left, and this may take {amounts[2]}"


def _format_amount(unit: str, amount: int) -> str:
    return (
        f"${Decimal(amount).scaleb(-_TRILLION):,.6f}".rstrip("0").rstrip(".") if unit == "usd" else f"{amount:,} {unit}"
    )


def trillionths(usd: Decimal) -> int:
    """Return an amount in trillionths of a US dollar, rounded up."""
    return int(usd.scaleb(_TRILLION).to_integral_value(ROUND_CEILING))


def trillionths_of(usd: float) -> int:
    """Return a configured amount in trillionths of a US dollar."""
    return trillionths(Decimal(repr(usd)))


def unit_of(charge: Charge) -> str:
    """Return the unit of a budget's counter."""
    return str(json.loads(charge.key)[1])


@attrs.frozen
class Estimate:
    """The most that a request can take.

    Attributes:
        tokens: To be read and written; None if nothing limits them.
        usd: In trillionths of a US dollar; None if that is unknown, for the reason in ``why``.
    """

    tokens: int | None
    usd: int | None
    why: str = ""


async def estimate(request: ServiceRequest) -> Estimate:
    """Return the most that a request can take: every byte a token, at the highest of the model's prices."""
    llm, model, options = request.llm, request.model, request.options
    found = await llm.find_price(model)
    window = None if found is None else found.window
    read = sum(_bytes(message) + _TOKENS_OF_MESSAGE for message in request.messages) + sum(map(_bytes, request.texts))
    read += _TOKENS_OF_MESSAGE * len(request.texts)
    if options is not None and options.tools:
        read += _bytes(options.tools) + _TOKENS_OF_TOOLS
    if options is not None and options.response_format is not None:
        read += _bytes(options.response_format)
    read = read if window is None else min(read, window)
    write = 0 if options is None else options.max_tokens
    unknown = unknown_bounds(llm.name, model, found, write)
    if "tokens" in unknown:
        return Estimate(None, None, unknown["tokens"])
    write = window or 0 if write is None else write
    if found is None or found.price is None:
        return Estimate(read + write, None, unknown["usd"])
    prices = [found.price, *(price for above, price in found.above if read > above)]
    of_read = max(max(_rates(each.input, each.cached_input, each.cache_write)) for each in prices)
    of_write = max(max(_rates(each.output, each.reasoning)) for each in prices)
    return Estimate(read + write, trillionths((read * of_read + write * of_write).scaleb(-6)))


def unknown_bounds(llm: str, model: str, found: ModelPrice | None, max_tokens: int | None) -> dict[str, str]:
    """Return what keeps the most that a request can take from being known, by unit, each with the key that mends it."""
    where, texts = f"{llm}/{model or 'its model'}", {}
    if max_tokens is None and (found is None or found.window is None):
        texts["tokens"] = f"nothing limits the answers of {where}: set max_tokens in its rule"
    if found is None or found.price is None:
        texts["usd"] = f'no price is known for {where}: set it in [llms.{llm}.prices."{model or "*"}"]'
    return texts


def _rates(*rates: Decimal | None) -> list[Decimal]:
    return [rate for rate in rates if rate is not None]


async def real_amounts(request: ServiceRequest, answer: Any) -> dict[str, int]:
    """Return the real amounts of an answer, by unit, as far as its usage shows them."""
    usage: Usage | None = answer.usage
    amounts: dict[str, int] = {}
    if usage is None or usage.input_tokens is None or (usage.output_tokens is None and not request.texts):
        return amounts
    usage = attrs.evolve(usage, output_tokens=usage.output_tokens or 0)
    amounts["tokens"] = (usage.input_tokens or 0) + (usage.output_tokens or 0)
    cost = usage.cost
    if cost is None:
        found = await request.llm.find_price(request.model, answer.model)
        price = None if found is None else found.of(usage)
        cost = None if price is None else price.amount(usage)
    if cost is not None:
        amounts |= {"usd": trillionths(cost), "unpriced": 0}
    return amounts


def is_free(error: BaseException) -> bool:
    """Return whether a failed attempt certainly cost nothing: the service refused it, or it was never sent."""
    if not isinstance(error, ProviderError):
        return False
    if error.code in (CIRCUIT_OPEN, NO_CONNECTION) or (error.status or 0) >= 400:
        return True
    return isinstance(error, ProviderAuthError | ProviderRequestError | ProviderRateLimitError)


def _bytes(value: Any) -> int:
    """Return at least as many bytes as a value has in a request: a token is never less than one."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
    if isinstance(value, bytes):
        return len(value) * 4 // 3 + 4
    if isinstance(value, Mapping):
        return len(json.dumps(value, default=str))
    if isinstance(value, Sequence):
        return sum(map(_bytes, value))
    if attrs.has(type(value)):
        return sum(_bytes(getattr(value, field.name)) for field in attrs.fields(type(value)))
    return 0 if value is None else len(str(value))


def find_twins(budgets: Sequence[Budget]) -> Iterable[tuple[int, str]]:
    """Yield the index of each budget, and the unit, that an earlier one of its scope and period has."""
    seen: set[tuple[str, str, str]] = set()
    for index, budget in enumerate(budgets):
        for unit in UNITS:
            kind = (budget.scope, budget.per, unit)
            if budget.only is None and getattr(budget, unit) is not None:
                if kind in seen:
                    yield index, unit
                seen.add(kind)
