"""Messages out of bytes: linear, bounded, and no flood."""

import json

import pytest
from flexchat_mcp.stdio import MAX_MESSAGES, NONSENSE_BYTES, FloodError, Lines, Oversized
from hypothesis import given
from hypothesis import strategies as st

JSON_LINES = st.lists(st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b"")), max_size=8)


@given(lines=JSON_LINES, cuts=st.lists(st.integers(1, 20), max_size=30))
def test_however_the_bytes_arrive_the_lines_are_the_same(lines, cuts):
    data = b"".join(line + b"\n" for line in lines)
    reading, found = Lines(1_000), []
    for size in [*cuts, len(data)]:
        piece, data = data[:size], data[size:]
        found += reading.feed(piece)

    assert found == [line for line in lines if line]


@given(
    asked=st.one_of(st.integers(0, 10**9), st.text("abc-09", min_size=1, max_size=9)),
    cuts=st.integers(1, 900),
    order=st.permutations(["jsonrpc", "id", "result"]),
    inner=st.sampled_from([{"x": "y" * 5_000}, {"id": 77, "x": "y" * 5_000}, {"x": "y" * 5_000, "id": 77}]),
)
def test_of_an_overlong_answer_the_id_is_kept(asked, cuts, order, inner):
    """Wherever SDKs put it; an id in the result is not taken for it."""
    answer = {"jsonrpc": "2.0", "id": asked, "result": inner}
    text = json.dumps({key: answer[key] for key in order}).encode() + b"\nnext\n"
    reading, found = Lines(1_024), []
    for start in range(0, len(text), cuts):
        found += reading.feed(text[start : start + cuts])

    assert found == [Oversized(asked), b"next"]


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"x": "y" * 5_000}},
        {"jsonrpc": "2.0", "method": "notifications/message", "params": {"x": "y" * 5_000, "id": 5}},
        {"jsonrpc": "2.0", "result": {"x": "y" * 5_000, "id": 5}},
        {"x": {"jsonrpc": "2.0", "id": 5, "result": "y" * 5_000}},
    ],
)
def test_of_anything_else_that_is_overlong_no_id_is_kept(message):
    reading = Lines(1_024)

    assert [*reading.feed(json.dumps(message).encode() + b"\n")] == [Oversized(None)]


def test_an_overlong_line_takes_no_memory():
    reading = Lines(1_024)
    for _ in range(200):
        assert [*reading.feed(b"x" * 50_000)] == []
        assert sum(map(len, reading._pieces)) < 60_000

    assert [*reading.feed(b"\n")] == [Oversized(None)]


def test_more_and_more_without_an_answer_is_a_flood():
    """Within the window; an answer makes it wait again."""
    now = 0.0
    reading = Lines(1_024, clock=lambda: now)
    piece = b"x" * 2**20 + b"\n"
    for _ in range(30):
        list(reading.feed(piece[: 2**19]))
        reading.note_answer()
    for _ in range(15):
        list(reading.feed(piece))
    now = 11.0
    for _ in range(15):
        list(reading.feed(piece))
    with pytest.raises(FloodError, match="without an answer"):
        list(reading.feed(piece))


def test_nonsense_is_borne_up_to_a_point():
    reading = Lines(1_024)
    reading.note_nonsense(NONSENSE_BYTES)
    reading.note_message()
    reading.note_nonsense(NONSENSE_BYTES)
    with pytest.raises(FloodError, match="no messages"):
        reading.note_nonsense(1)


def test_many_short_messages_are_a_flood():
    """Each takes the time of a message; an answer, or time, makes it wait again."""
    now = 0.0
    reading = Lines(1_024, clock=lambda: now)
    for number in range(3 * MAX_MESSAGES):
        if number % MAX_MESSAGES == 0:
            reading.note_answer()
        reading.note_message()
    now = 11.0
    list(reading.feed(b"x"))
    for _ in range(MAX_MESSAGES):
        reading.note_message()
    with pytest.raises(FloodError, match="20,000 messages"):
        reading.note_message()
