"""The chunks of a streamed answer, or a whole one. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.http.answer_stream import AnswerStream, cut_off
from flexchat.provider import ChatEvent, ProviderError, ProviderProtocolError, WrongShape, objects_of

from .answer import AnswerDraft

_KNOWN = ("candidates", "promptFeedback", "usageMetadata", "error")


class GeminiStream(AnswerStream):
    """Reads one answer, also what a server sends that does not know ``alt=sse``: one JSON array of chunks."""

    chunks = (dict, list)  # an error may come in a list

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        super().__init__(origin, failed, unreadable)
        self._draft = AnswerDraft(origin, failed)

    def _chunk(self, chunk: dict[str, Any] | list[Any], name: str) -> Iterator[ChatEvent]:
        items = chunk if isinstance(chunk, list) else [chunk]
        if not items:
            raise WrongShape("event", "an object", chunk)
        for _, item in objects_of(items, "event"):
            yield from self._draft.take(item)

    def _closed(self) -> Iterator[ChatEvent]:
        if not self._draft.is_over:
            raise cut_off("ended its stream without a finish reason: the answer was cut off", self._unreadable)
        yield from self._draft.end()

    def _whole(self, answer: Any) -> Iterator[ChatEvent]:
        chunks = answer if isinstance(answer, list) else [answer]
        if not any(isinstance(chunk, dict) and name in chunk for chunk in chunks for name in _KNOWN):
            raise self._unreadable(
                "sent JSON that is not a Gemini answer: is base_url right? It ends before the version"
            )
        for _, chunk in objects_of(chunks, "answer"):
            yield from self._draft.take(chunk)
        if isinstance(answer, list) and not self._draft.is_over:
            raise cut_off("ended its answer without a finish reason: the answer was cut off", self._unreadable)
        yield from self._draft.end()
