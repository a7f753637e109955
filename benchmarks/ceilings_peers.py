"""The budget of ceilings.py with SpendLimits of pydantic-ai-harness: how much is spent beyond the ceiling.

    python -m venv peers && peers/bin/pip install pydantic-ai-harness
    peers/bin/python benchmarks/ceilings_peers.py --requests 2000 --at-once 32

One process, since its store for several is Redis; its store in memory is shared by all runs. Usage, prices and tiers
are those of ceilings.py, and what was charged is what the model counted itself.
"""

import argparse
import asyncio
import random
from decimal import Decimal

from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.usage import RequestUsage
from pydantic_ai_harness.spend import Budget, SpendLimitExceeded, SpendLimits


def price(usage):
    dear = 2 if usage.input_tokens > 150 else 1
    return Decimal(dear * (usage.input_tokens + 4 * usage.output_tokens)) / 1_000_000


async def spend(options, usd):
    charged = []

    async def answer(messages, info):
        await asyncio.sleep(options.seconds)
        usage = RequestUsage(input_tokens=random.randint(5, 200), output_tokens=random.randint(1, 50))
        charged.append(price(usage))
        return ModelResponse(parts=[TextPart("Yes.")], usage=usage)

    limits = SpendLimits(budgets=[Budget(usd=usd, window="day")], price=lambda response: price(response.usage))
    agent = Agent(FunctionModel(answer), capabilities=[limits])
    left, refused = options.requests, 0

    async def worker():
        nonlocal left, refused
        while left > 0:
            left -= 1
            try:
                await agent.run("Hello")
            except SpendLimitExceeded:
                refused += 1
                return

    await asyncio.gather(*[worker() for _ in range(options.at_once)])
    return sum(charged), len(charged), refused


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.02, help="that an answer takes")
    parser.add_argument("--usd", type=Decimal, default=Decimal("0.05"))
    options = parser.parse_args()
    total, answers, refused = asyncio.run(spend(options, options.usd))
    print(
        f"{answers:,} answers, {refused} refused; budget ${options.usd}, charged ${total} ({total / options.usd:.2%})"
    )


if __name__ == "__main__":
    main()
