"""Streams of every server end in the right answer: the regular form, and each known deviation."""

import json
import re
from collections.abc import Iterable
from typing import Any

import pytest
from flexchat.plugin import ChatResult
from flexchat_openai.chat_answer import ChatStream
from flexchat_openai.chat_request import ChatRequestWriter
from flexchat_openai.config import OpenAIConfig
from flexchat_sdk import (
    AnswerEnd,
    ChatEvent,
    Message,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ReasoningDelta,
    ReasoningPart,
    RefusalPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    ToolMessage,
)
from flexchat_sdk.reading import SSE_DONE, AnswerReader
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

HERE = "https://here.example"
DONE = b"data: [DONE]\n\n"


def failed(body: object) -> ProviderError:
    return ProviderOverloadedError(json.dumps(body))


def reader() -> AnswerReader:
    return AnswerReader(ChatStream(HERE), failed, ProviderProtocolError, SSE_DONE)


def events_of(*pieces: bytes) -> list[ChatEvent]:
    stream = reader()
    return [event for piece in pieces for event in stream.feed(piece)] + list(stream.end())


def whole(message: dict[str, Any], finish: str | None = "stop", **frame: Any) -> ChatResult:
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}], **frame}).encode()
    last = list(reader().whole(body))[-1]
    assert isinstance(last, AnswerEnd)
    return last.result


def sse(*chunks: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks)


def chunk(delta: Any = None, finish: str | None = None, **frame: Any) -> dict[str, Any]:
    return {"id": "r", "model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **frame}


def fragment(
    index: Any = None, call_id: Any = None, name: Any = None, arguments: Any = None, **extra: Any
) -> dict[str, Any]:
    found: dict[str, Any] = {"function": {}, **extra}
    if index is not None:
        found["index"] = index
    if call_id is not None:
        found["id"] = call_id
    if name is not None:
        found["function"]["name"] = name
    if arguments is not None:
        found["function"]["arguments"] = arguments
    return found


def streamed(*deltas: Any, finish: str | None = "tool_calls") -> ChatResult:
    last = events_of(sse(*[chunk(d) for d in deltas], chunk({}, finish)), DONE)[-1]
    assert isinstance(last, AnswerEnd)
    return last.result


def calls(*fragments: dict[str, Any], finish: str | None = "tool_calls") -> list[tuple[str, Any, str | None]]:
    result = streamed(*[{"tool_calls": [f]} for f in fragments], finish=finish)
    return [
        (c.name, c.raw_arguments if c.arguments is None else dict(c.arguments), c.wire_id) for c in result.tool_calls
    ]


def without_our_ids(events: object) -> str:
    return re.sub(r"id='call_[\w-]{22}'", "id", repr(events))


def test_the_regular_stream() -> None:
    """Two calls that interleave, with usage behind the finish reason: OpenAI's own form."""
    stream = sse(
        chunk({"role": "assistant", "content": None}),
        chunk({"tool_calls": [fragment(0, "a", "f", "", type="function")]}),
        chunk({"tool_calls": [fragment(0, arguments='{"x":')]}),
        chunk({"tool_calls": [fragment(1, "b", "g", "", type="function")]}),
        chunk({"tool_calls": [fragment(0, arguments="1}"), fragment(1, arguments="{}")]}),
        chunk({}, "tool_calls"),
        {"id": "r", "model": "m", "choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}},
    )

    events = events_of(stream, DONE)

    end = events[-1]
    assert isinstance(end, AnswerEnd)
    first, second = end.result.tool_calls
    assert events[:-1] == [
        ToolCallStart(0, "f"),
        ToolCallDelta(0, '{"x":'),
        ToolCallDelta(0, "1}"),
        ToolCallStart(1, "g"),
        ToolCallDelta(1, "{}"),
        ToolCallEnd(0, first),
        ToolCallEnd(1, second),
    ]
    assert (first.arguments, first.wire_id, second.arguments, second.wire_id) == ({"x": 1}, "a", {}, "b")
    assert (end.result.finish_reason, end.result.model, end.result.response_id) == ("tool_calls", "m", "r")
    assert end.result.usage is not None
    assert (end.result.usage.input_tokens, end.result.usage.output_tokens) == (3, 4)
    assert end.result.warnings == ()


def test_text_arrives_piece_by_piece() -> None:
    """Deltas join to the content; an empty one is none."""
    events = events_of(
        sse(chunk({"role": "assistant", "content": ""}), chunk({"content": "Hel"}), chunk({"content": "lo"}, "stop")),
        DONE,
    )

    assert events[:-1] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]
    assert isinstance(events[-1], AnswerEnd)
    assert events[-1].result.content == "Hello"
    assert events[-1].result.finish_reason == "stop"


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(
            [fragment(None, "a", "f", '{"x":'), fragment(None, None, None, "1}"), fragment(None, "b", "g", "{}")],
            [("f", {"x": 1}, "a"), ("g", {}, "b")],
            id="no index, ids",
        ),
        pytest.param(
            [fragment(None, None, "f", '{"x":'), fragment(None, None, None, "1}"), fragment(None, None, "g", "{}")],
            [("f", {"x": 1}, None), ("g", {}, None)],
            id="no index, no ids",
        ),
        pytest.param(
            [
                fragment(None, i, n, a)
                for i, n, a in (("a", "f", "{"), ("b", "g", "{"), ("a", None, "}"), ("b", None, "}"))
            ],
            [("f", {}, "a"), ("g", {}, "b")],
            id="no index, ids interleave",
        ),
        pytest.param(
            [fragment(0, "a", "f", '{"a":1}'), fragment(0, "b", "f", '{"a":2}')],
            [("f", {"a": 1}, "a"), ("f", {"a": 2}, "b")],
            id="index always 0, new id",
        ),
        pytest.param(
            [fragment(0, None, "f", '{"a":1}'), fragment(0, None, "f", '{"a":2}')],
            [("f", {"a": 1}, None), ("f", {"a": 2}, None)],
            id="index always 0, no ids, whole calls",
        ),
        pytest.param(
            [fragment(0, "", "f", '{"a":1}')],
            [("f", {"a": 1}, None)],
            id="empty id",
        ),
        pytest.param(
            [fragment(0, "a", "f", ""), fragment(0, "a", None, '{"a"'), fragment(0, "a", None, ":1}")],
            [("f", {"a": 1}, "a")],
            id="id repeated",
        ),
        pytest.param(
            [fragment(0, "a", "f", '{"a"'), fragment(1, "a", None, ":1}")],
            [("f", {"a": 1}, "a")],
            id="index counts fragments",
        ),
        pytest.param(
            [fragment(0, "x", "f", '{"a":1}'), fragment(1, "x", "g", '{"a":2}')],
            [("f", {"a": 1}, "x"), ("g", {"a": 2}, None)],
            id="one id for two calls",
        ),
        pytest.param([fragment(0, 7, "f", "{}")], [("f", {}, "7")], id="id is a number"),
        pytest.param([fragment(0, "a", "f", {"a": 1})], [("f", {"a": 1}, "a")], id="arguments are an object"),
        pytest.param([fragment(0, "a", "f", "")], [("f", {}, "a")], id="arguments are empty"),
        pytest.param([fragment(0, "a", "f")], [("f", {}, "a")], id="no arguments"),
        pytest.param([fragment(0, "a", "f", "null")], [("f", {}, "a")], id="arguments are null"),
        pytest.param(
            [fragment(0, "a", "get", ""), fragment(0, None, "get", "{"), fragment(0, None, "get", "}")],
            [("get", {}, "a")],
            id="name repeated",
        ),
        pytest.param(
            [fragment(0, "a", "get", ""), fragment(0, None, "get_x", "{}")],
            [("get_x", {}, "a")],
            id="name grows",
        ),
        pytest.param(
            [fragment(0, "a", "get", ""), fragment(0, None, "_x", "{}")],
            [("get_x", {}, "a")],
            id="name in pieces",
        ),
        pytest.param([fragment(0), fragment(0, "a", "f", "{}")], [("f", {}, "a")], id="fragment of nothing"),
        pytest.param([fragment(0, "a", "f", "[1]")], [("f", "[1]", "a")], id="arguments are an array"),
    ],
)  # fmt: skip
def test_every_known_way_of_sending_calls(
    fragments: list[dict[str, Any]], expected: list[tuple[str, Any, str | None]]
) -> None:
    """Deviations of compatible servers, one a row."""
    assert calls(*fragments) == expected


