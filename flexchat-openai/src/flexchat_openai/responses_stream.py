"""A streamed answer of the Responses API."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flexchat.plugin import ChatEvent, ProviderError, ProviderProtocolError

from .answer_stream import AnswerStream
from .responses_answer import ResponseDraft

_PIECES = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "thought",
}
# What some servers send without any pieces before it.
_WHOLES = {event.removesuffix("delta") + "done": kind for event, kind in _PIECES.items()}
_FIELDS = {"refusal": "refusal", "arguments": "arguments"}
_ENDS = ("response.completed", "response.incomplete", "response.done")
_UNFINISHED = ("queued", "in_progress", "cancelled")


class ResponsesStream(AnswerStream):
    """Reads one answer. Only an event that says so ends it: without one it was cut off."""

    def __init__(
        self, origin: str, failed: Callable[[object], ProviderError], unreadable: Callable[[str], ProviderProtocolError]
    ) -> None:
        super().__init__(origin, failed, unreadable)
        self._draft = ResponseDraft(origin)
        self._has_begun = self._is_over = False

    def _chunk(self, chunk: dict[str, Any], name: str) -> Iterator[ChatEvent]:
        kind = chunk.get("type")
        kind = kind if isinstance(kind, str) else name
        index = chunk.get("output_index")
        index = index if type(index) is int else None
        if piece := _PIECES.get(kind):
            yield from self._draft.add(piece, chunk.get("delta"), chunk, index)
            return
        if whole := _WHOLES.get(kind):
            yield from self._draft.add_rest(whole, chunk.get(_FIELDS.get(whole, "text")), chunk, index)
            return
        response, item = chunk.get("response"), chunk.get("item")
        if kind in ("error", "response.failed") or (chunk.get("error") and not isinstance(response, dict)):
            raise self._failed(_report(response if isinstance(response, dict) else chunk))
        if kind.startswith("response."):
            self._has_begun = True
        if kind in _ENDS:
            yield from self._ended(response if isinstance(response, dict) else {}, is_last_event=True)
            self.is_done = self._is_over = True
        elif isinstance(response, dict):
            self._draft.take_frame(response)
        elif kind == "response.output_item.added" and isinstance(item, dict):
            yield from self._draft.begin(item, index)
        elif kind == "response.output_item.done" and isinstance(item, dict):
            yield from self._draft.complete(item, index)

    def _closed(self) -> Iterator[ChatEvent]:
        if self._is_over:
            return
        if not self._has_begun:
            raise self._unreadable(
                'sent no response: is base_url right? api = "chat" asks for Chat Completions instead'
            )
        raise self._unreadable("ended its stream in the middle of the answer")
        yield  # a generator, like the others

    def _answer(self, answer: dict[str, Any]) -> Iterator[ChatEvent]:
        if answer.get("error") or answer.get("status") == "failed":
            raise self._failed(_report(answer))
        if not isinstance(answer.get("output"), list):
            raise self._unreadable(
                'sent JSON that is no response: is base_url right? api = "chat" asks for Chat Completions instead'
            )
        yield from self._ended(answer, is_last_event=False)

    def _ended(self, response: Mapping[str, Any], *, is_last_event: bool) -> Iterator[ChatEvent]:
        status = response.get("status")
        if status == "failed" or (is_last_event and response.get("error")):
            raise self._failed(_report(response))
        if self._draft.is_empty and not isinstance(response.get("output"), list):
            raise self._unreadable("ended its stream before it had said anything")
        if status in _UNFINISHED and not is_last_event:
            raise self._unreadable(f"sent a response that is not finished ({status}): background mode cannot be used")
        yield from self._draft.end(response)


def _report(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what an error says in the form of an HTTP error's body; the ``error`` event has no table of its own."""
    if body.get("error"):
        return body
    return {"error": {key: body.get(key) for key in ("message", "code", "param")}}
