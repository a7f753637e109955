"""Laws about how a provider reads an answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import attrs
from flexchat.plugin import ChatResult, ToolCall
from flexchat_sdk import AssistantMessage, ChatOptions, ProviderError, TextDelta, TextPart, ToolMessage, UserMessage

from .law import canonical, expect, law, require, show
from .samples import FIRST, HELLO, SECOND, objects, texts, with_more, wrong_types
from .wire import Answer, ProviderKit, answered, as_bytes

_JSON = re.compile(rb"\{.*\}", re.DOTALL)
_ARGUMENTS = {"n": 1}


class AnswerLaws(ProviderKit):
    """An answer arrives as the model gave it."""

    @law(draw=texts)
    async def test_text_arrives_unchanged(self, text: str, stream: bool) -> None:
        """The result's content is the model's text, character by character: nothing is stripped or replaced."""
        result = await self.result(self.text_reply(text), stream=stream)
        require(result.content == text, f"the model said {text!r}, the result's content is {result.content!r}")
        require(not result.tool_calls, f"the answer has no calls, the result has {show(result.tool_calls)}")

    @law()
    async def test_an_empty_answer_is_an_answer(self, stream: bool) -> None:
        """An answer without text is an answer: the content is None or empty, and nothing is raised."""
        result = await self.result(self.text_reply(""), stream=stream)
        require(not result.content, f"the model said nothing, the content is {result.content!r}")

    @law()
    async def test_the_end_of_an_answer_is_told(self, stream: bool) -> None:
        """finish_reason is "stop" where the model was done, and "length" where the output limit cut it off."""
        for finish, words in (("stop", ("stop", "end_turn")), ("length", ("length",))):
            result = await self.result(self.text_reply("Once", finish=finish), stream=stream)
            problem = f'the service ended with "{finish}", finish_reason is {result.finish_reason!r}'
            require(result.finish_reason in words, problem)

    @law("http")
    async def test_a_wrong_type_loses_nothing_silently(self, stream: bool) -> None:
        """An answer with a value of a wrong type is an error, or read completely: no text and no call is left out."""
        for reply in self._replies_with_all():
            expected = _text_and_calls(await self.result(reply, stream=stream))
            for place, odd in _changed(self.answer(reply, stream=stream), wrong_types):
                async with self.serving(odd) as (provider, _):
                    try:
                        actual = _text_and_calls(await self.chat(provider, stream=stream))
                    except ProviderError:
                        continue
                expect(actual, expected, f"with a wrong type at {place} the answer looks whole")

    @law("http")
    async def test_what_a_service_adds_costs_nothing(self, stream: bool) -> None:
        """An unknown key may have any value, in any object of an answer."""
        for reply in self._replies_with_all():
            expected = _text_and_calls(await self.result(reply, stream=stream))
            for added in (None, True, 7, "x", [1], {"a": 1}):
                answer = self.answer(reply, stream=stream)

                def more(data: Any, added: Any = added) -> Iterator[tuple[str, Any]]:
                    yield "", with_more(data, added, _ARGUMENTS)

                for _, odd in _changed(answer, more):
                    async with self.serving(odd) as (provider, _service):
                        actual = _text_and_calls(await self.chat(provider, stream=stream))
                    require(actual == expected, f'"kit_added": {show(added)} made of the answer {show(actual)}')

    @law("http")
    async def test_a_character_cut_in_two_is_one(self, stream: bool) -> None:
        """Half a surrogate pair at the end of a piece waits for the other half; one that stays alone is U+FFFD."""
        for before in range(8):
            text = "a" * before + "\ud83d\ude00b\ud83d"
            expected = "a" * before + "\U0001f600b\ufffd"
            result = await self.result(self.text_reply(text), stream=stream)
            require(result.content == expected, f"the model said {expected!r}, the content is {result.content!r}")
        if stream:
            async with self.serving(self.answer(self.text_reply(text), stream=True)) as (provider, _):
                deltas = [e.text for e in await self.events(provider) if isinstance(e, TextDelta)]
            problem = f"the model said {expected!r}, the deltas are {deltas!r}"
            require("".join(deltas) == expected and not any("\ud800" <= d[-1:] <= "\udfff" for d in deltas), problem)

    def _replies_with_all(self) -> list[Any]:
        replies = [self.text_reply("Once upon a time")]
        if "tools" in self.supports:
            replies.append(self.tool_reply([("kit_first", _ARGUMENTS)], text="Let me"))
        return replies

    @law("usage")
    async def test_tokens_are_counted(self, stream: bool) -> None:
        """usage holds the service's counts, streamed or not."""
        usage = (await self.result(self.text_reply("Hi"), stream=stream)).usage
        counts = (usage.input_tokens, usage.output_tokens) if usage else None
        expected = (self.input_tokens, self.output_tokens)
        require(counts == expected, f"the service told {expected} tokens (input, output), usage has {counts}")

    @law("tools", draw=objects)
    async def test_any_json_object_survives_as_arguments(self, value: dict[str, Any], stream: bool) -> None:
        """A call's arguments are what the model wrote, and the next request repeats them: true is not 1, 1 not 1.0."""
        options = ChatOptions(tools=await self.encoded(FIRST))
        first = self.answer(self.tool_reply([("kit_first", value)]), stream=stream)
        last = self.answer(self.text_reply("ok"), stream=stream)
        async with self.serving(first, last) as (provider, service):
            result = await self.chat(provider, HELLO, options, stream=stream)
            require(len(result.tool_calls) == 1, f"the answer has one call, got {show(result.tool_calls)}")
            call = result.tool_calls[0]
            require(call.name == "kit_first", f"the call names kit_first, got {call.name!r}")
            problem = f"the arguments are {show(value)}, got {show(call.arguments)} ({call.error})"
            require(call.arguments is not None and canonical(call.arguments) == canonical(value), problem)
            if "http" in self.supports:
                await self.chat(provider, (*HELLO, result.message, _result(call)), options, stream=stream)
                repeated = [arguments for _, _, arguments in self.read_tool_calls(service.asked[-1].body)]
                problem = f"the next request must repeat the arguments {show(value)}, it has {show(repeated)}"
                require([canonical(a) for a in repeated] == [canonical(value)], problem)

    @law("parallel_tools")
    async def test_parallel_calls_keep_their_order_and_get_ids_of_their_own(self) -> None:
        """Calls stand in the order the model wrote them, each with its own id, also where one tool is called twice."""
        requested = [("kit_second", {"n": 3}), ("kit_first", {"n": 1}), ("kit_first", {"n": 1})]
        ids: set[str] = set()
        for stream in self.ways:
            for _ in range(2):
                calls = (await self.result(self.tool_reply(requested), stream=stream)).tool_calls
                actual = [(call.name, dict(call.arguments or {})) for call in calls]
                require(actual == requested, f"the model asked for {requested}, in this order; got {actual}")
                ids |= {call.id for call in calls}
        count = len(requested) * 2 * len(self.ways)
        require(
            len(ids) == count,
            f"{count} calls in {2 * len(self.ways)} answers need as many ids, there are {len(ids)}: leave ToolCall.id "
            "to its default, and put the service's id into wire_id",
        )

    @law("tools")
    async def test_calls_beside_stop_are_calls(self, stream: bool) -> None:
        """finish_reason is "tool_calls" if there are calls, even where the service reports "stop"."""
        for finish in ("stop", "tool_calls"):
            result = await self.result(self.tool_reply([("kit_first", {"n": 1})], finish=finish), stream=stream)
            require(len(result.tool_calls) == 1, f'beside "{finish}" the call is gone: {show(result.message)}')
            what = f'finish_reason of an answer with calls, beside "{finish}"'
            expect(result.finish_reason, "tool_calls", what)

    @law("tools")
    async def test_text_beside_calls_is_kept(self, stream: bool) -> None:
        """Text beside calls is part of the message, before them."""
        message = (await self.result(self.tool_reply([("kit_first", {"n": 1})], text="Let me"), stream=stream)).message
        kinds = [type(part).__name__ for part in message.parts if isinstance(part, TextPart | ToolCall)]
        problem = f"the model said 'Let me' and called one tool; the message has {show(message.parts)}"
        require(message.content == "Let me" and kinds == ["TextPart", "ToolCall"], problem)

    @law("tools", "http")
    async def test_each_result_comes_back_to_its_call(self, stream: bool) -> None:
        """In the next request every tool's result has the key of the call it answers, in a second round too.

        The key is wire_id where this service made the call, else a value made from ToolCall.id.
        """
        options = ChatOptions(tools=await self.encoded(FIRST, SECOND))
        calls = [("kit_first", {"n": 1})]
        if "parallel_tools" in self.supports:
            calls = [("kit_first", {"n": 1}), ("kit_second", {"n": 2}), ("kit_first", {"n": 3})]
        more = [(name, {"n": arguments["n"] + 10}) for name, arguments in calls]
        replies = (self.tool_reply(calls), self.tool_reply(more), self.text_reply("done"))
        async with self.serving(*(self.answer(reply, stream=stream) for reply in replies)) as (provider, service):
            messages = HELLO
            for _ in range(2):
                result = await self.chat(provider, messages, options, stream=stream)
                messages = (*messages, result.message, *answered(result.tool_calls))
            await self.chat(provider, messages, options, stream=stream)
            numbers = [arguments["n"] for _, arguments in (*calls, *more)]
            body = service.asked[-1].body
            self.check_results(body, {number: f"RESULT-{number}" for number in numbers})
            self.check_results(service.asked[1].body, {number: f"RESULT-{number}" for number in numbers[: len(calls)]})

    @law("opaque", "http")
    async def test_opaque_data_returns_to_its_origin_and_nowhere_else(self, stream: bool) -> None:
        """What a service wants back goes back to the same scope and origin: a signature elsewhere is refused, or leaks.

        Keep it in ProviderData(scope, origin, data) at the part it came with, and send it only where both match.
        """
        token = "opaque-0123456789abcdef"
        replies = (self.opaque_reply(token), self.text_reply("ok"))
        async with self.serving(*(self.answer(reply, stream=stream) for reply in replies)) as (provider, service):
            result = await self.chat(provider, stream=stream)
            message = result.message
            next_turn = (*map(_result, message.tool_calls), UserMessage(content="More"))
            await self.chat(provider, (*HELLO, message, *next_turn), stream=stream)
            require(token in service.asked[-1].text, "the data the service wants back is not in the next request")
            for change in ({"origin": "https://elsewhere.example"}, {"scope": "elsewhere"}):
                moved = _moved(message, change)
                await self.chat(provider, (*HELLO, moved, *next_turn), stream=stream)
                problem = f"data with another {[*change]} was sent here, which did not make it"
                require(token not in service.asked[-1].text, problem)
            repr_of = repr(attrs.evolve(result, message=AssistantMessage()))
            require(token not in repr_of, "opaque data belongs into ProviderData, not elsewhere in the result")


