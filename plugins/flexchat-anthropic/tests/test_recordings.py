"""Every recorded exchange with the real service is read right, and written right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import itertools
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_anthropic.answer import MessagesAnswer
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_anthropic.request import RequestWriter
from flexchat_anthropic.tools import encode_tools
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
    TextPart,
    ToolCallDelta,
    ToolCallEnd,
    ToolMessage,
    UserMessage,
    result_of,
)

HERE = "https://here.example"
HI = (UserMessage(content="hi"),)
COUNT = 42
# Recorded errors: file (part of its name), number of the exchange, the error's class, whether asking again may help.
ERRORS = {
    ("claude-opus-5-thinking-gensync-json", 0): ("ProviderRequestError", False),
    ("mirascope.async", 1): ("ProviderOverloadedError", True),  # a proxy's text
    ("mirascope.model-not-found", 0): ("ModelNotFoundError", False),
    ("mirascope.model-not-found", 1): ("ModelNotFoundError", False),
    ("explicit-effort-xhigh-unsupported", 0): ("ProviderRequestError", False),
    ("rig.error-envelope-nonexistent-model", 0): ("ModelNotFoundError", False),
    ("rig.error-identity-edge", 0): ("ProviderAuthError", False),
    ("22346a", 1): ("ProviderOverloadedError", True),  # with status 200, as the stream's only event
    ("5a5124", 1): ("ProviderOverloadedError", True),
}
STATUS_IN_STREAM = 529
# Requests that cannot be said in our terms, and why.
UNSAYABLE = {
    ("claude-opus-5-thinking-gensync-json", 0): "its schema is not closed, which the service refuses: we close it",
    ("explicit-effort-xhigh-unsupported", 0): "an effort the model does not know, which we do not send",
    ("claude-haiku-4-5-20251001-genstream-tools-webfetch", 0): "thinking is switched off where it is off already",
}


def exchanges(recordings: list[Path]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for path in recordings:
        for number, exchange in enumerate(json.loads(path.read_text("utf-8"))["exchanges"]):
            yield path.name, number, exchange


def known(table: dict[tuple[str, int], Any], name: str, number: int) -> Any:
    return next((value for (part, n), value in table.items() if part in name and n == number), None)


def raw_body(exchange: dict[str, Any]) -> bytes:
    body = exchange["response"]["body"]
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)).encode()


def received(exchange: dict[str, Any]) -> dict[str, Any]:
    """The answer as the service would send it whole."""
    body = exchange["response"]["body"]
    if not isinstance(body, str):
        return dict(body)
    made: dict[str, Any] = {}
    inputs: dict[int, str] = {}
    for line in body.replace("\r\n", "\n").split("\n"):
        event: dict[str, Any] = json.loads(line[6:]) if line.startswith("data: {") else {"type": "none"}
        match event["type"]:
            case "message_start":
                made = event["message"]
            case "content_block_start":
                assert event["index"] == len(made["content"])
                made["content"].append(event["content_block"])
            case "content_block_delta":
                block, delta = made["content"][event["index"]], event["delta"]
                match delta["type"]:
                    case "text_delta":
                        block["text"] += delta["text"]
                    case "thinking_delta":
                        block["thinking"] += delta["thinking"]
                    case "signature_delta":
                        block["signature"] = delta["signature"]
                    case "citations_delta":
                        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
                    case "input_json_delta":
                        inputs[event["index"]] = inputs.get(event["index"], "") + delta["partial_json"]
                    case other:
                        raise AssertionError(other)
            case "message_delta":
                made |= event["delta"]
                made["usage"] |= event["usage"]
    for index, text in inputs.items():
        if text:
            made["content"][index]["input"] = json.loads(text)
    return made


def without_our_ids(events: object) -> str:
    return re.sub(r"id='call_[\w-]{22}'", "id", repr(events))


async def ask(exchange: dict[str, Any]) -> ChatResult:
    response, recorded = exchange["response"], exchange["request"]

    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.method, request.url.path) == ("POST", recorded["path"])
        return httpx.Response(response["status"], headers=response["headers"], content=raw_body(exchange))

    provider = AnthropicProvider(AnthropicConfig(base_url=HERE, max_tokens=100), transport=httpx.MockTransport(answer))
    model = recorded["body"]["model"]
    if not recorded["body"].get("stream"):
        return await provider.generate_chat(HI, model, ChatOptions())
    events = [event async for event in provider.stream_chat(HI, model, ChatOptions())]
    result = result_of(events)
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (result.content or "")
    thoughts = [part.text for part in result.message.parts if isinstance(part, ReasoningPart)]
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == "".join(thoughts)
    assert tuple(e.call for e in events if isinstance(e, ToolCallEnd)) == result.tool_calls
    written = "".join(e.arguments for e in events if isinstance(e, ToolCallDelta))
    assert written == "".join(call.raw_arguments or "" for call in result.tool_calls)
    return result


WORDS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
WORDS |= {"pause_turn": "pause"}


async def test_every_recorded_answer_is_read_right(recordings: list[Path]) -> None:
    """Text, thoughts, calls, stop reason, usage: as the JSON says (TC-82, TC-83). An error has its class (TC-84)."""
    assert len(recordings) == COUNT
    outcomes = {"answers": 0, "errors": 0}
    for name, number, exchange in exchanges(recordings):
        error = known(ERRORS, name, number)
        if error is not None:
            outcomes["errors"] += 1
            with pytest.raises(ProviderError) as caught:
                await ask(exchange)
            assert (type(caught.value).__name__, caught.value.retryable) == error, name
            status = exchange["response"]["status"]
            assert caught.value.status == (STATUS_IN_STREAM if status == 200 else status)
            assert caught.value.model == exchange["request"]["body"]["model"]
            continue
        outcomes["answers"] += 1
        result, answer = await ask(exchange), received(exchange)
        blocks = answer["content"]
        assert (result.content or "") == "".join(b["text"] for b in blocks if b["type"] == "text"), name
        thoughts = "".join(p.text for p in result.message.parts if isinstance(p, ReasoningPart))
        assert thoughts == "".join(b["thinking"] for b in blocks if b["type"] == "thinking"), name
        assert [(c.name, c.arguments, c.wire_id) for c in result.tool_calls] == [
            (b["name"], b["input"], b["id"]) for b in blocks if b["type"] == "tool_use"
        ], name
        assert len({c.id for c in result.tool_calls}) == len(result.tool_calls)
        assert (result.raw_finish, result.finish_reason) == (answer["stop_reason"], WORDS[answer["stop_reason"]]), name
        usage, counted = answer["usage"], result.usage
        assert counted is not None
        assert counted.raw == {k: v for k, v in usage.items() if v is not None}
        cached = usage.get("cache_creation_input_tokens") or 0, usage.get("cache_read_input_tokens") or 0
        assert counted.input_tokens == usage["input_tokens"] + sum(cached), name
        assert (counted.cache_write_tokens or 0, counted.cache_read_tokens or 0) == cached
        assert counted.output_tokens == usage["output_tokens"]
        assert (result.model, result.response_id) == (answer["model"], answer["id"])
        cited = [c for p in result.message.parts if isinstance(p, TextPart) for c in p.citations]
        assert cited == [c for b in blocks if b["type"] == "text" for c in b.get("citations") or ()], name
        says_nothing = not any(b["type"] in ("text", "tool_use") for b in blocks)
        assert bool(result.warnings) is says_nothing, name
    assert outcomes == {"answers": 73, "errors": 9}


def plain_block(block: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in block.items() if not (k == "citations" and v is None)}


async def test_every_recorded_answer_goes_back_as_it_came(recordings: list[Path]) -> None:
    """Thinking, signatures, citations, callers, the service's own tools: the same JSON to the same host, in order."""
    replayed = thought = opaque = 0
    for name, number, exchange in exchanges(recordings):
        if known(ERRORS, name, number):
            continue
        message, blocks = (await ask(exchange)).message, received(exchange)["content"]
        body = json.loads(
            RequestWriter(HERE).body((*HI, message, *HI), "claude-x", ChatOptions(), max_tokens=1).content
        )
        (*_, sent) = [m["content"] for m in body["messages"] if m["role"] == "assistant"] or [[]]
        while blocks and blocks[-1]["type"] == "thinking":
            blocks.pop()  # which is no end of a message that goes back
        blocks = [b for b in blocks if b["type"] != "text" or b["text"].strip()]  # blank texts are refused
        assert sent == [*map(plain_block, blocks)], name
        replayed += bool(sent)
        thought += sum("thinking" in block["type"] for block in sent)
        opaque += sum(block["type"] not in ("text", "thinking", "redacted_thinking", "tool_use") for block in sent)
    assert (replayed, thought, opaque) == (70, 11, 44)


