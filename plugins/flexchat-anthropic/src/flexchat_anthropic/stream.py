"""The bytes of an answer as events, streamed or whole. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.http.sse import SseDecoder
from flexchat.http.wire_json import from_bytes
from flexchat.plugin import ChatEvent, ProviderError, ProviderProtocolError

from .answer import AnswerDraft


class AnthropicStream:
    """Reads one answer: ``feed`` it every piece, then ``end`` it.

    Also reads a whole answer where a stream was asked for: some servers do not stream.

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
        self._failed, self._unreadable = failed, unreadable
        self._decoder = SseDecoder()
        self._draft = AnswerDraft(origin)
        self._whole: list[bytes] | None = None
        self._is_first = True
        self.is_done = False

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
            yield from self.whole(b"".join(self._whole))
            return
        for event in self._decoder.close():
            yield from self._event(event.data)
        if not self.is_done and self._draft.raw_finish is None:
            raise self._unreadable("ended its stream without a stop reason: the answer was cut off")
        yield from self._draft.end()

    def whole(self, body: bytes) -> Iterator[ChatEvent]:
        """Yield the events of an answer that came whole; the last one is StreamEnd. Raises as feed."""
        try:
            answer = from_bytes(body)
        except ValueError as error:
            text = f"sent an answer that is not JSON, or was cut off: {error}; is base_url right?"
            raise self._unreadable(text) from error
        if isinstance(answer, dict) and (answer.get("type") == "error" or answer.get("error")):
            raise self._failed(answer)
        if not isinstance(answer, dict) or not isinstance(answer.get("content"), list):
            raise self._unreadable("sent JSON that is no answer of the Messages API: is base_url right?")
        yield from self._draft.whole(answer)
        yield from self._draft.end()

    def _event(self, data: bytes) -> Iterator[ChatEvent]:
        if self.is_done or not data.strip():
            return
        try:
            event = from_bytes(data)
        except ValueError as error:
            if data.strip() == b"[DONE]":  # not Anthropic's; proxies add it
                return
            raise self._unreadable(f"sent a stream with an event that is not JSON, or was cut off: {error}") from error
        if not isinstance(event, dict):
            raise self._unreadable("sent a stream with an event that is no JSON object")
        yield from self._take(event)

    def _take(self, event: dict[str, Any]) -> Iterator[ChatEvent]:
        """Yield what an event adds. Kinds that are not known, and pings, add nothing."""
        draft, index = self._draft, event.get("index")
        match event.get("type"):
            case "content_block_delta":
                yield from draft.block_delta(index, event.get("delta"))
            case "content_block_start":
                yield from draft.block_start(index, event.get("content_block"))
            case "content_block_stop":
                yield from draft.block_stop(index)
            case "message_start":
                draft.start(event.get("message"))
            case "message_delta":
                draft.message_delta(event.get("delta"), event.get("usage"))
            case "message_stop":
                self.is_done = True
            case "error":
                raise self._failed(event)
            case None if event.get("error"):
                raise self._failed(event)
