"""The limit on the cost of a batch: no turn begins once the total has reached it."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any

import click
from flexchat.app import FlexChat
from flexchat.domain import Turn
from flexchat.domain.prices import dollars
from flexchat.errors import FlexChatError
from flexchat.turn.needs import needs_of, topic_model

from .usage import UsageError

_MAX_DOLLARS = Decimal(1_000_000_000)


class Dollars(click.ParamType):  # type: ignore[type-arg]  # generic in later versions only
    """An amount of US dollars above 0."""

    name = "dollars"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        """Return the amount.

        Raises:
            click.BadParameter: It is none.
        """
        try:
            amount = Decimal(value)
        except InvalidOperation:
            amount = Decimal("NaN")
        if not (amount.is_finite() and 0 < amount <= _MAX_DOLLARS):
            self.fail(f"'{value}' is not an amount of US dollars above 0, such as 0.50", param, ctx)
        return amount


class LimitReachedError(FlexChatError):
    """A prompt was not sent: the batch has reached its limit."""


class CostLimit:
    """The running total of the cost of turns, and the limit at which no further turn may begin.

    Args:
        most: The limit in US dollars.
    """

    def __init__(self, most: Decimal) -> None:
        self._most = most
        self._spent = Decimal(0)
        self._unknown = ""

    def count(self, turn: Turn | None) -> None:
        """Add what a turn cost. One that failed may have cost more than is known, which ends nothing."""
        if turn is None:
            return
        cost = turn.cost
        self._spent += cost.amount or 0
        if turn.status == "done" and cost.unpriced:
            self._unknown = cost.unpriced[0]

    @property
    def why(self) -> str:
        """The reason against a further turn; empty if one may begin."""
        if self._unknown:
            return f"stopped, as it is not known what an answer cost: {self._unknown}"
        if self._spent >= self._most:
            return f"stopped at --max-cost {self._most}, with ${dollars(self._spent)} spent"
        return ""

    @property
    def advice(self) -> str:
        """How to continue with the same command, after a space; empty if nothing has to change."""
        return " without --max-cost" if self._unknown else " with a higher --max-cost" if self.why else ""

    def refuse_more(self) -> None:
        """Refuse a turn that has not begun.

        Raises:
            LimitReachedError: No further one may begin.
        """
        if self.why:
            raise LimitReachedError(self.why)


def refuse_unpriced(chat: FlexChat, *, is_configured: bool) -> None:
    """Refuse a limit that cannot be kept.

    Args:
        is_configured: Whether a configuration names the model; otherwise the command line does.

    Raises:
        UsageError: A model that may be asked has no price.
    """
    unpriced = []
    for llm, model in _possible_models(chat):
        service, name = chat.llms.resolve(llm, model)
        prices = service.price_of(name)
        if prices is None or prices.price is None:
            unpriced.append((llm, name))
    if not unpriced:
        return
    names = ", ".join(f"{llm}/{model}" for llm, model in dict.fromkeys(unpriced))
    llm, model = unpriced[0]
    where = f'in the config: [llms.{llm}] prices."{model or "*"}" = {{ input = …, output = … }}'
    if not is_configured:
        where = f"""here: -o prices='{{"{model or "*"}": {{"input": …, "output": …}}}}'"""
    raise UsageError(
        f"--max-cost cannot be kept: no price is known for {names}. Set it {where}, in US dollars per million tokens; "
        "both are 0 if it costs nothing"
    )


def _possible_models(chat: FlexChat) -> Iterator[tuple[str, str | None]]:
    config = chat.config
    for rule in config.responses:
        yield rule.llm, rule.model
        yield from ((name, None) for name in rule.fallback)
    needs = needs_of(config, chat.stores)
    choices = [topic_model(config)] if needs.topic or needs.documents or needs.categories else []
    choices += [config.intent.choice] if needs.categories else []
    for choice in choices:
        if choice is not None and getattr(chat.llms[choice.llm].provider, "follows_instructions", True):
            yield choice.llm, choice.model
