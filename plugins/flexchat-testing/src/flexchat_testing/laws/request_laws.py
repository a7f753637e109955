"""Laws about what a provider sends."""

from __future__ import annotations

import base64
import copy
from collections.abc import Iterator
from typing import Any

import attrs
from flexchat.plugin import ToolCall
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    Reasoning,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

from .law import law, require, show
from .running import check_encoder
from .samples import (
    FIRST,
    FOREIGN_THOUGHT,
    FOREIGN_TOKEN,
    HELLO,
    MEDIA,
    SECOND,
    TOOLS,
    foreign_conversation,
    result_text,
    texts_in,
    user_texts,
)
from .wire import ProviderKit

_FORMAT = ResponseFormat(
    name="kit_answer",
    schema={
        "type": "object",
        "properties": {"kit_field": {"type": "string"}},
        "required": ["kit_field"],
        "additionalProperties": False,
    },
)
# What is asked for, and what must then stand in the request (None: it must only be another request).
_OPTIONS: tuple[tuple[str, Any, Any], ...] = (
    ("max_tokens", 321, 321),
    ("temperature", 0.25, 0.25),
    ("top_p", 0.75, 0.75),
    ("stop", ("HALT",), "HALT"),
    ("seed", 4711, 4711),
    ("response_format", _FORMAT, "kit_field"),
    ("response_format", ResponseFormat(type="json_object"), None),
    ("reasoning", Reasoning(effort="low"), None),
    ("reasoning", Reasoning(budget_tokens=2345), None),
)
_TOOL_OPTIONS: tuple[tuple[str, Any, Any], ...] = (
    ("tool_choice", "none", None),
    ("tool_choice", "required", None),
    ("allowed_tools", ("kit_second",), None),
    ("parallel_tool_calls", False, None),
)