def _text_and_calls(result: ChatResult) -> tuple[str | None, list[str]]:
    return result.content, [call.name for call in result.tool_calls]


def _changed(answer: Answer, change: Callable[[Any], Iterator[tuple[str, Any]]]) -> Iterator[tuple[str, Answer]]:
    """Yield an answer with the JSON in one of its pieces changed, each with the place of the change."""
    for number, piece in enumerate(answer.pieces):
        match = _JSON.search(piece)
        if match is None:
            continue
        for place, data in change(json.loads(match[0])):
            odd = piece[: match.start()] + as_bytes(data) + piece[match.end() :]
            pieces = (*answer.pieces[:number], odd, *answer.pieces[number + 1 :])
            yield f"piece {number}{place}", attrs.evolve(answer, pieces=pieces)


def _result(call: ToolCall) -> Any:
    return ToolMessage(tool_call_id=call.id, name=call.name, content='{"success": true, "result": "fine"}')


def _moved(message: AssistantMessage, change: dict[str, str]) -> AssistantMessage:
    """Return a message as another endpoint or dialect would have made it."""

    def move(thing: Any) -> Any:
        data = getattr(thing, "provider_data", None)
        return thing if data is None else attrs.evolve(thing, provider_data=attrs.evolve(data, **change))

    return move(attrs.evolve(message, parts=tuple(move(part) for part in message.parts)))  # type: ignore[no-any-return]
