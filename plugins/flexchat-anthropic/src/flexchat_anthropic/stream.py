"""The events of a streamed answer, or a whole one. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.http.answer_stream import AnswerStream, cut_off
from flexchat.provider import ChatEvent, ProviderError, ProviderProtocolError, WrongShape, object_in

from .answer import AnswerDraft


class AnthropicStream(AnswerStream):
    """Reads one answer of the Messages API."""

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        super().__init__(origin, failed, unreadable)
        self._draft = AnswerDraft(origin)

    def _closed(self) -> Iterator[ChatEvent]:
        if not self.is_done and not self._draft.is_over:
            raise cut_off("ended its stream without a stop reason: the answer was cut off", self._unreadable)
        yield from self._draft.end()

    def _whole(self, answer: Any) -> Iterator[ChatEvent]:
        if isinstance(answer, dict) and (answer.get("type") == "error" or answer.get("error")):
            raise self._failed(answer)
        if not isinstance(answer, dict) or "content" not in answer:
            raise self._unreadable("sent JSON that is not an answer of the Messages API: is base_url right?")
        yield from self._draft.whole(answer)
        yield from self._draft.end()

    def _chunk(self, chunk: dict[str, Any], name: str) -> Iterator[ChatEvent]:
        """Yield what an event adds. Kinds that are not known, and pings, add nothing."""
        draft, index, kind = self._draft, chunk.get("index"), chunk.get("type")
        match kind if isinstance(kind, str) else name:
            case "content_block_delta":
                yield from draft.block_delta(index, _needed(chunk, "delta"))
            case "content_block_start":
                yield from draft.block_start(index, _needed(chunk, "content_block"))
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
            case _ if chunk.get("error"):
                raise self._failed(chunk)
            case "" if kind is not None or "delta" in chunk or "content_block" in chunk:
                raise WrongShape("type", "text", kind)


def _needed(chunk: dict[str, Any], key: str) -> dict[str, Any]:
    found = object_in(chunk, key, needed=True)
    if found is None:
        raise WrongShape(key, "an object", None)
    return found
