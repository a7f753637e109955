"""Recorded answers of real servers, read by ChatOllama and ChatAnthropic and then by us.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import json
import os
from pathlib import Path

import anthropic
import httpx
import httpx2
import pytest
from flexchat_langchain.config import LangChainConfig
from flexchat_langchain.provider import LangChainProvider
from flexchat_sdk import ChatOptions, ProviderError, ReasoningDelta, ReasoningPart, TextDelta, ToolCallEnd, UserMessage
from langchain_anthropic import ChatAnthropic
from langchain_ollama import ChatOllama

ROOT = Path(__file__).resolve().parents[3]
RECORDINGS = Path(os.environ.get("FLEXCHAT_SHARED") or ROOT.parent / "shared") / "recordings"
HI = (UserMessage(content="hi"),)
# Offered always: without tools ChatAnthropic makes one text of its blocks.
TOOL = {"type": "function", "function": {"name": "any", "description": "Any.", "parameters": {"type": "object"}}}
NOT_READ = {
    "completion-beta-tools-stream": "ChatAnthropic reads context_management only of an answer it asked the beta for",
}
# Errors in an answer that began with status 200.
TOLD_LATE = {"vision-url": "ProviderRequestError", "can-use-tools.22346a": "ProviderOverloadedError"}
FINISH = {"end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length"}
FINISH |= {"stop": "stop", "length": "length", "pause_turn": "pause"}


def exchanges(provider):
    folder = RECORDINGS / provider
    if not folder.is_dir():
        pytest.skip(f"no recordings: FLEXCHAT_SHARED names no folder with recordings/{provider}")
    for path in sorted(folder.glob("*.json")):
        for number, exchange in enumerate(json.loads(path.read_text("utf-8"))["exchanges"]):
            yield f"{path.name} {number}", exchange


def sent(response):
    body = response["body"]
    return (body if isinstance(body, str) else json.dumps(body)).encode()


def chat_ollama(response):
    def answer(request):
        return httpx.Response(response["status"], headers=response["headers"], content=sent(response))

    transport = httpx.MockTransport(answer)
    arguments = {"async_client_kwargs": {"transport": transport}, "sync_client_kwargs": {"transport": transport}}
    return ChatOllama(model="m", base_url="http://here.example", reasoning=True, **arguments)


def chat_anthropic(response):
    def answer(request):
        return httpx2.Response(response["status"], headers=response["headers"], content=sent(response))

    made = ChatAnthropic(model="m", api_key="key-0815", base_url="http://here.example")
    client = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    made.__dict__["_async_client"] = anthropic.AsyncClient(api_key="key-0815", max_retries=0, http_client=client)
    return made


async def held(model, *, stream):
    path = f"{type(model).__module__.partition('.')[0]}:{type(model).__name__}"
    provider = LangChainProvider(LangChainConfig(class_path=path), make=lambda name: model)
    options = ChatOptions(tools=(TOOL,))
    if not stream:
        return await provider.generate_chat(HI, "m", options)
    events = [event async for event in provider.stream_chat(HI, "m", options)]
    result = events[-1].result
    assert "".join(e.text for e in events if isinstance(e, TextDelta)) == (result.content or "")
    assert "".join(e.text for e in events if isinstance(e, ReasoningDelta)) == thoughts(result)
    assert tuple(e.call for e in events if isinstance(e, ToolCallEnd)) == result.tool_calls
    return result


def thoughts(result):
    return "".join(part.text for part in result.message.parts if isinstance(part, ReasoningPart))


def ollama_says(body):
    chunks = [json.loads(line) for line in body.split("\n") if line.strip()] if isinstance(body, str) else [body]
    messages = [chunk["message"] for chunk in chunks]
    calls = [call["function"] for message in messages for call in message.get("tool_calls") or ()]
    text = "".join(message.get("content") or "" for message in messages)
    thought = "".join(message.get("thinking") or "" for message in messages)
    last = chunks[-1]  # where the prompt was cached it has no prompt_eval_count, and ChatOllama tells no usage then
    usage = (last["prompt_eval_count"], last["eval_count"]) if "prompt_eval_count" in last else None
    return text, thought, [(call["name"], call["arguments"]) for call in calls], last["done_reason"], usage


def anthropic_says(body):
    if not isinstance(body, str):
        return _message(body["content"], body["stop_reason"], body["usage"])
    events = [json.loads(line[5:]) for line in body.split("\n") if line.startswith("data:")]
    blocks, stop, usage = {}, None, {}
    for event in events:
        match event["type"]:
            case "content_block_start":
                blocks[event["index"]] = {**event["content_block"], "written": ""}
            case "content_block_delta":
                block, delta = blocks[event["index"]], event["delta"]
                for key in ("text", "thinking"):
                    if key in delta:
                        block[key] += delta[key]
                block["written"] += delta.get("partial_json", "")
            case "message_delta":
                stop = event["delta"]["stop_reason"]
                # ChatAnthropic counts what the last event tells; older servers tell the input in the first alone.
                usage = {"input_tokens": 0, **event["usage"]}
    for block in blocks.values():
        if block["type"] == "tool_use" and block["written"]:
            block["input"] = read_json(block["written"])
    return _message([*blocks.values()], stop, usage)


def _message(blocks, stop, usage):
    text = "".join(block["text"] for block in blocks if block["type"] == "text")
    thought = "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    calls = [(block["name"], block["input"]) for block in blocks if block["type"] == "tool_use"]
    read = usage["input_tokens"] + (usage.get("cache_read_input_tokens") or 0)
    return text, thought, calls, stop, (read + (usage.get("cache_creation_input_tokens") or 0), usage["output_tokens"])


def read_json(text):
    """What a call's arguments are; None for a text that was cut."""
    try:
        return json.loads(text)
    except ValueError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "make", "says", "counts"),
    [("ollama", chat_ollama, ollama_says, (33, 5)), ("anthropic", chat_anthropic, anthropic_says, (72, 9))],
)
async def test_every_recorded_answer_is_read_right(name, make, says, counts):
    """Text, thoughts, calls, end and usage are as the JSON says; a refusal is a ProviderError."""
    read, refused = 0, []
    for where, exchange in exchanges(name):
        response = exchange["response"]
        if any(part in where for part in NOT_READ):
            continue
        try:
            result = await held(make(response), stream=isinstance(response["body"], str))
        except ProviderError as error:
            refused.append((where, response["status"], type(error).__name__))
            continue
        text, thought, calls, stop, usage = says(response["body"])
        assert (result.content or "") == text, where
        assert thoughts(result) == thought, where
        assert [(c.name, c.arguments) for c in result.tool_calls] == calls, where
        assert result.raw_finish == stop, where
        assert result.finish_reason == ("tool_calls" if calls and FINISH[stop] == "stop" else FINISH[stop]), where
        counted = result.usage and (result.usage.input_tokens, result.usage.output_tokens)
        assert counted == usage, where
        assert result.warnings == (), where
        read += 1
    assert (read, len(refused)) == counts, refused
    told_late = {where: kind for where, status, kind in refused if status == 200}
    assert all(kind == next(k for part, k in TOLD_LATE.items() if part in where) for where, kind in told_late.items())
