"""A ``/api/chat`` answer, whole or in lines, as events and a ChatResult."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from flexchat.plugin import ChatResult, ToolCall
from flexchat.provider import (
    AnswerEnd,
    AssistantMessage,
    ChatEvent,
    ProviderData,
    ProviderError,
    ReasoningDelta,
    ReasoningPart,
    Reported,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    Unreadable,
    Usage,
    WireIds,
    WrongShape,
    finite,
    known_count,
    known_text,
    list_in,
    object_in,
    objects_of,
    text_in,
    to_text,
    type_name,
)

from .chat_request import SCOPE
from .context_window import measured_warning
from .errors import malformed_call
from .text_calls import MARKS, read_text_calls

MALFORMED = "malformed_tool_call"
"""The finish reason of an answer whose call the server could not read."""


_UNFINISHED = "ended its answer without saying that it was done: it is incomplete"


class ChatAnswer:
    """Reads one answer: an Answer of the kit. Parts stand in the order in which they began.

    Args:
        mask: Takes keys out of a text.

    Attributes:
        text_tools: Names of the tools whose calls are also looked for in the text. Text that may be one is held back.
        num_ctx: How many tokens the request lets the model read; None if that is the server's choice.
    """

    def __init__(
        self, origin: str, *, mask: Callable[[str], str] = str, text_tools: frozenset[str] = frozenset()
    ) -> None:
        self._origin, self._mask = origin, mask
        self.text_tools = text_tools
        self.num_ctx: int | None = None
        self._order: list[str | ToolCall] = []
        self._text: list[str] = []
        self._held: list[str] = []
        self._is_holding = False
        self._reasoning: list[str] = []
        self._text_at = self._reasoning_at = -1
        self._ids = WireIds()
        self._usage: Mapping[str, Any] = {}
        self._warnings: list[str] = []
        self._model: str | None = None
        self._raw_finish: str | None = None
        self._finish: str | None = None
        self._has_begun = self.is_over = False

    def take(self, chunk: Mapping[str, Any], name: str = "") -> Iterable[ChatEvent]:
        """Return what a line adds."""
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
        """Return the end of the answer that an error is in truth; None for an error."""
        why = malformed_call(body)
        if why is None:
            return None
        self.is_over = True
        self._finish = self._raw_finish = MALFORMED
        self._warn(f"the server could not use the tool call the model wrote: {self._mask(why)}")
        return self.end()

    def _take(self, chunk: Mapping[str, Any], *, is_all: bool = False) -> Iterator[ChatEvent]:
        message = object_in(chunk, "message", needed=True)
        is_last = _is_last(chunk)
        if message is not None:
            self._has_begun = True
            thought, calls = message.get("thinking"), list_in(message, "tool_calls", "message", needed=True)
            if isinstance(thought, str):
                if thought:
                    yield self._add_reasoning(thought)
            elif thought is not None:
                self._warn(f"thoughts are left out (message.thinking: expected text, got {type_name(thought)})")
            if content := text_in(message, "content", "message", needed=True):
                yield from self._add_content(content)
            if calls:
                yield from self._add_calls(calls)
            if message.get("images"):
                self._warn("the answer contains pictures, which are left out")
        self._model = self._model or known_text(chunk.get("model"))
        if is_last or is_all:
            self.is_over = True
            self._take_end(chunk, "stop" if is_last or chunk.get("done") is not False else "length")

    def end(self) -> Iterator[ChatEvent]:
        """Yield what was held back and, last, AnswerEnd with the result."""
        if not self.is_over and not self._has_begun:
            raise Unreadable("ended its stream before it had said anything: is base_url right?")
        if not self.is_over:
            raise Unreadable(_UNFINISHED, cut_off=True)
        yield from self._release()
        finish, usage = self._finish_reason(), usage_of(self._usage)
        if late := measured_warning(usage.input_tokens if usage is not None else None, self.num_ctx):
            self._warn(late)
        yield AnswerEnd(
            ChatResult(
                message=AssistantMessage(parts=tuple(map(self._part, self._order))),
                finish_reason=finish,
                raw_finish=self._raw_finish,
                usage=usage,
                model=self._model,
                warnings=tuple(self._warnings),
            )
        )

    def _part(self, kind: str | ToolCall) -> TextPart | ReasoningPart | ToolCall:
        if isinstance(kind, ToolCall):
            return kind
        if kind == "text":
            return TextPart(text="".join(self._text))
        return ReasoningPart(text="".join(self._reasoning), provider_data=self._ours())

    def _ours(self, data: Mapping[str, Any] | None = None) -> ProviderData:
        return ProviderData(scope=SCOPE, origin=self._origin, data=data or {})

    def _take_end(self, chunk: Mapping[str, Any], finish: str) -> None:
        """Take the last piece. finish: Our word for the end, where the server has none: older ones give no reason."""
        self._finish = self._raw_finish = known_text(chunk.get("done_reason"))
        self._finish = self._finish or finish
        self._usage = {name: value for name, value in chunk.items() if name.endswith(("_count", "_duration"))}

    def _finish_reason(self) -> str | None:
        """Return our word for the end. The server has none for calls: it says "stop" beside them."""
        if self._finish != MALFORMED and any(isinstance(part, ToolCall) for part in self._order):
            if self._finish == "length":
                self._warn("the output limit was reached after the tool calls: further ones may be missing")
            return "tool_calls"
        return self._finish

    def _add_reasoning(self, text: str) -> ReasoningDelta:
        if self._reasoning_at < 0:
            self._reasoning_at = len(self._order)
            self._order.append("reasoning")
        self._reasoning.append(text)
        return ReasoningDelta(self._reasoning_at, text)

    def _add_text(self, text: str) -> TextDelta:
        if self._text_at < 0:
            self._text_at = len(self._order)
            self._order.append("text")
        self._text.append(text)
        return TextDelta(self._text_at, text)

    def _add_content(self, text: str) -> Iterator[ChatEvent]:
        if not self.text_tools:
            yield self._add_text(text)
            return
        mark = None if self._is_holding else MARKS.search(text)
        before = "" if self._is_holding else text[: mark.start()] if mark else text
        if before.strip() or (before and self._text):
            yield from self._flush()
            yield self._add_text(before)
        elif before:
            self._held.append(before)  # blanks before what may be a call are no answer
        if mark or self._is_holding:
            self._is_holding = True
            self._held.append(text[mark.start() :] if mark else text)

    def _add_calls(self, calls: list[Any]) -> Iterator[ChatEvent]:
        yield from self._flush()
        self.text_tools = frozenset()  # a server that reads the model's calls has read all of them
        for path, item in objects_of(calls, "message.tool_calls"):
            function = object_in(item, "function", path, needed=True) or {}
            if not isinstance(function.get("name"), str):
                raise WrongShape(f"{path}.function.name", "text", function.get("name"))
            yield from self._add_call(self._call(item, function, f"{path}.function"))

    def _add_call(self, call: ToolCall) -> Iterator[ChatEvent]:
        at = len(self._order)
        self._order.append(call)
        yield ToolCallStart(at, call.name)
        yield ToolCallDelta(at, to_text(finite(call.arguments)) if call.raw_arguments is None else call.raw_arguments)
        yield ToolCallEnd(at, call)

    def _call(self, item: Mapping[str, Any], function: Mapping[str, Any], path: str) -> ToolCall:
        """Read a call. What is not ours to understand goes back with it: ``index``, and what comes to be beside it."""
        beside = {key: value for key, value in item.items() if key not in ("id", "function")}
        within = {key: value for key, value in function.items() if key not in ("name", "arguments")}
        data = {**beside, "function": within} if within else beside
        rest: dict[str, Any] = {"wire_id": self._ids.take(item.get("id")), "provider_data": self._ours(data)}
        name, arguments = function["name"], function.get("arguments")
        if isinstance(arguments, str):  # as other servers send them
            return ToolCall.from_text(name, arguments, **rest)
        return ToolCall.from_object(name, object_in(function, "arguments", path), **rest)

    def _release(self) -> Iterator[ChatEvent]:
        """Yield the calls in the text that was held back, or the text."""
        if not self._held:
            return
        before = "".join(self._text)
        calls, rest = read_text_calls(before + "".join(self._held), self.text_tools, len(before))
        self._held = [rest] if rest else []
        yield from self._flush()
        for found in calls:
            yield from self._add_call(ToolCall.from_object(found.name, found.arguments, provider_data=self._ours()))
            self._warn(f"the model wrote its call of {found.name} as text; it was read as a call (read_text_calls)")

    def _flush(self) -> Iterator[ChatEvent]:
        if self._held:
            text, self._held = "".join(self._held), []
            yield self._add_text(text)

    def _warn(self, text: str) -> None:
        if text not in self._warnings:
            self._warnings.append(text)


def usage_of(raw: Mapping[str, Any]) -> Usage | None:
    """Return the counts of a last piece as Usage; None if there are none. Durations, in ns, stay in ``raw``."""
    if not raw:
        return None
    return Usage(
        input_tokens=known_count(raw, "prompt_eval_count"), output_tokens=known_count(raw, "eval_count"), raw=raw
    )


def _is_last(chunk: Mapping[str, Any]) -> bool:
    """Say whether a piece is the last one. Where ``done`` cannot be read, what stands only in the last one tells."""
    done = chunk.get("done")
    if isinstance(done, bool):
        return done
    return "done" in chunk and any(chunk.get(name) for name in ("done_reason", "total_duration", "eval_count"))
