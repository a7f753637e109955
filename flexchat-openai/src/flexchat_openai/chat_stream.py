"""The bytes of a streamed answer as events. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.http.sse import SseDecoder
from flexchat.http.wire_json import from_bytes
from flexchat.plugin import ChatEvent, ProviderError, ProviderProtocolError, StreamEnd

from .chat_answer import AnswerDraft, malformed_call, read_whole


class ChatStream:
    """Reads one answer: ``feed`` it every piece, then ``end`` it.

    Args:
        origin: scheme://host[:port] of the server.
        failed: Makes the error for a body that reports one, with status 200.
        unreadable: Makes the error for what makes no sense; its text begins with a verb.

    Attributes:
        is_done: The server has said that nothing follows.
    """

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        self._origin, self._failed, self._unreadable = origin, failed, unreadable
        self._decoder = SseDecoder()
        self._draft = AnswerDraft(origin)
        self._has_begun = False
        self._whole: list[bytes] | None = None
        self._is_first = True
        self._is_over = False
        self.is_done = False

    def feed(self, piece: bytes) -> Iterator[ChatEvent]:
        """Yield what a piece adds, however the network cut it.

        Raises:
            ProviderError: The server reports one, or what it sends cannot be read.
        """
        if self._is_first and (start := piece.lstrip(b"\xef\xbb\xbf \r\n\t")):
            self._is_first = False
            if start.startswith((b"{", b"[")):
                self._whole, piece = [], start  # a server that does not stream: no event begins like this
        if self._whole is not None:
            self._whole.append(piece)
            return
        try:
            events = self._decoder.feed(piece)
        except ValueError as error:
            raise self._unreadable(f"sent a stream that cannot be read: {error}") from error
        for event in events:
            if not self.is_done:
                yield from self._event(event.data, event.name)

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left; the last event is StreamEnd. Raises as feed."""
        if self._whole is not None:
            yield from whole_answer(b"".join(self._whole), self._origin, self._failed, self._unreadable)
            return
        for event in self._decoder.close():
            if not self.is_done:
                yield from self._event(event.data, event.name)
        if self._is_over:
            return
        if not self._has_begun:
            raise self._unreadable("ended its stream before it had said anything: is base_url right?")
        yield from self._draft.end()

    def _event(self, data: bytes, name: str) -> Iterator[ChatEvent]:
        try:
            chunk = from_bytes(data)
        except ValueError as error:
            if data.strip() == b"[DONE]":
                self.is_done = True
                return
            raise self._unreadable(f"sent a stream with an event that is not JSON, or was cut off: {error}") from error
        if not isinstance(chunk, dict):
            raise self._unreadable("sent a stream with an event that is no JSON object")
        if chunk.get("error") or name == "error" or chunk.get("object") == "error":
            yield from self._error(chunk)
            return
        draft = self._draft
        if draft.model is None or chunk.get("usage") or "x_groq" in chunk:
            draft.take_frame(chunk)
        choices = chunk.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            if choice.get("index"):
                draft.warn("the service sent several answers; only the first is used")
                continue
            delta, finish = choice.get("delta"), choice.get("finish_reason")
            if finish and choice.get("error"):  # OpenRouter, when the model's host fails on the way
                yield from self._error(choice)
                return
            if isinstance(delta, dict):
                self._has_begun = True
                text = delta.get("content")
                if len(delta) == 1 and type(text) is str:
                    if text:
                        yield draft.add_text(text)
                else:
                    yield from draft.take(delta)
            elif not self._has_begun and isinstance(choice.get("message"), dict):
                self._has_begun = True
                yield from draft.take(choice["message"], whole=True)
            if finish and isinstance(finish, str):
                self._has_begun = True
                draft.raw_finish = finish

    def _error(self, body: dict[str, Any]) -> Iterator[ChatEvent]:
        result = malformed_call(body)
        if result is None:
            raise self._failed(body)
        self.is_done = self._is_over = True
        yield StreamEnd(result)


def whole_answer(
    body: bytes,
    origin: str,
    failed: Callable[[object], ProviderError],
    unreadable: Callable[[str], ProviderProtocolError],
) -> Iterator[ChatEvent]:
    """Yield the events of an answer that came whole. Arguments and errors as of ChatStream."""
    try:
        answer = from_bytes(body)
    except ValueError as error:
        raise unreadable(f"sent an answer that is not JSON, or was cut off: {error}; is base_url right?") from error
    if isinstance(answer, dict) and answer.get("error"):
        result = malformed_call(answer)
        if result is None:
            raise failed(answer)
        yield StreamEnd(result)
        return
    events = read_whole(answer, origin) if isinstance(answer, dict) else None
    if events is None:
        raise unreadable("sent JSON that is no chat completion: is base_url right? It often ends in /v1")
    yield from events
