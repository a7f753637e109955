"""Turns without a configuration: engines around a few providers, for tests of single phases."""

from __future__ import annotations

import contextvars
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from flexchat import ChatRequest, ChatResponse, Message, Profile
from flexchat.calls.manager import ToolManager
from flexchat.config.model import Config, LimitsTable, ResponseRule
from flexchat.events.sink import Feed
from flexchat.llms.llm import Llms
from flexchat.turn.active import ActiveTurn
from flexchat.turn.answer import answer
from flexchat.turn.detection import PhaseNotes, Prompter
from flexchat.turn.engine import TurnEngine
from flexchat.turn.run import read_turn


def engine(
    providers: Mapping[str, Any], tools: ToolManager | None = None, limits: LimitsTable | None = None
) -> TurnEngine:
    """Return an engine around providers, by their names."""
    return TurnEngine(Config(limits=limits or LimitsTable()), Llms.from_providers(providers), tools or ToolManager())


def asker(provider: Any, notes: PhaseNotes, timeout_s: float = 5) -> Prompter:
    """Return who asks a provider, called "bot", in one phase of a turn."""
    made = engine({"bot": provider}, limits=LimitsTable(phase_timeout_ms=round(timeout_s * 1000)))
    return Prompter(made.create_turn(ChatRequest(user_message="x")), notes)


class Answering:
    """Phase 6 alone, for one rule."""

    def __init__(
        self, provider: Any, rule: ResponseRule, tools: ToolManager | None = None, limits: LimitsTable | None = None
    ) -> None:
        self._engine, self._rule = engine({"bot": provider}, tools, limits), rule

    async def respond(self, profile: Profile, message: str, history: tuple[Message, ...] = ()) -> ChatResponse:
        """Answer a message."""
        turn = self._turn(profile, message, history, None)
        async with turn.clock:
            return await answer(turn)

    async def events(self, profile: Profile, message: str) -> list[Any]:
        """Answer a message; return all that a reader sees, and the response behind it."""
        feed, responses = Feed(), []

        async def work(turn: ActiveTurn) -> None:
            async with turn.clock:
                responses.append(await answer(turn))

        turn = self._turn(profile, message, (), feed)
        events: AsyncGenerator[Any, None] = read_turn(turn, feed, contextvars.copy_context(), work)
        return [event async for event in events] + responses

    def _turn(self, profile: Profile, message: str, history: tuple[Message, ...], feed: Feed | None) -> ActiveTurn:
        turn = self._engine.create_turn(ChatRequest(user_message=message, history=history), feed)
        turn.profile, turn.rule = profile, (0, self._rule)
        turn.tools = self._engine.parts.tools.offer_to(self._rule)
        return turn