def ours(body: dict[str, Any], answers: list[tuple[list[dict[str, Any]], AssistantMessage]]) -> list[Message]:
    """Recorded messages in our terms; an assistant's is the message its answer was, where it was recorded."""
    system = body.get("system") or []
    texts = [system] if isinstance(system, str) else [block["text"] for block in system]
    made: list[Message] = [SystemMessage(content=text) for text in texts]
    calls: dict[str, Any] = {}
    for turn in body["messages"]:
        blocks = [{"type": "text", "text": turn["content"]}] if isinstance(turn["content"], str) else turn["content"]
        if turn["role"] == "assistant":
            message = next((m for sent, m in answers if comparable(sent) == comparable(blocks)), None)
            if message is None:
                stream = AnswerReader(MessagesAnswer(HERE), raised, ProviderProtocolError)
                answer = {"content": [without_mark(b) for b in blocks], "stop_reason": "end_turn"}
                message = result_of(stream.whole(json.dumps(answer).encode())).message
            made.append(message)
            calls |= {str(call.wire_id): call for call in message.tool_calls}
            continue
        for block in blocks:
            if block["type"] == "tool_result":
                call = calls[block["tool_use_id"]]
                error = block.get("is_error") is True
                made.append(
                    ToolMessage(tool_call_id=call.id, name=call.name, content=result_text(block), is_error=error)
                )
            else:
                made.append(UserMessage(content=block["text"]))
    return made


