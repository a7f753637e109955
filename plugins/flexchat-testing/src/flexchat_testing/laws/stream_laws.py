"""Laws about streamed answers."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from typing import Any

import httpx
from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import (
    ChatEvent,
    ChatOptions,
    ProviderError,
    ReasoningDelta,
    ReasoningPart,
    TextDelta,
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

from .law import canonical, expect, law, refused, require, show
from .wire import ProviderKit, Reply

_PATIENCE_S = 5.0


class StreamLaws(ProviderKit):
    """A stream yields the content of the whole answer, however the network splits it, and is closed when abandoned."""

    def _replies(self) -> list[Reply]:
        replies = [self.text_reply("Grüße, \u2028 漢字 and \U0001f600."), self.text_reply("Once upon", finish="length")]
        if "tools" in self.supports:
            replies.append(self.tool_reply([("kit_first", {"n": 1, "text": 'é "quoted" \n'})], text="Let me see"))
        if "parallel_tools" in self.supports:
            replies.append(self.tool_reply([("kit_first", {"n": 1}), ("kit_second", {}), ("kit_first", {"n": 3})]))
        return replies

    @law("streaming")
    async def test_a_streamed_answer_is_the_whole_answer(self) -> None:
        """The AnswerEnd's result is what generate_chat returns for the same answer."""
        for reply in self._replies():
            whole, streamed = await self.result(reply), await self.result(reply, stream=True)
            problem = f"whole: {show(_comparable(whole))}; streamed: {show(_comparable(streamed))}"
            require(_comparable(whole) == _comparable(streamed), problem)

    @law("streaming")
    async def test_events_come_in_order(self) -> None:
        """Deltas joined are the parts of the result, at the index they name; a call starts, grows, and ends."""
        for reply in self._replies():
            async with self.serving(self.answer(reply, stream=True)) as (provider, _):
                events = await self.events(provider)
            check_order(events)

    @law("streaming", "http")
    async def test_any_cut_of_a_stream_gives_the_same_answer(self) -> None:
        """The network cuts where it likes, in the middle of a line or of a character."""
        for reply in self._replies():
            content = b"".join(self.answer(reply, stream=True).pieces)
            expected = None
            step = max(1, len(content) // 60)
            cuts = [[content], *([content[:at], content[at:]] for at in range(1, len(content), step))]
            cuts.append([content[at : at + 1] for at in range(len(content))])
            for pieces in cuts:
                answer = self.raw_answer(pieces)
                async with self.serving(answer) as (provider, _):
                    result = _comparable(await self.chat(provider, stream=True))
                expected = expected or result
                require(
                    result == expected,
                    f"cut into pieces of {[len(piece) for piece in pieces][:5]} … bytes the answer is {show(result)} "
                    f"instead of {show(expected)}",
                )

    @law("streaming", "http")
    async def test_pieces_are_passed_on_as_they_come(self) -> None:
        """The first words are there while the model still writes: do not wait for the end."""
        pieces = self.answer(self.text_reply("one two three four five six"), stream=True).pieces
        answer = self.raw_answer(pieces[: max(1, len(pieces) - 1)], hangs=True)
        async with self.serving(answer) as (provider, _):
            stream = provider.stream_chat((), self.model, ChatOptions())  # type: ignore[attr-defined]
            try:
                async with asyncio.timeout(_PATIENCE_S):
                    async for event in stream:
                        if type(event) is TextDelta and event.text:
                            break
            except TimeoutError:
                raise AssertionError(
                    "all but the last piece of a text had come, and no TextDelta was passed on"
                ) from None
            finally:
                await stream.aclose()

    @law("streaming", "http")
    async def test_closing_a_stream_closes_the_response(self) -> None:
        """Who stops listening closes the generator: close the connection then, or the model goes on and costs."""
        pieces = self.answer(self.text_reply("one two three four five six"), stream=True).pieces
        answer = self.raw_answer(pieces[: max(1, len(pieces) - 1)], hangs=True)
        async with self.serving(answer) as (provider, service):
            stream = provider.stream_chat((), self.model, ChatOptions())  # type: ignore[attr-defined]
            async with asyncio.timeout(_PATIENCE_S):
                await anext(stream)
            await stream.aclose()
            require(service.open_answers == 0, "the generator was closed, and the response is still open")

    @law("streaming", "http")
    async def test_a_stream_that_breaks_is_an_error(self) -> None:
        """A connection that breaks in the middle is a ProviderError: half an answer must not pass for a whole one."""
        for reply in self._replies():
            pieces = self.answer(reply, stream=True).pieces
            for count in range(len(pieces) // 2 + 1):
                answer = self.raw_answer(pieces[:count], breaks=httpx.ReadError("connection reset"))
                async with self.serving(answer) as (provider, service):
                    what = f"a chat in which the connection broke after {count} of {len(pieces)} pieces"
                    await refused(self.chat(provider, stream=True), ProviderError, what)
                    require(service.open_answers == 0, "after the error the response is still open")

    @law("streaming", "http")
    async def test_a_stream_that_stops_short_does_not_look_finished(self) -> None:
        """A stream that ends too early is a ProviderError, or a result without finish_reason and with a warning.

        A call in it has no arguments: it would run with half of what the model meant.
        """
        for reply in self._replies():
            pieces = self.answer(reply, stream=True).pieces
            for count in range(len(pieces) // 2 + 1):
                async with self.serving(self.raw_answer(pieces[:count])) as (provider, _):
                    try:
                        result = await self.chat(provider, stream=True)
                    except ProviderError:
                        continue
                problem = f"the stream ended after {count} of {len(pieces)} pieces and looks finished: {show(result)}"
                require(result.warnings and result.finish_reason in (None, "tool_calls"), problem)


def _comparable(result: ChatResult) -> tuple[Any, ...]:
    """What two results must have in common, ids left out."""
    parts: list[Any] = []
    for part in result.message.parts:
        if isinstance(part, ToolCall):
            parts.append(("call", part.name, canonical(part.arguments)))
        elif isinstance(part, TextPart | ReasoningPart) and part.text:
            parts.append((type(part).__name__, part.text))
    usage = result.usage
    return (
        tuple(parts),
        result.finish_reason,
        (usage.input_tokens, usage.output_tokens) if usage else None,
        result.model,
    )


def check_order(events: list[ChatEvent]) -> None:
    """Check that the events of a stream add up to its result."""
    parts = events[-1].result.message.parts  # type: ignore[union-attr]
    texts: dict[int, str] = {}
    started: dict[int, str] = {}
    ended: dict[int, ToolCall] = {}
    for event in events[:-1]:
        if isinstance(event, TextDelta | ReasoningDelta):
            part_class = TextPart if type(event) is TextDelta else ReasoningPart
            at = parts[event.index] if 0 <= event.index < len(parts) else None
            require(isinstance(at, part_class), f"{event} names part {event.index}: {show(at)} of {show(parts)}")
            texts[event.index] = texts.get(event.index, "") + event.text
        elif isinstance(event, ToolCallStart):
            require(event.index not in started, f"call {event.index} starts twice")
            require(event.index not in texts, f"call {event.index} has the index of a text")
            started[event.index] = ""
        elif isinstance(event, ToolCallDelta):
            require(event.index in started and event.index not in ended, f"{event} comes outside its call")
            started[event.index] += event.arguments
        elif isinstance(event, ToolCallEnd):
            require(event.index in started and event.index not in ended, f"call {event.index} ends, and is not open")
            ended[event.index] = event.call
    for index, text in texts.items():
        expect(getattr(parts[index], "text", None), text, f"the deltas of part {index} together")
    require(started.keys() == ended.keys(), f"calls {[*started]} start, calls {[*ended]} end")
    calls = {index: part for index, part in enumerate(parts) if isinstance(part, ToolCall)}
    require(calls == ended, f"the calls of the result are {show(calls)}, those of the events {show(ended)}")
    for index, pieces in started.items():
        call = calls[index]
        # Groq writes null for a tool without parameters.
        if pieces not in ("", "null") and call.arguments is not None:
            written: Any = pieces
            with contextlib.suppress(ValueError):
                written = json.loads(pieces)
            text = f"the deltas of call {index} are {pieces!r}, its arguments {show(call.arguments)}"
            require(canonical(written) == canonical(call.arguments), text)
    names = [event.name for event in events if isinstance(event, ToolCallStart)]
    require(sorted(names) == sorted(call.name for call in calls.values()), f"calls start as {names}: {show(ended)}")
    order = [event.index for event in events if isinstance(event, ToolCallStart)]
    require(all(a < b for a, b in itertools.pairwise(order)), f"calls start in the order {order}")
