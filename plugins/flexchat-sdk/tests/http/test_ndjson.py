"""Newline-delimited JSON: the same lines, however the network cuts the bytes."""

import json

import pytest
from flexchat_sdk.http.framing import NdjsonDecoder
from hypothesis import given
from hypothesis import strategies as st


def decoded(*pieces: bytes, max_line_bytes: int = 2**20) -> list[bytes]:
    decoder = NdjsonDecoder(max_line_bytes)
    return [line for piece in pieces for line in decoder.feed(piece)] + decoder.close()


@pytest.mark.parametrize(
    ("stream", "lines"),
    [
        (b'{"a":1}\n{"b":2}\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\r\n{"b":2}\r\n', [b'{"a":1}', b'{"b":2}']),
        (b'{"a":1}\n{"b":2}', [b'{"a":1}', b'{"b":2}']),
        (b'\n\n {"a":1} \n\t\n\r\n', [b'{"a":1}']),
        (b'\xef\xbb\xbf{"a":1}\n', [b'{"a":1}']),
        (b'"\xe2\x80\xa8\xc2\x85\x0b\x0c\x1c"\n', [b'"\xe2\x80\xa8\xc2\x85\x0b\x0c\x1c"']),
        (b"1\r2\n", [b"1\r2"]),
        (b"", []),
    ],
)
def test_a_line_feed_ends_a_line_and_nothing_else_does(stream: bytes, lines: list[bytes]) -> None:
    """CR before it, blanks around a line, empty lines and a mark at the start are dropped."""
    assert decoded(stream) == lines


@given(st.lists(st.text()), st.sampled_from(["\n", "\r\n", "\n\n"]), st.booleans())
def test_every_cut_gives_the_same_lines(texts: list[str], end: str, ended: bool) -> None:
    """Law: any JSON texts come back, and cutting the stream in two anywhere, or into bytes, changes nothing."""
    written = [json.dumps(text, ensure_ascii=False) for text in texts]
    stream = (end.join(written) + (end if ended else "")).encode()

    whole = decoded(stream)

    assert whole == [line.encode() for line in written]
    assert decoded(*[stream[i : i + 1] for i in range(len(stream))]) == whole
    for at in range(len(stream)):
        assert decoded(stream[:at], stream[at:]) == whole


@pytest.mark.parametrize("pieces", [[b"x" * 5 + b"\n"], [b"x" * 4, b"x\n"], [b"x"] * 5, [b"1\n22222"]])
def test_a_line_that_is_too_long_is_refused_however_it_is_cut(pieces: list[bytes]) -> None:
    """Beyond the limit is an error, and noticed as soon as it is; the limit itself is fine."""
    assert decoded(b"xxxx\nxxxx", max_line_bytes=4) == [b"xxxx", b"xxxx"]
    with pytest.raises(ValueError, match="longer than 0 MiB"):
        decoded(*pieces, max_line_bytes=4)