def raised(body: object) -> ProviderError:
    return ProviderError(str(body))


def without_mark(block: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in block.items() if k != "cache_control"}


def result_text(block: dict[str, Any]) -> str:
    """A result's text; content that is no text as JSON, as results of ours are."""
    content = block["content"]
    if isinstance(content, str):
        return content
    texts = [part["text"] for part in content if part["type"] == "text"]
    return texts[0] if len(texts) == len(content) == 1 else json.dumps(content)


def comparable(blocks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """An assistant's blocks without what clients of the recordings left out of them or put in: all of it.

    - ``caller`` of a call and null ``citations``;
    - marks for the cache;
    - citations, and the space at the end of a text.
    """
    made = [{k: v for k, v in b.items() if k not in ("caller", "citations", "cache_control")} for b in blocks]
    return [{**b, "text": b["text"].strip()} if b["type"] == "text" else b for b in made]


def options_of(body: dict[str, Any]) -> ChatOptions:
    """The options that ask for a recorded request."""
    tools: list[dict[str, Any]] = []
    for tool in body.get("tools") or ():
        if "input_schema" not in tool:
            tools.append(tool)
            continue
        definition = ToolDefinition(
            name=tool["name"],
            description=tool.get("description") or "-",
            parameters={"type": "object", **tool["input_schema"]},
            implementation=Implementation(type="mock"),
            strict=tool.get("strict"),
        )
        rest = {k: tool[k] for k in ("defer_loading",) if k in tool}
        tools += [{**made, **rest} for made in encode_tools([definition])]
    choice = body.get("tool_choice") or {"type": "auto"}
    parallel = choice.get("disable_parallel_tool_use")
    thinking, output = body.get("thinking") or {}, body.get("output_config") or {}
    display = thinking.get("display")
    extra = {"cache_control": body["cache_control"]} if "cache_control" in body else {}
    if thinking.get("type") == "adaptive" and display is None:
        extra["thinking"] = thinking  # thinking without a word on how much
    return ChatOptions(
        max_tokens=body["max_tokens"],
        temperature=body.get("temperature"),
        stop=tuple(body.get("stop_sequences") or ()),
        tools=tuple(tools),
        tool_choice={"any": "required", "tool": "required", "none": "none"}.get(choice["type"], "auto"),  # type: ignore[arg-type]
        allowed_tools=(choice["name"],) if choice["type"] == "tool" else (),
        parallel_tool_calls=False if parallel else None,
        response_format=ResponseFormat(schema=output["format"]["schema"]) if "format" in output else None,
        reasoning=Reasoning(
            budget_tokens=thinking.get("budget_tokens"), summary=None if display is None else display == "summarized"
        )
        if thinking.get("type") in ("enabled", "adaptive") and not extra.get("thinking")
        else None,
        extra=extra,
    )


def normalised(body: dict[str, Any]) -> dict[str, Any]:
    """A request up to what carries no meaning. All that differs between clients:

    - null and empty fields, ``stream: false``, tool_choice "auto", ``disable_parallel_tool_use: false``;
    - instructions as a text or as blocks;
    - messages up to ``comparable``; content as a text or as blocks; marks for the cache;
    - results as a text or as blocks, ``is_error: false``;
    - null settings of the service's own tools; the order of tools;
    - schemas up to titles and the properties of an object without any; descriptions that are empty.
    """
    made = {k: v for k, v in body.items() if v not in (None, [], {}, False)}
    system = made.pop("system", [])
    made["system"] = system if isinstance(system, str) else "\n\n".join(block["text"] for block in system)
    choice = {k: v for k, v in made.pop("tool_choice", {}).items() if v is not False}
    made["choice"] = choice or {"type": "auto"}
    made["messages"] = [
        {"role": m["role"], "content": normalised_content(m["role"], m["content"])} for m in body["messages"]
    ]
    made["tools"] = sorted((plain_tool(tool) for tool in made.get("tools", ())), key=lambda tool: str(tool["name"]))
    return made


def normalised_content(role: str, content: Any) -> list[dict[str, Any]]:
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if role == "assistant":
        return comparable(blocks)
    made = []
    for block in map(without_mark, blocks):
        if block["type"] == "tool_result":
            error = {"is_error": True} if block.get("is_error") else {}
            block = {"id": block["tool_use_id"], "content": result_text(block), **error}
        made.append(block)
    return made


def plain_tool(tool: dict[str, Any]) -> dict[str, Any]:
    made = {k: v for k, v in tool.items() if v is not None and k != "cache_control"}
    if "input_schema" in made:
        made["input_schema"] = plain_schema(made["input_schema"])
        made["description"] = made.get("description") or "-"
    return made


def plain_schema(schema: Any) -> Any:
    if isinstance(schema, list):
        return [plain_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: plain_schema(inner) for name, inner in value.items()}
        elif key not in ("title", "$schema") and value != []:
            made[key] = plain_schema(value)
    return {k: v for k, v in made.items() if not (k == "properties" and v == {})}


async def test_every_recorded_request_is_written_again(recordings: list[Path]) -> None:
    """Recorded requests, read into our terms and written again, are the same up to the lists above.

    Assistants' turns in them are what this package made of their answers, where those were recorded.
    """
    written = followed = 0
    skipped = []
    for path in recordings:
        answers: list[tuple[list[dict[str, Any]], AssistantMessage]] = []
        for name, number, exchange in exchanges([path]):
            body = exchange["request"]["body"]
            if known(UNSAYABLE, name, number):
                skipped.append(name)
                continue
            messages, options = ours(body, answers), options_of(body)
            followed += any(message is answer for message in messages for _, answer in answers)
            made = RequestWriter(HERE, api_version="2023-06-01").body(
                messages, body["model"], options, max_tokens=body["max_tokens"], stream=body.get("stream") or False
            )
            assert normalised(json.loads(made.content)) == normalised(body), name
            assert made.warnings == (), name
            written += 1
            if not known(ERRORS, name, number):
                answers.append((received(exchange)["content"], (await ask(exchange)).message))
    assert (written, followed) == (79, 34)
    assert len(skipped) == len(UNSAYABLE)


def outcome(*pieces: bytes) -> str:
    stream = AnswerReader(MessagesAnswer(HERE), raised, ProviderProtocolError)
    events: list[object] = []
    try:
        for piece in pieces:
            events += stream.feed(piece)
        events += stream.end()
    except ProviderError as error:
        events.append(repr(error))
    return without_our_ids(events)


def test_every_cut_of_every_recorded_stream_gives_the_same_events(recordings: list[Path]) -> None:
    """In two pieces at many places, in many, and the small ones in single bytes: the network never shows."""
    chance = random.Random(1)
    streams = {raw_body(e) for _, _, e in exchanges(recordings) if e["request"]["body"].get("stream")}
    assert len(streams) > 20
    for stream in streams:
        whole = outcome(stream)
        assert all(outcome(stream[:at], stream[at:]) == whole for at in chance.sample(range(len(stream)), 10))
        edges = [0, *sorted(chance.sample(range(len(stream)), 50)), len(stream)]
        assert outcome(*[stream[a:b] for a, b in itertools.pairwise(edges)]) == whole
        if len(stream) < 10_000:
            assert outcome(*[stream[at : at + 1] for at in range(len(stream))]) == whole


async def test_every_recorded_stream_says_what_a_whole_answer_would(recordings: list[Path]) -> None:
    """The same parts, reason and counts, from the events and from the answer they add up to."""
    for name, number, exchange in exchanges(recordings):
        if exchange["request"]["body"].get("stream") and not known(ERRORS, name, number):
            streamed = await ask(exchange)
            reader = AnswerReader(MessagesAnswer(HERE), raised, ProviderProtocolError)
            (*_, end) = reader.whole(json.dumps(received(exchange)).encode())
            assert isinstance(end, AnswerEnd)
            assert [type(part) for part in end.result.message.parts] == [type(part) for part in streamed.message.parts]
            assert [c.arguments for c in end.result.tool_calls] == [c.arguments for c in streamed.tool_calls], name
            assert (end.result.content, end.result.usage) == (streamed.content, streamed.usage), name
