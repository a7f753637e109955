"""What comes back: answers of /api/chat, whole and streamed, as events and a result."""

import json
import re
from typing import Any

import pytest
from flexchat.plugin import ChatResult, ToolCall
from flexchat_ollama.chat_answer import ChatAnswer
from flexchat_ollama.provider import LINES
from flexchat_sdk import (
    AnswerEnd,
    AnswerReader,
    ChatEvent,
    ProviderError,
    ProviderProtocolError,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    TextReader,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Usage,
)
from hypothesis import given
from hypothesis import strategies as st

HERE = "http://here.example"
DONE = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}


def failed(body: object) -> ProviderError:
    return ProviderError(json.dumps(body))


def said(content: str = "", **rest: Any) -> dict[str, Any]:
    return {"model": "m", "message": {"role": "assistant", "content": content, **rest}, "done": False}


def call(name: str = "f", arguments: object = None, **rest: Any) -> dict[str, Any]:
    return {"function": {"name": name, "arguments": arguments if arguments is not None else {}}, **rest}


def lines(*chunks: object) -> bytes:
    return b"".join(json.dumps(chunk).encode() + b"\n" for chunk in chunks)


def reader(tools: tuple[str, ...]) -> AnswerReader:
    text = TextReader(tools=frozenset(tools) if tools else None)
    return AnswerReader(ChatAnswer(HERE, text=text), failed, ProviderProtocolError, LINES)


def streamed(*pieces: bytes, tools: tuple[str, ...] = ()) -> list[ChatEvent]:
    stream = reader(tools)
    return [event for piece in pieces for event in stream.feed(piece)] + [*stream.end()]


def whole(body: object, tools: tuple[str, ...] = ()) -> ChatResult:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return result([*reader(tools).whole(data)])


def result(events: list[ChatEvent]) -> ChatResult:
    assert isinstance(events[-1], AnswerEnd)
    return events[-1].result


def test_text_and_thoughts_come_piece_by_piece() -> None:
    """Parts stand in the order in which they began, and the deltas joined are the parts."""
    events = streamed(lines(said(thinking="h"), said(thinking="m"), said("Hel"), said("lo", thinking="?"), DONE))

    assert events[:-1] == [
        ReasoningDelta(0, "h"),
        ReasoningDelta(0, "m"),
        TextDelta(1, "Hel"),
        ReasoningDelta(0, "?"),
        TextDelta(1, "lo"),
    ]
    thought, text = result(events).message.parts
    assert isinstance(thought, ReasoningPart)
    assert thought.text == "hm?"
    assert thought.provider_data is not None
    assert thought.provider_data.origin == HERE
    assert text == TextPart(text="Hello")


def test_calls_are_collected_from_every_piece() -> None:
    """One in the middle, one in the last piece, text before them: nothing is replaced (TC-80)."""
    first, last = call("f", {"a": 1}, id="call_1"), call("g", id="call_2")
    events = streamed(lines(said("Well"), said(tool_calls=[first]), {**DONE, **said(tool_calls=[last]), "done": True}))

    calls = result(events).tool_calls
    assert [(c.name, c.arguments, c.wire_id) for c in calls] == [("f", {"a": 1}, "call_1"), ("g", {}, "call_2")]
    assert events[1:-1] == [
        ToolCallStart(1, "f"),
        ToolCallDelta(1, '{"a":1}'),
        ToolCallEnd(1, calls[0]),
        ToolCallStart(2, "g"),
        ToolCallDelta(2, "{}"),
        ToolCallEnd(2, calls[1]),
    ]
    assert result(events).finish_reason == "tool_calls"
    assert result(events).content == "Well"


def test_an_index_is_kept_and_not_trusted() -> None:
    """Two calls with one index are two calls; the index goes back with each."""
    same = [{"id": i, "function": {"index": 0, "name": "f", "arguments": {"n": i}}} for i in ("a", "b")]
    first, second = whole({**DONE, "message": {"tool_calls": same}}).tool_calls

    assert (first.arguments, second.arguments) == ({"n": "a"}, {"n": "b"})
    assert first.id != second.id
    assert first.provider_data is not None
    assert first.provider_data.data == {"function": {"index": 0}}


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ((None, None), (None, None)),
        (("", ""), (None, None)),
        (("x", "x"), ("x", None)),
        (("x", 5), ("x", None)),
        (("x", "y"), ("x", "y")),
    ],
)
def test_an_id_that_names_no_single_call_is_no_id(ids: tuple[Any, Any], kept: tuple[Any, Any]) -> None:
    """Old servers give none, others an empty one: ours tell the calls apart (C17)."""
    items = [{"id": given, **call()} if given is not None else call() for given in ids]
    calls = whole({**DONE, "message": {"tool_calls": items}}).tool_calls

    assert tuple(c.wire_id for c in calls) == kept
    assert calls[0].id != calls[1].id