def test_our_ids_are_unique_whatever_the_servers() -> None:
    """A server that counts call_0 in every answer does not confuse two turns."""
    ids = {
        call.id for _ in range(3) for call in streamed({"tool_calls": [fragment(0, "call_0", "f", "{}")]}).tool_calls
    }

    assert len(ids) == 3


@pytest.mark.parametrize("finish", ["stop", "function_call", "tool_calls", "eos", ""])
def test_calls_make_the_finish_reason(finish: str) -> None:
    """Whatever the server says: an answer with calls asks for tools."""
    result = streamed({"tool_calls": [fragment(0, "a", "f", "{}")]}, finish=finish)

    assert (result.finish_reason, result.raw_finish) == ("tool_calls", finish or None)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("eos", "stop"),
        ("content_filter", "content_filter"),
        ("odd", "odd"),
    ],
)
def test_finish_reasons_are_said_in_our_words(raw: str, reason: str) -> None:
    """Known words are translated, others kept."""
    assert streamed({"content": "x"}, finish=raw).finish_reason == reason


def test_filtered_answers_keep_their_reason_beside_calls() -> None:
    """content_filter is stronger than the presence of calls."""
    assert (
        streamed({"tool_calls": [fragment(0, "a", "f", "{}")]}, finish="content_filter").finish_reason
        == "content_filter"
    )


@pytest.mark.parametrize("arguments", ['{"a":', ""])
def test_a_call_cut_by_the_token_limit_does_not_run(arguments: str) -> None:
    """Of two calls the whole one can be read; the cut one says why it did not run, nothing at all included."""
    first, second = fragment(0, "a", "f", "{}"), fragment(1, "b", "g", arguments)

    result = streamed({"tool_calls": [first, second]}, finish="length")

    assert result.finish_reason == "length"
    assert [call.arguments for call in result.tool_calls] == [{}, None]
    assert "output limit" in (result.tool_calls[1].error or "")


