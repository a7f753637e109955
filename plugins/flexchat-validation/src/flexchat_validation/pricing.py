"""What attempts cost: at the prices of [validation], else at those every turn is priced with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from flexchat import Cost, FlexChat, ToolDefinition, Usage
from flexchat_cli import BYTES_PER_TOKEN, tokens_of

from .attempts import Attempt
from .cases import Case, CaseTool, Price, ValidationTable
from .fingerprint import allowed_tools
from .reading import split_model_id, turns_of

ANSWER_TOKENS = 100
"""Tokens of an answer, for an estimate without earlier attempts."""

PriceOf = Callable[[Usage], float | None]


def cost_of(usage: Usage | None, price: Price) -> float | None:
    """Compute the cost of tokens in US dollars; None if their number is unknown."""
    if usage is None or usage.input_tokens is None or usage.output_tokens is None:
        return None
    return (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000


def cost_of_turns(costs: Sequence[Cost]) -> float | None:
    """Add up the costs of turns in US dollars; None if any is unknown."""
    total = Cost.total(costs)
    return float(total.amount) if costs and total.amount is not None and total.is_complete else None


async def estimate(
    chat: FlexChat,
    table: ValidationTable,
    model_id: str,
    cases: Sequence[Case],
    runs: int,
    earlier: Sequence[Attempt],
) -> float | None:
    """Estimate what trying cases with a model will cost, in US dollars; None if its price is not known.

    Earlier attempts at the model are the measure. Without any, requests are estimated by their length.
    """
    price = await _price(chat, table, model_id)
    costs = [cost for attempt in earlier if (cost := _cost_of_attempt(attempt, price)) is not None]
    if costs:
        return fmean(costs) * len(cases) * runs
    if price is None:
        return None
    estimates = [price(_estimated_usage(chat, table, case)) for case in cases]
    priced = [cost for cost in estimates if cost is not None]
    return sum(priced) * runs if len(priced) == len(estimates) else None


def _cost_of_attempt(attempt: Attempt, price: PriceOf | None) -> float | None:
    if attempt.cost is not None or price is None or attempt.usage is None:
        return attempt.cost
    return price(attempt.usage)


async def _price(chat: FlexChat, table: ValidationTable, model_id: str) -> PriceOf | None:
    own = table.prices.get(model_id)
    if own is not None:
        return lambda usage: cost_of(usage, own)
    llm, model = chat.llms.resolve(*split_model_id(chat.config.llms, model_id))
    prices = await llm.find_price(model)
    if prices is None or prices.price is None:
        return None

    def amount(usage: Usage) -> float | None:
        price = prices.of(usage)
        dollars = None if price is None else price.amount(usage)
        return None if dollars is None else float(dollars)

    return amount


def _estimated_usage(chat: FlexChat, table: ValidationTable, case: Case) -> Usage:
    tools: list[ToolDefinition | CaseTool] = [*allowed_tools(case, chat.tools.get_registry().list()), *case.own_tools]
    sent = [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
    input_tokens, output_tokens, before = 0, 0, 0.0
    prompt = table.prompt if case.prompt is None else case.prompt
    for turn in turns_of(case):
        before += len(turn.message.encode()) / BYTES_PER_TOKEN
        requests = 1 if turn.no_call else 2  # the one that asks for calls, and the one that answers
        input_tokens += requests * round(tokens_of(sent) + len(prompt.encode()) / BYTES_PER_TOKEN + before)
        output_tokens += requests * ANSWER_TOKENS
    return Usage(input_tokens=input_tokens, output_tokens=output_tokens)
