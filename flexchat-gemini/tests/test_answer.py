"""Answers, whole and streamed: every part in its place, every end understood, nothing assumed to be there."""

import json
import re
from typing import Any

import pytest
from flexchat.plugin import ChatResult
from flexchat_gemini.answer import FRAMING, GeminiAnswer, usage_of
from flexchat_gemini.errors import REFUSALS
from flexchat_sdk import (
    AnswerEnd,
    AnswerReader,
    ChatEvent,
    MediaPart,
    OpaquePart,
    ProviderAuthError,
    ProviderError,
    ProviderProtocolError,
    ProviderRequestError,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

HERE = "https://here.example"
FILTERED = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT"),
    *("IMAGE_RECITATION", "MODEL_ARMOR", "ESCALATION"),
)
BROKEN = (
    *("LANGUAGE", "OTHER", "NO_IMAGE", "IMAGE_OTHER", "MALFORMED_RESPONSE", "FINISH_REASON_UNSPECIFIED"),
    "TOO_MANY_TOOL_CALLS",
)


def failed(body: object) -> ProviderError:
    return REFUSALS.error(body, status=None, headers={}, host="h", path="/", model=None, mask=str)


def reader() -> AnswerReader:
    return AnswerReader(GeminiAnswer(HERE), failed, ProviderProtocolError, FRAMING)


def candidate(*parts: Any, finish: str | None = "STOP", **rest: Any) -> dict[str, Any]:
    end = {"finishReason": finish} if finish else {}
    return {"candidates": [{"content": {"role": "model", "parts": [*parts]}, **end, **rest}]}


def events_of(*chunks: Any) -> list[ChatEvent]:
    stream = reader()
    text = "".join(f"data: {json.dumps(chunk)}\r\n\r\n" for chunk in chunks)
    return [*stream.feed(text.encode()), *stream.end()]


def streamed(*chunks: Any) -> ChatResult:
    end = events_of(*chunks)[-1]
    assert isinstance(end, AnswerEnd)
    return end.result


def whole(answer: Any) -> ChatResult:
    end = [*reader().whole(json.dumps(answer).encode())][-1]
    assert isinstance(end, AnswerEnd)
    return end.result


def test_unsigned_texts_are_joined_and_signed_ones_are_not() -> None:
    """A text goes into the last part if that is of its kind and neither is signed; an empty signed one is kept."""
    parts = [
        {"text": "a", "thought": True},
        {"text": "b", "thought": True},
        {"text": "c"},
        {"text": ""},
        {"text": "d", "thought": False},
        {"text": "e", "thoughtSignature": "s1"},
        {"text": "f"},
        {"text": "", "thoughtSignature": "s2"},
    ]
    results = whole(candidate(*parts)), streamed(*[candidate(p, finish=None) for p in parts], candidate())

    for result in results:
        made = [(type(p), getattr(p, "text", None)) for p in result.message.parts]
        assert made == [
            (ReasoningPart, "ab"),
            (TextPart, "cd"),
            (TextPart, "e"),
            (TextPart, "f"),
            (TextPart, ""),
        ]
        assert result.content == "cdef"
        kept = [p.provider_data.data["part"] if p.provider_data else None for p in result.message.parts]
        assert kept == [{"thought": True}, None, {"thoughtSignature": "s1"}, None, {"thoughtSignature": "s2"}]


def test_two_texts_with_one_signature_stay_two() -> None:
    """Each is signed for itself."""
    signed = {"text": "a", "thoughtSignature": "s"}

    assert len(whole(candidate(signed, signed)).message.parts) == 2


