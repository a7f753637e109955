"""Streams of the Responses API end in the right answer: OpenAI's, and those of servers that leave something out."""

import json
from typing import Any

import pytest
from flexchat.plugin import ChatResult
from flexchat_openai.responses_answer import ResponsesStream
from flexchat_sdk import (
    AnswerEnd,
    ChatEvent,
    OpaquePart,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from flexchat_sdk.reading import SSE_DONE, AnswerReader

HERE = "https://here.example"


def failed(body: object) -> ProviderError:
    return ProviderOverloadedError(json.dumps(body))


def sse(*events: dict[str, Any]) -> bytes:
    return b"".join(f"event: {event.get('type')}\ndata: {json.dumps(event)}\n\n".encode() for event in events)


def events_of(*events: dict[str, Any]) -> list[ChatEvent]:
    stream = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)
    return [*stream.feed(sse(*events)), *stream.end()]


def result_of(*events: dict[str, Any]) -> ChatResult:
    last = events_of(*events)[-1]
    assert isinstance(last, AnswerEnd)
    return last.result


def whole(**response: Any) -> ChatResult:
    stream = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)
    last = [*stream.whole(json.dumps({"status": "completed", **response}).encode())][-1]
    assert isinstance(last, AnswerEnd)
    return last.result


def message(text: str = "", **rest: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}] if text else []
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": content, **rest}