def test_a_refusal_is_a_finish_reason() -> None:
    """The model's no is kept as such, streamed and whole."""
    assert streamed({"refusal": "I "}, {"refusal": "won't"}, finish="stop").message.refusal == "I won't"
    assert whole({"content": None, "refusal": "no"}).finish_reason == "refusal"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_with_the_name_of_its_field(field: str) -> None:
    """Thought arrives as such and stands before the text; its field's name is remembered for the way back."""
    events = events_of(
        sse(chunk({"content": "", field: "hm"}), chunk({field: "!"}), chunk({"content": "ok"}, "stop")), DONE
    )

    assert events[:-1] == [ReasoningDelta(0, "hm"), ReasoningDelta(0, "!"), TextDelta(1, "ok")]
    assert isinstance(events[-1], AnswerEnd)
    thought = events[-1].result.message.parts[0]
    assert isinstance(thought, ReasoningPart)
    assert thought.provider_data is not None
    assert thought.provider_data.data == {"message": {field: "hm!"}}


def test_the_same_reasoning_under_two_names_is_read_once() -> None:
    """vLLM may send both."""
    result = streamed({"reasoning_content": "hm", "reasoning": "hm"}, {"content": "ok"}, finish="stop")

    assert [part.text for part in result.message.parts if isinstance(part, ReasoningPart | TextPart)] == ["hm", "ok"]


def test_reasoning_details_are_kept_and_joined() -> None:
    """OpenRouter's details go back as they came: pieces of a text joined, its signature kept."""
    detail = {"type": "reasoning.text", "index": 0}
    result = streamed(
        {"reasoning": "a", "reasoning_details": [{**detail, "text": "a", "signature": None}]},
        {"reasoning": "b", "reasoning_details": [{**detail, "text": "b", "signature": "s"}]},
        {"reasoning_details": [{"type": "reasoning.encrypted", "index": 1, "data": "e"}]},
        {"content": "ok"},
        finish="stop",
    )

    data = result.message.parts[0].provider_data  # type: ignore[union-attr]
    assert data is not None
    assert data.data["message"] == {
        "reasoning": "ab",
        "reasoning_details": [
            {**detail, "text": "ab", "signature": "s"},
            {"type": "reasoning.encrypted", "index": 1, "data": "e"},
        ],
    }


def test_what_stands_beside_a_call_is_kept() -> None:
    """Gemini's layer wants its extra_content back."""
    (call,) = streamed({"tool_calls": [fragment(0, "", "f", "{}", type="function", extra_content={"s": 1})]}).tool_calls

    assert call.provider_data is not None
    assert call.provider_data.data == {"extra_content": {"s": 1}}


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": []},
        {},
        {"choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 1, "delta": {"content": "other"}}]},
        {"model": ""},
        {"usage": {"prompt_tokens": None}},
        {"choices": [{"delta": {"content": None, "tool_calls": None, "function_call": None, "annotations": 1}}]},
    ],
)
def test_odd_chunks_between_good_ones_are_passed_over(odd: dict[str, Any]) -> None:
    """What holds nothing for us does no harm."""
    events = events_of(sse(odd, chunk({"content": "a"}), odd, chunk({"content": "b"}, "stop"), odd), DONE)

    assert isinstance(events[-1], AnswerEnd)
    assert (events[-1].result.content, events[-1].result.finish_reason) == ("ab", "stop")


@pytest.mark.parametrize(
    ("odd", "place"),
    [
        ({"choices": 5}, "choices: expected a list, got a number"),
        ({"choices": [None]}, "choices[0]: expected an object, got null"),
        ({"choices": ["We "]}, "choices[0]: expected an object, got text"),
        ({"choices": [{"delta": "must "}]}, "choices[0].delta: expected an object, got text"),
        ({"choices": [{"delta": {"content": 5}}]}, "choices[0].delta.content: expected text, got a number"),
        ({"choices": [{"delta": {"content": True}}]}, "choices[0].delta.content: expected text, got true or false"),
        ({"choices": [{"delta": {"content": {"text": "a"}}}]}, "delta.content: expected text, got an object"),
        ({"choices": [{"delta": {"content": [5]}}]}, "delta.content[0]: expected an object, got a number"),
        ({"choices": [{"delta": {"content": [{"type": "text", "text": None}]}}]}, "[0].text: expected text, got null"),
        ({"choices": [{"delta": {"refusal": ["No"]}}]}, "delta.refusal: expected text, got a list"),
        ({"choices": [{"delta": {"tool_calls": {}}}]}, "delta.tool_calls: expected a list, got an object"),
        ({"choices": [{"delta": {"tool_calls": [None]}}]}, "delta.tool_calls[0]: expected an object, got null"),
        ({"choices": [{"delta": {"tool_calls": [{"function": "f"}]}}]}, "[0].function: expected an object, got text"),
        ({"choices": [{"delta": {"tool_calls": [fragment(0, "a", 5)]}}]}, "function.name: expected text"),
        ({"choices": [{"delta": {"tool_calls": [fragment(0, "a", "f", 5)]}}]}, "function.arguments: expected text"),
        ({"choices": [{"delta": {"tool_calls": [fragment([], "a", "f", "{}")]}}]}, "index: expected a whole number"),
        ({"choices": [{"delta": {"function_call": "f"}}]}, "function_call: expected an object, got text"),
    ],
)  # fmt: skip
def test_a_wrong_type_where_text_or_calls_may_stand_is_an_error_of_the_answer(odd: dict[str, Any], place: str) -> None:
    """Streamed, in the middle of a text; the error names the place and what stood there, and may be tried again."""
    with pytest.raises(ProviderProtocolError) as caught:
        events_of(sse(chunk({"content": "We must "}), odd, chunk({"content": "pay."}, "stop")), DONE)

    assert place in str(caught.value)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "message",
    [
        5, "Hi", None, [], {"content": 5}, {"content": {}}, {"content": [None]}, {"refusal": 5},
        {"tool_calls": "f"}, {"tool_calls": [5]}, {"tool_calls": [{"function": None}]}, {"function_call": [1]},
        {"tool_calls": [{"function": {"name": None, "arguments": "{}"}}]},
        {"tool_calls": [{"function": {"name": "f", "arguments": [1]}}]},
    ],
)  # fmt: skip
def test_a_whole_answer_of_a_wrong_type_is_an_error_too(message: Any) -> None:
    """Not an empty answer: something was said, and nobody can read it."""
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()

    with pytest.raises(ProviderProtocolError, match=r"choices\[0\]\.message|tool_calls"):
        events_of(body)