def test_events_come_as_the_parts_do() -> None:
    """With the index of their part; a call is whole at once (TC-82)."""
    call = {"functionCall": {"id": "w", "name": "f", "args": {"ü": [1]}}, "thoughtSignature": "s"}
    events = events_of(
        candidate({"text": "hm", "thought": True}, finish=None),
        candidate({"text": "a"}, finish=None),
        candidate({"text": "b"}, call, {"functionCall": {"name": "g"}}),
    )

    calls = [e.call for e in events if isinstance(e, ToolCallEnd)]
    assert events[:-1] == [
        ReasoningDelta(0, "hm"),
        TextDelta(1, "a"),
        TextDelta(1, "b"),
        ToolCallStart(2, "f"),
        ToolCallDelta(2, '{"ü":[1]}'),
        ToolCallEnd(2, calls[0]),
        ToolCallStart(3, "g"),
        ToolCallDelta(3, "{}"),
        ToolCallEnd(3, calls[1]),
    ]
    assert [(c.name, c.arguments, c.wire_id) for c in calls] == [("f", {"ü": [1]}, "w"), ("g", {}, None)]
    assert calls[0].id != calls[1].id
    assert calls[0].id.startswith("call_")  # C3
    assert isinstance(events[-1], AnswerEnd)
    assert events[-1].result.finish_reason == "tool_calls"


@pytest.mark.parametrize(
    ("part", "where"),
    [
        *(
            ({"functionCall": {"name": "f", "args": args}}, "functionCall.args")
            for args in ("t", [1], 3, True, "", None)
        ),
        *(({"functionCall": {"name": name, "args": {}}}, "functionCall.name") for name in (None, 3, ["f"])),
        ({"functionCall": {"args": {}}}, "functionCall.name"),
        *(({"functionCall": call}, "functionCall: expected") for call in (None, "f", [], 0)),
        *(({"text": text}, "text: expected text") for text in (None, 5, ["t"], {})),
        *(({"text": "t", "thought": mark}, "thought: expected true or false") for mark in (None, "true", 1)),
        ("t", "parts[1]: expected an object, got text"),
        (None, "parts[1]: expected an object, got null"),
    ],
)
def test_a_wrong_type_where_text_or_calls_stand_is_an_error(part: Any, where: str) -> None:
    """Never an answer without them; whole and streamed, and the error names the place."""
    with pytest.raises(ProviderProtocolError, match=re.escape(where)) as raised:
        whole(candidate({"text": "We must "}, part))
    assert raised.value.retryable
    with pytest.raises(ProviderProtocolError, match=re.escape(where)):
        streamed(candidate({"text": "We must "}, part, finish=None), candidate({"text": "pay."}))


@pytest.mark.parametrize("wrong", [None, 7, "x", True, 1.5])
def test_a_container_of_a_wrong_type_is_an_error(wrong: Any) -> None:
    """On the way to the parts."""
    for chunk in (
        {"candidates": wrong},
        {"candidates": [wrong]},
        {"candidates": [{"content": wrong}]},
        {"candidates": [{"content": {"parts": wrong}}]},
    ):
        with pytest.raises(ProviderProtocolError, match=r"candidates.*expected (an object|a list), got"):
            streamed(candidate({"text": "We must "}, finish=None), chunk, candidate({"text": "pay."}))


@pytest.mark.parametrize("odd", [None, 7, "x", "", [], {}, True])
def test_a_wrong_type_elsewhere_costs_nothing(odd: Any) -> None:
    """Counts, ids, names, reasons, citations, and what nobody knows."""
    call = {"functionCall": {"name": "f", "args": {"n": 1}, "id": odd, "new": odd}, "thoughtSignature": odd, "x": odd}
    beside = {"finishMessage": odd, "citationMetadata": odd, "groundingMetadata": odd, "safetyRatings": odd, "new": odd}
    around = {"usageMetadata": odd, "modelVersion": odd, "responseId": odd, "promptFeedback": odd}
    answer = {**candidate({"text": "pay."}, call, **beside), **around}
    ended = candidate({"text": "pay."}, call)
    ended["candidates"][0]["finishReason"] = odd or 7

    for result in (whole(answer), streamed(answer), whole(ended), streamed(ended)):
        assert result.content == "pay."
        assert [(c.name, c.arguments) for c in result.tool_calls] == [("f", {"n": 1})]


def test_nothing_but_a_wrong_type_is_not_an_empty_answer() -> None:
    """What may say why there is no answer cannot be read: that is what is told."""
    for feedback in (7, [], "blocked", {"blockReason": 7}):
        with pytest.raises(ProviderProtocolError, match=r"promptFeedback.*expected"):
            whole({"promptFeedback": feedback})


@pytest.mark.parametrize("index", ["0", 0.0, None, "x", [], {}])
def test_the_only_answer_is_read_whatever_its_index(index: Any) -> None:
    """It cannot be another one's."""
    assert whole(candidate({"text": "pay."}, index=index)).content == "pay."