def call(arguments: str = "", **rest: Any) -> dict[str, Any]:
    return {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": arguments, **rest}


def added(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": item, **({} if index is None else {"output_index": index})}


def done(item: dict[str, Any], index: int | None = 0) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item, **({} if index is None else {"output_index": index})}


def delta(kind: str, text: str, index: int | None = 0, **rest: Any) -> dict[str, Any]:
    place = {} if index is None else {"output_index": index}
    return {"type": f"response.{kind}.delta", "delta": text, **place, **rest}


def completed(*output: dict[str, Any], kind: str = "completed", **rest: Any) -> dict[str, Any]:
    response = {"id": "r", "model": "m-1", "status": kind, "output": output, **rest}
    return {"type": f"response.{kind}", "response": response}


def test_a_regular_stream() -> None:
    """Thought, text and two calls, each in its own part; the final values are those of the item that is done."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": t} for t in ("a", "b")]}
    second = {**call('{"x":1}'), "id": "fc_2", "call_id": "c2", "name": "g"}
    items = [{**thought, "encrypted_content": "e"}, message("ok"), call("{}"), second]

    events = events_of(
        {"type": "response.created", "response": {"id": "r", "model": "m-1", "status": "in_progress"}},
        {"type": "response.in_progress", "response": {"id": "r"}},
        added({**thought, "summary": []}),
        delta("reasoning_summary_text", "a", summary_index=0),
        delta("reasoning_summary_text", "b", summary_index=1),
        done(items[0]),
        added(message(), 1),
        {"type": "response.content_part.added", "output_index": 1, "part": {"type": "output_text", "text": ""}},
        delta("output_text", "o", 1),
        delta("output_text", "k", 1),
        {"type": "response.output_text.done", "output_index": 1, "text": "ok"},
        done(items[1], 1),
        added(call(), 2),
        added({**second, "arguments": ""}, 3),
        delta("function_call_arguments", '{"x"', 3),
        delta("function_call_arguments", "{}", 2),
        delta("function_call_arguments", ":1}", 3),
        {"type": "response.function_call_arguments.done", "output_index": 3, "arguments": '{"x":1}'},
        done(items[2], 2),
        done(items[3], 3),
        {"type": "response.of_the_future", "x": 1},
        completed(*items, usage={"input_tokens": 3, "output_tokens": 2}),
    )

    result = whole(output=items, id="r", model="m-1", usage={"input_tokens": 3, "output_tokens": 2})
    assert [e for e in events if not isinstance(e, ToolCallEnd | AnswerEnd)] == [
        ReasoningDelta(0, "a"),
        ReasoningDelta(0, "\n\nb"),
        TextDelta(1, "o"),
        TextDelta(1, "k"),
        ToolCallStart(2, "f"),
        ToolCallStart(3, "g"),
        ToolCallDelta(3, '{"x"'),
        ToolCallDelta(2, "{}"),
        ToolCallDelta(3, ":1}"),
    ]
    last = events[-1]
    assert isinstance(last, AnswerEnd)
    assert [e.call for e in events if isinstance(e, ToolCallEnd)] == [*last.result.tool_calls]
    assert [(c.name, c.arguments, c.wire_id) for c in last.result.tool_calls] == [
        ("f", {}, "c1"),
        ("g", {"x": 1}, "c2"),
    ]
    assert [part.provider_data for part in last.result.message.parts] == [  # type: ignore[union-attr]
        part.provider_data  # type: ignore[union-attr]
        for part in result.message.parts
    ]
    assert (last.result.finish_reason, last.result.usage, last.result.model) == ("tool_calls", result.usage, "m-1")


# What servers leave out or do otherwise, one a row: events, and the text and calls that come of them.
DEVIATIONS = {
    "no numbers (llama.cpp)": (
        [added(call(), None), delta("function_call_arguments", "{}", None, item_id="fc_1"), done(call("{}"), None)],
        ("", [("f", {}, "c1")]),
    ),
    "another id in each event": (
        [added(message(id="x")), delta("output_text", "ok", item_id="y"), done(message("ok", id="z"))],
        ("ok", []),
    ),
    "always number 0": (
        [added(message()), delta("output_text", "a"), done(message("a")), added(call()), done(call("{}"))],
        ("a", [("f", {}, "c1")]),
    ),
    "neither numbers nor ids": (
        [added(message(id=None), None), delta("output_text", "ok", None), done(message("ok", id=None), None)],
        ("ok", []),
    ),
    "no pieces": ([added(message()), done(message("ok"))], ("ok", [])),
    "no beginning": ([delta("output_text", "ok"), done(message("ok"))], ("ok", [])),
    "no end of items": ([added(message()), delta("output_text", "ok")], ("ok", [])),
    "nothing but pieces": ([delta("output_text", "o", None), delta("output_text", "k", None)], ("ok", [])),
    "a call without its end": ([added(call()), delta("function_call_arguments", "{}")], ("", [("f", {}, "c1")])),
    "arguments at the beginning": ([added(call("{}")), done(call("{}"))], ("", [("f", {}, "c1")])),
    "arguments as an object": ([done({**call(), "arguments": {"a": 1}})], ("", [("f", {"a": 1}, "c1")])),
    "no arguments": ([done({**call(), "arguments": None})], ("", [("f", {}, "c1")])),
    "no call_id": ([done({**call("{}"), "call_id": None})], ("", [("f", {}, "fc_1")])),
    "the same call_id twice": (
        [done(call("{}")), done({**call("{}"), "id": "fc_2"}, 1)],
        ("", [("f", {}, "c1"), ("f", {}, None)]),
    ),
    "an end without content": ([added(message()), delta("output_text", "ok"), done(message())], ("ok", [])),
    "an end without arguments": (
        [added(call()), delta("function_call_arguments", '{"a": 1}'), done(call())],
        ("", [("f", {"a": 1}, "c1")]),
    ),
    "content as text": ([done({**message(), "content": "ok"})], ("ok", [])),
    "more in the end": ([added(message()), delta("output_text", "o"), done(message("ok"))], ("ok", [])),
}  # fmt: skip


@pytest.mark.parametrize("case", DEVIATIONS)
@pytest.mark.parametrize("final", [False, True], ids=["empty final list", "final list"])
def test_servers_that_deviate_are_understood(case: str, final: bool) -> None:
    """Whatever is left out on the way, the answer is the same; and text is passed on exactly once."""
    events, (text, calls) = DEVIATIONS[case]
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]

    found = events_of(*events, completed(*(items if final else ())))

    last = found[-1]
    assert isinstance(last, AnswerEnd)
    assert last.result.content == (text or None)
    assert [(c.name, c.arguments, c.wire_id) for c in last.result.tool_calls] == calls
    assert "".join(e.text for e in found if isinstance(e, TextDelta)) == text
    assert [e.name for e in found if isinstance(e, ToolCallStart)] == [name for name, _, _ in calls]


def test_a_final_list_alone_is_enough() -> None:
    """A server that sends nothing but its last event has said it all."""
    assert result_of(completed(message("ok"), call("{}"))).content == "ok"
    assert len(result_of(added(message()), completed(message("ok"), call("{}"))).tool_calls) == 1


def test_thoughts_are_taken_in_either_form_but_once() -> None:
    """A summary, or the thought itself; not both."""
    item = {"type": "reasoning", "id": "rs", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    events = events_of(
        added({**item, "content": []}), delta("reasoning_text", "hm"), delta("reasoning_summary_text", "h"), done(item),
        completed(item),
    )  # fmt: skip

    assert [e for e in events if isinstance(e, ReasoningDelta)] == [ReasoningDelta(0, "hm")]
    (part,) = whole(output=[item]).message.parts
    assert isinstance(part, ReasoningPart)
    assert (part.text, part.redacted) == ("hm", False)
    (hidden,) = whole(output=[{**item, "content": []}]).message.parts
    assert isinstance(hidden, ReasoningPart)
    assert hidden.redacted


def test_items_nobody_knows_stay_in_their_place() -> None:
    """With all they hold; an empty message too."""
    search, empty = {"type": "web_search_call", "id": "ws", "action": {}}, message()
    parts = whole(output=[search, message("a"), empty]).message.parts

    assert [type(part) for part in parts] == [OpaquePart, TextPart, OpaquePart]
    assert [part.kind for part in parts if isinstance(part, OpaquePart)] == ["web_search_call", "message"]


def test_citations_stand_beside_their_text() -> None:
    """As the service gives them."""
    cited = {"type": "url_citation", "url": "https://x.example"}
    content = [{"type": "output_text", "text": "a", "annotations": [cited, 5]}]
    (part,) = whole(output=[message(content=content)]).message.parts

    assert isinstance(part, TextPart)
    assert part.citations == (cited,)


@pytest.mark.parametrize(
    ("items", "rest", "finish", "raw"),
    [
        ([message("a")], {}, "stop", "completed"),
        ([message("a")], {"status": None}, "stop", "completed"),
        ([call("{}")], {}, "tool_calls", "completed"),
        ([message(content=[{"type": "refusal", "refusal": "no"}])], {}, "refusal", "completed"),
        ([message("a")], {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}, "length",
         "max_output_tokens"),
        ([message("a")], {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter",
         "content_filter"),
        ([call("{}")], {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter",
         "content_filter"),
        ([message("a")], {"status": "incomplete", "incomplete_details": {"reason": "steered"}}, "steered", "steered"),
        ([message("a")], {"status": "incomplete"}, "incomplete", "incomplete"),
        ([], {}, "stop", "completed"),
    ],
)  # fmt: skip
def test_the_finish_reason_is_derived(items: list[Any], rest: dict[str, Any], finish: str, raw: str) -> None:
    """There is none in this API: from the items and the status."""
    result = whole(**{"output": items, **rest})

    assert (result.finish_reason, result.raw_finish) == (finish, raw)


@pytest.mark.parametrize(("arguments", "status"), [('{"a":', "incomplete"), ("{}", "incomplete"), ("", "completed")])
def test_a_call_cut_by_the_token_limit_does_not_run(arguments: str, status: str) -> None:
    """What says so itself, and the last one if nothing of its arguments is left; the one before it can be read."""
    cut = {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}
    last = {**call(arguments, status=status), "id": "fc_2", "call_id": "c2"}

    result = whole(output=[call("{}", status="completed"), last], **cut)

    assert [c.arguments for c in result.tool_calls] == [{}, None]
    assert "output limit" in (result.tool_calls[1].error or "")


@pytest.mark.parametrize(
    "event",
    [
        {"type": "error", "code": "server_error", "message": "m", "param": None},
        {"type": "error", "error": {"code": "server_error", "message": "m"}},
        {"error": {"code": "server_error", "message": "m"}},
        {"type": "response.failed", "response": {"status": "failed", "error": {"message": "m"}}},
        {"type": "response.failed", "response": {"status": "failed", "error": None}},
        {"type": "response.completed", "response": {"status": "failed", "error": {"message": "m"}}},
    ],
)
def test_an_error_inside_a_stream_is_raised(event: dict[str, Any]) -> None:
    """With status 200, in all its forms; what came before has been passed on."""
    stream = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)
    events = stream.feed(sse(added(message()), delta("output_text", "a"), event))

    assert next(events) == TextDelta(0, "a")
    with pytest.raises(ProviderOverloadedError):
        next(events)


@pytest.mark.parametrize(
    "body",
    [
        {"status": "failed", "error": {"code": "server_error", "message": "m"}, "output": []},
        {"status": "failed", "error": None},
        {"error": {"message": "m"}},
    ],
)
def test_a_whole_answer_that_failed_is_an_error(body: dict[str, Any]) -> None:
    """With status 200 too."""
    with pytest.raises(ProviderOverloadedError):
        whole(**body)


@pytest.mark.parametrize(
    "body", [{"status": "queued", "output": []}, {"status": "in_progress", "output": []}, {}, {"choices": []}]
)
def test_what_is_no_answer_is_an_error_of_ours(body: dict[str, Any]) -> None:
    """Background mode, another API's JSON, nothing."""
    with pytest.raises(ProviderProtocolError):
        whole(**body)


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"data: [DONE]\n\n",
        sse({"type": "response.created", "response": {"id": "r"}}),
        sse(added(message()), delta("output_text", "a"), done(message("a"))),
        sse(added(message())) + b'data: {"type": "resp',
        sse(completed(message("a")))[:-20],
        b"data: [1]\n\n",
        b"[]",
        b"<html>no</html>",
    ],
)
def test_a_stream_without_its_last_event_was_cut_off(stream: bytes) -> None:
    """Never a silent success."""
    reader = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)
    with pytest.raises(ProviderProtocolError):
        _ = [*reader.feed(stream), *reader.end()]