@pytest.mark.parametrize("wrong", [None, True, 5, 1.5, "x", [1], {"a": 1}])
def test_a_wrong_type_elsewhere_costs_nothing(wrong: Any) -> None:
    """Usage, ids, the model's name, reasoning, citations, an end nobody can read: the text and the call stay."""
    call = {"index": 0, "id": wrong, "type": wrong, "function": {"name": "f", "arguments": "{}"}, "odd": wrong}
    delta = {"role": wrong, "content": "Hi", "tool_calls": [call], "reasoning_content": wrong, "annotations": wrong}
    delta |= {"reasoning_details": wrong, "audio": wrong}
    frame = {"id": wrong, "object": wrong, "created": wrong, "model": wrong, "usage": wrong, "x_groq": wrong}
    choice = {"index": 0, "delta": delta, "finish_reason": None, "logprobs": wrong}
    ended = {"index": 0, "delta": {}, "finish_reason": wrong}

    end = events_of(sse({**frame, "choices": [choice]}, {**frame, "choices": [ended]}), DONE)[-1]

    assert isinstance(end, AnswerEnd)
    assert end.result.content == "Hi"
    assert [(call.name, call.arguments) for call in end.result.tool_calls] == [("f", {})]


@pytest.mark.parametrize("index", ["0", 0.0, None, "first", [], {}, True])
def test_a_choice_alone_is_the_first_whatever_its_number(index: Any) -> None:
    """Whole and streamed."""
    streamed = events_of(sse({"choices": [{"index": index, "delta": {"content": "Hi"}, "finish_reason": "stop"}]}))[-1]
    body = json.dumps({"choices": [{"index": index, "message": {"content": "Hi"}, "finish_reason": "stop"}]}).encode()

    for end in (streamed, events_of(body)[-1]):
        assert isinstance(end, AnswerEnd)
        assert end.result.content == "Hi"


def test_of_several_answers_none_may_hide_its_number() -> None:
    """Else two answers would become one."""
    choices = [{"index": at, "delta": {"content": "a"}} for at in (0, 1, [])]

    with pytest.raises(ProviderProtocolError, match="index"):
        events_of(sse(*[{"choices": [choice]} for choice in choices]), DONE)


@pytest.mark.parametrize(
    ("fragments", "expected"),
    [
        pytest.param(
            [fragment(0, "x", "f", ""), fragment(0, None, None, '{"a":1}'),
             fragment(1, "x", "g", ""), fragment(1, None, None, '{"a":2}')],
            [("f", {"a": 1}, "x"), ("g", {"a": 2}, None)],
            id="one id, heads without arguments",
        ),
        pytest.param(
            [fragment(0, "x", "f", ""), fragment(1, "x", "g", ""), fragment(2, "x", "h", ""),
             fragment(1, None, None, "{}"), fragment(2, "x", None, '{"a":2}'), fragment(0, None, None, '{"a":0}')],
            [("f", {"a": 0}, "x"), ("g", {}, None), ("h", {"a": 2}, None)],
            id="three heads with one id",
        ),
        pytest.param(
            [fragment(0, "a", "f", '{"x":'), fragment(0, "b", None, '"y'), fragment(0, "c", None, '"}')],
            [("f", {"x": "y"}, "a")],
            id="a new id for every piece",
        ),
        pytest.param(
            [fragment(None, "a", "f", '{"x":'), fragment(None, "b", None, '"y'), fragment(None, "c", None, '"}')],
            [("f", {"x": "y"}, "a")],
            id="a new id for every piece, no index",
        ),
        pytest.param(
            [fragment("0", "a", "f", ""), fragment(0.0, None, None, "{}"), fragment("1", "b", "g", "{}")],
            [("f", {}, "a"), ("g", {}, "b")],
            id="index as text and as a fraction",
        ),
        pytest.param(
            [fragment(None, "a", "f", ""), fragment(0, None, None, '{"x":'), fragment(0, None, None, "1}")],
            [("f", {"x": 1}, "a")],
            id="a head without its index",
        ),
        pytest.param(
            [fragment(None, None, "f", ""), fragment(None, None, "g", ""), fragment(None, None, None, '{"x":1}')],
            [("f", {}, None), ("g", {"x": 1}, None)],
            id="no index, no ids, the first without arguments",
        ),
    ],
)  # fmt: skip
def test_calls_that_are_numbered_badly_stay_apart(
    fragments: list[dict[str, Any]], expected: list[tuple[str, Any, str | None]]
) -> None:
    """Neither glued nor lost."""
    assert calls(*fragments) == expected


