"""Calls and thoughts that a model writes into its text are read where the entry allows it."""

import itertools
import json
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_sdk import AnswerEnd, ChatOptions, ReasoningPart, UserMessage
from hypothesis import given
from hypothesis import strategies as st

CALL = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
TOOLS = ({"type": "function", "function": {"name": "f", "description": "", "parameters": {"type": "object"}}},)


def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def answer_of(*pieces: str, stream: bool, calls: list[Any] | None = None) -> bytes:
    extra = {"tool_calls": calls} if calls else {}
    if not stream:
        message = {"role": "assistant", "content": "".join(pieces), **extra}
        return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    chunks = [*(chunk({"content": piece}) for piece in pieces), chunk(extra, "stop")]
    return b"".join(b"data: " + json.dumps(each).encode() + b"\n\n" for each in chunks) + b"data: [DONE]\n\n"


async def asked(body: bytes, *, stream: bool, tools: Any = TOOLS, **config: Any) -> ChatResult:
    transport = httpx.MockTransport(lambda request: httpx.Response(200, content=body))
    made = OpenAIProvider(OpenAIConfig(base_url="https://h.example/v1", **config), transport=transport)
    arguments: Any = ((UserMessage(content="hi"),), "m", ChatOptions(tools=tools))
    try:
        if not stream:
            return await made.generate_chat(*arguments)
        events = [event async for event in made.stream_chat(*arguments)]
    finally:
        await made.aclose()
    assert isinstance(events[-1], AnswerEnd)
    return events[-1].result


async def both(*pieces: str, calls: list[Any] | None = None, **config: Any) -> ChatResult:
    """Return the result of the answer, the same whole and streamed."""
    whole, streamed = [
        await asked(answer_of(*pieces, stream=stream, calls=calls), stream=stream, **config) for stream in (False, True)
    ]
    assert outcome(whole) == outcome(streamed)
    return whole


def outcome(result: ChatResult) -> Any:
    thoughts = [part.text for part in result.message.parts if isinstance(part, ReasoningPart)]
    calls = [(call.name, call.arguments) for call in result.tool_calls]
    return result.content, thoughts, calls, result.finish_reason, result.warnings


@pytest.mark.parametrize(
    "text",
    [
        CALL,
        '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]',
        '[TOOL_CALLS]f[ARGS]{"a": 1}',
        '<function=f>{"a": 1}</function>',
        '<|python_tag|>{"name": "f", "parameters": {"a": 1}}',
    ],
)
async def test_a_call_in_the_text_is_a_call_where_the_entry_allows_it(text: str) -> None:
    """With a warning either way."""
    read = await both("I look.\n", text, read_text_calls=True)
    unread = await both("I look.\n", text)

    assert outcome(read)[:4] == ("I look.\n", [], [("f", {"a": 1})], "tool_calls")
    assert outcome(unread)[:4] == ("I look.\n" + text, [], [], "stop")
    assert "its call of f as text" in read.warnings[0]
    assert "set read_text_calls" in unread.warnings[0]


async def test_only_an_offered_tool_is_called() -> None:
    other = CALL.replace('"f"', '"g"')

    assert outcome(await both(other, read_text_calls=True))[:3] == (other, [], [])
    assert outcome(await both(CALL, tools=(), read_text_calls=True))[:3] == (CALL, [], [])


@pytest.mark.parametrize(
    "text", [f"Hermes models write\n```\n{CALL}\n```\n.", "Begin with <tool_call> and a { brace.", f"`{CALL}`"]
)
async def test_a_text_about_calls_stays_text(text: str) -> None:
    assert outcome(await both(text, read_text_calls=True)) == (text, [], [], "stop", ())


async def test_beside_a_call_that_the_server_read_text_is_text() -> None:
    calls = [{"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]

    assert outcome(await both(CALL, calls=calls, read_text_calls=True))[:3] == (CALL, [], [("f", {})])


async def test_the_text_before_a_lone_end_tag_is_a_thought_where_the_entry_allows_it() -> None:
    text = f"Hm.\n</think>\n\n{CALL}"

    read = await both(text, think_tags="closing", read_text_calls=True)
    assert outcome(read)[:3] == (None, ["Hm.\n"], [("f", {"a": 1})])
    unread = await both("Hm.\n</think>\n\nTwelve.", think_tags=True)
    assert outcome(unread)[:3] == ("Hm.\n</think>\n\nTwelve.", [], [])
    assert 'set think_tags = "closing"' in unread.warnings[0]


@given(st.lists(st.sampled_from([CALL, "<think>", "</think>", "a", "\n", "`", "<", "{"]), max_size=6), st.data())
async def test_any_cut_gives_the_same(parts: list[str], data: st.DataObject) -> None:
    """Law: a stream's pieces do not matter."""
    text = "".join(parts)
    edges = [0, *sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=4))), len(text)]
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    config: dict[str, Any] = {"read_text_calls": True, "think_tags": data.draw(st.sampled_from([False, "closing"]))}

    assert outcome(await both(*pieces, **config)) == outcome(await both(text, **config))
