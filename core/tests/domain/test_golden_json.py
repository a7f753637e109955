"""Turns and records written by earlier versions: they open, and their form stays.

The golden file holds them as stores and journals have them. A change of the form is a change for every kept
conversation: add a sample beside the old ones instead of writing the file again.
"""

import json
from decimal import Decimal
from pathlib import Path

import pytest
from flexchat.domain import (
    AssistantMessage,
    ChatRequest,
    ChatResponse,
    ChatResult,
    Citation,
    CollectionChoice,
    CollectionHits,
    ConversationTurn,
    Document,
    MediaPart,
    OpaquePart,
    PhaseRecord,
    Profile,
    ProviderData,
    RagResults,
    Reasoning,
    ReasoningPart,
    RefusalPart,
    ResponseFormat,
    Round,
    SystemMessage,
    TextPart,
    ToolCall,
    ToolCallRecord,
    ToolMessage,
    ToolResult,
    Turn,
    Usage,
    UserMessage,
    codec,
    conversation,
)
from flexchat.domain.prices import Price
from flexchat.domain.questions import Question, Reply

GOLDEN = json.loads((Path(__file__).parent / "golden" / "kept.json").read_text())
OPAQUE = ProviderData(
    scope="gemini", origin="https://a.example", data={"signature": "\ud800é\0", "deep": [{"a": None}]}
)
IMAGE = MediaPart(kind="image", mime_type="image/png", data=b"\x89PNG\0\xff", name="a.png")
PAGE = MediaPart(kind="document", mime_type="application/pdf", url="https://a.example/x.pdf", provider_data=OPAQUE)
CALL = ToolCall(
    name="add",
    arguments={"a": 1, "b": [2.5, None, True]},
    raw_arguments='{"a": 1}',
    wire_id="w1",
    notes=("twice",),
    id="c1",
)
BROKEN = ToolCall(name="add", arguments=None, raw_arguments="{", error="not valid JSON", provider_data=OPAQUE, id="c2")
USAGE = Usage(input_tokens=2**40, output_tokens=0, cache_read_tokens=7, cost=Decimal("0.00012"), raw={"prompt": 1})
PRICE = Price(input=Decimal("2.50"), output=Decimal("10"), cached_input=Decimal("0.125"), source="config")
ROUND = Round(llm="bot", model="m", elapsed_ms=12, finish_reason="stop", reasoning="hm", usage=USAGE, price=PRICE)
PHASE = PhaseRecord(
    phase="topic detection",
    outcome={"topic": "sums"},
    elapsed_ms=1.5,
    input="1+1?",
    warnings=("slow",),
    usage=USAGE,
    rounds=(ROUND,),
)
SKIPPED = PhaseRecord(phase="rag collection", outcome=None, elapsed_ms=0, skipped="no store")
DONE = ToolCallRecord(
    tool="add",
    params={"a": 1},
    result=ToolResult(
        success=True, tool_name="add", execution_time_ms=3, result={"sum": 3}, notes=("a: read",), media=(IMAGE,)
    ),
    iteration=1,
    call_id="c1",
    facts={"seen": True},
)
FAILED = ToolCallRecord(
    tool="add",
    params={},
    result=ToolResult(success=False, tool_name="add", error="no", hint="yes", left_out=("b.png: too large",)),
    iteration=2,
    call_id="c2",
    raw_arguments="{",
)
DOCUMENT = Document(text="t", title="T", source="s", collection="c", metadata={"k": [1]}, id="d")
CITATION = Citation(store="docs", title="T", source=None, collection="c", distance=0.25)
MESSAGES = (
    SystemMessage("be brief"),
    UserMessage("hi \ud800", media=(IMAGE, PAGE)),
    AssistantMessage(
        (
            ReasoningPart(text="hm", redacted=True, provider_data=OPAQUE),
            TextPart("a", citations=({"url": "u"},), provider_data=OPAQUE),
            RefusalPart("no", provider_data=OPAQUE),
            IMAGE,
            OpaquePart(kind="block", provider_data=OPAQUE),
            CALL,
            BROKEN,
        ),
        provider_data=OPAQUE,
    ),
    ToolMessage(tool_call_id="c1", name="add", content="3", media=(IMAGE,)),
    ToolMessage(tool_call_id="c2", name="add", content="no", is_error=True),
    AssistantMessage("three"),
    AssistantMessage(()),
)
TURN = ConversationTurn(
    id="t1",
    messages=MESSAGES,
    topic="sums",
    llm="bot",
    model="m",
    usage=USAGE,
    citations=(CITATION, Citation(title="U", source="s", collection=None, named=True, via="search")),
    at="2026-01-02T03:04:05+00:00",
    status="failed",
    error="why",
    replay=False,
    intent="add",
    rule=0,
    rule_name="first",
    phases=(PHASE, SKIPPED),
    rounds=(ROUND, Round(llm="bot", model="m", elapsed_ms=1.25)),
    tool_calls=(DONE, FAILED),
    max_iterations_reached=True,
    finish_reason="length",
    warnings=("careful",),
    elapsed_ms=20.5,
    parsed={"sum": [3]},
    shown="three!",
)
PLAIN = ConversationTurn(id="t2", messages=(UserMessage("hi"), AssistantMessage("hello")), tool_calls=())
REQUEST = ChatRequest(
    "hi",
    history=MESSAGES,
    topic="sums",
    collections=(CollectionChoice(store="docs", collection="c"), CollectionChoice(store="docs")),
    continuation=MESSAGES[2:5],
    variables={"language": "de", "n": 1},
    conversation="c",
    tenant="t",
    idempotency_key="k",
    max_tokens=9,
    temperature=0,
    top_p=0.5,
    stop=("a", "b"),
    seed=3,
    reasoning=Reasoning(effort="low", budget_tokens=5, summary=False),
    extra_body={"x": {"y": 1}},
    tool_choice="required",
    parallel_tool_calls=False,
    max_iterations=2,
    approve=True,
    response_format=ResponseFormat(name="sum", schema={"type": "object"}, strict=True),
)
VALUES = {
    "answer": ChatResult(
        message=MESSAGES[2],
        finish_reason="tool_calls",
        raw_finish="x",
        usage=USAGE,
        model="m-1",
        response_id="r",
        warnings=("w",),
    ),
    "record": DONE,
    "failed record": FAILED,
    "phase": PHASE,
    "skipped phase": SKIPPED,
    "search": RagResults(
        result="match",
        hits=(
            CollectionHits(
                result="match",
                store="docs",
                collection=None,
                documents=(DOCUMENT, Document(text="")),
                distances=(0.5, 1),
                description="d",
            ),
        ),
    ),
    "no search": RagResults(),
    "question": Question(message="sure?", schema={"type": "object"}, url="u", tool="add", call_id="c1", id="q"),
    "reply": Reply(action="accept", content={"yes": True}),
    "no reply": Reply(action="cancel", why="nobody"),
    "request": REQUEST,
    "short request": ChatRequest("hi"),
}
WHOLE = Turn(
    id="t1",
    profile=Profile(topic="sums", user_message="hi", rag_results="match", intent="add", documents=(DOCUMENT,)),
    rule=0,
    rule_name="first",
    response=ChatResponse(
        content="three",
        llm="bot",
        model="m",
        tool_calls=(DONE, FAILED),
        max_iterations_reached=True,
        finish_reason="length",
        messages=MESSAGES,
        usage=Usage(input_tokens=1),
        rounds=(Round(llm="bot", model="m", elapsed_ms=1.25, usage=Usage(output_tokens=2), price=PRICE),),
        warnings=("careful",),
        parsed={"sum": [3]},
        data={"sum": [3]},
    ),
    phases=(SKIPPED,),
    elapsed_ms=20.5,
    citations=(CITATION,),
    conversation="c",
    status="failed",
    error="why",
    replay=False,
    is_repeat=True,
)


