"""The bytes of an answer as JSON, streamed or whole. Uses no network and no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import attrs
from flexchat.domain import AnswerEnd, ChatEvent, ReasoningDelta, TextDelta, ToolCallDelta
from flexchat.domain.text import scrub
from flexchat.errors import ProviderError, ProviderProtocolError

from .http.answer_shape import WrongShape
from .http.framing import NdjsonDecoder, SseDecoder
from .http.wire_json import from_bytes

_DELTAS = (TextDelta, ReasoningDelta, ToolCallDelta)


class CharacterJoiner:
    """Rejoins characters that a stream cut in half; one instance per answer.

    Half of a surrogate pair at the end of a delta is held back until the next delta of its part brings the other half.
    One that stays alone becomes U+FFFD.
    """

    def __init__(self) -> None:
        self._held: dict[int, TextDelta | ReasoningDelta | ToolCallDelta] = {}

    def joined(self, events: Iterable[ChatEvent]) -> Iterator[ChatEvent]:
        """Yield the next events, with every delta in whole characters."""
        for event in events:
            kind = type(event)
            if kind in _DELTAS:
                text = event.arguments if kind is ToolCallDelta else event.text  # type: ignore[union-attr]
                is_cut = not text.isascii() and scrub(text) is not text
                if is_cut or (self._held and event.index in self._held):  # type: ignore[union-attr]
                    yield from self._whole(event, text)  # type: ignore[arg-type]
                    continue
            elif self._held:
                yield from self._ended(event)
            yield event

    def _whole(self, event: TextDelta | ReasoningDelta | ToolCallDelta, text: str) -> Iterator[ChatEvent]:
        held = self._held.pop(event.index, None)
        if type(held) is type(event):
            text = (held.arguments if type(held) is ToolCallDelta else held.text) + text  # type: ignore[union-attr]
        elif held is not None:
            yield _with_text(held, "\ufffd")
        if "\ud800" <= text[-1:] <= "\udbff":
            self._held[event.index] = _with_text(event, text[-1])
            text = text[:-1]
        if text:
            yield _with_text(event, scrub(text))

    def _ended(self, event: ChatEvent) -> Iterator[ChatEvent]:
        """Yield halves that stay alone, because their part or the answer has ended."""
        ended = [*self._held] if type(event) is AnswerEnd else [getattr(event, "index", -1)]
        for index in ended:
            if index in self._held:
                yield _with_text(self._held.pop(index), "\ufffd")


def _with_text(
    event: TextDelta | ReasoningDelta | ToolCallDelta, text: str
) -> TextDelta | ReasoningDelta | ToolCallDelta:
    return type(event)(event.index, text)


class Decoder(Protocol):
    """Splits the bytes of a stream into frames: one instance per answer."""

    def feed(self, piece: bytes) -> Iterable[tuple[bytes, str]]:
        """Return the frames this piece completes, each with its name; "" for none.

        Raises:
            ValueError: A frame is longer than allowed, or is not one.
        """

    def close(self) -> Iterable[tuple[bytes, str]]:
        """Return the frame the stream ended in, if any."""


class _Lines:
    """Lines of JSON as frames without a name."""

    def __init__(self) -> None:
        self._decoder = NdjsonDecoder()

    def feed(self, piece: bytes) -> list[tuple[bytes, str]]:
        return [(line, "") for line in self._decoder.feed(piece)]

    def close(self) -> list[tuple[bytes, str]]:
        return [(line, "") for line in self._decoder.close()]


@attrs.frozen(kw_only=True)
class Framing:
    """The framing in which a service splits a stream into JSON values.

    Attributes:
        decoder: Creates the decoder of one stream.
        done: The frame, not JSON, that ends a stream; b"" if [DONE] comes from a proxy and is ignored.
        tells_whole: Whether a stream that starts with a brace or a bracket is a whole answer, because no frame starts
            with one.
        values: The JSON types that a frame may contain.
        frame: The name of a frame in errors, with its article.
        more_follows: Returns whether a line is not the last; None for other framings. A whole answer may also consist
            of lines.
    """

    decoder: Callable[[], Decoder]
    done: bytes = b""
    tells_whole: bool = True
    values: tuple[type, ...] = (dict,)
    frame: str = "an event"
    more_follows: Callable[[Mapping[str, Any]], bool] | None = None


SSE = Framing(decoder=SseDecoder)
"""Server-sent events; the service's own event ends the stream."""

SSE_DONE = Framing(decoder=SseDecoder, done=b"[DONE]")
"""Server-sent events that end in ``[DONE]``, as OpenAI's do."""

NDJSON = Framing(decoder=_Lines, tells_whole=False, frame="a line", more_follows=lambda line: False)
"""One JSON value per line, as Ollama's."""


class Answer(Protocol):
    """The parser of one answer, implemented by a provider: it takes JSON and yields events.

    Each method raises WrongShape for a value of the wrong type instead of text or calls, Reported for an error the
    service reports inside an answer, and Unreadable for any other unusable data.

    Attributes:
        is_over: The service has marked the end of the stream. The reader sets it at ``Framing.done``.
    """

    is_over: bool

    def take(self, value: Any, name: str) -> Iterable[ChatEvent]:
        """Convert one frame of a stream into events; *name* is the server-sent event's name."""

    def whole(self, value: Any) -> Iterable[ChatEvent]:
        """Return the events of an answer that came whole, which may be any JSON; the last one is AnswerEnd."""

    def end(self) -> Iterable[ChatEvent]:
        """Return the remaining events of an ended stream; the last is AnswerEnd, unless ``take`` yielded it."""


class RefusableAnswer(Answer, Protocol):
    """An answer of a service that reports some answers as errors: a call its model wrote badly."""

    def refused(self, body: object, error: ProviderError) -> Iterable[ChatEvent] | None:
        """Return the end of the answer if the error is really one; None if it is an error."""


