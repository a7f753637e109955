"""Bytes to events: every framing, whole answers, what is reported and what is cut off."""

import attrs
import pytest
from flexchat_sdk import (
    NDJSON,
    SSE,
    SSE_DONE,
    AnswerParts,
    AnswerReader,
    Framing,
    ProviderOverloadedError,
    ProviderProtocolError,
    Reported,
    TextDelta,
    Unreadable,
)


class Words:
    """An answer of words; {"end": true} ends it."""

    def __init__(self, refusable=False):
        self.parts, self.is_over, self.names = AnswerParts("s", "o"), False, []
        if refusable:
            self.refused = lambda body, error: self.parts.end(str(error))

    def take(self, value, name):
        self.names.append(name)
        if "error" in value:
            raise Reported(value)
        if "word" in value:
            yield self.parts.text(value["word"])
        self.is_over = "end" in value

    def whole(self, value):
        yield self.parts.text("".join(value["words"]))
        yield from self.parts.end("stop")

    def end(self):
        if not self.is_over:
            raise Unreadable("broke off", cut_off=True)
        yield from self.parts.end("stop")


def failed(body):
    return ProviderOverloadedError(str(body))


def reader(framing, answer=None):
    return AnswerReader(answer or Words(), failed, ProviderProtocolError, framing)


def read(framing, *pieces, answer=None):
    made = reader(framing, answer)
    events = [event for piece in pieces for event in made.feed(piece)]
    return [*events, *made.end()][-1].result.content


class Prefixed:
    """The decoder of docs/writing-a-provider.md."""

    def __init__(self):
        self.held = b""

    def feed(self, piece):
        self.held += piece
        frames = []
        while len(self.held) >= 4 and len(self.held) >= (end := 4 + int.from_bytes(self.held[:4])):
            frames.append((self.held[4:end], ""))
            self.held = self.held[end:]
        return frames

    def close(self):
        return [(self.held, "")] if self.held else []


def prefixed(*values):
    return b"".join(len(value).to_bytes(4) + value for value in values)


@pytest.mark.parametrize(
    ("framing", "stream"),
    [
        (SSE, b'data: {"word": "a"}\n\ndata: {"word": "b"}\n\ndata: [DONE]\n\ndata: {"end": 1}\n\n'),
        (SSE_DONE, b'data: {"word": "a"}\n\ndata: {"word": "b"}\n\ndata: [DONE]\n\n'),
        (NDJSON, b'{"word": "a"}\n{"word": "b"}\n{"end": 1}'),
        (Framing(decoder=Prefixed, tells_whole=False), prefixed(b'{"word": "a"}', b'{"word": "b"}', b'{"end": 1}')),
        (SSE, b'{"words": ["a", "b"]}'),
    ],
)
def test_every_framing_however_it_is_cut(framing, stream):
    """In one piece, and in single bytes; the last is a server that does not stream."""
    assert read(framing, stream) == "ab"
    assert read(framing, *[stream[at : at + 1] for at in range(len(stream))]) == "ab"


def whole(framing, body):
    return [*reader(framing).whole(body)][-1].result.content


LINES = b'{"word": "a"}\n{"word": "b"}\n{"end": 1}\n'


def test_a_whole_answer_may_come_in_lines():
    """Of a service that streams lines, unasked; of another that is no answer."""
    assert whole(NDJSON, LINES) == whole(NDJSON, b'{"words": ["a",\n "b"]}\n') == "ab"
    with pytest.raises(ProviderProtocolError, match="not JSON"):
        whole(SSE, LINES)


def test_one_line_that_is_not_the_last_is_half_an_answer():
    """Where the service says so; the same on no line of its own is an answer."""
    says = attrs.evolve(NDJSON, more_follows=lambda line: "word" in line)
    body = b'{"word": "a", "words": ["a"]}'

    assert whole(says, body) == whole(NDJSON, body + b"\n") == "a"
    with pytest.raises(ProviderProtocolError, match="broke off"):
        whole(says, body + b"\n")


def test_what_follows_the_end_is_not_read():
    assert read(NDJSON, b'{"word": "a"}\n{"end": 1}\n{"error": 1}\n') == "a"


def test_events_before_an_error_are_passed_on():
    """A reported error becomes one of the provider's."""
    events = reader(NDJSON).feed(b'{"word": "a"}\n{"error": "m"}\n')

    assert next(events) == TextDelta(0, "a")
    with pytest.raises(ProviderOverloadedError, match="'m'"):
        next(events)


def test_an_error_that_is_an_answer_in_truth():
    assert read(NDJSON, b'{"word": "a"}\n{"error": "m"}\n', answer=Words(refusable=True)) == "a"


@pytest.mark.parametrize("stream", [b'{"word": "a"}\n', b'{"word": "a"', b"[]\n", b"nonsense\n"])
def test_what_is_no_answer_is_a_protocol_error(stream):
    with pytest.raises(ProviderProtocolError) as caught:
        read(NDJSON, stream)
    assert caught.value.retryable == (stream != b"[]\n")


def test_a_name_comes_with_its_event():
    answer = Words()
    read(SSE, b'event: x\ndata: {"end": 1}\n\n', answer=answer)
    assert answer.names == ["x"]
