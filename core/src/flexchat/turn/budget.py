"""The ceilings of what a turn costs: limits.turn_cost and limits.turn_tokens."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

from ..domain import Round
from ..domain.prices import Cost, dollars
from ..errors import TurnLimitError
from .active import ActiveTurn

if TYPE_CHECKING:
    from ..llms.llm import LLM


async def refuse_beyond_limits(turn: ActiveTurn, llm: LLM, model: str) -> None:
    """Refuse a request that a ceiling of the turn does not allow; what is unknown counts as reached.

    Raises:
        TurnLimitError: A ceiling is reached, or it cannot be known whether it is.
    """
    limits = turn.parts.limits
    # The phases before the answer count as well: their models are paid for by the same turn.
    rounds = [*turn.rounds, *(each for phase in turn.log.records for each in phase.rounds)]
    if limits.turn_tokens is not None:
        _check_tokens(rounds, limits.turn_tokens)
    if limits.turn_cost is not None:
        known = await llm.find_price(model, None)
        if known is None or known.price is None:
            raise TurnLimitError(
                f"limits.turn_cost cannot be kept, as no price is known for {llm.name}/{model}: set it in "
                f'[llms.{llm.name}.prices."{model}"]'
            )
        _check_cost(rounds, Decimal(repr(limits.turn_cost)))


def _check_tokens(rounds: list[Round], most: int) -> None:
    used = 0
    for each in rounds:
        if each.usage is None or each.usage.input_tokens is None or each.usage.output_tokens is None:
            raise TurnLimitError(
                f"limits.turn_tokens cannot be kept: {each.llm}/{each.model} does not report how many it used"
            )
        used += each.usage.input_tokens + each.usage.output_tokens
    if used >= most:
        raise TurnLimitError(f"the turn has used {used:,} tokens, and limits.turn_tokens allows {most:,}")


def _check_cost(rounds: list[Round], most: Decimal) -> None:
    spent = Cost.total([each.cost for each in rounds])
    if spent.unpriced:
        raise TurnLimitError(f"limits.turn_cost cannot be kept: {spent.unpriced[0]}")
    if spent.known_amount >= most:
        raise TurnLimitError(
            f"the turn has cost ${dollars(spent.known_amount)}, and limits.turn_cost allows ${dollars(most)}"
        )
