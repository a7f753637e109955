"""The bytes of an answer as JSON, streamed as server-sent events or whole. Reads no network and knows no clock."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from ..domain.events import CharacterJoiner, ChatEvent
from ..errors import ProviderError, ProviderProtocolError
from .answer_shape import WrongShape
from .sse import SseDecoder
from .wire_json import from_bytes


class AnswerStream(ABC):
    """Reads one answer: ``feed`` it every piece, then ``end`` it; or the ``whole`` of it at once.

    Also reads a whole answer where a stream was asked for: some servers do not stream. A WrongShape that reading an
    answer raises becomes the error for what makes no sense; asking again may help, while nothing has been passed on.

    Args:
        origin: scheme://host[:port] of the server.
        failed: Makes the error for a body that reports one, with status 200.
        unreadable: Makes the error for what makes no sense; its text begins with a verb.

    Attributes:
        chunks: What the data of an event may be.
        is_ended_by_done: ``[DONE]`` ends the stream; else it is a proxy's, and says nothing.
        is_done: The server has said that nothing follows.
    """

    chunks: ClassVar[tuple[type, ...]] = (dict,)
    is_ended_by_done: ClassVar[bool] = False

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        self._origin, self._failed, self._unreadable = origin, failed, unreadable
        self._decoder = SseDecoder()
        self._characters = CharacterJoiner()
        self._pieces: list[bytes] | None = None
        self._is_first = True
        self.is_done = False

    def feed(self, piece: bytes) -> Iterator[ChatEvent]:
        """Yield what a piece adds, however the network cut it.

        Raises:
            ProviderError: The server reports one, or what it sends cannot be read.
        """
        return self._passed(self._fed(piece))

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left; the last event is AnswerEnd. Raises as feed."""
        return self._passed(self._left())

    def whole(self, body: bytes) -> Iterator[ChatEvent]:
        """Yield the events of an answer that came whole; the last one is AnswerEnd. Raises as feed."""
        return self._passed(self._at_once(body))

    def _passed(self, events: Iterable[ChatEvent]) -> Iterator[ChatEvent]:
        try:
            yield from self._characters.joined(events)
        except WrongShape as error:
            raise wrong_shape(error, self._unreadable) from error

    def _fed(self, piece: bytes) -> Iterator[ChatEvent]:
        if self._is_first and (start := piece.lstrip(b"\xef\xbb\xbf \r\n\t")):
            self._is_first = False
            if start.startswith((b"{", b"[")):
                self._pieces, piece = [], start  # a server that does not stream: no event begins like this
        if self._pieces is not None:
            self._pieces.append(piece)
            return
        try:
            events = self._decoder.feed(piece)
        except ValueError as error:
            raise self._unreadable(f"sent a stream that cannot be read: {error}") from error
        for data, name in events:
            if not self.is_done and (chunk := self._decoded(data)) is not None:
                yield from self._chunk(chunk, name)

    def _left(self) -> Iterator[ChatEvent]:
        if self._pieces is not None:
            yield from self._at_once(b"".join(self._pieces))
            return
        for data, name in self._decoder.close():
            if not self.is_done and (chunk := self._decoded(data)) is not None:
                yield from self._chunk(chunk, name)
        yield from self._closed()

    def _at_once(self, body: bytes) -> Iterator[ChatEvent]:
        try:
            answer = from_bytes(body)
        except ValueError as error:
            text = f"sent an answer that is not JSON, or was cut off: {error}; is base_url right?"
            is_begun = body.lstrip().startswith((b"{", b"["))
            raise (cut_off(text, self._unreadable) if is_begun else self._unreadable(text)) from error
        yield from self._whole(answer)

    def _decoded(self, data: bytes) -> Any:
        """Return an event's JSON; None for ``[DONE]``, and for an event without data."""
        if not data.strip():
            return None
        try:
            chunk = from_bytes(data)
        except ValueError as error:
            if data.strip() == b"[DONE]":
                self.is_done = self.is_ended_by_done
                return None
            text = f"sent a stream with an event that is not JSON, or was cut off: {error}"
            raise cut_off(text, self._unreadable) from error
        if not isinstance(chunk, self.chunks):
            raise self._unreadable("sent a stream with an event that is not a JSON object")
        return chunk

    @abstractmethod
    def _chunk(self, chunk: Any, name: str) -> Iterator[ChatEvent]:
        """Yield what an event adds. name: its ``event`` field."""

    @abstractmethod
    def _closed(self) -> Iterator[ChatEvent]:
        """Yield what is left when the stream has ended."""

    @abstractmethod
    def _whole(self, answer: Any) -> Iterator[ChatEvent]:
        """Yield the events of a whole answer, whatever JSON it is."""


def cut_off(text: str, unreadable: Callable[[str], ProviderProtocolError]) -> ProviderProtocolError:
    """Return the error for an answer that broke off; the next one may be whole. Nobody asks again who passed it on."""
    made = unreadable(text)
    made.retryable = True
    return made


def wrong_shape(error: WrongShape, unreadable: Callable[[str], ProviderProtocolError]) -> ProviderProtocolError:
    """Return the error for an answer in which something has a wrong type; a model's next answer may be well again."""
    return cut_off(f"sent an answer that cannot be read: {error}", unreadable)
