"""What is made of an answer, whole and streamed."""

import json
import re
from typing import Any

import pytest
from flexchat.plugin import ChatResult
from flexchat_anthropic.answer import MessagesAnswer
from flexchat_sdk import (
    AnswerEnd,
    AnswerReader,
    ChatEvent,
    OpaquePart,
    ProviderError,
    ProviderProtocolError,
    ReasoningDelta,
    ReasoningPart,
    RefusalPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    result_of,
)

HERE = "https://here.example"
CALL = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}


class Refused(ProviderError):
    pass


def reader() -> AnswerReader:
    return AnswerReader(MessagesAnswer(HERE), lambda body: Refused(json.dumps(body)), ProviderProtocolError)


def whole(content: Any, stop: str | None = "end_turn", **rest: Any) -> ChatResult:
    answer = {"type": "message", "content": content, "stop_reason": stop, **rest}
    return result_of(reader().whole(json.dumps(answer).encode()))


def read(*events: Any) -> list[ChatEvent]:
    stream = reader()
    found: list[ChatEvent] = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event)
        found += stream.feed(f"data: {data}\n\n".encode())
    return [*found, *stream.end()]


def start(index: Any, block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: Any, kind: str, **rest: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": {"type": kind, **rest}}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def end(reason: str = "end_turn", **usage: int) -> tuple[dict[str, Any], dict[str, Any]]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}


def streamed(*events: Any, reason: str = "end_turn") -> ChatResult:
    return result_of(read(*events, *end(reason)))


def called(*pieces: str, reason: str = "tool_use", given: Any = None) -> Any:
    block = {**CALL, "input": {} if given is None else given}
    (call,) = streamed(
        start(0, block), *[delta(0, "input_json_delta", partial_json=p) for p in pieces], stop(0), reason=reason
    ).tool_calls
    return call


def test_events_come_as_the_blocks_do() -> None:
    """Each delta names its part; a call starts with its name, grows and ends (TC-83)."""
    events = read(
        start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, "thinking_delta", thinking="Hm"),
        delta(0, "signature_delta", signature="s"),
        stop(0),
        start(1, {"type": "text", "text": ""}),
        {"type": "ping"},
        delta(1, "text_delta", text="Hel"),
        delta(1, "text_delta", text="lo"),
        stop(1),
        start(2, CALL),
        delta(2, "input_json_delta", partial_json=""),
        delta(2, "input_json_delta", partial_json='{"a": '),
        delta(2, "input_json_delta", partial_json="1}"),
        stop(2),
        *end("tool_use"),
    )

    result = events[-1].result if isinstance(events[-1], AnswerEnd) else None
    assert result is not None
    (call,) = result.tool_calls
    assert events[:-1] == [
        ReasoningDelta(0, "Hm"),
        TextDelta(1, "Hel"),
        TextDelta(1, "lo"),
        ToolCallStart(2, "f"),
        ToolCallDelta(2, '{"a": '),
        ToolCallDelta(2, "1}"),
        ToolCallEnd(2, call),
    ]
    assert (call.arguments, call.wire_id, call.raw_arguments) == ({"a": 1}, "toolu_1", '{"a": 1}')
    assert (result.content, result.finish_reason, result.warnings) == ("Hello", "tool_calls", ())


def test_no_arguments_are_an_empty_object() -> None:
    """No fragment at all, or only an empty one (TC-82)."""
    for call in (called(), called(""), called(given={})):
        assert (call.arguments, call.error) == ({}, None)
    (call,) = whole([CALL], "tool_use").tool_calls
    assert (call.arguments, call.error) == ({}, None)


def test_arguments_in_the_first_event_are_taken_where_no_others_come() -> None:
    """As some servers send them; what comes in pieces wins."""
    assert called(given={"a": 1}).arguments == {"a": 1}
    assert called('{"b": 2}', given={"a": 1}).arguments == {"b": 2}


