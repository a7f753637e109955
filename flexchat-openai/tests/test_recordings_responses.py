"""Every recorded exchange over the Responses API is read right, and written right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import itertools
import json
import random
import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_openai.responses_request import ResponsesRequestWriter
from flexchat_openai.responses_stream import ResponsesStream
from flexchat_openai.responses_tools import encode_tools
from flexchat_sdk import (
    AnswerEnd,
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
    ToolCallDelta,
    ToolMessage,
    UserMessage,
)
from flexchat_sdk.reading import SSE_DONE, AnswerReader

Recorded = Callable[[str], list[tuple[str, int, dict[str, Any]]]]

HERE = "https://here.example"
HI = (UserMessage(content="hi"),)
# Recorded errors: file (part of its name), exchange, the error's class and whether asking again may help.
ERRORS = {
    ("structured-error-handling", 0): ("ProviderAuthError", False),
    ("gensync-tools-toolbias", 0): ("ProviderOverloadedError", True),
    ("modified-history", 1): ("ProviderRequestError", False),
}
# Requests that are not written again, and why.
NOT_WRITTEN = {
    ("response-with-prompt", 0): "a prompt that is stored at OpenAI stands in for model and messages",
    ("bedrock-mantle", 1): "the client made call ids of its own out of the response's id",
    ("bedrock-mantle", 2): "the client made call ids of its own out of the response's id",
}
OUR_TOOL = {"type", "name", "description", "parameters", "strict"}
ENDS = ("response.completed", "response.incomplete", "response.failed")


def reason_to_skip(name: str, number: int) -> str | None:
    return next((why for (part, at), why in NOT_WRITTEN.items() if part in name and at == number), None)


def raw_body(exchange: dict[str, Any]) -> bytes:
    body = exchange["response"]["body"]
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def provider(exchange: dict[str, Any], seen: list[dict[str, Any]] | None = None) -> OpenAIProvider:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/responses"
        if seen is not None:
            seen.append(json.loads(request.content))
        response = exchange["response"]
        return httpx.Response(response["status"], headers=response["headers"], content=raw_body(exchange))

    return OpenAIProvider(OpenAIConfig(base_url=HERE, api="responses"), transport=httpx.MockTransport(handler))


async def ask(exchange: dict[str, Any], messages: tuple[Message, ...] = HI) -> ChatResult:
    made = provider(exchange)
    if not exchange["request"]["body"].get("stream"):
        return await made.generate_chat(messages, "m", ChatOptions())
    events = [event async for event in made.stream_chat(messages, "m", ChatOptions())]
    assert isinstance(events[-1], AnswerEnd)
    result = events[-1].result
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (result.content or "")
    pieces = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta))
    assert pieces == "".join(c.raw_arguments or "" for c in result.tool_calls)
    thoughts = "".join(p.text for p in result.message.parts if isinstance(p, ReasoningPart))
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == thoughts
    return result


def response_of(exchange: dict[str, Any]) -> dict[str, Any]:
    """The response object, with the items of a stream as they were when they were done."""
    body = exchange["response"]["body"]
    if not isinstance(body, str):
        return body  # type: ignore[no-any-return]
    events = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:")]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return {**next(event["response"] for event in events if event["type"] in ENDS), "output": done}


async def test_every_recorded_answer_is_read_right(recorded: Recorded) -> None:
    """Text, calls, finish reason, usage and every item in its place: as the JSON says. An error has its class."""
    read = 0
    for name, number, exchange in recorded("responses"):
        error = next((kind for (part, at), kind in ERRORS.items() if part in name and at == number), None)
        read += 1
        if error is not None:
            with pytest.raises(ProviderError) as caught:
                await ask(exchange)
            assert (type(caught.value).__name__, caught.value.retryable) == error, name
            assert "Bearer" not in str(caught.value)
            continue
        result = await ask(exchange)
        response = response_of(exchange)
        items = response["output"]
        contents = [part for item in items if item["type"] == "message" for part in item["content"]]
        calls = [item for item in items if item["type"] == "function_call"]
        assert (result.content or "") == "".join(c.get("text", "") for c in contents), name
        assert (result.message.refusal or "") == "".join(c.get("refusal", "") for c in contents), name
        assert [(c.name, c.raw_arguments, c.wire_id) for c in result.tool_calls] == [
            (c["name"], c["arguments"], c["call_id"]) for c in calls
        ], name
        for call, item in zip(result.tool_calls, calls, strict=True):
            cut = item["status"] == "incomplete"
            assert (call.arguments is None) is cut, name
            assert cut or call.arguments == json.loads(item["arguments"]), name
        cut_by = (response.get("incomplete_details") or {}).get("reason")
        refused = any(c["type"] == "refusal" for c in contents)
        expected = "length" if cut_by else "tool_calls" if calls else "refusal" if refused else "stop"
        assert (result.finish_reason, result.raw_finish) == (expected, cut_by or "completed"), name
        assert [part.provider_data.data["item"] for part in result.message.parts if part.provider_data] == items
        usage = response["usage"]
        assert result.usage is not None, name
        assert result.usage.input_tokens == usage["input_tokens"]
        assert result.usage.output_tokens == usage["output_tokens"]
        assert result.usage.reasoning_tokens == usage["output_tokens_details"]["reasoning_tokens"]
        assert result.usage.cache_read_tokens == usage["input_tokens_details"]["cached_tokens"]
        assert result.usage.raw == usage
        assert (result.model, result.response_id) == (response["model"], response["id"])
        assert result.warnings == ()
    assert read == len(recorded("responses"))


def failed(body: object) -> ProviderError:
    return ProviderError(str(body))


def outcome(*pieces: bytes) -> str:
    stream = AnswerReader(ResponsesStream(HERE), failed, ProviderProtocolError, SSE_DONE)
    events: list[object] = []
    try:
        for piece in pieces:
            events += stream.feed(piece)
        events += stream.end()
    except ProviderError as error:
        events.append(repr(error))
    return re.sub(r"id='call_[\w-]{22}'", "id", repr(events))


def test_every_cut_of_every_recorded_stream_gives_the_same_events(recorded: Recorded) -> None:
    """In two pieces at many places, in many, and the small ones in single bytes: the network never shows."""
    chance = random.Random(1)
    streams = {raw_body(e) for _, _, e in recorded("responses") if isinstance(e["response"]["body"], str)}
    assert len(streams) > 15
    for stream in streams:
        whole = outcome(stream)
        assert all(outcome(stream[:at], stream[at:]) == whole for at in chance.sample(range(len(stream)), 8))
        edges = [0, *sorted(chance.sample(range(len(stream)), 50)), len(stream)]
        assert outcome(*[stream[a:b] for a, b in itertools.pairwise(edges)]) == whole
        if len(stream) < 20_000:
            assert outcome(*[stream[at : at + 1] for at in range(len(stream))]) == whole


def text_of(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def role_of(item: dict[str, Any]) -> str:
    return str(item.get("role", item.get("type")))


def ours(recorded_input: Any, origin: str) -> list[Message]:
    """Recorded input in our terms; answers as they would have been when they arrived."""
    items = [{"role": "user", "content": recorded_input}] if isinstance(recorded_input, str) else recorded_input
    made: list[Message] = []
    ids: dict[str, str] = {}
    for is_said, group in itertools.groupby(
        items, lambda i: role_of(i) not in ("user", "system", "developer", "function_call_output")
    ):
        if is_said:
            body = json.dumps({"status": "completed", "output": list(group)}).encode()
            stream = AnswerReader(
                ResponsesStream(origin), lambda body: ProviderError(str(body)), ProviderProtocolError, SSE_DONE
            )
            end = [*stream.whole(body)][-1]
            assert isinstance(end, AnswerEnd)
            made.append(end.result.message)
            ids.update({call.wire_id or "": call.id for call in end.result.tool_calls})
            continue
        for item in group:
            if role_of(item) == "user":
                made.append(UserMessage(content=text_of(item["content"])))
            elif role_of(item) == "function_call_output":
                call_id = ids.get(item["call_id"], item["call_id"])
                made.append(ToolMessage(tool_call_id=call_id, name="", content=item["output"]))
            else:
                made.append(SystemMessage(content=text_of(item["content"])))
    return made


def options_of(body: dict[str, Any]) -> ChatOptions:
    """Recorded options as ours; what ChatOptions has no word for is extra."""
    known = {
        "model",
        "input",
        "instructions",
        "tools",
        "stream",
        "max_output_tokens",
        "tool_choice",
        "parallel_tool_calls",
        "text",
        "reasoning",
    }
    choice, thinking = body.get("tool_choice", "auto"), body.get("reasoning")
    form = body["text"]["format"] if "text" in body else None
    tools = tuple(body.get("tools") or ())
    if all(tool.get("description") and {*tool} <= OUR_TOOL for tool in tools):  # others are no tools of ours
        tools = tuple(encode_tools([definition(tool) for tool in tools]))
    return ChatOptions(
        max_tokens=body.get("max_output_tokens"),
        tools=tools,
        tool_choice=choice if isinstance(choice, str) else choice["mode"],
        allowed_tools=() if isinstance(choice, str) else tuple(tool["name"] for tool in choice["tools"]),
        parallel_tool_calls=body.get("parallel_tool_calls"),
        response_format=form and ResponseFormat(name=form["name"], schema=form["schema"], strict=form["strict"]),
        reasoning=thinking and Reasoning(effort=thinking["effort"], summary="summary" in thinking),
        extra={key: value for key, value in body.items() if key not in known},
    )


def definition(tool: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=tool["name"],
        description=tool["description"],
        parameters=tool["parameters"],
        implementation=Implementation(type="mock"),
        strict=tool.get("strict", False),
    )


def without_titles(schema: Any) -> Any:
    """A schema without what says nothing to a model."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {k: v for k, v in schema.items() if k not in ("title", "default") or not isinstance(v, str)}
    return {key: without_titles(value) for key, value in kept.items()}


