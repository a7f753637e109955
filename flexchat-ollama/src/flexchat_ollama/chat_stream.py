"""The bytes of an answer as events. Reads no network and knows no clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.http.answer_stream import cut_off, wrong_shape
from flexchat.provider import (
    CharacterJoiner,
    ChatEvent,
    NdjsonDecoder,
    ProviderError,
    ProviderProtocolError,
    WrongShape,
    from_bytes,
)

from .chat_answer import AnswerDraft
from .errors import malformed_call

_UNFINISHED = "ended its answer without saying that it was done: it is incomplete"


class ChatStream:
    """Reads one answer: ``feed`` it every piece, then ``end`` it.

    Args:
        draft: Takes the answer.
        failed: Makes the error for a line that reports one, with status 200.
        unreadable: Makes the error for what makes no sense; its text begins with a verb.
    """

    def __init__(
        self,
        draft: AnswerDraft,
        failed: Callable[[object], ProviderError],
        unreadable: Callable[[str], ProviderProtocolError],
    ) -> None:
        self._draft, self._failed, self._unreadable = draft, failed, unreadable
        self._decoder = NdjsonDecoder()
        self._characters = CharacterJoiner()

    @property
    def is_done(self) -> bool:
        """Whether the server has said that nothing follows."""
        return self._draft.is_done

    def feed(self, piece: bytes) -> Iterator[ChatEvent]:
        """Yield what a piece adds, however the network cut it.

        Raises:
            ProviderError: The server reports one, or what it sends cannot be read.
        """
        return self._passed(self._fed(piece))

    def end(self) -> Iterator[ChatEvent]:
        """Yield what is left; the last event is AnswerEnd. Raises as feed."""
        return self._passed(self._left())

    def _passed(self, events: Iterator[ChatEvent]) -> Iterator[ChatEvent]:
        try:
            yield from self._characters.joined(events)
        except WrongShape as error:
            raise wrong_shape(error, self._unreadable) from error

    def _fed(self, piece: bytes) -> Iterator[ChatEvent]:
        try:
            lines = self._decoder.feed(piece)
        except ValueError as error:
            raise self._unreadable(f"sent a stream that cannot be read: {error}") from error
        for line in lines:
            yield from self._line(line)

    def _left(self) -> Iterator[ChatEvent]:
        for line in self._decoder.close():
            yield from self._line(line)
        if not self._draft.has_begun and not self.is_done:
            raise self._unreadable("ended its stream before it had said anything: is base_url right?")
        if not self.is_done:
            raise cut_off(_UNFINISHED, self._unreadable)
        yield from self._draft.end()

    def _line(self, line: bytes) -> Iterator[ChatEvent]:
        if self.is_done:
            return
        try:
            chunk = from_bytes(line)
        except ValueError as error:
            text = f"sent a stream with a line that is not JSON, or was cut off: {error}"
            raise cut_off(text, self._unreadable) from error
        if not isinstance(chunk, dict):
            raise self._unreadable("sent a stream with a line that is no JSON object")
        _check(chunk, self._draft, self._failed)
        if not self.is_done:
            yield from self._draft.take(chunk)


def whole_answer(
    body: bytes,
    draft: AnswerDraft,
    failed: Callable[[object], ProviderError],
    unreadable: Callable[[str], ProviderProtocolError],
) -> Iterator[ChatEvent]:
    """Yield the events of an answer that came whole, also as the lines of a stream. As ChatStream.

    One that is whole and says that it is not done was cut off by a limit: its finish reason is "length". A line that
    says so is of a stream, and incomplete.
    """
    try:
        answer = from_bytes(body)
    except ValueError as error:
        if b"\n" not in body.strip():
            text = f"sent an answer that is not JSON, or was cut off: {error}; is base_url right?"
            raise (cut_off(text, unreadable) if body.lstrip().startswith(b"{") else unreadable(text)) from error
        stream = ChatStream(draft, failed, unreadable)
        yield from stream.feed(body)
        yield from stream.end()
        return
    if isinstance(answer, dict):
        _check(answer, draft, failed)
    if not draft.is_done and (not isinstance(answer, dict) or answer.get("message") is None):
        raise unreadable("sent JSON that is not a chat answer: is base_url right? It ends before /api")
    if not draft.is_done and answer.get("done") is False and body.endswith(b"\n"):
        raise cut_off(_UNFINISHED, unreadable)  # the first line of a stream that was cut off
    try:
        if not draft.is_done:
            yield from draft.take(answer, whole=True)
        yield from draft.end()
    except WrongShape as error:
        raise wrong_shape(error, unreadable) from error


def _check(chunk: dict[str, Any], draft: AnswerDraft, failed: Callable[[object], ProviderError]) -> None:
    """Raise the error that a piece reports, if it does; one about a tool call ends the answer instead."""
    if not chunk.get("error"):
        return
    why = malformed_call(chunk)
    if why is None:
        raise failed(chunk)
    draft.fail(why)