def test_arguments_that_cannot_be_read_are_an_invalid_call() -> None:
    """Kept as they came, explained to the model, and not run; the stream goes on."""
    for pieces, words in ((['{"a": ', "oops}"], "not valid JSON"), (["[1]"], "must be a JSON object")):
        call = called(*pieces)
        assert call.arguments is None
        assert words in call.error
        assert call.raw_arguments == "".join(pieces)


def test_a_call_that_the_limit_cut_off_does_not_run() -> None:
    """max_tokens ends the answer in the call's block, also where half of it happens to be JSON; only the last."""
    for reason in ("max_tokens", "model_context_window_exceeded"):
        for pieces in (['{"a": 1'], ['{"a": 1}'], []):
            call = called(*pieces, reason=reason)
            assert call.arguments is None
            assert "output limit" in call.error
        result = whole([{**CALL, "input": {"a": 1}}, {**CALL, "id": "2", "input": {"a": 2}}], reason)
        assert [call.arguments for call in result.tool_calls] == [{"a": 1}, None]
        assert result.finish_reason == "length"
    result = whole([CALL, {"type": "text", "text": "and"}], "max_tokens")
    assert result.tool_calls[0].arguments == {}


def test_a_call_whose_end_was_not_told_ends_with_the_answer() -> None:
    """Some servers leave content_block_stop out, or begin the next block without it."""
    result = streamed(start(0, CALL), start(0, {**CALL, "id": "2"}), delta(0, "input_json_delta", partial_json="{}"))

    assert [(call.wire_id, call.arguments) for call in result.tool_calls] == [("toolu_1", {}), ("2", {})]


ODDS: tuple[Any, ...] = (None, 7, 1.5, True, [1], {"a": 1})


def unreadable(where: str) -> Any:
    return pytest.raises(ProviderProtocolError, match=rf"cannot be read: .*{re.escape(where)}.*: expected ")


@pytest.mark.parametrize("odd", [*ODDS, "x"])
def test_a_wrong_type_where_text_or_calls_stand_is_an_error(odd: Any) -> None:
    """Never an answer without them; whole and streamed, and the error names the place."""
    text = {"type": "text", "text": "We must "}
    with unreadable("content"):
        whole(odd)
    for wrong in (None, 7, "x", []):
        with unreadable("content_block"):
            streamed(start(0, text), stop(0), start(1, wrong), stop(1))
        with unreadable("delta"):
            streamed(start(0, text), {"type": "content_block_delta", "index": 0, "delta": wrong})
        with unreadable("content[1]"):
            whole([text, wrong])
    if odd != "x":
        for block, where in (({"type": "text", "text": odd}, "text"), ({**CALL, "name": odd}, "name")):
            with unreadable(where):
                whole([text, block])
            with unreadable(where):
                streamed(start(0, text), stop(0), start(1, block), stop(1))
        with unreadable("text"):
            streamed(start(0, text), delta(0, "text_delta", text=odd))
        with unreadable("partial_json"):
            streamed(start(0, CALL), delta(0, "input_json_delta", partial_json=odd))
        with unreadable("type"):
            whole([text, {**CALL, "type": odd}])
        with unreadable("type"):
            streamed(start(0, text), {"type": odd, "index": 0, "delta": {"type": "text_delta", "text": "pay."}})
    if odd != {"a": 1}:
        with unreadable("input of the call of f"):
            whole([{**CALL, "input": odd}], "tool_use")


def test_what_does_not_fit_its_block_is_an_error() -> None:
    """A call's piece in a text, a text's in a call, a piece of a block that has not begun, a call without a name."""
    text = {"type": "text", "text": "x"}
    for events, where in (
        ([start(0, text), delta(0, "input_json_delta", partial_json="{}")], "delta.type"),
        ([start(0, CALL), delta(0, "text_delta", text="y")], "delta.type"),
        ([start(0, text), delta(7, "text_delta", text="y")], "index"),
        ([delta(0, "text_delta", text="y")], "index"),
        ([start(0, {"type": "tool_use", "id": "toolu_1", "input": {}})], "name"),
    ):
        with unreadable(where):
            streamed(*events)