def test_one_of_several_answers_needs_an_index() -> None:
    """Else it cannot be told which of them is the first."""
    others = {
        "candidates": [{**candidate({"text": t})["candidates"][0], "index": i} for t, i in (("a", 1), ("b", "0"))]
    }
    assert whole(others).content == "b"
    others["candidates"][1]["index"] = "x"
    with pytest.raises(ProviderProtocolError, match=r"candidates\[1\].index"):
        whole(others)


def test_a_part_with_a_text_and_a_call_is_both() -> None:
    """The service promises one of them; neither is dropped."""
    result = whole(candidate({"text": "t", "functionCall": {"name": "f", "args": {}}, "thoughtSignature": "s"}))

    assert (result.content, [call.name for call in result.tool_calls]) == ("t", ["f"])


def test_calls_with_one_id_are_told_apart() -> None:
    """The second goes without: its result would be the first one's, too."""
    calls = whole(candidate(*[{"functionCall": {"name": n, "args": {}, "id": "a"}} for n in "fg"])).tool_calls

    assert [(call.name, call.wire_id) for call in calls] == [("f", "a"), ("g", None)]


def test_other_parts_keep_their_place() -> None:
    """Code, its result, server tools, what nobody knows: opaque. Files: media, if they can go back exactly."""
    parts = [
        {"executableCode": {"code": "1"}, "thoughtSignature": "s"},
        {"codeExecutionResult": {"output": "1"}},
        {"toolCall": {"id": "x"}},
        {"text": "t"},
        {"inlineData": {"mimeType": "image/png", "data": "AAEC"}},
        {"inlineData": {"mimeType": "image/png", "data": "not base64"}},
        {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://x"}},
        {"fileData": {"fileUri": "gs://x"}},
        {"thoughtSignature": "alone"},
        {"brandNew": 1},
    ]
    made = whole(candidate(*parts)).message.parts

    assert [p.kind for p in made if isinstance(p, OpaquePart)] == [
        "executableCode",
        "codeExecutionResult",
        "toolCall",
        "inlineData",
        "fileData",
        "thoughtSignature",
        "brandNew",
    ]
    assert [(at, p.kind, p.data, p.url) for at, p in enumerate(made) if isinstance(p, MediaPart)] == [
        (4, "image", b"\0\1\2", None),
        (6, "document", None, "gs://x"),
    ]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("CONTINUATION", "length"),
        *[(raw, "content_filter") for raw in FILTERED],
        *[(raw, "error") for raw in BROKEN],
        ("MALFORMED_FUNCTION_CALL", "malformed_tool_call"),
        ("UNEXPECTED_TOOL_CALL", "malformed_tool_call"),
        ("SOMETHING_NEW", "unknown"),
    ],
)
def test_every_end_has_its_word(raw: str, reason: str) -> None:
    """Whole and streamed; every end but an ordinary one is told, with what the service says (TC-83)."""
    chunk = candidate({"text": "t"}, finish=raw, finishMessage="because")

    for result in (whole(chunk), streamed(chunk)):
        assert (result.finish_reason, result.raw_finish) == (reason, raw)
        ordinary = reason in ("stop", "length")
        assert len(result.warnings) == (not ordinary)
        assert all(raw in text and "because" in text for text in result.warnings)
    called = whole(candidate({"functionCall": {"name": "f"}}, finish=raw)).finish_reason
    weaker = reason in ("stop", "error", "unknown")
    assert called == ("tool_calls" if weaker else reason)


def test_faults_are_raised() -> None:
    """A locked account, and history we sent back wrongly, are errors, not answers."""
    for run in (whole, streamed):
        with pytest.raises(ProviderAuthError, match="account limited"):
            run(candidate(finish="PUP_LIMITED_DISABLED", finishMessage="account limited"))
        with pytest.raises(ProviderRequestError):
            run(candidate(finish="MISSING_THOUGHT_SIGNATURE"))


