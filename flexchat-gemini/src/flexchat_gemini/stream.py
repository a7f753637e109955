"""The bytes of an answer as events, streamed or whole. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from flexchat.http.sse import SseDecoder
from flexchat.http.wire_json import from_bytes
from flexchat.plugin import ChatEvent, ProviderError, ProviderProtocolError

from .answer import AnswerDraft

_KNOWN = ("candidates", "promptFeedback", "usageMetadata", "error")


class GeminiStream:
    """Reads one streamed answer: ``feed`` it every piece, then ``end`` it.

    Also reads what a server sends that does not know ``alt=sse``: one JSON array of chunks, or one whole answer.

    Args:
        origin: scheme://host[:port] of the server.
        failed: Makes the error for a body that reports one, with status 200.
        unreadable: Makes the error for what makes no sense; its text begins with a verb.
    """

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        self._origin, self._failed, self._unreadable = origin, failed, unreadable
        self._decoder = SseDecoder()
        self._draft = AnswerDraft(origin, failed)
        self._whole: list[bytes] | None = None
        self._is_first = True

    def feed(self, piece: bytes) -> Iterator[ChatEvent]:
        """Yield what a piece adds, however the network cut it.

        Raises:
            ProviderError: The server reports one, or what it sends cannot be read.
        """
        if self._is_first and (start := piece.lstrip(b"\xef\xbb\xbf \r\n\t")):
            self._is_first = False
            if start.startswith((b"{", b"[")):
                self._whole, piece = [], start  # no event begins like this
        if self._whole is not None:
            self._whole.append(piece)
            return
        try:
            events = self._decoder.feed(piece)
        except ValueError as error:
            raise self._unreadable(f"sent a stream that cannot be read: {error}") from error
        for event in events:
            yield from self._event(event.data)

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left; the last event is StreamEnd. Raises as feed."""
        if self._whole is not None:
            yield from whole_answer(b"".join(self._whole), self._origin, self._failed, self._unreadable)
            return
        for event in self._decoder.close():
            yield from self._event(event.data)
        if not self._draft.is_over:
            raise self._unreadable("ended its stream without a finish reason: the answer was cut off")
        yield from self._draft.end()

    def _event(self, data: bytes) -> Iterator[ChatEvent]:
        if not data.strip():
            return
        try:
            chunk = from_bytes(data)
        except ValueError as error:
            if data.strip() == b"[DONE]":  # not Google's; proxies add it
                return
            raise self._unreadable(f"sent a stream with an event that is not JSON, or was cut off: {error}") from error
        for item in chunk if isinstance(chunk, list) else [chunk]:
            if not isinstance(item, dict):
                raise self._unreadable("sent a stream with an event that is no JSON object")
            yield from self._draft.take(item)


def whole_answer(
    body: bytes,
    origin: str,
    failed: Callable[[object], ProviderError],
    unreadable: Callable[[str], ProviderProtocolError],
) -> Iterator[ChatEvent]:
    """Yield the events of an answer that came whole, or as an array of chunks. As GeminiStream otherwise."""
    try:
        answer = from_bytes(body)
    except ValueError as error:
        raise unreadable(f"sent an answer that is not JSON, or was cut off: {error}; is base_url right?") from error
    chunks = answer if isinstance(answer, list) else [answer]
    draft = AnswerDraft(origin, failed)
    if not any(isinstance(chunk, dict) and chunk.get(name) for chunk in chunks for name in _KNOWN):
        raise unreadable("sent JSON that is no Gemini answer: is base_url right? It ends before the version")
    for chunk in chunks:
        if not isinstance(chunk, dict):
            raise unreadable("sent an array with an item that is no JSON object")
        yield from draft.take(chunk)
    if isinstance(answer, list) and not draft.is_over:
        raise unreadable("ended its answer without a finish reason: the answer was cut off")
    yield from draft.end()