@pytest.mark.parametrize(
    "fragments",
    [
        pytest.param([fragment(0, "a", None, ""), fragment(0, None, None, "{}")], id="no name"),
        pytest.param([fragment(0, "a", "f", "{}"), fragment(1, None, None, "{}")], id="no head"),
        pytest.param(
            [fragment(0, "a", "f", ""), fragment(1, "b", "g", ""), fragment(None, None, None, '{"x":1}')],
            id="two open calls, no index",
        ),
        pytest.param([fragment(0, "a", "f", '{"x":1}'), fragment(0, "a", None, '{"x":2}')], id="two in one place"),
        pytest.param([fragment(0, "a", "f", ""), fragment(0, "a", "g", "")], id="two names"),
        pytest.param([fragment(0, "a", "f", {"x": 1}), fragment(0, None, None, "{}")], id="more behind an object"),
        pytest.param([fragment(0, "a", "f", "{"), fragment(0, None, None, {"x": 1})], id="an object behind a piece"),
    ],
)
def test_calls_that_cannot_be_told_apart_are_an_error(fragments: list[dict[str, Any]]) -> None:
    """Rather than one that runs with what was meant for another."""
    with pytest.raises(ProviderProtocolError, match="tool_calls"):
        calls(*fragments)


def test_an_end_that_speaks_of_calls_without_any_is_a_warning() -> None:
    """RG-25: what text there is, is the answer."""
    assert "has no calls" in whole({"content": None, "tool_calls": None}, "tool_calls").warnings[0]
    assert "has no calls" in whole({"content": "Hi"}, "tool_calls").warnings[0]


@pytest.mark.parametrize(
    ("pieces", "text"),
    [
        (["a\ud83d", "\ude00b"], "a\U0001f600b"),
        (["\ud83d", "", "\ude00"], "\U0001f600"),
        (["\ud83d", "b"], "\ufffdb"),
        (["a\ude00"], "a\ufffd"),
        (["\ud83d"], "\ufffd"),
    ],
)
@pytest.mark.parametrize("escaped", [True, False])
def test_a_character_cut_in_two_is_joined(pieces: list[str], text: str, escaped: bool) -> None:
    """In the text, the reasoning and the arguments, in events and result; what stays half is U+FFFD."""

    def framed(*deltas: dict[str, Any]) -> bytes:
        data = [json.dumps(chunk(delta), ensure_ascii=escaped) for delta in deltas]
        return b"".join(b"data: " + item.encode("utf-8", "surrogatepass") + b"\n\n" for item in data)

    said = [{"reasoning_content": piece} for piece in pieces] + [{"content": piece} for piece in pieces]
    said += [{"tool_calls": [fragment(0, "a", "f", '{"x":"')]}]
    said += [{"tool_calls": [fragment(0, None, None, piece)]} for piece in [*pieces, '"}']]
    events = events_of(framed(*said), sse(chunk({}, "stop")), DONE)

    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == text
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == text
    assert "".join(e.arguments for e in events if isinstance(e, ToolCallDelta)) == f'{{"x":"{text}"}}'
    assert isinstance(events[-1], AnswerEnd)
    result = events[-1].result
    assert (result.content, result.tool_calls[0].arguments) == (text, {"x": text})
    assert result.tool_calls[0].raw_arguments == f'{{"x":"{text}"}}'
    assert [part.text for part in result.message.parts if isinstance(part, ReasoningPart)] == [text]


def test_content_as_a_list_of_parts_is_joined() -> None:
    """Mistral's form, with its thoughts apart."""
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    result = streamed({"content": [thinking, {"type": "text", "text": "a"}, "b"]}, finish="stop")

    assert result.content == "ab"
    assert isinstance(result.message.parts[0], ReasoningPart)


def test_the_old_function_call_is_a_call() -> None:
    """The form before tool_calls, whole and in pieces."""
    result = streamed(
        {"function_call": {"name": "f", "arguments": '{"a":'}},
        {"function_call": {"arguments": "1}"}},
        finish="function_call",
    )

    assert [(c.name, c.arguments) for c in result.tool_calls] == [("f", {"a": 1})]
    assert whole({"function_call": {"name": "f", "arguments": "{}"}}, "function_call").finish_reason == "tool_calls"


def test_usage_is_found_where_servers_put_it() -> None:
    """In every chunk (the last counts), and in Groq's own corner."""
    cumulative = [chunk({"content": "a"}, usage={"prompt_tokens": 1}), chunk({}, "stop", usage={"prompt_tokens": 2})]
    groq = [chunk({"content": "a"}, "stop", x_groq={"usage": {"prompt_tokens": 2, "completion_tokens": True}})]

    for chunks in (cumulative, groq):
        end = events_of(sse(*chunks), DONE)[-1]
        assert isinstance(end, AnswerEnd)
        assert end.result.usage is not None
        assert (end.result.usage.input_tokens, end.result.usage.output_tokens) == (2, None)