def test_a_blocked_prompt_is_filtered_content() -> None:
    """HTTP says 200 and there is no candidate; the warning names the reason."""
    blocked = {"promptFeedback": {"blockReason": "SAFETY", "blockReasonMessage": "m"}, "usageMetadata": {}}

    for result in (whole(blocked), streamed(blocked)):
        assert (result.finish_reason, result.raw_finish, result.content) == ("content_filter", "SAFETY", None)
        assert result.warnings == ("the service blocked the prompt (SAFETY): m",)


def test_an_empty_answer_is_told() -> None:
    """Nothing, one empty text, thoughts alone; and a limit that was used up by thoughts."""
    for parts in ([], [{"text": ""}], [{"text": "hm", "thought": True}], [{"text": "", "thoughtSignature": "s"}]):
        result = whole(candidate(*parts))
        assert (result.finish_reason, result.content) == ("stop", None)
        assert result.warnings == ("the model answered with nothing",)
    assert "thoughts count too" in whole(candidate(finish="MAX_TOKENS")).warnings[0]


def test_every_level_may_be_missing() -> None:
    """A usage-only chunk, a candidate without content, content without parts."""
    for odd in ({}, {"content": {}}, {"content": {"role": "model"}}):
        assert whole({"candidates": [{**odd, "finishReason": "STOP"}]}).finish_reason == "stop"
        assert streamed({"candidates": [odd]}, {"usageMetadata": {}}, {}, candidate({"text": "x"})).content == "x"
    bare = whole({"usageMetadata": {"promptTokenCount": 1}})
    assert bare.finish_reason is None
    assert "without a finish reason" in bare.warnings[0]


def test_usage_is_cumulative_and_thoughts_are_output() -> None:
    """Counts of later chunks win, missing ones keep their value; what tools found was read."""
    result = streamed(
        {"usageMetadata": {"promptTokenCount": 10, "cachedContentTokenCount": 4, "candidatesTokenCount": 1}},
        {"usageMetadata": {"promptTokenCount": 12, "thoughtsTokenCount": 5, "candidatesTokenCount": None}},
        {"usageMetadata": {"toolUsePromptTokenCount": 3, "candidatesTokenCount": 7}, **candidate({"text": "t"})},
    )

    assert result.usage is not None
    assert result.usage.to_dict() == {
        "input_tokens": 15,
        "output_tokens": 12,
        "reasoning_tokens": 5,
        "cache_read_tokens": 4,
    }
    assert usage_of({}) is None
    odd = usage_of({"promptTokenCount": "7", "thoughtsTokenCount": True})
    assert odd is not None
    assert odd.to_dict() == {}


def test_model_and_id_are_the_services() -> None:
    """What really answered."""
    result = streamed({"modelVersion": "m-1", "responseId": "r"}, {"modelVersion": 3}, candidate({"text": "t"}))

    assert (result.model, result.response_id) == ("m-1", "r")


def test_sources_are_citations_of_the_last_text() -> None:
    """In both APIs' spelling; grounding and fetched pages as they came; no text, no citation."""
    grounding = {"groundingMetadata": {"webSearchQueries": ["q"]}, "urlContextMetadata": {"urlMetadata": []}}
    cited = {"citationMetadata": {"citationSources": [{"uri": "u"}, 3]}}
    vertex = {"citationMetadata": {"citations": [{"uri": "v"}]}}
    result = streamed(
        candidate({"text": "a"}, finish=None, **cited), candidate({"text": "", "thoughtSignature": "s"}, **grounding)
    )

    first, last = result.message.parts
    assert isinstance(first, TextPart)
    assert isinstance(last, TextPart)
    assert first.citations == (
        {"uri": "u"},
        {"groundingMetadata": {"webSearchQueries": ["q"]}},
        {"urlContextMetadata": {"urlMetadata": []}},
    )
    assert last.citations == ()
    assert whole(candidate({"text": "a"}, **vertex)).message.parts[0].citations == ({"uri": "v"},)  # type: ignore[union-attr]
    assert whole(candidate(**grounding)).message.parts == ()


