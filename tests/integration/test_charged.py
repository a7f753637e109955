"""The cost of a turn whose service says what it charged."""

from decimal import Decimal

import pytest
from flexchat import FlexChat


@pytest.mark.parametrize("streamed", [False, True])
async def test_the_charge_is_the_turns_cost(chat_server, streamed, tmp_path):
    """It comes before the configured price, and kept turns have it as well."""
    chat_server.replies = [{"content": "Hello.", "usage": {"cost": 0.0123}}]
    config = {
        "llms": {
            "main": {
                "provider": "openai",
                "base_url": chat_server.url,
                "api_key": "test-key",
                "prices": {"m": {"input": 1, "output": 1}},
            }
        },
        "responses": [{"llm": "main", "model": "m"}],
        "conversations": {"path": str(tmp_path / "kept.db")},
    }
    async with FlexChat.from_config(config) as chat:
        if streamed:
            turn = [event async for event in chat.stream("Hi", conversation="c")][-1].turn
        else:
            turn = await chat.respond("Hi", conversation="c")
        cost, usage = turn.cost, turn.response.usage
        (kept,) = await chat.conversations.turns("c")

    assert (cost.amount, cost.unpriced, usage.cost) == (Decimal("0.0123"), (), Decimal("0.0123"))
    assert kept.rounds[0].cost == cost
    assert kept.usage == usage