def test_what_follows_the_last_event_is_ignored() -> None:
    """The stream is done; a server that streams no events at all is understood too."""
    stream = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)
    events = [*stream.feed(sse(completed(message("a")), completed(message("b"))) + b"data: [DONE]\n\n"), *stream.end()]
    assert stream.is_done
    assert [e.text for e in events if isinstance(e, TextDelta)] == ["a"]

    plain = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)
    body = json.dumps({"status": "completed", "output": [message("a")]}).encode()
    assert [*plain.feed(body), *plain.end()][0] == TextDelta(0, "a")


def test_usage_is_read_with_all_its_parts() -> None:
    """What is no count is left out."""
    raw = {
        "input_tokens": 9,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 5},
        "output_tokens": True,
        "output_tokens_details": {"reasoning_tokens": 2},
    }
    usage = whole(output=[], usage=raw).usage

    assert usage is not None
    assert usage.to_dict() == {
        "input_tokens": 9,
        "reasoning_tokens": 2,
        "cache_read_tokens": 4,
        "cache_write_tokens": 5,
    }
    assert whole(output=[]).usage is None


@pytest.mark.parametrize(
    ("item", "event", "field"),
    [
        (message(), "response.output_text.done", "text"),
        (message(), "response.refusal.done", "refusal"),
        (call(), "response.function_call_arguments.done", "arguments"),
    ],
)
def test_what_comes_without_pieces_is_taken_whole(item: dict[str, Any], event: str, field: str) -> None:
    """From a server that sends no deltas and leaves the item as it began; with pieces it says nothing new."""
    whole_event = {"type": event, "output_index": 0, "item_id": item["id"], field: '{"a": 1}'}
    piece = {**whole_event, "type": event.replace("done", "delta"), "delta": '{"a": 1}'}
    end = {"type": "response.completed", "response": {"status": "completed", "output": []}}

    for events in ((whole_event,), (piece, whole_event)):
        result = result_of(added(item), *events, end)
        said = result.message.refusal if field == "refusal" else result.content
        assert [dict(c.arguments or {}) for c in result.tool_calls] == ([{"a": 1}] if field == "arguments" else [])
        assert said == (None if field == "arguments" else '{"a": 1}')


