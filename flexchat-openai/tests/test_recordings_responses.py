"""Every recorded exchange over the Responses API is read right, and written right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import itertools
import json
from pathlib import Path
from typing import Any

import httpx
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_openai.responses_answer import ResponsesStream
from flexchat_openai.responses_request import ResponsesRequestWriter
from flexchat_openai.tools import encode_responses_tools
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    ChatProvider,
    Message,
    ProviderError,
    ProviderProtocolError,
    Reasoning,
    ResponseFormat,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from flexchat_sdk.reading import SSE_DONE, AnswerReader
from flexchat_testing import RecordedExchange, RecordingConformance
from recordings import recordings

HERE = "https://here.example"
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


def response_of(exchange: RecordedExchange) -> dict[str, Any]:
    """The response object, with the items of a stream as they were when they were done."""
    body = exchange.response["body"]
    if not isinstance(body, str):
        return body  # type: ignore[no-any-return]
    events = [json.loads(line[5:]) for line in body.splitlines() if line.startswith("data:")]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return {**next(event["response"] for event in events if event["type"] in ENDS), "output": done}


class TestRecordings(RecordingConformance):
    """Over the Responses API (TC-78, TC-84)."""

    supports = frozenset({"requests"})
    count = 56
    errors = ERRORS
    unwritable = NOT_WRITTEN

    def files(self) -> list[Path]:
        return recordings("openai/openai-responses.*.json")

    def make_provider(self, transport: httpx.AsyncBaseTransport, exchange: RecordedExchange) -> ChatProvider:
        return OpenAIProvider(
            OpenAIConfig(base_url=origin_of(exchange), api="responses", api_key="k"), transport=transport
        )

    def model_of(self, exchange: RecordedExchange) -> str:
        return str(exchange.body.get("model", "m"))

    def check_error(self, exchange: RecordedExchange, error: ProviderError) -> None:
        assert "Bearer" not in str(error)

    def check_answer(self, exchange: RecordedExchange, result: ChatResult) -> None:
        response = response_of(exchange)
        items = response["output"]
        contents = [part for item in items if item["type"] == "message" for part in item["content"]]
        calls = [item for item in items if item["type"] == "function_call"]
        assert (result.content or "") == "".join(c.get("text", "") for c in contents)
        assert (result.message.refusal or "") == "".join(c.get("refusal", "") for c in contents)
        assert [(c.name, c.raw_arguments, c.wire_id) for c in result.tool_calls] == [
            (c["name"], c["arguments"], c["call_id"]) for c in calls
        ]
        for call, item in zip(result.tool_calls, calls, strict=True):
            cut = item["status"] == "incomplete"
            assert (call.arguments is None) is cut
            assert cut or call.arguments == json.loads(item["arguments"])
        cut_by = (response.get("incomplete_details") or {}).get("reason")
        refused = any(c["type"] == "refusal" for c in contents)
        expected = "length" if cut_by else "tool_calls" if calls else "refusal" if refused else "stop"
        assert (result.finish_reason, result.raw_finish) == (expected, cut_by or "completed")
        assert [part.provider_data.data["item"] for part in result.message.parts if part.provider_data] == items
        usage = response["usage"]
        assert result.usage is not None
        assert result.usage.input_tokens == usage["input_tokens"]
        assert result.usage.output_tokens == usage["output_tokens"]
        assert result.usage.reasoning_tokens == usage["output_tokens_details"]["reasoning_tokens"]
        assert result.usage.cache_read_tokens == usage["input_tokens_details"]["cached_tokens"]
        assert result.usage.raw == usage
        assert (result.model, result.response_id) == (response["model"], response["id"])
        assert result.warnings == ()

    def request_of(self, exchange: RecordedExchange, earlier: object) -> tuple[list[Message], ChatOptions]:
        body = exchange.body
        instructions = [SystemMessage(content=body["instructions"])] if body.get("instructions") else []
        return [*instructions, *ours(body["input"], origin_of(exchange))], options_of(body)

    def comparable(self, body: dict[str, Any], exchange: RecordedExchange) -> dict[str, Any]:
        return {**normalised(json.loads(json.dumps(body))), "store": body.get("store", False)}


def origin_of(exchange: RecordedExchange) -> str:
    """Only api.openai.com is sent which of the tools are allowed."""
    return HERE if isinstance(exchange.body.get("tool_choice", ""), str) else "https://api.openai.com"


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
        tools = tuple(encode_responses_tools([definition(tool) for tool in tools]))
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


async def test_recorded_conversations_go_back_byte_for_byte() -> None:
    """The items of every answer are the next request's items, unchanged and in order, encrypted thoughts among them."""
    laws = TestRecordings()
    followed = encrypted = 0
    for exchange, following in itertools.pairwise(laws.exchanges()):
        if exchange.file != following.file or any(p in exchange.file and at == exchange.number for p, at in ERRORS):
            continue
        result = await laws.ask(exchange)
        items = response_of(exchange)["output"]
        answers = {i["call_id"]: i["output"] for i in following.body["input"] if "call_id" in i and "output" in i}
        history: list[Message] = [UserMessage(content="hi"), result.message]
        history += [
            ToolMessage(tool_call_id=call.id, name=call.name, content=answers.get(call.wire_id or "", "?"))
            for call in result.tool_calls
        ]
        sent = json.loads(
            b"["
            + b",".join(map(bytes, ResponsesRequestWriter(origin_of(exchange), OpenAIConfig()).messages(history)))
            + b"]"
        )
        assert sent[1 : 1 + len(items)] == items
        assert [i["call_id"] for i in sent[1 + len(items) :]] == [c.wire_id for c in result.tool_calls]
        # What the recorded client sent back of them says the same.
        said = {i.get("encrypted_content") for i in items} - {None}
        replayed = {i.get("encrypted_content") for i in following.body["input"]} - {None}
        encrypted += bool(said & replayed)
        elsewhere = ResponsesRequestWriter("https://elsewhere.example", OpenAIConfig()).messages(
            [AssistantMessage(parts=history[1].parts)]
        )  # type: ignore[union-attr]
        assert b"encrypted_content" not in b"".join(elsewhere)
        assert all(b'"id"' not in piece for piece in elsewhere)
        followed += 1
    assert not laws.files() or (followed > 15 and encrypted > 6)
