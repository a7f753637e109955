"""A turn of a long conversation takes little more time than one of a short conversation."""

from __future__ import annotations

import asyncio

import attrs
import pytest
from flexchat import AssistantMessage, FlexChat, ToolCall, ToolMessage, UserMessage
from flexchat.domain.conversation import ConversationTurn
from flexchat_history.plan import Limits, Outline, apply, left_out, plan
from flexchat_testing import ScriptedProvider, says

OWN = UserMessage("And now?")
SMALL, LARGE = 50, 1_000


def turn_of(number):
    call = ToolCall(name="look", arguments={"at": number}, id=f"call_{number}")
    result = ToolMessage(tool_call_id=call.id, name="look", content=f"{number} " * 200)
    return UserMessage(f"question {number}"), AssistantMessage((call,)), result, AssistantMessage("Seen.")


@pytest.mark.parametrize("settings", [{}, {"keep_last": 20}, {"has_stubs": False}, {"pins": ("no_such",)}])
def test_what_is_known_of_a_history_is_not_worked_out_again(settings, cpu_growth):
    """One request of a process that has just read it takes longer than the next twenty, each with a turn more."""
    history = [message for number in range(LARGE) for message in turn_of(number)]
    unread = [tuple(map(attrs.evolve, history)) for _ in range(4)]
    limits = Limits(budget=20_000, **settings)

    def request(messages):
        outline = Outline((*messages, OWN), len(messages), limits)
        chosen = plan(outline, limits)
        apply(outline, chosen, limits, can_read_on=True)
        left_out(outline, chosen, limits)

    def work(count):
        if count == 1:
            request(unread.pop())
        for number in range(count if count > 1 else 0):
            request(history)
            history.extend(turn_of(LARGE + number))

    request(history)
    assert cpu_growth(work, 20, 1) > 1


@pytest.mark.slow
def test_a_turn_of_a_long_kept_conversation_takes_as_long(tmp_path, cpu_growth):
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "prompt": "Be brief."}],
        "history": {"max_tokens": 20_000},
        "conversations": {"path": str(tmp_path / "kept.db")},
    }
    model = ScriptedProvider([says("Seen.")], repeat=True)
    with asyncio.Runner() as runner:
        chat = FlexChat.from_config(config, providers={"bot": model})

        async def fill():
            for size in (SMALL, LARGE):
                for number in range(size):
                    record = ConversationTurn(id=f"{size} {number}", messages=turn_of(number))
                    await chat.conversations.store.append(str(size), record, tenant="default")

        async def ask(size):
            for _ in range(20):
                await chat.respond("And now?", conversation=str(size))

        runner.run(fill())
        growth = cpu_growth(lambda size: runner.run(ask(size)), SMALL, LARGE)
        runner.run(chat.aclose())

    assert growth < 1.6  # 1.1 on a quiet machine; 3.6 and more if each turn walked over all messages