def normalised(body: dict[str, Any]) -> dict[str, Any]:
    """A recorded or a written body in one form. All that may differ, and why:

    - store and include: said always, that nothing is stored and thoughts come back;
    - stream false, tool_choice auto, include []: what their absence means;
    - leading system messages are instructions;
    - text parts of a user are one text: our messages hold text, not its pieces;
    - an answer's text without an item of its own has no id and is one output_text;
    - strict is said always; titles and defaults are left out where it is true;
    - a function_call_output has no status;
    - summary "detailed" is "auto": our options only ask for one;
    - arguments are compared as JSON: one client wrote them anew.
    """
    items = body.get("input") or []
    items = [{"role": "user", "content": items}] if isinstance(items, str) else [dict(item) for item in items]
    instructions = [body["instructions"]] if body.get("instructions") else []
    while items and role_of(items[0]) in ("system", "developer"):
        instructions.append(text_of(items.pop(0)["content"]))
    for item in items:
        if role_of(item) == "function_call_output":
            item.pop("status", None)
        if role_of(item) == "function_call":
            item["arguments"] = json.loads(item["arguments"])
        if role_of(item) in ("user", "assistant") and "id" not in item:
            item["content"] = text_of(item["content"])
            item.pop("type", None)
    made = {key: value for key, value in body.items() if key not in ("input", "instructions", "store", "include")}
    made = {**made, "items": items, "instructions": "\n\n".join(instructions)}
    if made.get("tool_choice") == "auto":
        del made["tool_choice"]
    if made.get("stream") is False:
        del made["stream"]
    if "summary" in made.get("reasoning", {}):
        made["reasoning"] = {**made["reasoning"], "summary": "auto"}
    if "tools" in made:
        made["tools"] = [
            without_titles({**t, "strict": t.get("strict", False)}) if t["type"] == "function" else t
            for t in made["tools"]
        ]
    return without_titles(made) if "text" in made else made