class Reported(Exception):
    """A service reports an error inside an answer. The kit makes a ProviderError of its body: see Refusals."""

    def __init__(self, body: object) -> None:
        super().__init__("the service reports an error")
        self.body = body


class Unreadable(ValueError):
    """An answer makes no sense. The text starts with a verb, because the service's name goes before it.

    Args:
        cut_off: Whether it broke off; the next one may be complete.
    """

    def __init__(self, text: str, *, cut_off: bool = False) -> None:
        super().__init__(text)
        self.cut_off = cut_off


class AnswerReader:
    """Reads one answer: ``feed`` it every piece, then ``end`` it; or the ``whole`` of it at once.

    Also reads a whole answer when a stream was requested: some servers do not stream.

    Args:
        failed: Makes the error for a body that reports one.
        unreadable: Makes the error for anything that makes no sense; its text starts with a verb.
    """

    def __init__(
        self,
        answer: Answer,
        failed: Callable[[object], ProviderError],
        unreadable: Callable[[str], ProviderProtocolError],
        framing: Framing = SSE,
    ) -> None:
        self._answer, self._failed, self._unreadable, self._framing = answer, failed, unreadable, framing
        self._decoder = framing.decoder()
        self._characters = CharacterJoiner()
        self._pieces: list[bytes] | None = None
        self._is_first = framing.tells_whole
        self._is_refused = False

    @property
    def is_done(self) -> bool:
        """Whether the server has marked the end of the stream."""
        return self._answer.is_over

    def feed(self, piece: bytes) -> Iterator[ChatEvent]:
        """Yield what a piece adds, however the network split it.

        Raises:
            ProviderError: The server reports one, or what it sent cannot be read.
        """
        return self._convert_errors(self._feed(piece))

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left; the last event is AnswerEnd. Raises the same as feed."""
        return self._convert_errors(self._remaining_events())

    def whole(self, body: bytes) -> Iterator[ChatEvent]:
        """Yield the events of an answer that came whole; the last one is AnswerEnd. Raises the same as feed."""
        return self._convert_errors(self._read_whole(body))

    def refused(self, body: object, error: ProviderError) -> Iterator[ChatEvent]:
        """Yield the end of the answer if the error is really one, or raise the error."""
        refused = getattr(self._answer, "refused", None)
        end = None if refused is None else refused(body, error)
        if end is None:
            raise error
        self._is_refused = self._answer.is_over = True
        yield from end

    def _convert_errors(self, events: Iterable[ChatEvent]) -> Iterator[ChatEvent]:
        try:
            yield from self._characters.joined(events)
        except Reported as report:
            yield from self._characters.joined(self.refused(report.body, self._failed(report.body)))
        except WrongShape as error:
            raise self._protocol_error(f"sent an answer that cannot be read: {error}", cut_off=True) from error
        except Unreadable as error:
            raise self._protocol_error(str(error), cut_off=error.cut_off) from error

    def _protocol_error(self, text: str, *, cut_off: bool) -> ProviderProtocolError:
        """Create the error for an unreadable answer, retryable only while none of it has been passed on."""
        error = self._unreadable(text)
        if cut_off:
            error.retryable = True
        return error

    def _feed(self, piece: bytes) -> Iterator[ChatEvent]:
        if self._is_first and (start := piece.lstrip(b"\xef\xbb\xbf \r\n\t")):
            self._is_first = False
            if start.startswith((b"{", b"[")):
                self._pieces, piece = [], start
        if self._pieces is not None:
            self._pieces.append(piece)
            return
        try:
            frames = self._decoder.feed(piece)
        except ValueError as error:
            raise Unreadable(f"sent a stream that cannot be read: {error}") from error
        answer = self._answer
        for data, name in frames:
            if not answer.is_over and (value := self._decode(data)) is not None:
                yield from answer.take(value, name)

    def _remaining_events(self) -> Iterator[ChatEvent]:
        if self._pieces is not None:
            yield from self._read_whole(b"".join(self._pieces))
            return
        answer = self._answer
        for data, name in self._decoder.close():
            if not answer.is_over and (value := self._decode(data)) is not None:
                yield from answer.take(value, name)
        if not self._is_refused:
            yield from answer.end()

    def _read_whole(self, body: bytes) -> Iterator[ChatEvent]:
        more_follows = self._framing.more_follows
        try:
            value = from_bytes(body)
        except ValueError as error:
            if more_follows is None or b"\n" not in body.strip():
                is_begun = body.lstrip().startswith((b"{", b"["))
                text = f"sent an answer that is not JSON, or was cut off: {error}; is base_url right?"
                raise Unreadable(text, cut_off=is_begun) from error
        else:
            is_line = more_follows is not None and body.endswith(b"\n") and isinstance(value, dict)
            if not is_line or not more_follows(value):  # type: ignore[misc]  # a line has it
                yield from self._answer.whole(value)
                return
        yield from self._feed(body)  # a server that streams unasked
        yield from self._remaining_events()

    def _decode(self, data: bytes) -> Any:
        """Return a frame's JSON; None for the frame that ends the stream, or one without data."""
        if not data.strip():
            return None
        try:
            value = from_bytes(data)
        except ValueError as error:
            if (mark := data.strip()) in (self._framing.done, b"[DONE]"):
                self._answer.is_over = mark == self._framing.done
                return None
            text = f"sent a stream with {self._framing.frame} that is not JSON, or was cut off: {error}"
            raise Unreadable(text, cut_off=True) from error
        if not isinstance(value, self._framing.values):
            raise Unreadable(f"sent a stream with {self._framing.frame} that is not a JSON object")
        return value