@pytest.mark.parametrize("wrong", [True, 5, 1.5, [1], {"a": 1}])
@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.output_text.delta", "output_index": 0, "delta": ...},
        {"type": "response.refusal.delta", "output_index": 0, "delta": ...},
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": ...},
        {"type": "response.output_item.done", "output_index": 0, "item": {**message("We pay."), "content": [...]}},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**message(), "content": [{"type": "output_text", "text": ...}]},
        },
        {"type": "response.output_item.added", "output_index": 1, "item": {**call(), "name": ...}},
        {"type": "response.output_item.done", "output_index": 1, "item": {**call(), "name": ...}},
    ],
)
def test_a_wrong_type_where_text_or_calls_may_stand_is_an_error(event: dict[str, Any], wrong: Any) -> None:
    """Streamed, in the middle of a text; also where later events say nothing of it."""
    odd = json.loads(json.dumps(event, default=lambda _: "HERE").replace('"HERE"', json.dumps(wrong)))

    if odd.get("item", {}).get("content") == [{"a": 1}]:
        pytest.skip("a part of a kind that nobody knows is left out")
    with pytest.raises(ProviderProtocolError, match="expected"):
        events_of(added(message()), delta("output_text", "We "), odd, delta("output_text", "pay."), completed())


def test_a_piece_whose_kind_nobody_tells_is_an_error() -> None:
    """An event without a name and without a type; one that says nothing is passed over."""
    stream = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)

    assert [*stream.feed(b'data: {"type": 5}\n\n')] == []
    with pytest.raises(ProviderProtocolError, match="type: expected text, got a number"):
        _ = [*stream.feed(b'data: {"type": 5, "delta": "Hi"}\n\n')]