def test_an_end_without_a_reason_is_a_warning() -> None:
    """Some servers give none: the text counts, the doubt is said."""
    last = events_of(sse(chunk({"content": "a"})), DONE)[-1]

    assert isinstance(last, AnswerEnd)
    assert (last.result.content, last.result.finish_reason) == ("a", None)
    assert "without a finish reason" in last.result.warnings[0]


def test_a_finish_reason_needs_no_done() -> None:
    """A stream that just ends after its reason is complete, without its last line end too."""
    for stream in (sse(chunk({"content": "a"}, "stop")), sse(chunk({"content": "a"}, "stop")).rstrip()):
        last = events_of(stream)[-1]
        assert isinstance(last, AnswerEnd)
        assert (last.result.finish_reason, last.result.warnings) == ("stop", ())


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        DONE,
        b": only comments\n\n",
        sse({"choices": None}, {"choices": []}) + DONE,
        sse(chunk({"content": "a"})) + b'data: {"choices": [{"del',
        b"data: \xff\xfe\n\n",
        b"data: [1]\n\n",
        b"data: " + b"[" * 200_000 + b"\n\n",
        sse(chunk({"content": "a"})),  # neither a reason nor [DONE]
        b"<html>no</html>",
        b'{"choices": [',
        b'{"hello": 1}',
        b'{"choices": []}',
        b"[]",
        b"x" * (9 * 2**20),
    ],
)
def test_what_is_no_answer_is_an_error_of_ours(stream: bytes) -> None:
    """Nothing at all, cut or damaged JSON, bad UTF-8, a page, an endless line: never a silent success."""
    with pytest.raises(ProviderProtocolError):
        events_of(*[stream[i : i + 2**16] for i in range(0, len(stream), 2**16)])


def test_text_before_damage_has_been_passed_on() -> None:
    """The events before a broken one arrive before the error."""
    stream = reader()
    events = stream.feed(sse(chunk({"content": "a"})) + b"data: {\n\n")

    assert next(events) == TextDelta(0, "a")
    with pytest.raises(ProviderProtocolError):
        next(events)


@pytest.mark.parametrize(
    "error",
    [
        b'data: {"error": {"message": "m"}}\n\n',
        b'data: {"error": "m"}\n\n',
        b'data: {"object": "error", "message": "m"}\n\n',
        b'event: error\ndata: {"message": "m"}\n\n',
        b'data: {"choices": [{"delta": {}, "finish_reason": "error", "error": {"message": "m"}}]}\n\n',
        b'{"error": {"message": "m"}}',
    ],
)
def test_an_error_inside_a_stream_is_raised(error: bytes) -> None:
    """With status 200, in all its forms."""
    with pytest.raises(ProviderOverloadedError):
        events_of(error)


def test_groqs_refusal_of_a_bad_call_is_an_answer() -> None:
    """tool_use_failed means: the model wrote a call that cannot be used. What it said before that stays."""
    body = {"error": {"code": "tool_use_failed", "message": "bad", "failed_generation": "<f>"}}

    for events, said in (
        (events_of(sse(chunk({"content": "I look"}), body), DONE), "I look"),
        (
            list(reader().whole(json.dumps(body).encode())),
            None,
        ),
    ):
        assert isinstance(events[-1], AnswerEnd)
        assert events[-1].result.finish_reason == "malformed_tool_call"
        assert events[-1].result.content == said
        assert "bad" in events[-1].result.warnings[0]


def test_an_event_without_data_is_none() -> None:
    """The standard drops it; some servers send it to keep a connection open."""
    last = events_of(sse(chunk({"content": "a"})), b"data:\n\ndata: \n\n", sse(chunk({}, "stop")), DONE)[-1]

    assert isinstance(last, AnswerEnd)
    assert last.result.content == "a"


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        ("function_call_filter: MALFORMED_FUNCTION_CALL", "malformed_tool_call"),
        ("SAFETY", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("weights_unloaded: x", "weights_unloaded"),
    ],
)
def test_a_choice_may_have_no_message(raw: str, ours: str) -> None:
    """Gemini's layer leaves it out of an answer that was stopped, and says why behind a colon."""
    body = json.dumps({"choices": [{"index": 0, "finish_reason": raw}]}).encode()
    last = list(reader().whole(body))[-1]

    assert isinstance(last, AnswerEnd)
    assert (last.result.finish_reason, last.result.raw_finish, last.result.content) == (ours, raw, None)


def test_of_several_choices_the_first_counts_wherever_it_stands() -> None:
    """With a warning, as in a stream."""
    choices = [{"index": at, "message": {"content": str(at)}, "finish_reason": "stop"} for at in (1, 0)]
    last = list(reader().whole(json.dumps({"choices": choices}).encode()))[-1]

    assert isinstance(last, AnswerEnd)
    assert last.result.content == "0"
    assert "several answers" in last.result.warnings[0]


def test_an_error_in_a_whole_choice_is_raised() -> None:
    """OpenRouter: status 200, and the upstream's error beside an empty message."""
    choice = {"message": {"content": ""}, "finish_reason": "error", "error": {"code": 502, "message": "upstream"}}
    stream = reader()

    with pytest.raises(ProviderOverloadedError, match="upstream"):
        list(stream.whole(json.dumps({"choices": [choice]}).encode()))