@pytest.mark.parametrize(("name", "turn"), [("turn", TURN), ("plain turn", PLAIN)])
def test_a_kept_turn_opens_and_is_written_as_before(name, turn):
    """As one text and as the two parts of a store."""
    text, parts = GOLDEN[name]["text"], GOLDEN[name]["parts"]

    assert conversation.turn_from_json(text) == conversation.turn_from_parts(*parts) == turn
    assert json.loads(conversation.turn_to_json(turn)) == json.loads(text)
    assert [*map(json.loads, conversation.turn_to_parts(turn))] == [*map(json.loads, parts)]
    assert [one.messages for one in conversation.history_from_json([text, parts[0]])] == [turn.messages] * 2


@pytest.mark.parametrize("name", VALUES)
def test_a_step_of_a_journal_opens_and_is_written_as_before(name):
    value, data = VALUES[name], GOLDEN["values"][name]

    assert codec.value_from_dict(type(value), data) == value
    assert json.loads(json.dumps(codec.value_to_dict(value))) == data


def test_a_kept_result_opens_and_is_written_as_before():
    """As in a ledger of effects, from the value and from its encoded form."""
    for result, text in zip((DONE.result, FAILED.result), GOLDEN["results"][:2], strict=True):
        assert conversation.result_from_json(text) == result
        assert json.loads(conversation.result_to_json(result)) == json.loads(text)
    encoded = ToolResult(success=True, tool_name="add", result={"sum": 3}, encoded='{"sum": 3}')

    assert conversation.result_to_json(encoded) == GOLDEN["results"][2]


def test_an_exported_turn_opens_and_is_written_as_before():
    """The media of a result are described, and come from its message."""
    assert json.loads(json.dumps(WHOLE.to_dict())) == GOLDEN["whole turn"]
    assert Turn.from_dict(GOLDEN["whole turn"]) == WHOLE