@pytest.mark.parametrize(
    ("arguments", "parsed", "error"),
    [
        ({"a": 1}, {"a": 1}, None),
        (None, {}, None),
        ('{"a": 1}', {"a": 1}, None),
        ("", {}, None),
        ("{oops", None, "not valid JSON"),
        ("[1]", None, "must be a JSON object, got an array"),
    ],
)
def test_arguments_in_every_form(arguments: object, parsed: object, error: str | None) -> None:
    """An object, or text, as other servers send it; text that is no object is kept and explained."""
    item = {"function": {"name": "f", "arguments": arguments}}
    (found,) = whole({**DONE, "message": {"tool_calls": [item]}}).tool_calls

    assert found.arguments == parsed
    assert (found.error or "").startswith(error or "") or error in (found.error or "")
    assert bool(found.error) is bool(error)


@pytest.mark.parametrize("item", [None, 5, "f", {}, {"function": None}, {"function": {"name": 5}}, {"name": "f"}])
def test_a_call_that_cannot_be_read_is_an_error_of_the_answer(item: object) -> None:
    """Also beside one that can be read: neither is lost without a word."""
    with pytest.raises(ProviderProtocolError, match=r"message.tool_calls\[0\]"):
        whole({**DONE, "message": {"tool_calls": [item, call("g")]}})


@pytest.mark.parametrize(
    ("message", "place"),
    [
        ("Hi", "message: expected an object, got text"),
        ([], "message: expected an object, got a list"),
        ({"content": 5}, "message.content: expected text, got a number"),
        ({"content": None}, "message.content: expected text, got null"),
        ({"content": [{"text": "Hi"}]}, "message.content: expected text, got a list"),
        ({"tool_calls": {}}, "message.tool_calls: expected a list, got an object"),
        ({"tool_calls": None}, "message.tool_calls: expected a list, got null"),
        ({"tool_calls": [call(arguments=[1])]}, "function.arguments: expected an object, got a list"),
        ({"tool_calls": [call(arguments=True)]}, "function.arguments: expected an object, got true or false"),
    ],
)
def test_a_wrong_type_where_text_or_calls_may_stand_is_an_error(message: object, place: str) -> None:
    """Whole, and streamed in the middle of a text; it may be tried again."""
    odd = {"message": message, "done": False}

    for read in (lambda: whole({**odd, "done": True}), lambda: streamed(lines(said("We "), odd, said("pay."), DONE))):
        with pytest.raises(ProviderProtocolError, match=re.escape(place)) as caught:
            read()
        assert caught.value.retryable


@pytest.mark.parametrize("wrong", [None, 5, 1.5, "x", [1], {"a": 1}])
def test_a_wrong_type_elsewhere_costs_nothing(wrong: Any) -> None:
    """The model's name, dates, counts, ids, thoughts, and the end itself: text and call stay."""
    item = {"id": wrong, "function": {"index": wrong, "name": "f", "arguments": {}}}
    message = {"role": wrong, "content": "Hi", "thinking": wrong, "tool_calls": [item], "images": wrong}
    body = {"model": wrong, "created_at": wrong, "message": message, "done": wrong, "done_reason": "stop"}
    ended = {**DONE, "done": wrong, "eval_count": wrong, "total_duration": 5}

    for found in (whole(body), result(streamed(lines({**body, "done": False}, ended)))):
        assert found.content == "Hi"
        assert [(one.name, one.arguments) for one in found.tool_calls] == [("f", {})]


@pytest.mark.parametrize("wrong", [5, "x", [1], {"a": 1}])
def test_a_piece_whose_end_cannot_be_read_is_not_the_last(wrong: Any) -> None:
    """Nothing of what only the last piece holds stands beside it: the text behind it is read."""
    assert result(streamed(lines({**said("We "), "done": wrong}, said("pay."), DONE))).content == "We pay."


def test_a_whole_answer_that_is_not_done_was_cut_off_by_a_limit() -> None:
    """Its finish reason is "length"; a stream that stops there is an error (TC-80)."""
    assert whole(said("Hel")).finish_reason == "length"
    for read in (streamed, whole):
        with pytest.raises(ProviderProtocolError, match="without saying that it was done"):
            read(lines(said("Hel")))


def test_a_character_cut_in_two_is_joined() -> None:
    """In the text and the thoughts, in events and result; half a character in a call is U+FFFD."""
    item = call("f", {"a": "\ud83d"})
    pieces = [said("a\ud83d", thinking="\ud83d"), said("\ude00b", thinking="\ude00"), said(tool_calls=[item]), DONE]
    events = streamed(lines(*pieces))

    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "a\U0001f600b"
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "\U0001f600"
    assert result(events).content == "a\U0001f600b"
    assert result(events).tool_calls[0].arguments == {"a": "\ufffd"}