def test_an_error_in_a_list_is_raised() -> None:
    """Gemini's layer wraps it, whatever the status."""
    with pytest.raises(ProviderOverloadedError, match="no key"):
        events_of(b'[{"error": {"message": "no key"}}]')


@pytest.mark.parametrize(
    ("part", "kind", "text"),
    [
        ({"type": "refusal", "refusal": "no"}, RefusalPart, "no"),
        ({"type": "thinking", "thinking": "hm"}, ReasoningPart, "hm"),
        ({"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, ReasoningPart, "hm"),
        ({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}, ReasoningPart, "hm"),
    ],
)
def test_content_may_be_a_list_of_parts(part: dict[str, Any], kind: type, text: str) -> None:
    """Refusals as OpenAI takes them back; thoughts of Mistral, of gateways to Claude, of Databricks."""
    found = whole({"content": [part, {"type": "text", "text": ""}]}).message.parts

    assert [(type(p), getattr(p, "text", None)) for p in found] == [(kind, text)]


@pytest.mark.parametrize(
    ("usage", "cached"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 7}, "cached_tokens": 8}, 7),
        ({"prompt_cache_hit_tokens": 7, "prompt_cache_miss_tokens": 3}, 7),
        ({"cached_tokens": 7}, 7),
        ({"prompt_tokens_details": None}, None),
    ],
)
def test_usage_is_read_in_every_form(usage: dict[str, Any], cached: int | None) -> None:
    """OpenAI's, DeepSeek's, Moonshot's; counts may be floats, and stand in the last choice of a stream."""
    table = {"prompt_tokens": 10.0, "completion_tokens": 2, **usage}
    last = chunk({}, "stop")
    last["choices"][0]["usage"] = table
    end = events_of(sse(chunk({"content": "a"}), last), DONE)[-1]

    assert isinstance(end, AnswerEnd)
    for found in (end.result.usage, whole({"content": "a"}, usage=table).usage):
        assert found is not None
        assert (found.input_tokens, found.output_tokens, found.cache_read_tokens) == (10, 2, cached)


def test_a_call_of_the_old_form_goes_back_as_it_came() -> None:
    """function_call, of which a message has one, and its result with the role "function"."""
    old = {"name": "f", "arguments": '{"a": 1}'}
    first = whole({"content": None, "function_call": old}, "function_call")
    second = streamed({"function_call": {"name": "f", "arguments": ""}}, {"function_call": {"arguments": '{"a": 1}'}})
    history: list[Message] = []
    for result in (first, second):
        assert [(c.name, c.arguments) for c in result.tool_calls] == [("f", {"a": 1})]
        assert result.finish_reason == "tool_calls"
        history += [result.message, ToolMessage(tool_call_id=result.tool_calls[0].id, name="f", content="2")]

    sent = [json.loads(data) for data in ChatRequestWriter(HERE, OpenAIConfig()).messages(history)]
    said = {"role": "assistant", "content": None, "function_call": old}
    assert sent == [said, {"role": "function", "name": "f", "content": "2"}] * 2
    elsewhere = [json.loads(data) for data in ChatRequestWriter("https://x.example", OpenAIConfig()).messages(history)]
    assert [m["role"] for m in elsewhere] == ["assistant", "tool"] * 2
    assert elsewhere[0]["tool_calls"][0]["id"] == elsewhere[1]["tool_call_id"] != elsewhere[3]["tool_call_id"]


def test_a_call_with_free_text_goes_back_as_it_came() -> None:
    """Custom tools are only offered by extra; such a call has a name and no arguments of ours."""
    item = {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}
    message = whole({"content": None, "tool_calls": [item]}, "tool_calls").message
    sent = json.loads(ChatRequestWriter(HERE, OpenAIConfig()).messages([message])[0])

    assert [(c.name, c.arguments, c.raw_arguments) for c in message.tool_calls] == [("sql", None, "SELECT 1")]
    assert sent["tool_calls"] == [item]


def test_a_server_that_does_not_stream_is_understood() -> None:
    """Plain JSON where a stream was asked for gives the same events, whatever stands before it."""
    body = {"model": "m", "choices": [{"message": {"content": "a"}, "finish_reason": "stop"}]}

    events = events_of(b"\xef\xbb\xbf\n" + json.dumps(body).encode())

    assert events[0] == TextDelta(0, "a")
    assert isinstance(events[-1], AnswerEnd)


def test_sound_is_left_out_with_a_warning() -> None:
    """What we cannot hand on is said."""
    assert "audio" in streamed({"audio": {"data": "x"}}, finish="stop").warnings[0]


texts = st.text(min_size=1, max_size=8)
arguments = st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4) | st.none(), max_size=3).map(
    json.dumps
)
messages = st.fixed_dictionaries(
    {"content": texts | st.none()},
    optional={
        "reasoning_content": texts,
        "tool_calls": st.lists(st.tuples(st.text("abc", min_size=1, max_size=5), arguments), min_size=1, max_size=3),
    },
)


def cut(text: str, sizes: Iterable[int]) -> list[str]:
    pieces, at = [], 0
    for size in sizes:
        pieces.append(text[at : at + size])
        at += size
    return [*pieces, text[at:]]