@pytest.mark.parametrize("written", [str, float, *(lambda _, odd=odd: odd for odd in (None, "x", 1.5, [], True))])
def test_an_index_that_is_not_needed_costs_nothing(written: Any) -> None:
    """As long as one block is open, what comes is that block's."""
    answer = [start(0, CALL), delta(0, "input_json_delta", partial_json='{"n": 1}'), stop(0)]
    answer += [start(1, {"type": "text", "text": ""}), delta(1, "text_delta", text="x"), stop(1)]
    for at in range(len(answer)):
        odd = {**answer[at], "index": written(answer[at]["index"])}
        result = streamed(*answer[:at], odd, *answer[at + 1 :])
        assert (result.content, [call.arguments for call in result.tool_calls]) == ("x", [{"n": 1}])


def test_of_several_open_blocks_none_may_hide_its_number() -> None:
    """It could not be told where the text belongs."""
    with unreadable("index"):
        streamed(start(0, CALL), start(1, {**CALL, "id": "2"}), delta("x", "input_json_delta", partial_json="{}"))


def test_a_type_that_shows_in_what_is_there_is_read() -> None:
    """Of an event, by its name; of a block and a delta, by their fields."""
    assert whole([{"type": None, "text": "x"}]).content == "x"
    assert [*map(type, whole([{"type": 7, "thinking": "x"}]).message.parts)] == [ReasoningPart]
    odd = {"type": "content_block_delta", "index": 0, "delta": {"type": [], "text": "x"}}
    assert streamed(start(0, {"type": 1, "text": ""}), odd, stop(0)).content == "x"
    stream = reader()
    events = stream.feed(
        b'event: content_block_start\ndata: {"type": 7, "content_block": {"type":"text","text":"x"}}\n\n'
    )
    assert result_of([*events, *stream.feed(b'data: {"type": "message_stop"}\n\n'), *stream.end()]).content == "x"


@pytest.mark.parametrize("odd", [*ODDS, "x", ""])
def test_a_wrong_type_elsewhere_costs_nothing(odd: Any) -> None:
    """Counts, ids, names, reasons, citations, signatures, servers' tools, and what nobody knows."""
    call = {**CALL, "id": odd, "cache_control": odd, "new": odd}
    others = [
        {"type": "text", "text": "pay.", "citations": odd, "new": odd},
        {"type": "server_tool_use", "id": odd, "name": odd, "input": odd},
        {"type": odd, "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": odd, "data": "e"},
        {"type": "thinking", "thinking": odd, "signature": odd},
    ]
    result = whole([call, *others], odd or "tool_use", usage=odd, model=odd, id=odd, container=odd, stop_details=odd)

    assert result.content == "pay."
    assert [(call.name, call.arguments) for call in result.tool_calls] == [("f", {})]


def test_calls_with_one_id_are_told_apart() -> None:
    """The second goes without: its result would be the first one's, too."""
    result = whole([CALL, {**CALL, "name": "g"}], "tool_use")

    assert [(call.name, call.wire_id) for call in result.tool_calls] == [("f", "toolu_1"), ("g", None)]


def test_thinking_keeps_its_signature_and_may_be_hidden() -> None:
    """``display: "omitted"`` gives an empty text with a signature; redacted_thinking gives data."""
    hidden = [
        start(0, {"type": "thinking", "thinking": "", "signature": ""}),
        delta(0, "signature_delta", signature="s"),
        stop(0),
        start(1, {"type": "redacted_thinking", "data": "e"}),
        stop(1),
        start(2, {"type": "text", "text": ""}),
        delta(2, "text_delta", text="x"),
        stop(2),
    ]
    blocks = [
        {"type": "thinking", "thinking": "", "signature": "s"},
        {"type": "redacted_thinking", "data": "e"},
        {"type": "text", "text": "x"},
    ]
    for result in (streamed(*hidden), whole(blocks)):
        thought, redacted, _ = result.message.parts
        assert isinstance(thought, ReasoningPart)
        assert isinstance(redacted, ReasoningPart)
        assert (thought.text, thought.redacted, redacted.text, redacted.redacted) == ("", True, "", True)
        assert thought.provider_data is not None
        assert thought.provider_data.data == {"block": {"signature": "s"}}
        assert redacted.provider_data is not None
        assert redacted.provider_data.data == {"block": blocks[1]}
        assert "'s'" not in repr(result.content)


