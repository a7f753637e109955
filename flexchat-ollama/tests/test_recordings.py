"""Every recorded exchange with a real server is written right, and read right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import itertools
import json
import random
import re
from pathlib import Path
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_ollama.chat_answer import ChatAnswer
from flexchat_ollama.chat_tools import encode_tools
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import LINES, OllamaProvider
from flexchat_sdk import (
    AnswerEnd,
    AnswerReader,
    AssistantMessage,
    ChatOptions,
    Message,
    ProviderError,
    ProviderProtocolError,
    Reasoning,
    ReasoningDelta,
    ReasoningPart,
    ResponseFormat,
    SystemMessage,
    TextDelta,
    ToolCallEnd,
    ToolMessage,
    UserMessage,
)

HERE = "http://here.example"
HI = (UserMessage(content="hi"),)
# Recorded errors: file (part of its name), exchange, the error's class and whether asking again may help.
ERRORS = {
    ("gemma3-4b-genstream-text", 0): ("ModelNotFoundError", False),
    ("gemma4-e2b-gensync-text", 0): ("ModelNotFoundError", False),
    ("gemma4-e2b-thinking-genstream-text", 0): ("ModelNotFoundError", False),
    ("qwen3-5-2b-thinking-gensync-text", 0): ("ModelNotFoundError", False),
    ("vision-url", 0): ("ProviderRequestError", False),
}
# Requests that cannot be written again, and why.
NOT_WRITTEN = {
    ("vision-url", 0): "its picture is null: the client lost it, and the server refuses it",
}
# What may differ between a recorded request and ours, and why.
IGNORED = {
    "options.num_ctx": "no recording sets it; we always do, since the server's own choice cuts silently",
    "options": "an empty table is the same as none",
    "keep_alive": "null is the same as none",
    "format": 'an empty text is the same as none; "" is what old clients send',
    "tools": "an empty list is the same as none",
    "stream": "absent means true",
    "tool_calls.type": "the server neither sends nor reads it",
    "tool_calls.id, tool_call_id": "these clients lose the server's ids; we send them back, or ours",
    "tool_name": "one old client sends none; we always do",
    "parameters.$schema, parameters.additionalProperties": "the server drops both; we do not send them",
}


def exchanges(recordings: list[Path]) -> list[tuple[str, int, dict[str, Any]]]:
    return [
        (path.name, number, exchange)
        for path in recordings
        for number, exchange in enumerate(json.loads(path.read_text("utf-8"))["exchanges"])
    ]


def of(table: dict[tuple[str, int], Any], name: str, number: int) -> Any:
    return next((found for (part, at), found in table.items() if part in name and at == number), None)


def raw_body(exchange: dict[str, Any]) -> bytes:
    body = exchange["response"]["body"]
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def is_stream(exchange: dict[str, Any]) -> bool:
    return isinstance(exchange["response"]["body"], str)


async def held(
    exchange: dict[str, Any], messages: tuple[Message, ...], model: str, options: ChatOptions
) -> tuple[dict[str, Any], ChatResult]:
    """Hold an exchange with a server that answers as recorded; return the body it was sent, and the result."""
    response, bodies = exchange["response"], []

    def handler(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/api/show":
            return httpx.Response(404, json={"error": "not recorded"})
        bodies.append(json.loads(request.content))
        return httpx.Response(response["status"], headers=response["headers"], content=raw_body(exchange))

    provider = OllamaProvider(OllamaConfig(base_url=HERE), transport=httpx.MockTransport(handler))
    if exchange["request"]["body"].get("stream", True) is False:
        whole = await provider.generate_chat(messages, model, options)
        return bodies[0], whole
    events = [event async for event in provider.stream_chat(messages, model, options)]
    assert isinstance(events[-1], AnswerEnd)
    result = events[-1].result
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (result.content or "")
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == thoughts(result)
    assert tuple(e.call for e in events if isinstance(e, ToolCallEnd)) == result.tool_calls
    return bodies[0], result


def thoughts(result: ChatResult) -> str:
    return "".join(part.text for part in result.message.parts if isinstance(part, ReasoningPart))


def expected(exchange: dict[str, Any]) -> tuple[str, str, list[dict[str, Any]], dict[str, Any]]:
    """Text, thoughts, calls and the last piece of an exchange."""
    body = exchange["response"]["body"]
    chunks = [json.loads(line) for line in body.split("\n") if line.strip()] if isinstance(body, str) else [body]
    messages = [chunk["message"] for chunk in chunks]
    text = "".join(message.get("content") or "" for message in messages)
    thought = "".join(message.get("thinking") or "" for message in messages)
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return text, thought, calls, chunks[-1]


async def test_every_recorded_answer_is_read_right(recordings: list[Path]) -> None:
    """Text, thoughts, calls, finish reason, usage: as the JSON says (TC-80). An error has its class (TC-84)."""
    read = failed = 0
    for name, number, exchange in exchanges(recordings):
        error = of(ERRORS, name, number)
        if error is not None:
            with pytest.raises(ProviderError) as caught:
                await held(exchange, HI, "m", ChatOptions())
            assert (type(caught.value).__name__, caught.value.retryable) == error, name
            failed += 1
            continue
        _, result = await held(exchange, HI, "m", ChatOptions())
        text, thought, calls, last = expected(exchange)
        assert (result.content or "") == text, name
        assert thoughts(result) == thought, name
        assert [(c.name, c.arguments) for c in result.tool_calls] == [
            (c["function"]["name"], c["function"]["arguments"]) for c in calls
        ], name
        assert [c.wire_id for c in result.tool_calls] == [c.get("id") for c in calls], name
        assert len({c.id for c in result.tool_calls}) == len(calls)
        assert result.raw_finish == last["done_reason"], name
        assert result.finish_reason == ("tool_calls" if calls else last["done_reason"]), name
        assert result.model == last["model"], name
        assert result.usage is not None, name
        assert result.usage.input_tokens == last.get("prompt_eval_count"), name
        assert result.usage.output_tokens == last["eval_count"], name
        # One model was sent with a template that opens its thought.
        assert [w[:31] for w in result.warnings] == ["the answer contains </think> as"] * ("</think>" in text), name
        read += 1
    assert (read, failed) == (33, 5)


def neutral(body: dict[str, Any]) -> tuple[tuple[Message, ...], str, ChatOptions]:
    """A recorded request in our terms; answers as they would have been when they arrived."""
    messages: list[Message] = []
    unanswered: list[str] = []
    for message in body["messages"]:
        if message["role"] == "system":
            messages.append(SystemMessage(content=message["content"]))
        elif message["role"] == "user":
            messages.append(UserMessage(content=message["content"]))
        elif message["role"] == "tool":
            messages.append(ToolMessage(tool_call_id=unanswered.pop(0), name="", content=message["content"]))
        else:
            draft = ChatAnswer(HERE)
            end = [*draft.take({"message": message, "done": True, "done_reason": "stop"}), *draft.end()][-1]
            assert isinstance(end, AnswerEnd)
            messages.append(end.result.message)
            assert isinstance(messages[-1], AssistantMessage)
            unanswered = [call.id for call in end.result.tool_calls]
    known = dict(body.get("options") or {})
    tools = tuple(encode_tools([tool_of(t["function"]) for t in body.get("tools") or ()]))
    format, extra = body.get("format"), {k: body[k] for k in ("logprobs", "top_logprobs") if k in body}
    if format and tools:
        extra["format"] = format  # both at once is sent only where somebody insists
        format = None
    options = ChatOptions(
        max_tokens=known.pop("num_predict", None),
        temperature=known.pop("temperature", None),
        seed=known.pop("seed", None),
        stop=tuple(known.pop("stop", ())),
        tools=tools,
        response_format=ResponseFormat(schema=format) if format else None,
        reasoning=Reasoning(effort="medium" if body["think"] else "none") if "think" in body else None,
        extra=extra,
    )
    assert not known, "an option that has no name of ours"
    return tuple(messages), body["model"], options


def tool_of(function: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(**function, implementation=Implementation(type="builtin"))


def normalised(body: dict[str, Any]) -> dict[str, Any]:
    """A request without what IGNORED lists."""
    made: dict[str, Any] = json.loads(json.dumps(body))
    made.setdefault("stream", True)
    made["options"] = {k: v for k, v in (made.get("options") or {}).items() if k != "num_ctx"}
    for key in ("options", "keep_alive", "format", "tools"):
        if not made.get(key):
            made.pop(key, None)
    for message in made["messages"]:
        for call in message.get("tool_calls", ()):
            call.pop("type", None)
            call.pop("id", None)
        message.pop("tool_call_id", None)
        message.pop("tool_name", None)
    for tool in made.get("tools", ()):
        tool["function"]["parameters"].pop("$schema", None)
        tool["function"]["parameters"].pop("additionalProperties", None)
    return made


async def test_every_recorded_request_is_written_again(recordings: list[Path]) -> None:
    """Recorded requests, read into our terms and written again, are the same JSON up to the table above (TC-79)."""
    written = skipped = 0
    for name, number, exchange in exchanges(recordings):
        if of(NOT_WRITTEN, name, number):
            skipped += 1
            continue
        recorded = exchange["request"]["body"]
        messages, model, options = neutral(recorded)
        body, _ = await held(replayed(exchange), messages, model, options)
        assert normalised(body) == normalised(recorded), name
        for message in body["messages"]:
            if message["role"] == "tool":
                assert message["tool_name"]
                assert message["tool_call_id"]
        written += 1
    assert (written, skipped) == (37, 1)


def replayed(exchange: dict[str, Any]) -> dict[str, Any]:
    """The exchange with an answer that is none of an error."""
    if exchange["response"]["status"] == 200 and "error" not in raw_body(exchange).decode()[:10]:
        return exchange
    done = {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"}
    return {**exchange, "response": {"status": 200, "headers": {}, "body": done}}


def outcome(*pieces: bytes) -> str:
    stream = AnswerReader(ChatAnswer(HERE), lambda body: ProviderError(str(body)), ProviderProtocolError, LINES)
    events: list[object] = []
    try:
        for piece in pieces:
            events += stream.feed(piece)
        events += stream.end()
    except ProviderError as error:
        events.append(repr(error))
    return re.sub(r"id='call_[\w-]{22}'", "id", repr(events))


def test_every_cut_of_every_recorded_stream_gives_the_same_events(recordings: list[Path]) -> None:
    """In two pieces at many places, in many, and the small ones in single bytes: the network never shows."""
    chance = random.Random(1)
    streams = {raw_body(e) for _, _, e in exchanges(recordings) if is_stream(e)}
    assert len(streams) == 16
    for stream in streams:
        whole = outcome(stream)
        assert all(outcome(stream[:at], stream[at:]) == whole for at in chance.sample(range(len(stream)), 8))
        edges = [0, *sorted(chance.sample(range(len(stream)), 50)), len(stream)]
        assert outcome(*[stream[a:b] for a, b in itertools.pairwise(edges)]) == whole
        if len(stream) < 20_000:
            assert outcome(*[stream[at : at + 1] for at in range(len(stream))]) == whole
