"""Reads a streamed answer of the Responses API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from flexchat_sdk import ChatEvent, ProviderError, Reported, Unreadable, WrongShape, known_number, object_in

from .chat_answer import AnswerDraft, is_malformed_call, unwrapped
from .responses_answer import ResponseDraft

_PIECES = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.function_call_arguments.delta": "arguments",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "thought",
}
# Some servers send these without any pieces before them.
_WHOLES = {event.removesuffix("delta") + "done": kind for event, kind in _PIECES.items()}
_FIELDS = {"refusal": "refusal", "arguments": "arguments"}
_ENDS = ("response.completed", "response.incomplete", "response.done")
_ITEMS = ("response.output_item.added", "response.output_item.done")
# The keys that may hold content in an event with an unreadable type.
_SAYS = frozenset(("delta", "text", "refusal", "arguments", "item", "response"))
_SPOKEN = frozenset(("message", "code", "type"))
_UNFINISHED = ("queued", "in_progress", "cancelled")


class ResponsesStream:
    """Reads one answer, streamed or whole; see the kit's Answer. Only an explicit event ends a stream."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._draft = ResponseDraft(origin)
        self._has_begun = self._has_ended = self.is_over = False

    def take(self, chunk: dict[str, Any], name: str = "") -> Iterator[ChatEvent]:
        """Yield what an event adds."""
        kind = chunk.get("type")
        kind = kind if isinstance(kind, str) else name
        index = known_number(chunk.get("output_index"))
        if piece := _PIECES.get(kind):
            yield from self._draft.add(piece, "delta", chunk, index)
            return
        if whole := _WHOLES.get(kind):
            yield from self._draft.add_rest(whole, _FIELDS.get(whole, "text"), chunk, index)
            return
        response = chunk.get("response")
        if kind in ("error", "response.failed") or (chunk.get("error") and not isinstance(response, dict)):
            raise Reported(_report(response if isinstance(response, dict) else chunk))
        if kind.startswith("response."):
            self._has_begun = True
        if kind in _ENDS:
            yield from self._at_end(object_in(chunk, "response") or {}, is_last_event=True)
            self._has_ended = self.is_over = True
        elif kind in _ITEMS:
            if (item := object_in(chunk, "item", needed=True)) is not None:
                take = self._draft.begin if kind == _ITEMS[0] else self._draft.complete
                yield from take(item, index)
        elif isinstance(response, dict):
            self._draft.take_frame(response)
        elif not kind and not _SAYS.isdisjoint(chunk):
            raise WrongShape("type", "text", chunk.get("type"))

    def end(self) -> Iterable[ChatEvent]:
        """Return nothing: the event that ends a stream has been taken."""
        if self._has_ended:
            return ()
        if not self._has_begun:
            raise Unreadable('sent no response: is base_url right? api = "chat" uses Chat Completions instead')
        raise Unreadable("ended its stream before the answer was complete", cut_off=True)

    def whole(self, answer: Any) -> Iterator[ChatEvent]:
        """Yield the events of a whole answer."""
        answer = unwrapped(answer)
        if _has_failed(answer):
            raise Reported(_report(answer))
        if answer.get("output") is None:
            raise Unreadable(
                'sent JSON that is not a response: is base_url right? api = "chat" uses Chat Completions instead'
            )
        yield from self._at_end(answer, is_last_event=False)

    def refused(self, body: object, error: ProviderError) -> Iterable[ChatEvent] | None:
        """Return the end of the answer if the error is really an answer; None for a real error."""
        if not is_malformed_call(body):
            return None
        draft = AnswerDraft(self._origin)
        draft.fail(error)
        return draft.end()

    def _at_end(self, response: Mapping[str, Any], *, is_last_event: bool) -> Iterator[ChatEvent]:
        status = response.get("status")
        if _has_failed(response):
            raise Reported(_report(response))
        if self._draft.is_empty and response.get("output") is None:
            raise Unreadable("ended its stream before sending anything")
        if status in _UNFINISHED and not is_last_event:
            raise Unreadable(f"sent a response that is not finished ({status}): background mode cannot be used")
        yield from self._draft.end(response)


def _has_failed(response: Mapping[str, Any]) -> bool:
    """Return whether a response reports an error. One that ends well does not, whatever its error field holds."""
    status, error = response.get("status"), response.get("error")
    if status == "failed" or not error:
        return status == "failed"
    return status not in ("completed", "incomplete") or (isinstance(error, dict) and not _SPOKEN.isdisjoint(error))


def _report(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an error in the form of an HTTP error's body; the ``error`` event lacks the inner table."""
    if body.get("error"):
        return body
    return {"error": {key: body.get(key) for key in ("message", "code", "param")}}