def test_thinking_without_text_and_signature_is_none() -> None:
    """Nothing was thought."""
    assert streamed(start(0, {"type": "thinking", "thinking": ""}), stop(0)).message.parts == ()


def test_blocks_that_are_not_read_keep_their_place_and_all_their_data() -> None:
    """The service's own tools and their results, and kinds that did not exist yet."""
    search = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"encrypted_content": "e"}]}
    new = {"type": "newest", "anything": [1]}
    result = streamed(
        start(0, {**search, "input": {}}),
        delta(0, "input_json_delta", partial_json='{"query": '),
        delta(0, "input_json_delta", partial_json='"x"}'),
        stop(0),
        start(1, found),
        stop(1),
        start(2, new),
        delta(2, "newest_delta", anything=[2]),
        stop(2),
        start(3, {"type": "compaction", "content": None}),
        delta(3, "compaction_delta", content="so "),
        delta(3, "compaction_delta", content="far"),
        stop(3),
        start(4, {"type": "text", "text": "y"}),
        stop(4),
    )

    opaque = result.message.parts[:4]
    assert [part.kind for part in opaque if isinstance(part, OpaquePart)] == [
        "server_tool_use",
        "web_search_tool_result",
        "newest",
        "compaction",
    ]
    blocks = [part.provider_data.data["block"] for part in opaque if part.provider_data]
    assert blocks == [search, found, {**new, "anything": [2]}, {"type": "compaction", "content": "so far"}]
    assert (result.content, result.tool_calls) == ("y", ())


def test_input_of_a_service_tool_that_cannot_be_read_is_told() -> None:
    """The block stays as it began."""
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    result = streamed(start(0, search), delta(0, "input_json_delta", partial_json="{oops"), stop(0))

    (part,) = result.message.parts
    assert part.provider_data is not None
    assert part.provider_data.data["block"] == search
    assert any("web_search" in warning for warning in result.warnings)


def test_a_service_tool_without_input_is_no_trouble() -> None:
    """The service begins each input with an empty piece."""
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    result = streamed(start(0, search), delta(0, "input_json_delta", partial_json=""), stop(0))

    (part,) = result.message.parts
    assert isinstance(part, OpaquePart)
    assert part.provider_data.data == {"block": search}
    assert not any("web_search" in warning for warning in result.warnings)


def test_citations_stand_at_their_text() -> None:
    """From a whole answer, and one by one."""
    cited = {"type": "web_search_result_location", "url": "u"}
    result = streamed(
        start(0, {"type": "text", "text": "", "citations": []}),
        delta(0, "citations_delta", citation=cited),
        delta(0, "text_delta", text="x"),
        stop(0),
    )
    for part in (
        result.message.parts[0],
        whole([{"type": "text", "text": "x", "citations": [cited]}]).message.parts[0],
    ):
        assert isinstance(part, TextPart)
        assert part.citations == (cited,)
    (part,) = whole([{"type": "text", "text": "x", "citations": None}]).message.parts
    assert part == TextPart(text="x")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("compaction", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "refusal"),
        ("pause_turn", "pause"),
        ("newest", "unknown"),
        (None, None),
    ],
)
def test_every_end_has_its_word(raw: str | None, reason: str | None) -> None:
    """And the service's own beside it; an end that is not an ordinary one is told."""
    result = whole([{"type": "text", "text": "x"}], raw)

    assert (result.finish_reason, result.raw_finish) == (reason, raw)
    assert bool(result.warnings) is (raw in ("refusal", "model_context_window_exceeded", "newest", None))


