"""A turn as JSON data and back."""

import copy
import json

import attrs
import pytest
from flexchat import FlexChatError, SyncFlexChat, Turn, TurnDataError, tool
from flexchat.domain import (
    AssistantMessage,
    ChatResponse,
    Citation,
    Document,
    PhaseRecord,
    Profile,
    Round,
    TextPart,
    ToolCall,
    ToolCallRecord,
    ToolMessage,
    ToolResult,
    Usage,
    UserMessage,
)
from hypothesis import given
from hypothesis import strategies as st

texts = st.text(max_size=8)
maybe = st.none() | texts
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)
objects = st.dictionaries(texts, values, max_size=2)
times = st.integers(0, 10**9).map(lambda us: round(us / 1000, 3))
counts = st.none() | st.integers(0, 2**70)
usages = st.none() | st.builds(Usage, input_tokens=st.integers(0, 9), output_tokens=counts, cache_read_tokens=counts)


def some(items):
    return st.lists(items, max_size=2).map(tuple)


results = st.builds(
    ToolResult,
    success=st.just(True),
    tool_name=texts,
    result=values,
    execution_time_ms=st.integers(0),
    notes=some(texts),
) | st.builds(
    ToolResult,
    success=st.just(False),
    tool_name=texts,
    error=texts,
    hint=st.none() | st.text(min_size=1, max_size=5),
    notes=some(texts),
)
records = st.builds(
    ToolCallRecord,
    tool=texts,
    params=objects,
    result=results,
    iteration=st.integers(1, 9),
    call_id=texts,
    raw_arguments=maybe,
    facts=objects,
)
messages = st.one_of(
    st.builds(UserMessage, texts),
    st.builds(AssistantMessage, texts),
    st.builds(AssistantMessage, some(st.builds(ToolCall, name=texts, arguments=objects, id=texts))),
    st.builds(ToolMessage, tool_call_id=texts, name=texts, content=texts, is_error=st.booleans()),
)
data = st.none() | objects
responses = st.builds(
    lambda parsed, **rest: ChatResponse(parsed=parsed, data=parsed, **rest),
    data,
    content=texts,
    llm=texts,
    model=texts,
    tool_calls=st.none() | some(records),
    max_iterations_reached=st.booleans(),
    finish_reason=maybe,
    messages=some(messages),
    usage=usages,
    rounds=some(
        st.builds(Round, llm=texts, model=texts, elapsed_ms=times, finish_reason=maybe, reasoning=texts, usage=usages)
    ),
    warnings=some(texts),
)
documents = some(
    st.builds(Document, text=texts, title=texts, source=maybe, collection=maybe, metadata=objects, id=maybe)
)
turns = st.builds(
    Turn,
    id=texts,
    profile=st.builds(
        Profile,
        topic=texts,
        user_message=texts,
        rag_results=st.sampled_from(["match", "partial", "none"]),
        intent=maybe,
        service=maybe,
        collection=maybe,
        reasoning=st.none() | st.booleans(),
        documents=documents,
    ),
    rule=st.none() | st.integers(0, 9),
    response=responses,
    phases=some(
        st.builds(
            PhaseRecord,
            phase=texts,
            outcome=values,
            elapsed_ms=times,
            input=st.none() | st.text(min_size=1, max_size=5),
            skipped=texts,
            warnings=some(texts),
            usage=usages,
        )
    ),
    elapsed_ms=times,
    citations=some(
        st.builds(
            Citation, title=texts, source=maybe, collection=maybe, distance=st.none() | st.floats(0, 2), via=texts
        )
    ),
    conversation=st.none() | st.text(min_size=1, max_size=5),
    status=st.sampled_from(["done", "cancelled", "failed"]),
    error=texts,
    replay=st.booleans(),
    rule_name=maybe,
    is_repeat=st.booleans(),
)


@given(turns)
def test_a_turn_comes_back_as_it_was(turn):
    """Through JSON text: messages, calls, passages and all."""
    told = json.loads(json.dumps(turn.to_dict()))

    assert Turn.from_dict(told) == turn
    assert Turn.from_dict(told).to_dict() == told


def test_every_field_is_told():
    """A field that a class gets later must be thought of here."""
    turn = made_turn()
    told = turn.to_dict()
    names = {"llm": "service", "data": "parsed"}

    for value in (turn, turn.response):
        for field in attrs.fields(type(value)):
            assert names.get(field.name, field.name) in told or field.name in ("response", "pending", "principal")


