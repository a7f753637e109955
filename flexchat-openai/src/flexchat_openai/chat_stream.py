"""Reads a streamed Chat Completions answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from flexchat_sdk import (
    ChatEvent,
    FirstAnswer,
    ProviderError,
    Reported,
    TextReader,
    Unreadable,
    WrongShape,
    known_number,
    list_in,
    object_in,
    objects_of,
)

from .chat_answer import AnswerDraft, is_malformed_call, unwrapped

_SEVERAL = "the service sent several answers; only the first is used"


class ChatStream:
    """Reads one answer, streamed or whole; see the kit's Answer.

    Args:
        text: Reads the text; None: it passes unchanged.
    """

    def __init__(self, origin: str, text: TextReader | None = None) -> None:
        self._draft = AnswerDraft(origin, text)
        self._is_plain = text is None or text.is_plain
        self._has_begun = self._is_empty = self.is_over = False
        self._first = FirstAnswer()

    def end(self) -> Iterable[ChatEvent]:
        """Return the remaining events once the stream has ended."""
        if not self._has_begun and self._is_empty:
            raise Unreadable("ended its stream without choices", cut_off=True)
        if not self._has_begun:
            raise Unreadable("ended its stream before sending anything: is base_url right?")
        if not self.is_over and not self._draft.is_over:
            raise Unreadable("ended its stream early: neither a finish reason nor [DONE] came", cut_off=True)
        return self._draft.end()

    def take(self, chunk: dict[str, Any], name: str = "") -> Iterable[ChatEvent]:
        """Return the events that a chunk adds."""
        if chunk.get("error") or name == "error" or chunk.get("object") == "error":
            raise Reported(chunk)
        draft = self._draft
        if draft.model is None or chunk.get("usage") or "x_groq" in chunk:
            draft.take_frame(chunk)
        if self._is_plain and (text := _only_text(chunk)) is not None:
            self._has_begun = True
            return (draft.add_text(text),) if text else ()
        return self._take_choices(chunk)

    def _take_choices(self, chunk: dict[str, Any]) -> Iterator[ChatEvent]:
        draft = self._draft
        self._is_empty = self._is_empty or not chunk.get("choices", True)
        for where, choice in objects_of(list_in(chunk, "choices"), "choices"):
            index = choice.get("index")
            if (index != 0 or index is False) and not self._first.includes(index, f"{where}.index"):
                draft.warn(_SEVERAL)
                continue
            delta, finish = object_in(choice, "delta", where), choice.get("finish_reason")
            if finish and choice.get("error"):  # OpenRouter, when the model's host fails midway
                raise Reported(choice)
            if "usage" in choice:  # Moonshot
                draft.take_usage(choice["usage"])
            if delta is not None:
                self._has_begun = True
                yield from draft.take(delta, f"{where}.delta")
            elif not self._has_begun and (message := object_in(choice, "message", where)) is not None:
                self._has_begun = True
                yield from draft.take(message, f"{where}.message", whole=True)
            if finish is not None and finish != "":
                self._has_begun = True
                draft.take_finish(finish)

    def whole(self, answer: Any) -> Iterator[ChatEvent]:
        """Yield the events of a whole answer."""
        answer = unwrapped(answer)
        if answer.get("error"):
            raise Reported(answer)
        choices = list(objects_of(list_in(answer, "choices"), "choices"))
        where, choice = _first(choices)
        message, draft = object_in(choice, "message", where, needed=True), self._draft
        if message is None and "choices" in answer and not choices:  # OpenRouter, when the model's host hiccups
            raise Unreadable("sent an answer without choices", cut_off=True)
        # Gemini's layer leaves out the message when thoughts used up the limit.
        if message is None and (not choice.get("finish_reason") or "text" in choice):
            raise Unreadable("sent JSON that is not a chat completion: is base_url right? It often ends with /v1")
        if choice.get("error"):  # OpenRouter, when the model's host fails
            raise Reported(choice)
        if len(choices) > 1:
            draft.warn(_SEVERAL)
        draft.take_frame(answer)
        draft.take_finish(choice.get("finish_reason"))
        yield from draft.take(message or {}, f"{where}.message", whole=True)
        yield from draft.end()

    def refused(self, body: object, error: ProviderError) -> Iterable[ChatEvent] | None:
        """Return the end of the answer if the error is really an answer; None for a real error."""
        if not is_malformed_call(body):
            return None
        self._draft.fail(error)
        return self._draft.end()


def _only_text(chunk: dict[str, Any]) -> str | None:
    """Return the text of a chunk that holds only text, as nearly all do; None for any other."""
    choices = chunk.get("choices")
    if type(choices) is not list or len(choices) != 1 or type(choice := choices[0]) is not dict:
        return None
    if type(choice.get("index")) is not int or choice["index"] or choice.get("finish_reason") or "usage" in choice:
        return None
    delta = choice.get("delta")
    if type(delta) is not dict or len(delta) != 1:
        return None
    text = delta.get("content")
    return text if type(text) is str else None


def _first(choices: list[tuple[str, dict[str, Any]]]) -> tuple[str, dict[str, Any]]:
    """Return the first answer of a whole body with its path, wherever it is; an empty one if there is none.

    Raises:
        WrongShape: There are several, and it is unclear which comes first.
    """
    for where, choice in choices:
        if len(choices) == 1 or known_number(choice.get("index")) == 0:
            return where, choice
    for where, choice in choices:
        if choice.get("index") is not None and known_number(choice.get("index")) is None:
            raise WrongShape(f"{where}.index", "the number of an answer", choice["index"])
    return choices[0] if choices else ("", {})