def test_calls_are_calls_whatever_the_end_is_called() -> None:
    """Only the limit and a refusal are stronger."""
    for raw, reason in (
        ("end_turn", "tool_calls"),
        ("tool_use", "tool_calls"),
        (None, "tool_calls"),
        ("x", "tool_calls"),
    ):
        assert whole([CALL], raw).finish_reason == reason
    for raw, reason in (("max_tokens", "length"), ("refusal", "refusal")):
        assert whole([CALL], raw).finish_reason == reason


def test_a_refusal_says_why() -> None:
    """The service's explanation is the model's "no" where it said nothing else."""
    details = {"type": "refusal", "category": "cyber", "explanation": "Not that."}
    result = whole([], "refusal", stop_details=details)
    assert result.message.parts == (RefusalPart(text="Not that."),)
    assert result.message.refusal == "Not that."
    assert any("cyber: Not that." in warning for warning in result.warnings)

    assert whole([{"type": "text", "text": "I"}], "refusal", stop_details=details).message.refusal is None
    assert whole([], "refusal", stop_details=None).message.parts == ()


def test_an_empty_answer_is_an_answer() -> None:
    """After tools' results the model may have nothing to add: finished, and told."""
    result = whole([])
    assert (result.content, result.finish_reason) == (None, "stop")
    assert any("nothing" in warning for warning in result.warnings)
    assert "token limit" in whole([{"type": "thinking", "thinking": "Hm", "signature": "s"}], "max_tokens").warnings[0]


def test_usage_is_cumulative_and_includes_the_cache() -> None:
    """input = input + creation + read; later counts replace earlier ones, what is missing or null keeps its value."""
    begun = {"input_tokens": 10, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 4, "output_tokens": 1}
    events = read(
        {"type": "message_start", "message": {"id": "m", "model": "x", "usage": begun}},
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 5, "input_tokens": None}},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 9, "output_tokens_details": {"thinking_tokens": 2}},
        },
    )
    result = result_of(events)

    assert result.usage is not None
    assert result.usage.to_dict() == {
        "input_tokens": 17,
        "output_tokens": 9,
        "reasoning_tokens": 2,
        "cache_read_tokens": 4,
        "cache_write_tokens": 3,
    }
    assert (result.model, result.response_id) == ("x", "m")
    assert whole([]).usage is None
    odd = whole([], usage={"input_tokens": "1", "output_tokens": True, "output_tokens_details": 1}).usage
    assert odd is not None
    assert odd.to_dict() == {}


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"null", "not an answer of the Messages API"),
        (b"[]", "not an answer of the Messages API"),
        (b'{"choices": []}', "not an answer of the Messages API"),
        (b'{"content": null}', "content: expected a list, got null"),
    ],
)
def test_what_makes_no_sense_is_a_protocol_error(body: bytes, text: str) -> None:
    """A wrong address, half an answer."""
    with pytest.raises(ProviderProtocolError, match=text):
        [*reader().whole(body)]


@pytest.mark.parametrize(
    ("events", "text"),
    [
        ([], "without a stop reason"),
        ([start(0, CALL)], "without a stop reason"),
        (["{oops"], "not JSON"),
        (["[1]"], "not a JSON object"),
    ],
)
def test_a_stream_without_its_end_is_a_protocol_error(events: list[Any], text: str) -> None:
    """Half an answer must not pass for a whole one."""
    with pytest.raises(ProviderProtocolError, match=text):
        read(*events)


def test_a_stream_whose_last_event_is_missing_is_whole_with_its_stop_reason() -> None:
    """Nothing but message_stop could follow."""
    assert result_of(read(start(0, {"type": "text", "text": "x"}), end()[0])).content == "x"