@pytest.mark.parametrize(
    ("reason", "finish", "warns"),
    [
        ("stop", "stop", False),
        ("length", "length", False),
        ("load", "load", False),
        ("", "stop", False),
        (None, "stop", False),
    ],
)
def test_done_says_that_it_ended_and_done_reason_why(reason: str | None, finish: str | None, warns: bool) -> None:
    """Older servers give no reason: done is "stop" then, without a warning (TC-80)."""
    body = {"message": {"content": "x"}, "done": True, **({} if reason is None else {"done_reason": reason})}

    for found in (whole(body), result(streamed(lines(body)))):
        assert found.finish_reason == finish
        assert found.raw_finish == (reason or None)
        assert bool(found.warnings) is warns


def test_a_limit_behind_calls_is_said() -> None:
    """Calls come whole: those that came can run, others may be missing (TC-80)."""
    found = whole({"message": {"tool_calls": [call()]}, "done": True, "done_reason": "length"})

    assert (found.finish_reason, found.raw_finish) == ("tool_calls", "length")
    assert "output limit" in found.warnings[0]


def test_usage_is_in_the_last_piece() -> None:
    """Counts where the server gives them, durations in raw; a count that is missing is None, and not 0."""
    counts = {"prompt_eval_count": 26, "eval_count": 5, "total_duration": 9}

    assert whole({**DONE, **counts}).usage == Usage(input_tokens=26, output_tokens=5, raw=counts)
    assert whole({**DONE, "eval_count": 5}).usage == Usage(output_tokens=5, raw={"eval_count": 5})
    assert whole(DONE).usage is None
    assert (
        result(
            streamed(
                lines(
                    said(
                        "x",
                    ),
                    {**DONE, **counts},
                )
            )
        ).usage
        == whole({**DONE, **counts}).usage
    )


def test_a_whole_answer_may_come_as_the_lines_of_a_stream() -> None:
    """A server that streams unasked is understood, and so is JSON over several lines."""
    streaming = lines(said("Hel"), said("lo"), DONE)

    assert whole(streaming).content == "Hello"
    assert whole(json.dumps({**DONE, **said("Hello"), "done": True}, indent=2).encode()).content == "Hello"


