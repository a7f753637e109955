"""A chat with a desk: tools under policies, a model that calls them, and a file that several chats can share."""

from __future__ import annotations

import pytest
from flexchat import FlexChat, tool
from flexchat_testing import ScriptedProvider, says


class Desk:
    """Tools, with a list of what they have done."""

    def __init__(self):
        self.done = []

        @tool
        def pay(amount: float = 1.0, to: str = "ann") -> str:
            """Pay an amount.

            Args:
                amount: How much.
                to: To whom.
            """
            self.done.append(("pay", amount, to))
            return f"paid {amount:g} to {to}"

        @tool(effect="read")
        def look(at: str = "sky") -> str:
            """Look at something."""
            self.done.append(("look", at))
            return "blue"

        self.tools = [pay, look]


@pytest.fixture
def desk():
    return Desk()


@pytest.fixture
def open_chat(desk, tmp_path):
    """Return a function that makes a chat of the desk: with policies, and answers of its model."""

    def make(*replies, approvals=(), kept=True, tools=None, rules=(), hooks=(), plugins=None, **config):
        provider = ScriptedProvider([*replies, says("Done.")], repeat=True)
        tables = {
            "llms": {"bot": {"provider": "scripted"}},
            "responses": [*rules, {"llm": "bot", "model": "m", "name": "all", "tools": {"enabled": True}}],
            **({} if approvals is None else {"approvals": [*approvals]}),
            **config,
        }
        if kept:
            tables |= {"conversations": {"path": str(tmp_path / "kept.db")}, "questions": {"expires": "7d"}} | config
        return FlexChat.from_config(
            tables,
            tools=desk.tools if tools is None else tools,
            providers={"bot": provider},
            hooks=hooks,
            plugins=plugins,
        )

    return make