@settings(max_examples=examples(80))
@given(messages, st.lists(st.integers(1, 4), max_size=4), st.integers(1, 40))
def test_a_streamed_answer_equals_the_whole_one(message: dict[str, Any], sizes: list[int], step: int) -> None:
    """Law: however an answer is cut into deltas and bytes, AnswerEnd holds what an unstreamed exchange returns."""
    written = [
        {"id": f"id{n}", "type": "function", "function": {"name": name, "arguments": args}}
        for n, (name, args) in enumerate(message.pop("tool_calls", []))
    ]
    finish = "tool_calls" if written else "stop"
    deltas: list[dict[str, Any]] = [{"role": "assistant"}]
    for field in ("reasoning_content", "content"):
        deltas += [{field: piece} for piece in cut(message.get(field) or "", sizes)]
    for index, call in enumerate(written):
        function = call["function"]
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        deltas += [{"tool_calls": [fragment(index, arguments=p)]} for p in cut(function["arguments"], sizes)]
    stream = sse(*[chunk(d) for d in deltas], chunk({}, finish)) + DONE

    events = events_of(*[stream[i : i + step] for i in range(0, len(stream), step)])
    result = whole({**message, **({"tool_calls": written} if written else {})}, finish, id="r", model="m")

    assert isinstance(events[-1], AnswerEnd)
    assert without_our_ids(events[-1].result) == without_our_ids(result)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (message["content"] or "")


keys = (
    "choices delta message content tool_calls function name arguments index id error usage finish_reason "
    "reasoning_details type text thinking x_groq refusal annotations"
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(keys.split()), inner, max_size=4),
    max_leaves=25,
)


@settings(max_examples=examples(80))
@given(st.lists(json_values.map(lambda v: {"choices": [{"delta": v}]}) | json_values, max_size=4), st.booleans())
def test_any_json_gives_an_answer_or_an_error_of_ours(values: list[Any], as_stream: bool) -> None:
    """Law: no shape of JSON, however odd, raises anything but a ProviderError."""
    body = sse(*values) if as_stream else json.dumps({"choices": [{"message": v} for v in values]}).encode()

    try:
        events = events_of(body)
    except ProviderError:
        return
    assert isinstance(events[-1], AnswerEnd)


@pytest.mark.parametrize("finish", [7, True, [], {"a": 1}])
@pytest.mark.parametrize("arguments", ["", '{"a": '])
def test_an_unreadable_end_may_have_cut_off_the_last_call(finish: Any, arguments: str) -> None:
    """Only the last, and only without whole arguments."""
    first, last = fragment(0, "a", "f", ""), fragment(1, "b", "g", arguments)
    ran, refused = streamed({"tool_calls": [first]}, {"tool_calls": [last]}, finish=finish).tool_calls

    assert (ran.arguments, refused.arguments) == ({}, None)
    assert "may have been cut off" in (refused.error or "")
    assert streamed({"tool_calls": [fragment(0, "a", "g", "{}")]}, finish=finish).tool_calls[0].arguments == {}


@pytest.mark.parametrize("choices", [None, []])
def test_an_answer_without_choices_may_be_asked_for_again(choices: Any) -> None:
    """OpenRouter sends one when the host of the model hiccups."""
    body = json.dumps({"id": None, "choices": choices, "usage": None}).encode()
    with pytest.raises(ProviderProtocolError, match="without choices") as failure:
        [*reader().whole(body)]
    assert failure.value.retryable

    streamed = reader()
    [*streamed.feed(b"data: " + body + b"\n\ndata: [DONE]\n\n")]
    with pytest.raises(ProviderProtocolError, match="without choices") as failure:
        [*streamed.end()]
    assert failure.value.retryable


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}},
        {"type": "audio", "data": "AA"},
        {"type": "tool_use", "name": "f", "input": {}},
        {"type": "text_v2", "text": {"value": "Hi"}},
    ],
)
@pytest.mark.parametrize("read", [whole, streamed])
def test_a_part_of_unknown_type_is_an_error(part, read):
    """What it holds would be lost without a trace."""
    with pytest.raises(ProviderProtocolError, match=rf"content\[1\] of type '{part['type']}'"):
        read({"content": [{"type": "text", "text": "See "}, part]}, finish="stop")


@pytest.mark.parametrize("part", [{"type": "reference", "reference_ids": [1]}, {"type": "thinking", "thinking": []}])
def test_a_part_that_never_holds_text_costs_nothing(part):
    assert whole({"content": [{"type": "text", "text": "See "}, part]}).content == "See "


@pytest.mark.parametrize("read", [whole, streamed])
@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ('<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', "<tool_call>"),
        ("<tool_call>f\n<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>", "<tool_call>"),
        ("<tool_call><function=f><parameter=a>1</parameter></function></tool_call>", "<tool_call>"),
        ("Hm, twelve.\n</think>\n\nTwelve.", "</think>"),
    ],
)
def test_calls_and_thoughts_written_as_text_give_a_warning(text, tag, read):
    result = read({"content": text}, finish="stop")

    assert result.content == text
    (warning,) = result.warnings
    assert f"contains {tag} as text" in warning


@pytest.mark.parametrize(
    "text", ["Write <tool_call> first.", "It begins with <think> and ends with </think>.", "a </b>"]
)
def test_a_text_about_tags_gives_none(text):
    read = whole({"content": text})

    assert (read.content, read.warnings) == (text, ())