@pytest.mark.parametrize(
    ("stream", "text"),
    [
        (b"", "before it had said anything"),
        (b"\n\n", "before it had said anything"),
        (lines({"models": []}), "before it had said anything"),
        (lines(said("Hel"), {"model": "m", "done": False}), "message: expected an object"),
        (lines(said("Hel")), "without saying that it was done"),
        (lines(said("Hel")) + b'{"message": {"con', "not JSON, or was cut off"),
        (b"not JSON\n", "not JSON"),
        (b"[1]\n", "not a JSON object"),
        (lines(said("H")).replace(b'"H"', b'"\xff"'), "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
        (b"x" * (9 * 2**20), "longer than 8 MiB"),
    ],
)
def test_a_stream_that_makes_no_sense_is_an_error(stream: bytes, text: str) -> None:
    """Above all one without its last line: half an answer is no answer."""
    with pytest.raises(ProviderProtocolError, match=text):
        streamed(stream)


@pytest.mark.parametrize("body", [b"", b"null", b"5", b"{}", b'{"models": []}', b'{"response": "hi", "done": true}'])
def test_a_body_that_is_no_answer_is_an_error(body: bytes) -> None:
    """base_url leads elsewhere."""
    with pytest.raises(ProviderProtocolError, match="base_url"):
        whole(body)


def test_an_error_may_come_with_status_200() -> None:
    """In the first line or after text; text that has come stays with whoever listened."""
    with pytest.raises(ProviderError, match="boom"):
        streamed(lines({"error": "boom"}))
    with pytest.raises(ProviderError, match="boom"):
        streamed(lines(said("x")), lines({"error": "boom"}))
    with pytest.raises(ProviderError, match="boom"):
        whole({"error": "boom"})


def test_a_call_the_server_could_not_read_is_an_answer() -> None:
    """It says so as an error; asking again may help, and what came before is kept."""
    error = {"error": "error parsing tool call: raw='{\"a\":', err=unexpected end of JSON input"}
    found = result(streamed(lines(said("Let me"), error, said("never"))))

    assert (found.finish_reason, found.content) == ("malformed_tool_call", "Let me")
    assert "unexpected end" in found.warnings[0]
    assert whole(error).finish_reason == "malformed_tool_call"


def test_what_follows_the_end_is_not_read() -> None:
    """done ends the answer, also where a server goes on."""
    assert result(streamed(lines(said("a"), DONE, said("b")) + b"garbage\n")).content == "a"


UNICODE = lines(
    said("Gr\u00fc\u00dfe,", thinking="\u2028"),
    said(" \u6f22\u5b57 \U0001f600"),
    said(tool_calls=[call("f", {"t": "\u00e9"})]),
    DONE,
)
RAW = b"\n".join(json.dumps(json.loads(x), ensure_ascii=False).encode() for x in UNICODE.splitlines())


@pytest.mark.parametrize("stream", [UNICODE, RAW, RAW.replace(b"\n", b"\r\n")])
def test_every_cut_of_a_stream_gives_the_same_events(stream: bytes) -> None:
    """Law: in two pieces at every byte, and in single bytes, the network never shows."""

    def plain(events: list[ChatEvent]) -> list[str]:
        ids = {c.id: "id" for c in result(events).tool_calls}
        text = [repr(event) for event in events]
        return [line.replace(given, new) for line in text for given, new in ids.items()]

    expected = plain(streamed(stream))

    assert len(expected) > 5
    assert plain(streamed(*[stream[i : i + 1] for i in range(len(stream))])) == expected
    for at in range(len(stream)):
        assert plain(streamed(stream[:at], stream[at:])) == expected


ANSWER = {
    "model": "m",
    "created_at": "2026-01-01T00:00:00Z",
    "message": {
        "role": "assistant",
        "content": "Hi",
        "thinking": "hm",
        "tool_calls": [{"id": "call_1", "function": {"index": 0, "name": "f", "arguments": {"a": 1}}}],
    },
    "done": True,
    "done_reason": "stop",
    "prompt_eval_count": 1,
    "eval_count": 2,
    "total_duration": 3,
}


def nodes(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(found for key, value in items for found in nodes(value, (*path, key)))]


def replaced(data: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    made = dict(data) if isinstance(data, dict) else list(data)
    made[path[0]] = replaced(made[path[0]], path[1:], value)
    return made


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(nodes(ANSWER)), anything, st.booleans())
def test_any_value_in_any_place_is_read_or_refused(path: tuple[Any, ...], value: Any, reads_text: bool) -> None:
    """Law: a ProviderError or a result, never another exception; and the streamed answer is the whole one."""
    body = replaced(ANSWER, path, value)
    tools = ("f",) if reads_text else ()
    try:
        found = whole(body, tools)
    except ProviderError:
        return
    assert all(c.arguments is None or isinstance(c.arguments, dict) for c in found.tool_calls)
    if found.raw_finish is not None and body["done"] is True:
        again = result(streamed(json.dumps(body).encode(), tools=tools))
        assert [type(p) for p in again.message.parts] == [type(p) for p in found.message.parts]
        assert (again.content, again.finish_reason) == (found.content, found.finish_reason)


TEXT_CALL = 'Sure.\n```json\n{"name": "f", "arguments": {"a": 1}}\n```'


def test_calls_written_as_text_are_read_only_where_that_is_asked_for() -> None:
    """Off by default; on, the call is one, a warning says so, and no delta has shown its text."""
    body = {**DONE, **said(TEXT_CALL), "done": True}
    assert whole(body).content == TEXT_CALL
    assert whole(body, ("other",)).content == TEXT_CALL

    found = whole(body, ("f",))
    assert [(c.name, c.arguments) for c in found.tool_calls] == [("f", {"a": 1})]
    assert found.content == "Sure.\n"
    assert found.finish_reason == "tool_calls"
    assert "written as text" in found.warnings[0] or "as text" in found.warnings[0]


@pytest.mark.parametrize(
    "text",
    [
        TEXT_CALL,
        "  \n" + TEXT_CALL,
        "Just text, no call.",
        "a < b [1] and {x}",
        " \n ",
        '{"name": "other", "arguments": {}}',
    ],
)
def test_a_streamed_text_call_is_the_whole_one(text: str) -> None:
    """Law: however it is cut, the deltas joined are the text of the result, and the result is that of generate_chat."""
    expected = whole({**DONE, **said(text), "done": True}, ("f",))
    for size in (1, 2, 7, 100):
        pieces = [said(text[at : at + size]) for at in range(0, len(text), size)]
        events = streamed(lines(*pieces, DONE), tools=("f",))
        assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (result(events).content or "")
        assert result(events).content == expected.content
        assert result(events).warnings == expected.warnings
        assert [(c.name, c.arguments) for c in result(events).tool_calls] == [
            (c.name, c.arguments) for c in expected.tool_calls
        ]


def test_beside_a_call_the_server_read_text_is_text() -> None:
    """A server that reads the model's calls has read all of them."""
    found = result(streamed(lines(said(TEXT_CALL), said(tool_calls=[call("f")]), said("{"), DONE), tools=("f",)))

    assert len(found.tool_calls) == 1
    assert found.content == TEXT_CALL + "{"
    assert isinstance(found.message.parts[1], ToolCall)
