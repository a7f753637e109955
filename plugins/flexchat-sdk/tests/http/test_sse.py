"""Server-sent events: the same events, however the network cuts the bytes."""

from collections.abc import Callable

import pytest
from flexchat_sdk.http.framing import SseDecoder, SseEvent
from hypothesis import given
from hypothesis import strategies as st


def decoded(*pieces: bytes) -> list[SseEvent]:
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\n", [b"a"]),
        (b"data:a\n\ndata:  b\n\n", [b"a", b" b"]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [b"a", b"b"]),
        (b"data: a\r\rdata: b\r\r", [b"a", b"b"]),
        (b"data: a\ndata: b\ndata\n\n", [b"a\nb\n"]),
        (b": comment\n\n:\n\ndata: a\n: between\n\n", [b"a"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"data: \xe2\x80\xa8\xc2\x85\x0b\x0c\n\n", [b"\xe2\x80\xa8\xc2\x85\x0b\x0c"]),
        (b"\n\n\ndata: a\n\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"id: 1\nretry: 5\ndata: a\nunknown: x\n\n", [b"a"]),
        (b"event: only a name\n\n", []),
        (b"data: a\n\ndata: [DONE]", [b"a", b"[DONE]"]),
        (b"", []),
    ],
)
def test_the_standard_is_followed(stream: bytes, events: list[bytes]) -> None:
    """Lines end in LF, CR or CRLF only; comments, a mark at the start and one blank after the colon are dropped."""
    assert [event.data for event in decoded(stream)] == events


def test_the_name_of_an_event_is_kept() -> None:
    """An event's name is its last event field; it does not stay for the next event."""
    assert decoded(b"event: error\ndata: a\n\ndata: b\n\n") == [SseEvent(b"a", "error"), SseEvent(b"b", "")]


lines = st.lists(
    st.sampled_from([b"data: x", b"data:y", b"data: ", b": c", b"event: e", b"", b"", b"data: \xe2\x80\xa8", b"id: 1"]),
    max_size=12,
)
ends = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(st.lists(st.tuples(lines, ends), max_size=3), st.booleans())
def test_every_cut_gives_the_same_events(parts: list[tuple[list[bytes], bytes]], mark: bool) -> None:
    """Law: cutting a stream in two anywhere, or into single bytes, changes nothing."""
    stream = (b"\xef\xbb\xbf" if mark else b"") + b"".join(line + end for ls, end in parts for line in ls)

    whole = decoded(stream)

    assert decoded(*[stream[i : i + 1] for i in range(len(stream))]) == whole
    for at in range(len(stream)):
        assert decoded(stream[:at], stream[at:]) == whole


@given(st.lists(lines, max_size=4), ends)
def test_fast_and_slow_line_ends_agree(blocks: list[list[bytes]], end: bytes) -> None:
    """Law: which line end a server uses makes no difference."""
    written = [line for block in blocks for line in [*block, b""]]

    assert decoded(b"".join(x + end for x in written)) == decoded(b"".join(x + b"\n" for x in written))


def test_an_endless_line_is_refused() -> None:
    """An event longer than allowed is an error, and noticed as soon as it is."""
    decoder = SseDecoder(max_event_bytes=2**20)
    for _ in range(16):
        assert decoder.feed(b"x" * 2**16) == []

    with pytest.raises(ValueError, match="longer than 1 MiB"):
        decoder.feed(b"x")


@pytest.mark.parametrize("line", [b"data: a\n", b": no\n", b"data: a"])
@pytest.mark.parametrize("cut", [5, 64])
def test_a_stream_without_empty_lines_is_read_in_time_to_its_length(
    line: bytes, cut: int, cpu_growth: Callable[..., float]
) -> None:
    """Four times the bytes cost about four times the processor time, wherever they are cut."""

    def read(count: int) -> None:
        stream = line * count
        decoder = SseDecoder()
        for at in range(0, len(stream), cut):
            assert decoder.feed(stream[at : at + cut]) == []
        assert decoder.close() or line.startswith(b":")

    assert cpu_growth(read, 4_000, 16_000) < 8


def test_an_event_of_many_lines_is_bounded() -> None:
    """All lines of an event count, also those that were read already."""
    decoder = SseDecoder(max_event_bytes=1_000)
    for _ in range(200):
        decoder.feed(b"data\n")

    with pytest.raises(ValueError, match="longer"):
        decoder.feed(b"data\n")