class RequestLaws(ProviderKit):
    """A request contains everything it was given, and nothing else."""

    @law("http", draw=user_texts)
    async def test_a_request_is_json_whatever_is_said(self, text: str, stream: bool) -> None:
        """People send any text, halves of characters too: the request is JSON in UTF-8, and holds the text.

        A protocol with a single prompt may have other words around it.
        """
        request, _ = await self.sent((UserMessage(content=f"<{text}>"),), stream=stream)
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        problem = f"the user said {f'<{text}>'!r}; no text of the request's body has that: {show(request.body)}"
        require(any(f"<{whole}>" in each for each in texts_in(request.body)), problem)

    @law("http")
    async def test_each_message_is_sent_once_and_in_order(self, stream: bool) -> None:
        """Every message of the conversation is in the request, once, in its place."""
        messages = (
            SystemMessage(content="MARK-0"),
            UserMessage(content="MARK-1"),
            AssistantMessage(parts=(TextPart(text="MARK-2"),)),
            UserMessage(content="MARK-3"),
        )
        text = (await self.sent(messages, stream=stream))[0].text
        counts = [text.count(f"MARK-{i}") for i in range(4)]
        require(counts == [1, 1, 1, 1], f"each of four messages is sent once; they are there {counts} times: {text}")
        places = [text.index(f"MARK-{i}") for i in (1, 2, 3)]
        require(places == sorted(places), f"the conversation is out of order: {text}")

    @law("http", "tools")
    async def test_a_request_leaves_its_input_alone(self, stream: bool) -> None:
        """Messages and options are the caller's: they are the same after a request, and give the same request again."""
        options = ChatOptions(
            tools=await self.encoded(*TOOLS), temperature=0.5, stop=("x",), response_format=_FORMAT, extra={"kit": {}}
        )
        messages = foreign_conversation()
        before = copy.deepcopy((messages, options))
        first, _ = await self.sent(messages, options, stream=stream)
        require((messages, options) == before, "a request changed the messages or options it was made from")
        again, _ = await self.sent(messages, options, stream=stream)
        require(first.content == again.content, "the same messages and options gave another request")

    @law("http")
    async def test_without_tools_nothing_is_said_of_tools(self, stream: bool) -> None:
        """Services refuse an empty tools list, and a tool_choice without tools: leave the keys out."""
        for choice in ("auto", "none", "required"):
            options = ChatOptions(tool_choice=choice, parallel_tool_calls=False, allowed_tools=())
            body = (await self.sent(HELLO, options, stream=stream))[0].body
            keys = [key for key in body if "tool" in key.lower()]
            require(not keys, f'without tools (tool_choice="{choice}") the request has {", ".join(keys)}')

    @law("http", "tools")
    async def test_the_tools_are_sent(self, stream: bool) -> None:
        """options.tools, in the words of the tool format, are in the request: no name, text or schema is lost."""
        tools = await self.encoded(FIRST, SECOND)
        request, _ = await self.sent(HELLO, ChatOptions(tools=tools), stream=stream)
        there = {*texts_in(request.body)}
        for encoded in tools:
            lost = [text for text in texts_in(encoded) if text not in there]
            require(not lost, f"the request lacks {show(lost)} of the tool {show(encoded)}")

    @law("http")
    async def test_zero_is_sent_as_zero(self, stream: bool) -> None:
        """temperature=0 asks for the likeliest answer; it is no "unset", so test for None and not for truth."""
        plain, before = await self.sent(HELLO, stream=stream)
        for name in ("temperature", "top_p", "seed"):
            fields: dict[str, Any] = {name: 0}
            request, result = await self.sent(HELLO, ChatOptions(**fields), stream=stream)
            added = [value for value in _new_values(plain.body, request.body) if not isinstance(value, bool)]
            require(0 in added or _new_warnings(before, result), f"{name}=0 is not in the request, without a warning")

    @law("http", "tools")
    async def test_every_option_is_honoured_or_warned_of(self, stream: bool) -> None:
        """An option that a provider does not support causes a warning in the result; none is dropped silently."""
        tools = await self.encoded(FIRST, SECOND)
        for table, base in ((_OPTIONS, ChatOptions()), (_TOOL_OPTIONS, ChatOptions(tools=tools))):
            plain, before = await self.sent(HELLO, base, stream=stream)
            for name, value, mark in table:
                request, result = await self.sent(HELLO, attrs.evolve(base, **{name: value}), stream=stream)
                if _new_warnings(before, result):
                    continue
                there = request.body != plain.body if mark is None else mark in [*_new_values(plain.body, request.body)]
                require(there, f"{name}={show(value)} changes nothing in the request, and no warning says so")

    @law("http")
    async def test_extra_is_merged_into_the_request(self, stream: bool) -> None:
        """options.extra sets fields that FlexChat does not model: it is merged into the body last, unchanged."""
        request, _ = await self.sent(HELLO, ChatOptions(extra={"kit_extra": {"a": [1]}}), stream=stream)
        require(request.body.get("kit_extra") == {"a": [1]}, f"extra is not in the request: {show(request.body)}")

    @law("http", "tools")
    async def test_a_conversation_of_another_provider_goes_on(self, stream: bool) -> None:
        """A history made elsewhere is sent without what is opaque or only thought, and its calls keep their results."""
        options = ChatOptions(tools=await self.encoded(FIRST))
        request, _ = await self.sent(foreign_conversation(), options, stream=stream)
        for mark in ("MARK-system", "MARK-question", "MARK-text", "MARK-answer", "MARK-more"):
            require(mark in request.text, f"{mark} is missing in the request")
        require(FOREIGN_TOKEN not in request.text, "another provider's opaque data was sent to this service")
        require(FOREIGN_THOUGHT not in request.text, "what another provider's model thought was sent to this service")
        self.check_results(request.body, {1: "RESULT-1"})

    @law("http", "tools")
    async def test_a_call_that_could_not_be_read_can_be_sent_back(self, stream: bool) -> None:
        """A model may write broken arguments: the next request is still valid, and the call keeps its result."""
        call = ToolCall.from_text("kit_first", "{broken")
        messages = (
            *HELLO,
            AssistantMessage(parts=(call,)),
            ToolMessage(tool_call_id=call.id, name="kit_first", content=result_text(1), is_error=True),
        )
        options = ChatOptions(tools=await self.encoded(FIRST))
        body = (await self.sent(messages, options, stream=stream))[0].body
        keys = {key for key, _, _ in self.read_tool_calls(body)}
        results = self.read_tool_results(body)
        problem = f"the broken call and its result must both be in the request; calls {sorted(keys)}, results {results}"
        require(len(results) == 1 and results[0][0] in keys and "RESULT-1" in results[0][1], problem)

    @law("http", "tools")
    async def test_media_in_results_are_sent_where_they_are_taken(self, stream: bool) -> None:
        """What takes_in_results accepts is in the request, once; and the result keeps its text and its call."""
        call = ToolCall.from_object("kit_first", {"n": 1})
        options = ChatOptions(tools=await self.encoded(FIRST))
        async with self.serving() as (provider, _):
            takes = getattr(provider, "takes_in_results", lambda model, part: False)
            media = tuple(part for part in MEDIA if takes(self.model, part))
        result = ToolMessage(tool_call_id=call.id, name="kit_first", content=result_text(1), media=media)
        for more in ((), (AssistantMessage(parts=(TextPart(text="MARK-answer"),)), *HELLO)):
            messages = (*HELLO, AssistantMessage(parts=(call,)), result, *more)
            request, _ = await self.sent(messages, options, stream=stream)
            self.check_results(request.body, {1: "RESULT-1"})
            for part in media:
                data = base64.b64encode(part.data or b"").decode()
                times = [data in text for text in texts_in(request.body)].count(True)
                require(times == 1, f"data of {part.mime_type}, which it accepts, are in the request {times} times")

    @law("tools")
    def test_a_tool_format_is_pure(self) -> None:
        """An encoder returns JSON data that names every tool, the same each time, and leaves the definitions alone."""
        require(self.tool_formats, 'supports has "tools": tool_formats must be the ProviderType\'s tool_formats')
        for name, encode in self.tool_formats.items():
            check_encoder(name, encode)


def _new_values(before: Any, after: Any) -> Iterator[Any]:
    """Yield keys and plain values of a body that stand there in another place, or not at all, in an earlier one."""
    if isinstance(after, dict):
        old = before if isinstance(before, dict) else {}
        for key, item in after.items():
            if key not in old:
                yield key
            yield from _new_values(old.get(key, _NOTHING), item)
    elif isinstance(after, list):
        known_items = before if isinstance(before, list) else []
        for index, item in enumerate(after):
            yield from _new_values(known_items[index] if index < len(known_items) else _NOTHING, item)
    elif before is _NOTHING or before != after or type(before) is not type(after):
        yield after


_NOTHING = object()


def _new_warnings(before: Any, after: Any) -> list[str]:
    return [warning for warning in after.warnings if warning not in before.warnings]