def made_turn():
    call = ToolCall(name="add", arguments={"a": 1}, id="c1")
    result = ToolResult(success=True, tool_name="add", result=2, notes=("a: '1' read as 1",))
    return Turn(
        id="t",
        profile=Profile(topic="sums", user_message="1+1?", documents=(Document(text="x"),)),
        rule=0,
        rule_name="first",
        response=ChatResponse(
            content="2",
            llm="bot",
            model="m",
            tool_calls=(ToolCallRecord(tool="add", params={"a": 1}, result=result, iteration=1, call_id="c1"),),
            max_iterations_reached=True,
            messages=(UserMessage("1+1?"), AssistantMessage((call, TextPart("2")))),
            usage=Usage(input_tokens=1),
            rounds=(Round(llm="bot", model="m", elapsed_ms=1.0),),
            warnings=("careful",),
            parsed={"sum": 2},
            data={"sum": 2},
        ),
        phases=(PhaseRecord(phase="topic detection", outcome="sums", elapsed_ms=1.0),),
        elapsed_ms=2.0,
        citations=(Citation(title="t", source=None, collection=None),),
        conversation="c",
        status="failed",
        error="why",
        traceparent="00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    )


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["id"], 5, "Turn.id: str was expected, got 5"),
        (["elapsed_ms"], "soon", "Turn.elapsed_ms: float was expected, got 'soon'"),
        (["status"], "great", "status: this FlexChat cannot read a turn with the status 'great'"),
        (["messages"], "x", "messages: a list was expected, got str"),
        (["messages", 1, "parts", 0, "name"], 5, "messages[1].parts[0]: ToolCall.name: str was expected, got 5"),
        (["messages", 0, "role"], "oracle", "messages[0]: this FlexChat cannot read a message with role 'oracle'"),
        (["messages", 0], None, "messages[0]: this FlexChat cannot read a message with no role"),
        (["tool_calls", 0, "result"], [], "tool_calls[0].result: a JSON object was expected, got list"),
        (["tool_calls", 0, "result", "success"], "yes", "tool_calls[0].result: ToolResult.success: bool was expected"),
        (["tool_calls", 0, "notes"], [5], "tool_calls[0].result.notes[0]: a text was expected, got 5"),
        (["tool_calls", 0], 7, "tool_calls[0]: a JSON object was expected, got int"),
        (["rounds", 0, "usage"], 7, "rounds[0].usage: a JSON object was expected"),
        (["warnings"], [None], "warnings[0]: a text was expected, got None"),
        (["profile", "rag_results"], "maybe", "profile: Profile.rag_results: Literal['match', 'partial', 'none'] was"),
        (["replay"], None, "Turn.replay: bool was expected, got None"),
        (["messages"], None, "ChatResponse.messages: tuple[Message, ...] was expected, got None"),
        (["profile"], "x", "profile: a JSON object was expected, got str"),
        (["profile", "documents", 0, "text"], None, "profile.documents[0]: Document.text: str was expected, got None"),
        (["phases", 0, "elapsed_ms"], None, "phases[0]: PhaseRecord.elapsed_ms: float was expected, got None"),
        (["citations"], {}, "citations: a list was expected, got dict"),
        (["content"], None, "ChatResponse.content: str was expected, got None"),
    ],
)
def test_what_is_no_turn_is_refused_with_its_place(path, value, words):
    """As it may come from strangers."""
    told = json.loads(json.dumps(made_turn().to_dict()))
    at = told
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value

    with pytest.raises(TurnDataError) as caught:
        Turn.from_dict(told)

    assert isinstance(caught.value, FlexChatError)
    assert str(caught.value).startswith("this is no turn: ")
    assert words in str(caught.value)


def test_a_class_whose_types_were_resolved_is_read_as_strictly():
    """Libraries do that: cattrs, when it structures a document."""
    attrs.resolve_types(Document)

    with pytest.raises(TurnDataError, match=r"Document\.text: str was expected, got 5"):
        Turn.from_dict({**made_turn().to_dict(), "profile": {"topic": "t", "documents": [{"text": 5}]}})


@pytest.mark.parametrize("value", [None, [], "turn", 7, {}, {"id": "x"}])
def test_what_is_nothing_like_a_turn_is_refused(value):
    with pytest.raises(TurnDataError, match="this is no turn: "):
        Turn.from_dict(value)


def places(value, path=()):
    """Every place in JSON data."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in items:
        yield from places(inner, (*path, step))


TOLD = json.loads(json.dumps(made_turn().to_dict()))


@given(st.sampled_from([*places(TOLD)][1:]), values)
def test_any_value_anywhere_is_read_or_refused(path, value):
    """Never another exception; and what is read can be told again."""
    told = copy.deepcopy(TOLD)
    at = told
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value

    try:
        turn = Turn.from_dict(told)
    except TurnDataError:
        return
    json.dumps(turn.to_dict())
    assert "\n" not in repr(turn)


def test_a_turn_shows_itself_in_one_line():
    """Short, however much it says."""
    turn = attrs.evolve(made_turn(), response=attrs.evolve(made_turn().response, content="line\n" * 100))

    assert "\n" not in repr(turn)
    assert len(repr(turn)) < 300
    assert "tool_calls=1" in repr(turn)


def test_a_real_turn_comes_back():
    """With a class as its form, parsed is the data."""

    @tool
    def add(a: int, b: int) -> int:
        """Add numbers."""
        return a + b

    with SyncFlexChat.from_model("rehearsal/any", tools=[add]) as chat:
        turn = chat.respond("What is 2 + 3?")

    again = Turn.from_dict(json.loads(json.dumps(turn.to_dict())))
    assert again.response.messages == turn.response.messages
    assert again.to_dict() == turn.to_dict()
