"""The events of a streamed answer, or a whole one. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.http.answer_stream import AnswerStream
from flexchat.plugin import ChatEvent, ProviderError, ProviderProtocolError

from .answer import AnswerDraft


class AnthropicStream(AnswerStream):
    """Reads one answer of the Messages API."""

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        super().__init__(origin, failed, unreadable)
        self._draft = AnswerDraft(origin)

    def _closed(self) -> Iterator[ChatEvent]:
        if not self.is_done and self._draft.raw_finish is None:
            raise self._unreadable("ended its stream without a stop reason: the answer was cut off")
        yield from self._draft.end()

    def _whole(self, answer: Any) -> Iterator[ChatEvent]:
        if isinstance(answer, dict) and (answer.get("type") == "error" or answer.get("error")):
            raise self._failed(answer)
        if not isinstance(answer, dict) or not isinstance(answer.get("content"), list):
            raise self._unreadable("sent JSON that is no answer of the Messages API: is base_url right?")
        yield from self._draft.whole(answer)
        yield from self._draft.end()

    def _chunk(self, chunk: dict[str, Any], name: str) -> Iterator[ChatEvent]:
        """Yield what an event adds. Kinds that are not known, and pings, add nothing."""
        draft, index = self._draft, chunk.get("index")
        match chunk.get("type"):
            case "content_block_delta":
                yield from draft.block_delta(index, chunk.get("delta"))
            case "content_block_start":
                yield from draft.block_start(index, chunk.get("content_block"))
            case "content_block_stop":
                yield from draft.block_stop(index)
            case "message_start":
                draft.start(chunk.get("message"))
            case "message_delta":
                draft.message_delta(chunk.get("delta"), chunk.get("usage"))
            case "message_stop":
                self.is_done = True
            case "error":
                raise self._failed(chunk)
            case None if chunk.get("error"):
                raise self._failed(chunk)
