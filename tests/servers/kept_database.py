"""The laws of a database that an earlier FlexChat has written: today's code reads and resumes all of it.

The dumps were written by the code of 2026-11-26, before the schema's columns ``honours_key`` and ``history``. They hold
conversations of two tenants, tool calls, an image, a request with a key, a failed turn, and three turns whose process
was killed: in a tool, in a tool that honours keys, and while its model was asked.
"""

import base64
import json
import re
from datetime import UTC, datetime, timedelta

from flexchat import EffectUnknownError, FlexChat, MediaPart, ToolContext, WithMedia, tool
from flexchat_testing import ScriptedProvider, says

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
CONFIG = {
    "llms": {"bot": {"provider": "scripted"}},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}
TURNS = {
    ("default", "plain"): [
        ("Hello, naïve 世界 🌍.", 'Hello. "Quotes" and\ttabs.', "done"),
        ("And again?", "Yes, again.", "done"),
    ],
    ("default", "tools"): [
        ("Weather and a drawing, please.", "It is 21.5 °C; here is your drawing.", "done"),
        ("Pay 5.", "Paid.", "done"),
        ("Pay and lose.", "I do not know whether it was paid.", "done"),
        ("Refuse.", "It was refused.", "done"),
        ("Order a lamp.", "Ordered.", "done"),
    ],
    ("default", "keyed"): [("Order once, please.", "One chair ordered.", "done")],
    ("default", "failing"): [("This fails.", "", "failed")],
    ("acme", "plain"): [("Elsewhere.", "Another tenant's answer.", "done")],
}
EFFECTS = [  # the newest first
    ("order", "unknown"),
    ("pay", "unknown"),
    ("pay", "done"),
    ("order", "done"),
    ("order", "done"),
    ("refuse", "failed"),
    ("pay_or_lose", "unknown"),
    ("pay", "done"),
    ("draw", "done"),
]


def dated_now(dump, written="2026-11-27T10:55:59"):
    """Return the dump as if it had been written a minute ago: a day later its callers' keys would have expired."""
    later = datetime.now(UTC).replace(tzinfo=None) - timedelta(minutes=1) - datetime.fromisoformat(written)

    def shift(match):
        return f"{datetime.fromisoformat(match[0]) + later:%Y-%m-%dT%H:%M:%S}"

    return re.sub(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d", shift, dump)


class KeptDatabase:
    """A chat over a restored store.

    Attributes:
        ran: The tools that have run now.
        requests: The messages of each request to the model.
    """

    def __init__(self, store, *replies):
        self.ran, self.requests = [], []
        replies = iter(replies)

        def reply(messages, options):
            self.requests.append(messages)
            return next(replies)

        self.chat = FlexChat.from_config(
            CONFIG, tools=self._tools(), providers={"bot": ScriptedProvider([reply], repeat=True)}
        )
        self.chat.keep_in(store)

    def _tools(self):
        @tool(effect="read")
        async def weather(city: str) -> dict:
            """Look up the weather."""
            self.ran.append("weather")
            return {"city": city, "celsius": 21.5}

        @tool
        async def draw(subject: str) -> WithMedia:
            """Draw something."""
            self.ran.append("draw")
            image = MediaPart(kind="image", mime_type="image/png", data=PIXEL, name="drawing.png")
            return WithMedia({"subject": subject}, [image])

        @tool
        async def pay(amount: int) -> str:
            """Pay; the service takes no key."""
            self.ran.append("pay")
            return f"paid {amount}"

        @tool
        async def pay_or_lose(amount: int) -> str:
            """Pay, and lose the connection."""
            self.ran.append("pay_or_lose")
            raise EffectUnknownError("the connection was lost")

        @tool(honours_key=True)
        async def order(item: str, context: ToolContext) -> dict:
            """Order; the service acts once per key."""
            self.ran.append("order")
            return {"item": item, "ordered": True}

        @tool
        async def refuse(amount: int) -> str:
            """Refuse."""
            self.ran.append("refuse")
            raise ValueError("no such account")

        return weather, draw, pay, pay_or_lose, order, refuse


async def check_that_every_turn_is_read(store):
    for (tenant, conversation), expected in TURNS.items():
        turns = await store.turns(conversation, tenant=tenant)
        info = await store.get(conversation, tenant=tenant)

        assert [(turn.messages[0].content, _answer(turn), turn.status) for turn in turns] == expected
        assert (info.id, info.turns, info.status) == (conversation, len(expected), expected[-1][2])
    drawn, *_ = await store.turns("tools", tenant="default")
    results = [message for message in drawn.messages if message.role == "tool"]
    assert [message.name for message in results] == ["weather", "draw"]
    assert json.loads(results[0].content)["result"] == {"city": "Zürich", "celsius": 21.5}
    assert [(part.name, part.mime_type, part.data) for part in results[1].media] == [
        ("drawing.png", "image/png", PIXEL)
    ]
    assert [record.tool for record in drawn.tool_calls] == ["weather", "draw"]
    found = await store.list(tenant="default", search="naïve 世界")
    assert [info.id for info in found] == ["plain"]


async def check_that_a_conversation_goes_on(store):
    kept = KeptDatabase(store, says("It was 21.5 °C."))

    turn = await kept.chat.respond("How warm was it?", conversation="tools")

    assert turn.response.content == "It was 21.5 °C."
    roles = [message.role for message in kept.requests[0]]
    assert roles.count("user") == 6
    assert roles.count("tool") == 6
    assert not kept.ran


async def check_that_effects_are_listed(store):
    kept = KeptDatabase(store)

    effects = await kept.chat.effects()

    assert [(effect.tool, effect.state) for effect in effects] == EFFECTS
    assert not any(effect.honours_key for effect in effects)
    assert "drawing.png" in effects[-1].result


async def check_that_a_key_replays(store):
    kept = KeptDatabase(store)

    turn = await kept.chat.respond("Order once, please.", conversation="keyed", idempotency_key="request-1")
    result = await kept.chat.call_tool("pay", {"amount": 3}, idempotency_key="by-hand")

    assert (turn.is_repeat, turn.response.content) == (True, "One chair ordered.")
    assert (result.success, result.result) == (True, "paid 3")
    assert not kept.ran
    assert not kept.requests


async def check_that_interrupted_turns_are_resumed(store):
    """What a killed process may have done stays unknown: no row of that time shows that its call had a key."""
    kept = KeptDatabase(store, says("Perhaps paid."), says("Perhaps ordered."), says("No longer."))
    waiting = await kept.chat.turns(states=["interrupted"])
    assert [turn.conversation for turn in waiting] == ["running", "interrupted with key", "interrupted"]

    texts = [(await kept.chat.resume(turn.id)).response.content for turn in reversed(waiting)]

    assert texts == ["Perhaps paid.", "Perhaps ordered.", "No longer."]
    assert not kept.ran
    shown = [[message for message in request if message.role == "tool"] for request in kept.requests]
    assert "unknown whether 'pay' took effect" in shown[0][0].content
    assert "unknown whether 'order' took effect" in shown[1][0].content
    assert not await kept.chat.turns(states=["interrupted", "running"])
    for conversation, text in zip(("interrupted", "interrupted with key", "running"), texts, strict=True):
        assert [_answer(turn) for turn in await store.turns(conversation, tenant="default")] == [text]


def _answer(turn):
    return next((message.content for message in reversed(turn.messages) if message.role == "assistant"), "")


CHECKS = (
    check_that_every_turn_is_read,
    check_that_a_conversation_goes_on,
    check_that_effects_are_listed,
    check_that_a_key_replays,
    check_that_interrupted_turns_are_resumed,
)
