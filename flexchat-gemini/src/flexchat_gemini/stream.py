"""The chunks of a streamed answer, or a whole one. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.http.answer_stream import AnswerStream
from flexchat.plugin import ChatEvent, ProviderError, ProviderProtocolError

from .answer import AnswerDraft

_KNOWN = ("candidates", "promptFeedback", "usageMetadata", "error")


class GeminiStream(AnswerStream):
    """Reads one answer, also what a server sends that does not know ``alt=sse``: one JSON array of chunks."""

    chunks = (dict, list)

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        super().__init__(origin, failed, unreadable)
        self._draft = AnswerDraft(origin, failed)

    def _chunk(self, chunk: Any, name: str) -> Iterator[ChatEvent]:
        for item in chunk if isinstance(chunk, list) else [chunk]:
            if not isinstance(item, dict):
                raise self._unreadable("sent a stream with an event that is no JSON object")
            yield from self._draft.take(item)

    def _closed(self) -> Iterator[ChatEvent]:
        if not self._draft.is_over:
            raise self._unreadable("ended its stream without a finish reason: the answer was cut off")
        yield from self._draft.end()

    def _whole(self, answer: Any) -> Iterator[ChatEvent]:
        chunks = answer if isinstance(answer, list) else [answer]
        if not any(isinstance(chunk, dict) and chunk.get(name) for chunk in chunks for name in _KNOWN):
            raise self._unreadable("sent JSON that is no Gemini answer: is base_url right? It ends before the version")
        for chunk in chunks:
            if not isinstance(chunk, dict):
                raise self._unreadable("sent an array with an item that is no JSON object")
            yield from self._draft.take(chunk)
        if isinstance(answer, list) and not self._draft.is_over:
            raise self._unreadable("ended its answer without a finish reason: the answer was cut off")
        yield from self._draft.end()