def test_every_recorded_request_is_written_again(recorded: Recorded) -> None:
    """Messages, items and options, read into our terms and written again, are the same JSON up to the list above."""
    written = skipped = 0
    for name, number, exchange in recorded("responses"):
        if reason_to_skip(name, number):
            skipped += 1
            continue
        body = exchange["request"]["body"]
        messages = [SystemMessage(content=body["instructions"])] if body.get("instructions") else []
        # Only api.openai.com is told which of the tools are allowed.
        origin = HERE if isinstance(body.get("tool_choice", ""), str) else "https://api.openai.com"
        history = [*messages, *ours(body["input"], origin)]
        raw, warnings = ResponsesRequestWriter(origin).body(
            history, body["model"], options_of(body), stream=bool(body.get("stream"))
        )
        again = json.loads(raw)
        assert again["store"] is body.get("store", False), name
        assert normalised(again) == normalised(body), name
        assert warnings == (), name
        written += 1
    assert skipped == len(NOT_WRITTEN)
    assert written + skipped == len(recorded("responses"))


async def test_recorded_conversations_go_back_byte_for_byte(recorded: Recorded) -> None:
    """The items of every answer are the next request's items, unchanged and in order, encrypted thoughts among them."""
    exchanges = recorded("responses")
    followed = encrypted = 0
    for (name, number, exchange), (next_name, _, following) in itertools.pairwise(exchanges):
        if name != next_name or any(part in name and at == number for part, at in ERRORS):
            continue
        result = await ask(exchange)
        items = response_of(exchange)["output"]
        answers = {
            i["call_id"]: i["output"] for i in following["request"]["body"]["input"] if "call_id" in i and "output" in i
        }
        history: list[Message] = [*HI, result.message]
        history += [
            ToolMessage(tool_call_id=call.id, name=call.name, content=answers.get(call.wire_id or "", "?"))
            for call in result.tool_calls
        ]
        sent = json.loads(b"[" + b",".join(ResponsesRequestWriter(HERE).messages(history)) + b"]")
        assert sent[1 : 1 + len(items)] == items, name
        assert [i["call_id"] for i in sent[1 + len(items) :]] == [c.wire_id for c in result.tool_calls], name
        # What the recorded client sent back of them says the same.
        said = {i.get("encrypted_content") for i in items} - {None}
        replayed = {i.get("encrypted_content") for i in following["request"]["body"]["input"]} - {None}
        encrypted += bool(said & replayed)
        elsewhere = ResponsesRequestWriter("https://elsewhere.example").messages(
            [AssistantMessage(parts=history[1].parts)]
        )  # type: ignore[union-attr]
        assert b"encrypted_content" not in b"".join(elsewhere)
        assert all(b'"id"' not in piece for piece in elsewhere)
        followed += 1
    assert followed > 15
    assert encrypted > 6