def test_only_the_first_of_several_answers_is_used() -> None:
    """Somebody asked for more through extra."""
    two = candidate({"text": "a"})
    two["candidates"].append({"index": 1, "content": {"parts": [{"text": "b"}]}, "finishReason": "SAFETY"})

    result = whole(two)
    assert (result.content, result.finish_reason) == ("a", "stop")
    assert "several answers" in result.warnings[0]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"<html>", "not JSON"),
        (b'{"candidates": [', "cut off"),
        (b"{}", "not a Gemini answer"),
        (b"[]", "not a Gemini answer"),
        (b"[1]", "not a Gemini answer"),
        (b"3", "not a Gemini answer"),
        (b'{"choices": []}', "base_url"),
        (b'[{"candidates": [{"content": {"parts": [{"text": "a"}]}}]}]', "cut off"),
        (b'[{"candidates": [{"finishReason": "STOP"}]}, 3]', r"answer\[1\]: expected an object"),
        (b"[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_what_makes_no_sense_is_a_protocol_error(body: bytes, text: str) -> None:
    """Whole answers."""
    with pytest.raises(ProviderProtocolError, match=text):
        list(reader().whole(body))


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "without a finish reason"),
        (b": comment\n\n", "without a finish reason"),
        (b"data: [DONE]\n\n", "without a finish reason"),
        (b'data: {"candidates": [{"content": {"parts": [{"text": "a"}]}}]}\n\n', "without a finish reason"),
        (b'data: {"usageMetadata": {"promptTokenCount": 1}}\n\n', "without a finish reason"),
        (b'data: {"candidates": [{"cont', "not JSON, or was cut off"),
        (b"data: 3\n\n", "not a JSON object"),
        (b'data: {"a": "\xff"}\n\n', "not JSON"),
    ],
)
def test_a_stream_without_its_end_is_a_protocol_error(body: bytes, text: str) -> None:
    """Whatever came before: an answer that was cut off must not look like one."""
    stream = reader()

    with pytest.raises(ProviderProtocolError, match=text):
        [*stream.feed(body), *stream.end()]


def test_a_line_without_end_is_a_protocol_error() -> None:
    """Not memory."""
    stream = reader()

    with pytest.raises(ProviderProtocolError, match="longer than"):
        list(stream.feed(b"data: " + b"x" * (9 * 2**20)))


def test_an_error_in_the_middle_is_raised() -> None:
    """As an object, in a list, and in the array form."""
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    for run in (
        lambda: streamed(candidate({"text": "a"}, finish=None), error),
        lambda: streamed(candidate({"text": "a"}, finish=None), [error]),
        lambda: whole([candidate({"text": "a"}, finish=None), error]),
        lambda: whole(error),
    ):
        with pytest.raises(ProviderError) as caught:
            run()
        assert (type(caught.value).__name__, caught.value.status) == ("ProviderOverloadedError", 503)


def test_a_stream_may_be_an_array_or_a_whole_answer() -> None:
    """Servers that do not know alt=sse: the same result, in pieces of any size."""
    chunks = [candidate({"text": "a"}, finish=None), candidate({"text": "b"})]
    for body, content in ((chunks, "ab"), (chunks[1], "b")):
        raw = b" \r\n" + json.dumps(body).encode()
        for size in (1, 7, len(raw)):
            stream = reader()
            events = [e for at in range(0, len(raw), size) for e in stream.feed(raw[at : at + size])]
            end = [*events, *stream.end()][-1]
            assert isinstance(end, AnswerEnd)
            assert end.result.content == content


def test_deep_arguments_do_not_run() -> None:
    """JSON that can just be read, but hardly be walked."""
    deep: Any = {}
    for _ in range(400):
        deep = {"a": deep}
    body = json.dumps(candidate({"functionCall": {"name": "f", "args": deep}})).encode()

    end = [*reader().whole(body)][-1]
    assert isinstance(end, AnswerEnd)
    (call,) = end.result.tool_calls
    assert (call.arguments is None) == (call.error is not None)


def partial(path: str, value: Any, *, more: bool = False, ends: bool = False) -> dict[str, Any]:
    kind = {str: "stringValue", bool: "boolValue", type(None): "nullValue"}.get(type(value), "numberValue")
    item = {
        "jsonPath": path,
        kind: "NULL_VALUE" if value is None else value,
        **({"willContinue": True} if more else {}),
    }
    return {"functionCall": {"partialArgs": [item], **({} if ends else {"willContinue": True})}}


BEGIN = {"functionCall": {"id": "w", "name": "f", "willContinue": True}, "thoughtSignature": "s"}


