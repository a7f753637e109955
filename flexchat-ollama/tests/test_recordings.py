"""Every recorded exchange with a real server is written right, and read right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import json
from pathlib import Path
from typing import Any

import httpx
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_ollama.chat_answer import ChatAnswer
from flexchat_ollama.config import OllamaConfig
from flexchat_ollama.provider import OllamaProvider
from flexchat_ollama.tools import encode_tools
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    ChatProvider,
    Message,
    Reasoning,
    ReasoningPart,
    ResponseFormat,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from flexchat_testing import RecordedExchange, RecordingConformance
from flexchat_testing.laws.wire import Answer
from recordings import recordings

HERE = "http://here.example"
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


def thoughts(result: ChatResult) -> str:
    return "".join(part.text for part in result.message.parts if isinstance(part, ReasoningPart))


def expected(exchange: RecordedExchange) -> tuple[str, str, list[dict[str, Any]], dict[str, Any]]:
    """Text, thoughts, calls and the last piece of an exchange."""
    body = exchange.response["body"]
    chunks = [json.loads(line) for line in body.split("\n") if line.strip()] if isinstance(body, str) else [body]
    messages = [chunk["message"] for chunk in chunks]
    text = "".join(message.get("content") or "" for message in messages)
    thought = "".join(message.get("thinking") or "" for message in messages)
    calls = [call for message in messages for call in message.get("tool_calls") or ()]
    return text, thought, calls, chunks[-1]


class TestRecordings(RecordingConformance):
    """Over /api/chat (TC-79, TC-80, TC-84)."""

    supports = frozenset({"requests"})
    count = 38
    errors = ERRORS
    unwritable = NOT_WRITTEN

    def files(self) -> list[Path]:
        return recordings("ollama/*.json")

    def make_provider(self, transport: httpx.AsyncBaseTransport, exchange: RecordedExchange) -> ChatProvider:
        return OllamaProvider(OllamaConfig(base_url=HERE), transport=transport)

    def asks_for_stream(self, exchange: RecordedExchange) -> bool:
        return exchange.body.get("stream", True) is not False

    def other_reply(self, asked: Any) -> Answer | None:
        return Answer(status=404, pieces=(b'{"error": "not recorded"}',)) if asked.url.endswith("/show") else None

    def check_answer(self, exchange: RecordedExchange, result: ChatResult) -> None:
        text, thought, calls, last = expected(exchange)
        assert (result.content or "") == text
        assert thoughts(result) == thought
        assert [(c.name, c.arguments, c.wire_id) for c in result.tool_calls] == [
            (c["function"]["name"], c["function"]["arguments"], c.get("id")) for c in calls
        ]
        assert result.raw_finish == last["done_reason"]
        assert result.finish_reason == ("tool_calls" if calls else last["done_reason"])
        assert result.model == last["model"]
        assert result.usage is not None
        assert result.usage.input_tokens == last.get("prompt_eval_count")
        assert result.usage.output_tokens == last["eval_count"]
        # One model was sent with a template that opens its thought.
        assert [w[:31] for w in result.warnings] == ["the answer contains </think> as"] * ("</think>" in text)

    def request_of(self, exchange: RecordedExchange, earlier: object) -> tuple[tuple[Message, ...], ChatOptions]:
        return neutral(exchange.body)

    def comparable(self, body: dict[str, Any], exchange: RecordedExchange) -> dict[str, Any]:
        return normalised(body)


def neutral(body: dict[str, Any]) -> tuple[tuple[Message, ...], ChatOptions]:
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
    return tuple(messages), options


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