def test_an_error_in_the_middle_is_raised() -> None:
    """With status 200; also by servers that name no type."""
    for error in ({"type": "error", "error": {"type": "overloaded_error"}}, {"error": "no"}):
        with pytest.raises(Refused):
            read(start(0, {"type": "text", "text": "x"}), error)
        with pytest.raises(Refused):
            [*reader().whole(json.dumps(error).encode())]


def test_a_whole_answer_where_a_stream_was_asked_for_is_read() -> None:
    """Some servers do not stream."""
    stream = reader()
    body = json.dumps({"content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn"}).encode()
    events = [event for piece in (body[:9], body[9:]) for event in stream.feed(piece)]

    assert result_of([*events, *stream.end()]).content == "x"


def test_unknown_events_and_deltas_add_nothing() -> None:
    """The list grows; a proxy's [DONE] is none of them; nothing is read after message_stop."""
    result = streamed(
        {"type": "newest_event", "x": 1},
        start(0, {"type": "text", "text": "x"}),
        delta(0, "newest_delta", text="y"),
        delta(0, "signature_delta", signature="s"),
        stop(0),
        stop(9),
        "[DONE]",
    )
    assert result.message.parts == (TextPart(text="x"),)
    late = [start(1, {"type": "text", "text": "late"}), "{oops"]
    assert result_of(read(start(0, {"type": "text", "text": "x"}), *end(), *late)).content == "x"


def test_odd_values_where_neither_text_nor_calls_stand_raise_nothing() -> None:
    """Around the blocks."""
    odds: tuple[Any, ...] = (None, 1, "x", [], {})
    for odd in odds:
        read({"type": "message_start", "message": odd}, *end())
        read({"type": "content_block_start", "index": odd, "content_block": CALL}, stop(odd), *end())
        read({"type": "message_delta", "delta": odd, "usage": odd}, {"type": "message_stop"})


def test_what_becomes_of_a_message_is_kept_with_it() -> None:
    """A container its code waits in; that it was refused, or paused."""
    assert whole([]).message.provider_data is None
    for message, data in (
        (whole([CALL], "tool_use", container={"id": "c", "expires_at": "x"}).message, {"container": "c"}),
        (whole([], "refusal").message, {"stop_reason": "refusal"}),
        (whole([], "pause_turn", container={"id": "c"}).message, {"container": "c", "stop_reason": "pause_turn"}),
    ):
        assert message.provider_data is not None
        assert message.provider_data.data == data
        assert (message.provider_data.scope, message.provider_data.origin) == ("anthropic", HERE)


def test_deep_arguments_do_not_run() -> None:
    """Too deep to be read is too deep to be run; nothing is raised."""
    assert called("[" * 100_000).arguments is None


@pytest.mark.parametrize("reason", [7, True, [], {"a": 1}])
def test_an_unreadable_end_may_have_cut_off_the_last_call(reason: Any) -> None:
    """Only the last, and only without whole arguments."""
    first = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
    last = {"type": "tool_use", "id": "b", "name": "g", "input": {}}
    ran, refused = whole([first, last], reason).tool_calls

    assert (ran.arguments, refused.arguments) == ({}, None)
    assert "may have been cut off" in (refused.error or "")
    assert [c.arguments for c in whole([{**last, "input": {"a": 1}}], reason).tool_calls] == [{"a": 1}]


@pytest.mark.parametrize("odd", [7, -1, "0", None, 1.5, {}, True])
def test_a_stop_of_a_block_that_has_not_begun_costs_nothing(odd):
    """Neither the text nor the call, whole as they are, nor what begins after it."""
    text, call = {"type": "text", "text": ""}, delta(1, "input_json_delta", partial_json='{"a": 1}')
    events = [start(0, text), delta(0, "text_delta", text="Look: "), stop(odd), start(1, CALL), call, stop(odd)]

    result = result_of(read(*events, *end("tool_use")))

    assert result.content == "Look: "
    assert [(made.name, made.arguments) for made in result.tool_calls] == [("f", {"a": 1})]
    assert result.finish_reason == "tool_calls"