@pytest.mark.parametrize("wrong", [None, True, 1.5, "x", [1], {"a": 1}])
def test_a_wrong_type_elsewhere_costs_nothing(wrong: Any) -> None:
    """Ids, numbers of events, types that the name of the event or the keys of the item tell: text and call stay."""
    items = [{**message("Hi"), "type": wrong, "id": wrong, "status": wrong}, {**call("{}"), "call_id": wrong}]
    items[1] |= {"id": wrong, "status": wrong, "odd": wrong}
    events = [
        {"type": "response.created", "response": wrong, "sequence_number": wrong},
        added({**message(), "type": wrong if wrong != "x" else "message"}),
        {**delta("output_text", "Hi"), "item_id": wrong, "content_index": wrong, "logprobs": wrong},
        {"type": "response.reasoning_text.delta", "delta": wrong if wrong != "x" else None},
        {**added(call(), 1), "output_index": wrong},
        delta("function_call_arguments", "{}", 1),
        completed(message("Hi"), items[1], error=wrong if wrong != {"a": 1} else None, usage=wrong, model=wrong),
    ]

    result = result_of(*events)

    assert result.content == "Hi"
    assert [(call.name, call.arguments) for call in result.tool_calls] == [("f", {})]
    if wrong != "x":
        assert whole(output=items, error=wrong, incomplete_details=wrong).content == "Hi"


def test_a_character_cut_in_two_is_joined() -> None:
    """In the events and in the result."""
    events = events_of(added(message()), delta("output_text", "a\ud83d"), delta("output_text", "\ude00b"), completed())

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a\U0001f600b"
    assert isinstance(events[-1], AnswerEnd)
    assert events[-1].result.content == "a\U0001f600b"


def test_an_item_that_cannot_be_told_from_another_is_an_error() -> None:
    """Two calls are open, and a piece says of neither that it belongs there."""
    second = {**call(), "id": "fc_2"}

    with pytest.raises(ProviderProtocolError, match="output_index"):
        events_of(added(call(), None), added(second, None), delta("function_call_arguments", "{}", None), completed())


@pytest.mark.parametrize(
    "end",
    [
        {"status": 7},
        {"status": []},
        {"status": "incomplete"},
        {"status": "incomplete", "incomplete_details": 7},
        {"status": "incomplete", "incomplete_details": {"reason": 7}},
    ],
)
def test_an_unreadable_end_may_have_cut_off_the_last_call(end: dict[str, Any]) -> None:
    """It does not run without arguments; one whose arguments are there does."""
    first, last = call("{}"), call("", id="fc_2", call_id="c2")

    assert [c.arguments for c in whole(output=[first, last], **end).tool_calls] == [{}, None]
    assert [c.arguments for c in whole(output=[call('{"a": 1}')], **end).tool_calls] == [{"a": 1}]
