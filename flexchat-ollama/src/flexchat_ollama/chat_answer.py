"""A ``/api/chat`` answer, whole or in lines, as events and a ChatResult."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flexchat_sdk import (
    AnswerParts,
    ChatEvent,
    ProviderError,
    Reported,
    TextPiece,
    TextReader,
    Unreadable,
    WrongShape,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
    type_name,
    usage_of,
)

from .chat_request import SCOPE
from .context_window import measured_warning
from .errors import malformed_call

MALFORMED = "malformed_tool_call"
"""The finish reason of an answer whose call the server could not read."""


_UNFINISHED = "ended its answer without saying that it was done: it is incomplete"


class ChatAnswer:
    """Reads one answer: an Answer of the kit. Parts stand in the order in which they began.

    Args:
        mask: Takes keys out of a text.
        text: Reads the text; None: it passes unchanged.

    Attributes:
        num_ctx: How many tokens the request lets the model read; None if that is the server's choice.
    """

    def __init__(self, origin: str, *, mask: Callable[[str], str] = str, text: TextReader | None = None) -> None:
        self._parts = AnswerParts(SCOPE, origin, joined=True)
        self._mask = mask
        self._text = text or TextReader()
        self.num_ctx: int | None = None
        self._usage: Mapping[str, Any] = {}
        self._raw_finish: str | None = None
        self._finish: str | None = None
        self._has_calls = self._has_begun = self.is_over = False

    def take(self, chunk: Mapping[str, Any], name: str = "") -> Iterable[ChatEvent]:
        """Apply a line and return what it adds."""
        if chunk.get("error"):
            raise Reported(chunk)
        return self._take(chunk)

    def whole(self, answer: Any) -> Iterator[ChatEvent]:
        """Yield the events of an answer that came whole. One that is not done was ended by a limit."""
        if isinstance(answer, dict) and answer.get("error"):
            raise Reported(answer)
        if not isinstance(answer, dict) or answer.get("message") is None:
            raise Unreadable("sent JSON that is not a chat answer: is base_url right? It ends before /api")
        yield from self._take(answer, is_all=True)
        yield from self.end()

    def refused(self, body: object, error: ProviderError) -> Iterable[ChatEvent] | None:
        """Return the end of the answer if the error is really an answer; None for a real error."""
        why = malformed_call(body)
        if why is None:
            return None
        self.is_over = True
        self._finish = self._raw_finish = MALFORMED
        self._parts.warn(f"the server could not use the tool call the model wrote: {self._mask(why)}")
        return self.end()

    def _take(self, chunk: Mapping[str, Any], *, is_all: bool = False) -> Iterator[ChatEvent]:
        message = object_in(chunk, "message", needed=True)
        is_last = _is_last(chunk)
        if message is None and not is_last and self._has_begun:
            raise WrongShape("message", "an object", chunk.get("message"))
        if message is not None:
            self._has_begun = True
            reasoning, calls = message.get("thinking"), list_in(message, "tool_calls", "message", needed=True)
            if isinstance(reasoning, str):
                if reasoning:
                    yield self._parts.reasoning(reasoning, {})
            elif reasoning is not None:
                self._parts.warn(f"thoughts are left out (message.thinking: expected text, got {type_name(reasoning)})")
            if content := text_in(message, "content", "message", needed=True):
                yield from self._add_pieces(self._text.feed(content))
            if calls:
                yield from self._add_calls(calls)
            if message.get("images"):
                self._parts.warn("the answer contains pictures, which are left out")
        self._parts.model = self._parts.model or known_text(chunk.get("model"))
        if is_last or is_all:
            self.is_over = True
            self._take_end(chunk, "stop" if is_last or chunk.get("done") is not False else "length")

    def end(self) -> Iterator[ChatEvent]:
        """Yield what was held back and, last, AnswerEnd with the result."""
        if not self.is_over and not self._has_begun:
            raise Unreadable("ended its stream before it had said anything: is base_url right?")
        if not self.is_over:
            raise Unreadable(_UNFINISHED, cut_off=True)
        pieces, text_calls = self._text.end()
        yield from self._add_pieces(pieces)
        for warning in self._text.warnings(self._parts.content, text_calls, has_calls=self._has_calls):
            self._parts.warn(warning)
        for call in text_calls:
            self._has_calls = True
            yield from self._parts.call(call.name, call.arguments)
        finish = self._finish
        if finish == "length" and self._has_calls:
            finish = "tool_calls"
            self._parts.warn("the output limit was reached after the tool calls: further ones may be missing")
        usage = usage_of(self._usage, input="prompt_eval_count", output="eval_count")
        if late := measured_warning(usage.input_tokens if usage is not None else None, self.num_ctx):
            self._parts.warn(late)
        yield from self._parts.end(self._raw_finish, finish=finish, usage=usage)

    def _take_end(self, chunk: Mapping[str, Any], finish: str) -> None:
        """Take the last piece. finish: Our word for the end, where the server has none: older ones give no reason."""
        self._finish = self._raw_finish = known_text(chunk.get("done_reason"))
        self._finish = self._finish or finish
        self._usage = {name: value for name, value in chunk.items() if name.endswith(("_count", "_duration"))}

    def _add_pieces(self, pieces: list[TextPiece]) -> Iterator[ChatEvent]:
        for kind, text in pieces:
            yield self._parts.reasoning(text, {}) if kind == "thought" else self._parts.text(text)

    def _add_calls(self, calls: list[Any]) -> Iterator[ChatEvent]:
        yield from self._add_pieces(self._text.release())
        for path, item in objects_of(calls, "message.tool_calls"):
            function = object_in(item, "function", path, needed=True) or {}
            if not isinstance(function.get("name"), str):
                raise WrongShape(f"{path}.function.name", "text", function.get("name"))
            yield from self._call(item, function, f"{path}.function")

    def _call(self, item: Mapping[str, Any], function: Mapping[str, Any], path: str) -> Iterator[ChatEvent]:
        """Read a call. What is not ours to understand goes back with it: ``index``, and what comes to be beside it."""
        beside = {key: value for key, value in item.items() if key not in ("id", "function")}
        within = {key: value for key, value in function.items() if key not in ("name", "arguments")}
        data = {**beside, "function": within} if within else beside
        arguments = function.get("arguments")
        if not isinstance(arguments, str):  # as other servers send them
            arguments = object_in(function, "arguments", path)
        self._has_calls = True
        return self._parts.call(function["name"], arguments, wire_id=item.get("id"), data=data)


def _is_last(chunk: Mapping[str, Any]) -> bool:
    """Return True for the last piece. If ``done`` is unreadable, fields that only the last piece has decide."""
    done = chunk.get("done")
    if isinstance(done, bool):
        return done
    return "done" in chunk and any(chunk.get(name) for name in ("done_reason", "total_duration", "eval_count"))
