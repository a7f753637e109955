"""Turns, calls and leases that are hard to keep: everything a message may contain, in texts that storage is rarely
tested with."""

from __future__ import annotations

from decimal import Decimal

import attrs
from flexchat import Citation, Price, Round
from flexchat.plugin import PhaseRecord, ToolCall, ToolCallRecord, ToolResult
from flexchat.store import ConversationTurn, EffectCall
from flexchat_sdk import (
    AssistantMessage,
    MediaPart,
    OpaquePart,
    ProviderData,
    ReasoningPart,
    RefusalPart,
    SystemMessage,
    TextPart,
    ToolMessage,
    Usage,
    UserMessage,
)

_HARD_TEXTS = (
    "",
    " \t\r\n ",
    "a\0b",
    "\0",
    "cut \ud83d",
    "\ude00\ud83d turned round",
    "\U0001f600 \U00020bb7 漢字 \u05e9\u05dc\u05d5\u05dd",
    "e\u0301 is not \u00e9, nor is \ufb01 fi",
    "\ufeffmark\u2028line\u0085next\x1b[31m",
    "'; DROP TABLE turns; -- \" \\ \\u0000 %s {0} $1",
    "x" * 200_000,
)
_HARD_DATA = {
    "signature": "c2ln\0\ud83d+/=",
    "numbers": [2**70, -1, 0.1, 5e-324, 1e308, 1, 1.0],
    "nested": {"": [None, True, False, {}, [], {"$type": "\0"}]},
    "type": "a name the format uses itself",
}


def _origin(**data: object) -> ProviderData:
    return ProviderData(scope="kit", origin="https://kit.example", data=data)


def turn(id: str, text: str = "Hello", answered: str = "Hi", *, topic: str = "", at: str = "") -> ConversationTurn:
    """Return a plain turn: a message and its answer."""
    answer = AssistantMessage(parts=(TextPart(text=answered),))
    return ConversationTurn(id=id, messages=(UserMessage(content=text), answer), topic=topic, at=at)


def paid_turn(id: str, rate: str | None, tokens: int) -> ConversationTurn:
    """Return a turn with this many input tokens, at a rate per million; a rate of None is a model without a price."""
    price = None if rate is None else Price(input=Decimal(rate), output=Decimal(0), source="the kit")
    usage = Usage(input_tokens=tokens, output_tokens=0)
    one_round = Round(llm="kit", model="m", elapsed_ms=1.0, usage=usage, price=price)
    return attrs.evolve(turn(id), rounds=(one_round,))