@pytest.mark.parametrize(
    ("pieces", "arguments"),
    [
        ([{"functionCall": {}}], {}),
        ([partial("$.a", "x", more=True), partial("$.a", "y"), {"functionCall": {}}], {"a": "xy"}),
        ([partial("$.a", "x", more=True), partial("$.b", 2), partial("$.a", "y", ends=True)], {"a": "xy", "b": 2}),
        ([partial("$.l[0].n", 0.5), partial("$.l[0].k", True)], {"l": [{"n": 0.5, "k": True}]}),
        ([partial("$.l[0]", 1), partial("$.l[1]", None)], {"l": [1, None]}),
        ([partial("$['a b'][\"c.d\"]", "x"), partial("$.ü", "")], {"a b": {"c.d": "x"}, "ü": ""}),
    ],
)  # fmt: skip
def test_arguments_that_come_in_pieces_are_put_together(pieces: list[Any], arguments: dict[str, Any]) -> None:
    """Vertex AI's partialArgs; the last part, or the next call, or the answer's end says that a call is whole."""
    for end in ([], [{"functionCall": {"name": "g", "args": {"x": 1}}}]):
        events = events_of(*[candidate(part, finish=None) for part in (BEGIN, *pieces, *end)], candidate())
        last = events[-1]
        assert isinstance(last, AnswerEnd)
        result = last.result
        call = result.tool_calls[0]
        assert [(c.name, c.arguments) for c in result.tool_calls] == [("f", arguments), ("g", {"x": 1})][: len(end) + 1]
        assert (call.wire_id, result.finish_reason, result.warnings) == ("w", "tool_calls", ())
        assert call.provider_data
        assert call.provider_data.data == {"part": {"thoughtSignature": "s"}, "payload": {}}
        assert [e.call for e in events if isinstance(e, ToolCallEnd)] == [*result.tool_calls]


@pytest.mark.parametrize(
    "path", ["", "a", "$", "$.", "$..a", "$.a.b", "$[0]", "$.l[5]", "$.l.x", "$.l[9999999]", "$.a b[", "$['a"]
)
def test_pieces_that_do_not_fit_are_no_arguments(path: str) -> None:
    """The call is kept, and says why it cannot run."""
    pieces = [partial("$.a", "x"), partial("$.l[0]", 1), partial(path, 2), {"functionCall": {}}]
    (call,) = streamed(*[candidate(part, finish=None) for part in (BEGIN, *pieces)], candidate()).tool_calls

    assert (call.name, call.arguments) == ("f", None)
    assert call.error


def test_a_call_that_is_cut_off_does_not_run() -> None:
    """The limit came before its last piece."""
    (call,) = streamed(candidate(BEGIN, finish=None), candidate(partial("$.a", "x"), finish="MAX_TOKENS")).tool_calls

    assert call.arguments is None
    assert "output limit" in (call.error or "")


def test_an_event_without_data_is_none() -> None:
    """The standard drops it."""
    stream = reader()
    end = [*stream.feed(b"data:\n\ndata: \n\ndata: " + json.dumps(candidate({"text": "a"})).encode()), *stream.end()][
        -1
    ]

    assert isinstance(end, AnswerEnd)
    assert end.result.content == "a"


def test_of_several_candidates_without_a_number_the_first_counts() -> None:
    """Their place is their number, where it is not said."""
    found = whole({"candidates": [candidate({"text": text})["candidates"][0] for text in "ab"]})

    assert found.content == "a"
    assert "several answers" in found.warnings[0]


@pytest.mark.parametrize("finish", [7, True, [1], {"a": 1}])
def test_an_unreadable_end_may_have_cut_off_a_call_that_is_being_written(finish: Any) -> None:
    """A call that came whole runs."""
    (cut,) = streamed(candidate(BEGIN, finish=None), candidate(partial("$.a", "Ro"), finish=finish)).tool_calls
    (ran,) = streamed(candidate({"functionCall": {"name": "f", "args": {}}}, finish=finish)).tool_calls

    assert (cut.arguments, cut.raw_arguments, ran.arguments) == (None, '{"a":"Ro"}', {})
    assert "may have been cut off" in (cut.error or "")
