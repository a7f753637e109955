"""What a process that died leaves behind: effects that are unknown, and turns that were interrupted."""

import json
import secrets

from flexchat import AssistantMessage, ChatRequest, JournaledTurn, JournalEntry, Usage
from flexchat.domain import EffectCall
from flexchat.domain.chat import ChatResult
from flexchat.domain.codec import value_to_dict
from flexchat.domain.effects import arguments_digest, effect_key
from flexchat.domain.messages import TextPart, ToolCall

DEAD = "dead"


async def leave_effect(
    ledger, tool="pay", arguments=None, *, place="0.0", turn="t" * 32, conversation=None, tenant="default", why=None
):
    """Claim an effect and die; with why, record that it is unknown. Returns its key."""
    arguments = {"amount": 5} if arguments is None else arguments
    key = effect_key(tenant, conversation, turn, place)
    call = EffectCall(
        key=key,
        tenant=tenant,
        conversation=conversation,
        turn=turn,
        place=place,
        tool=tool,
        digest=arguments_digest(tool, arguments),
        arguments=json.dumps(arguments)[:4000],
    )
    claim = await ledger.claim(call, owner=DEAD, lease_s=0)
    if why is not None:
        await ledger.finish(key, claim.effect.fence, state="unknown", result=None, note=why)
    return key


async def leave_turn(journal, message="Pay for the tea", *, conversation="c", tenant="default", steps=()):
    """Begin a turn, write these steps of it, (kind, data), and die. Returns its id."""
    request = ChatRequest(user_message=message, conversation=conversation, tenant=tenant)
    turn = JournaledTurn(
        id=secrets.token_hex(16),
        tenant=tenant,
        conversation=conversation,
        state="running",
        message=" ".join(message.split())[:80],
        owner=DEAD,
    )
    started = ("started", {"request": value_to_dict(request), "after": None})
    entries = [
        JournalEntry(number=number, kind=kind, data=data, at=f"2026-11-23T04:05:{number:02}.250+00:00")
        for number, (kind, data) in enumerate((started, *steps), 1)
    ]
    await journal.write(turn, entries, lease_s=None)
    return turn.id


def answered(*calls, text="", llm="robot", model="r1"):
    """The step of a model's answer; calls: (name, arguments)."""
    parts = [TextPart(text=text)] if text else []
    parts += [ToolCall(id=f"call_{at}", name=name, arguments=given) for at, (name, given) in enumerate(calls)]
    result = ChatResult(
        message=AssistantMessage(parts=tuple(parts)),
        finish_reason="tool_calls" if calls else "stop",
        usage=Usage(input_tokens=120, output_tokens=18),
    )
    return "answer", {
        "result": value_to_dict(result),
        "llm": llm,
        "model": model,
        "fallback": [],
        "elapsed_ms": 812.4,
        "asked_for_form": False,
        "warnings": [],
    }