def hard_turns() -> list[ConversationTurn]:
    """Return turns with every kind of message and part, with unreadable arguments, and with hard texts everywhere."""
    unreadable = ToolCall.from_text("look\0up", '{"city": "Os\0lo\ud800', id="call_unreadable", wire_id="w/1")
    read = ToolCall.from_text("look_up", '{"b": 1, "a": [1.0, "\\ud83d"]}', id="call_read", provider_data=_origin(n=1))
    call = ToolCall.from_object("look_up", _HARD_DATA, id="call_given")
    image = MediaPart(kind="image", mime_type="image/png", data=bytes(range(256)), name="a\0.png")
    link = MediaPart(kind="document", mime_type="application/pdf", url="https://kit.example/a?b=%00")
    everything = ConversationTurn(
        id="everything",
        messages=(
            SystemMessage(content="Be brief."),
            UserMessage(content="What is this?", media=(image, link)),
            AssistantMessage(
                parts=(
                    ReasoningPart(text="hm", provider_data=_origin(**_HARD_DATA)),
                    ReasoningPart(redacted=True, provider_data=_origin(encrypted="e30=" * 1000)),
                    OpaquePart(kind="server_search", provider_data=_origin(**_HARD_DATA)),
                    TextPart(text="I look.", citations=({"url": "https://kit.example", "at": [0, 1]},)),
                    MediaPart(kind="audio", mime_type="audio/wav", data=b"", provider_data=_origin(id="a")),
                    unreadable,
                    read,
                    call,
                ),
                provider_data=_origin(response="r_1"),
            ),
            ToolMessage(tool_call_id=unreadable.id, name=unreadable.name, content="not JSON", is_error=True),
            ToolMessage(tool_call_id=read.id, name=read.name, content='{"ok": "\\u0000 \0"}', media=(image, image)),
            ToolMessage(tool_call_id=call.id, name=call.name, content=""),
            AssistantMessage(parts=(RefusalPart(text="No.", provider_data=_origin()), TextPart(text=""))),
            AssistantMessage(),
        ),
        topic="\0topic \ud83d",
        llm="main",
        model="small\0",
        usage=Usage(input_tokens=10, output_tokens=0, raw={"details": _HARD_DATA}),
        citations=(Citation(title="A\0", source=None, collection="c", store="docs", distance=0.1, via="prompt"),),
        at="2026-01-02T03:04:05.678+00:00",
        intent="\0intent",
        rule=3,
        rule_name="the \ud83d rule",
        phases=(
            PhaseRecord(phase="topic detection", outcome=None, elapsed_ms=0.5, skipped="no rule asks for it"),
            PhaseRecord(
                phase="response generation",
                input="a\0b",
                outcome=_HARD_DATA,
                elapsed_ms=12.25,
                warnings=("cut \ud83d", ""),
                usage=Usage(input_tokens=1, raw={"details": _HARD_DATA}),
            ),
        ),
        rounds=(
            Round(llm="main", model="small\0", elapsed_ms=10.5, finish_reason="tool_calls", reasoning="h\0m"),
            Round(llm="main", model="small", elapsed_ms=0, usage=Usage(input_tokens=10, output_tokens=0)),
        ),
        tool_calls=(
            ToolCallRecord(
                tool="look_up",
                params=_HARD_DATA,
                result=ToolResult(success=True, tool_name="look_up", result=_HARD_DATA, notes=("a\0", "b")),
                iteration=1,
                call_id="call_given",
            ),
            ToolCallRecord(
                tool="look_up",
                params={},
                result=ToolResult(success=True, tool_name="look_up", media=(image, image), left_out=("a\0.svg: no",)),
                iteration=1,
                call_id=read.id,
            ),
            ToolCallRecord(
                tool="look_up",
                params={},
                result=ToolResult(success=True, tool_name="look_up", media=(image,)),
                iteration=2,
                call_id="call_without_message",
            ),
            ToolCallRecord(
                tool="look\0up", params={}, result=ToolResult.failed("look\0up", "Interrupted"), iteration=1
            ),
        ),
        max_iterations_reached=True,
        finish_reason="length",
        warnings=("first", "s\ud83econd"),
        elapsed_ms=123.5,
    )
    stopped = ConversationTurn(id="stopped", messages=(UserMessage(content="Hello"),), status="cancelled")
    failed = ConversationTurn(
        id="failed", messages=(UserMessage(content="Hello"),), status="failed", error="too \0 long", replay=False
    )
    no_calls = ConversationTurn(id="no-calls", messages=(), tool_calls=())
    texts = [turn(f"text-{i}", text, text, topic=text[:50]) for i, text in enumerate(_HARD_TEXTS)]
    return [everything, ConversationTurn(id="nothing", messages=()), stopped, failed, no_calls, *texts]


def unwritable_turn() -> ConversationTurn:
    """Return a turn that is not JSON data, which no store can keep."""
    call = ToolCall(name="look_up", arguments={"when": object()}, id="call_unwritable")
    return ConversationTurn(id="unwritable", messages=(AssistantMessage(parts=(call,)),))


LIVES, DEAD = 600.0, 0.0
"""Seconds of a lease that outlasts a test, and of one that has expired."""
TEXTS = ("", 'It\'s 5 % of \\ "x"', "漢字 😀", "a\0b", "half \ud83d of a pair", "x" * 100_000)
"""Texts that a database may reject in part."""


def effect(name: str) -> EffectCall:
    """Return a call with a key of its own for each name."""
    return EffectCall(
        key=name.encode("utf-8", "replace").hex().ljust(64, "0"),
        tenant="t",
        conversation="c",
        turn="turn",
        place="1.0",
        tool="pay",
        digest="d",
    )
