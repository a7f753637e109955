"""Every recorded exchange with the real service is read right, and written right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import json
from pathlib import Path
from typing import Any

import httpx
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
    ChatProvider,
    Message,
    ProviderError,
    ProviderProtocolError,
    Reasoning,
    ReasoningPart,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
    result_of,
)
from flexchat_testing import RecordedExchange, RecordingConformance
from recordings import recordings

HERE = "https://here.example"
HI = (UserMessage(content="hi"),)
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


def received(exchange: RecordedExchange) -> dict[str, Any]:
    """The answer as the service would send it whole."""
    body = exchange.response["body"]
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


WORDS = {"end_turn": "stop", "stop_sequence": "stop", "max_tokens": "length", "tool_use": "tool_calls"}
WORDS |= {"pause_turn": "pause"}


class TestRecordings(RecordingConformance):
    """The Messages API (TC-82, TC-83, TC-84)."""

    supports = frozenset({"requests"})
    count = 82
    errors = ERRORS
    unwritable = UNSAYABLE

    def files(self) -> list[Path]:
        return recordings("anthropic/*.json")

    def make_provider(self, transport: httpx.AsyncBaseTransport, exchange: RecordedExchange) -> ChatProvider:
        config = AnthropicConfig(base_url=HERE, max_tokens=100, api_version="2023-06-01")
        return AnthropicProvider(config, transport=transport)

    def check_error(self, exchange: RecordedExchange, error: ProviderError) -> None:
        status = exchange.response["status"]
        assert error.status == (STATUS_IN_STREAM if status == 200 else status)

    def check_answer(self, exchange: RecordedExchange, result: ChatResult) -> None:
        answer = received(exchange)
        blocks = answer["content"]
        assert (result.content or "") == "".join(b["text"] for b in blocks if b["type"] == "text")
        thoughts = "".join(p.text for p in result.message.parts if isinstance(p, ReasoningPart))
        assert thoughts == "".join(b["thinking"] for b in blocks if b["type"] == "thinking")
        assert [(c.name, c.arguments, c.wire_id) for c in result.tool_calls] == [
            (b["name"], b["input"], b["id"]) for b in blocks if b["type"] == "tool_use"
        ]
        assert len({c.id for c in result.tool_calls}) == len(result.tool_calls)
        assert (result.raw_finish, result.finish_reason) == (answer["stop_reason"], WORDS[answer["stop_reason"]])
        usage, counted = answer["usage"], result.usage
        assert counted is not None
        assert counted.raw == {k: v for k, v in usage.items() if v is not None}
        cached = usage.get("cache_creation_input_tokens") or 0, usage.get("cache_read_input_tokens") or 0
        assert counted.input_tokens == usage["input_tokens"] + sum(cached)
        assert (counted.cache_write_tokens or 0, counted.cache_read_tokens or 0) == cached
        assert counted.output_tokens == usage["output_tokens"]
        assert (result.model, result.response_id) == (answer["model"], answer["id"])
        cited = [c for p in result.message.parts if isinstance(p, TextPart) for c in p.citations]
        assert cited == [c for b in blocks if b["type"] == "text" for c in b.get("citations") or ()]
        says_nothing = not any(b["type"] in ("text", "tool_use") for b in blocks)
        assert bool(result.warnings) is says_nothing

    def request_of(self, exchange: RecordedExchange, earlier: Any) -> tuple[list[Message], ChatOptions]:
        answers = [(received(answered)["content"], message) for answered, message in earlier]
        return ours(exchange.body, answers), options_of(exchange.body)

    def comparable(self, body: dict[str, Any], exchange: RecordedExchange) -> dict[str, Any]:
        # The provider streams long answers of its own accord.
        return normalised(body if exchange.body.get("stream") else {**body, "stream": False})


def plain_block(block: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in block.items() if not (k == "citations" and v is None)}


def answers_of(laws: TestRecordings) -> list[RecordedExchange]:
    """Return the exchanges that did not end in an error."""
    return [e for e in laws.exchanges() if not any(part in e.file and n == e.number for part, n in ERRORS)]


async def test_every_recorded_answer_goes_back_as_it_came() -> None:
    """Thinking, signatures, citations, callers, the service's own tools: the same JSON to the same host, in order."""
    laws = TestRecordings()
    replayed = thought = opaque = 0
    for exchange in answers_of(laws):
        message, blocks = (await laws.ask(exchange)).message, received(exchange)["content"]
        body = json.loads(
            RequestWriter(HERE).body((*HI, message, *HI), "claude-x", ChatOptions(), max_tokens=1).content
        )
        (*_, sent) = [m["content"] for m in body["messages"] if m["role"] == "assistant"] or [[]]
        while blocks and blocks[-1]["type"] == "thinking":
            blocks.pop()  # which is no end of a message that goes back
        blocks = [b for b in blocks if b["type"] != "text" or b["text"].strip()]  # blank texts are refused
        assert sent == [*map(plain_block, blocks)]
        replayed += bool(sent)
        thought += sum("thinking" in block["type"] for block in sent)
        opaque += sum(block["type"] not in ("text", "thinking", "redacted_thinking", "tool_use") for block in sent)
    assert not laws.files() or (replayed, thought, opaque) == (70, 11, 44)


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


async def test_every_recorded_stream_says_what_a_whole_answer_would() -> None:
    """The same parts, reason and counts, from the events and from the answer they add up to."""
    laws = TestRecordings()
    for exchange in answers_of(laws):
        if exchange.is_streamed:
            streamed = await laws.ask(exchange)
            reader = AnswerReader(MessagesAnswer(HERE), raised, ProviderProtocolError)
            (*_, end) = reader.whole(json.dumps(received(exchange)).encode())
            assert isinstance(end, AnswerEnd)
            assert [type(part) for part in end.result.message.parts] == [type(part) for part in streamed.message.parts]
            assert [c.arguments for c in end.result.tool_calls] == [c.arguments for c in streamed.tool_calls]
            assert (end.result.content, end.result.usage) == (streamed.content, streamed.usage)
