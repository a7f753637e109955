"""A history with turns that were stopped or failed is one that every service takes."""

import asyncio
import itertools
import json

import pytest
import wire_dialects as wire
from flexchat import AssistantMessage, ChatOptions, ToolMessage, UserMessage
from flexchat.plugin import ToolCall
from flexchat_sdk import ReasoningPart, TextPart
from stream_of import answer_of

CALL = ToolCall.from_object("look_up", {"x": 1})
NOT_RUN = ToolMessage(tool_call_id=CALL.id, name="look_up", content='{"success": false}', is_error=True)
BROKEN_OFF = {
    "before a word": (),
    "while it thought": (AssistantMessage(parts=(ReasoningPart(text="hm"),)),),
    "in the middle of a sentence": (AssistantMessage(parts=(ReasoningPart(text="hm"), TextPart(text="We must "))),),
    "while a tool ran": (AssistantMessage(parts=(TextPart(text="I look."), CALL)), NOT_RUN),
}


async def sent(dialect, messages):
    """Return what a service is sent for these messages."""
    bodies, closed = [], asyncio.Event()

    async def connected(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        bodies.append(json.loads(await reader.readexactly(int(length))))
        body = json.dumps(dialect.whole("Yes.")).encode()
        head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        closed.set()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    llm = dialect.open(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", retries=0)
    await answer_of(llm, messages, "m-1", ChatOptions())
    await llm.provider.aclose()
    await closed.wait()
    server.close()
    return bodies[0].get("messages") or bodies[0].get("contents") or bodies[0]["input"]


@pytest.mark.parametrize("dialect", wire.DIALECTS, ids=lambda d: d.name)
@pytest.mark.parametrize("when", BROKEN_OFF)
async def test_a_turn_that_broke_off_is_sent_as_far_as_it_came(dialect, when):
    """Both questions arrive, no message is empty, a call has its answer, and where sides must alternate they do."""
    entries = await sent(dialect, (UserMessage(content="First?"), *BROKEN_OFF[when], UserMessage(content="Second?")))

    text = json.dumps(entries)
    assert text.index("First?") < text.index("Second?")
    assert "hm" not in text  # a thought without its signature
    assert ("We must " in text) == (when == "in the middle of a sentence")
    assert text.count("look_up") >= (when == "while a tool ran")
    assert all(e.get("content") or e.get("parts") or e.get("tool_calls") or e.get("type") for e in entries)
    if dialect.name == "anthropic":
        roles = [entry["role"] for entry in entries]
        assert all(a != b for a, b in itertools.pairwise(roles))
