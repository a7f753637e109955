"""A streamed answer of Chat Completions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from flexchat.plugin import ChatEvent, ProviderError, ProviderProtocolError

from .answer_stream import AnswerStream
from .chat_answer import AnswerDraft, is_malformed_call

_SEVERAL = "the service sent several answers; only the first is used"


class ChatStream(AnswerStream):
    """Reads one answer.

    Args:
        think_tags: Text between <think> and </think> at its start is reasoning.
    """

    def __init__(
        self,
        origin: str,
        failed: Callable[[object], ProviderError],
        unreadable: Callable[[str], ProviderProtocolError],
        *,
        think_tags: bool = False,
    ) -> None:
        super().__init__(origin, failed, unreadable)
        self._draft = AnswerDraft(origin, think_tags=think_tags)
        self._is_plain = not think_tags
        self._has_begun = False
        self._is_over = False

    def _closed(self) -> Iterator[ChatEvent]:
        if self._is_over:
            return
        if not self._has_begun:
            raise self._unreadable("ended its stream before it had said anything: is base_url right?")
        if not self.is_done and self._draft.raw_finish is None:
            raise self._unreadable("ended its stream in the middle: neither a finish reason nor [DONE] came")
        yield from self._draft.end()

    def _chunk(self, chunk: dict[str, Any], name: str) -> Iterator[ChatEvent]:
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
                draft.warn(_SEVERAL)
                continue
            delta, finish = choice.get("delta"), choice.get("finish_reason")
            if finish and choice.get("error"):  # OpenRouter, when the model's host fails on the way
                yield from self._error(choice)
                return
            if "usage" in choice:  # Moonshot
                draft.take_usage(choice["usage"])
            if isinstance(delta, dict):
                self._has_begun = True
                text = delta.get("content")
                if len(delta) == 1 and type(text) is str and self._is_plain:
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

    def _answer(self, answer: dict[str, Any]) -> Iterator[ChatEvent]:
        if answer.get("error"):
            yield from self._error(answer)
            return
        found = answer.get("choices")
        choices = [choice for choice in found if isinstance(choice, dict)] if isinstance(found, list) else []
        choice = next((choice for choice in choices if not choice.get("index")), choices[0] if choices else {})
        message, finish, draft = choice.get("message"), choice.get("finish_reason"), self._draft
        # Gemini's layer leaves out the message of an answer whose limit was used up by thoughts.
        if not isinstance(message, dict) and not (message is None and finish and "text" not in choice):
            raise self._unreadable("sent JSON that is no chat completion: is base_url right? It often ends in /v1")
        if choice.get("error"):  # OpenRouter, when the model's host fails
            yield from self._error(choice)
            return
        if len(choices) > 1:
            draft.warn(_SEVERAL)
        draft.take_frame(answer)
        if finish and isinstance(finish, str):
            draft.raw_finish = finish
        yield from draft.take(message or {}, whole=True)
        yield from draft.end()

    def _error(self, body: dict[str, Any]) -> Iterator[ChatEvent]:
        error = self._failed(body)
        if not is_malformed_call(body):
            raise error
        self.is_done = self._is_over = True
        self._draft.fail(error)
        yield from self._draft.end()
