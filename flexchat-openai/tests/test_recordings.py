"""Every recorded exchange over Chat Completions is read right, and written right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import json
from pathlib import Path
from typing import Any

import httpx
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_openai.chat_answer import ChatStream
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_openai.tools import encode_tools
from flexchat_sdk import (
    AnswerEnd,
    AssistantMessage,
    ChatOptions,
    ChatProvider,
    Message,
    ProviderError,
    Reasoning,
    ResponseFormat,
    SystemMessage,
    ToolMessage,
    UserMessage,
)
from flexchat_testing import RecordedExchange, RecordingConformance
from recordings import recordings

HERE = "https://here.example"
# Recorded errors: file (part of its name), exchange, the error's class and whether asking again may help.
ERRORS = {
    ("github-tool-variations", 5): ("ProviderRateLimitError", True),
    ("github-tool-variations", 6): ("ProviderRateLimitError", True),
    ("gpt-audio-genstream-stop", 0): ("ProviderRequestError", False),
    ("llama-vision-free", 0): ("ProviderOverloadedError", True),
    ("testopenrouterstreaming", 1): ("ProviderRateLimitError", True),
    ("model-not-found-gpt-4o", 0): ("ModelNotFoundError", False),
    ("model-not-found-gpt-4o", 1): ("ModelNotFoundError", False),
    ("instrumentor-async-pipeline", 5): ("ProviderAuthError", False),
    ("instrumentor-testlm-exception", 0): ("ProviderAuthError", False),
    ("azure-reasoning", 1): ("ModelNotFoundError", False),
    ("azure-reasoning", 2): ("ModelNotFoundError", False),
    ("azure-reasoning", 3): ("ModelNotFoundError", False),
    ("model-name-suggestions", 0): ("ModelNotFoundError", False),
    ("o1-mini-system-role", 0): ("ProviderRequestError", False),
    ("openrouter-stream-error", 0): ("ProviderRequestError", False),
    ("real-error-scenarios-azure-grok", 0): ("ProviderRateLimitError", True),
    ("real-error-scenarios-gpt-5-nano", 0): ("ProviderRateLimitError", False),
}
# What ChatOptions has no word for.
NO_OPTIONS = ("n", "store", "modalities", "audio", "functions", "logprobs", "top_logprobs", "reasoning")


def expected(exchange: RecordedExchange) -> tuple[str, list[tuple[str, str]], str | None, dict[str, Any]]:
    """Text, calls, the service's finish reason and usage of an exchange."""
    body = exchange.response["body"]
    if not isinstance(body, str):
        choice = body["choices"][0]
        message = choice["message"]
        old = [{"function": message["function_call"]}] if message.get("function_call") else []
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in (message.get("tool_calls") or old)]
        return message.get("content") or "", calls, choice["finish_reason"], body["usage"]
    text, finish, usage = "", None, {}
    calls_by_index: dict[int, list[str]] = {}
    for line in body.replace("\r\n", "\n").split("\n"):
        if not line.startswith("data: {"):
            continue
        chunk = json.loads(line[6:])
        usage = chunk.get("usage") or usage
        for choice in chunk["choices"]:
            if choice["index"] != 0:
                continue
            finish = choice.get("finish_reason") or finish
            text += choice["delta"].get("content") or ""
            for part in choice["delta"].get("tool_calls") or ():
                call = calls_by_index.setdefault(part.get("index", 0), ["", ""])
                call[0] += part["function"].get("name") or ""
                call[1] += part["function"].get("arguments") or ""
    return text, [(name, arguments) for name, arguments in calls_by_index.values()], finish, usage


class TestRecordings(RecordingConformance):
    """Over Chat Completions (TC-78, TC-84)."""

    supports = frozenset({"requests"})
    count = 138
    errors = ERRORS

    def files(self) -> list[Path]:
        return recordings("openai/openai-chat.*.json")

    def make_provider(self, transport: httpx.AsyncBaseTransport, exchange: RecordedExchange) -> ChatProvider:
        field: Any = "max_completion_tokens" if "max_completion_tokens" in exchange.body else "max_tokens"
        return OpenAIProvider(OpenAIConfig(base_url=HERE, max_tokens_field=field), transport=transport)

    def model_of(self, exchange: RecordedExchange) -> str:
        return str(exchange.body.get("model", "m"))  # Azure's older addresses name the model in the path

    def check_error(self, exchange: RecordedExchange, error: ProviderError) -> None:
        assert "REDACTED" not in str(error).replace("***", "")

    def check_answer(self, exchange: RecordedExchange, result: ChatResult) -> None:
        if "groq-tool-use-failed" in exchange.file and exchange.number == 0:
            assert result.finish_reason == "malformed_tool_call"
            return
        text, calls, finish, usage = expected(exchange)
        assert (result.content or "") == text
        assert [(c.name, c.raw_arguments) for c in result.tool_calls] == calls
        assert result.raw_finish == finish
        for call in result.tool_calls:
            assert (call.arguments is None) is (finish == "length")
            assert call.arguments is None or call.arguments == (json.loads(call.raw_arguments or "{}") or {})
        if calls and finish != "length":
            assert result.finish_reason == "tool_calls"
        assert result.usage is not None
        assert result.usage.input_tokens == usage["prompt_tokens"]
        assert result.usage.output_tokens == usage["completion_tokens"]
        assert result.usage.raw == usage

    def request_of(self, exchange: RecordedExchange, earlier: object) -> tuple[list[Message], ChatOptions]:
        return ours(exchange.body["messages"]), options_of(exchange.body)

    def comparable(self, body: dict[str, Any], exchange: RecordedExchange) -> dict[str, Any]:
        messages = normalised(json.loads(json.dumps(body["messages"])), "system")
        return {**normalised_fields({"model": "m", **body}), "messages": messages}


def ours(recorded: list[dict[str, Any]]) -> list[Message]:
    """Recorded request messages in our terms; answers as they would have been when they arrived."""
    made: list[Message] = []
    ids: dict[str, str] = {}
    for message in recorded:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(part["text"] for part in content)
        if message["role"] in ("system", "developer"):
            made.append(SystemMessage(content=content))
        elif message["role"] == "user":
            made.append(UserMessage(content=content))
        elif message["role"] == "tool":
            made.append(ToolMessage(tool_call_id=ids[message["tool_call_id"]], name="", content=content))
        else:
            choice = {"message": {**message, "content": content}, "finish_reason": "tool_calls"}
            end = [*ChatStream(HERE).whole({"choices": [choice]})][-1]
            assert isinstance(end, AnswerEnd)
            made.append(end.result.message)
            assert isinstance(made[-1], AssistantMessage)
            ids.update({call.wire_id or "": call.id for call in end.result.tool_calls})
    return made


def normalised(recorded: list[dict[str, Any]], role: str) -> list[dict[str, Any]]:
    """Recorded messages as we write them. All that differs, and why:

    - text parts are one text: our messages hold text, not its pieces;
    - leading system messages are one, joined by a blank line: some servers take only one;
    - instructions have the role the config asks for;
    - an assistant's content is null beside calls, where it was "" or absent;
    - a tool message has no name: OpenAI's schema does not know it;
    - arguments that were empty are {}: some servers parse them.
    """
    made: list[dict[str, Any]] = []
    for message in recorded:
        message = {k: v for k, v in message.items() if not (message["role"] == "tool" and k == "name")}
        if isinstance(message.get("content"), list):
            message["content"] = "".join(part["text"] for part in message["content"])
        if message["role"] in ("system", "developer"):
            message["role"] = role
            if made and all(m["role"] == role for m in made):
                made[-1]["content"] += "\n\n" + message["content"]
                continue
        if message["role"] == "assistant":
            message["content"] = message.get("content") or None
            for call in message.get("tool_calls") or ():
                call["function"]["arguments"] = call["function"]["arguments"] or "{}"
        made.append(message)
    return made


def options_of(body: dict[str, Any]) -> ChatOptions:
    """Recorded options as ours; what ChatOptions has no word for is extra."""
    form, choice = body.get("response_format"), body.get("tool_choice", "auto")
    limit = body.get("max_tokens", body.get("max_completion_tokens"))
    tools = tuple(body.get("tools") or ())
    if all(tool["function"].get("description") and "type" in tool for tool in tools):  # others are no tools of ours
        tools = tuple(encode_tools([definition(tool["function"]) for tool in tools]))
    named = () if isinstance(choice, str) else (choice["function"]["name"],)
    return ChatOptions(
        max_tokens=limit,
        temperature=body.get("temperature"),
        top_p=body.get("top_p"),
        stop=tuple(body.get("stop", ())),
        seed=body.get("seed"),
        tools=tools,
        tool_choice="required" if named or choice == "any" else choice,
        allowed_tools=named,
        parallel_tool_calls=body.get("parallel_tool_calls"),
        response_format=form and response_format(form),
        reasoning=Reasoning(effort=body["reasoning_effort"]) if "reasoning_effort" in body else None,
        extra={key: body[key] for key in NO_OPTIONS if key in body},
    )


def definition(function: dict[str, Any]) -> ToolDefinition:
    return ToolDefinition(
        name=function["name"],
        description=function["description"],
        parameters=function["parameters"],
        implementation=Implementation(type="mock"),
        strict=function.get("strict"),
    )


def response_format(form: dict[str, Any]) -> ResponseFormat:
    if form["type"] == "json_object":
        return ResponseFormat(type="json_object")
    said = form["json_schema"]
    return ResponseFormat(name=said["name"], schema=said["schema"], strict=said.get("strict", False))


def without_titles(schema: Any) -> Any:
    """A schema without what says nothing to a model."""
    if isinstance(schema, list):
        return [without_titles(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    made = {k: without_titles(v) for k, v in schema.items() if k != "title" or not isinstance(v, str)}
    if made.get("type") == "string":
        made.pop("additionalProperties", None)
    return {**made, "required": sorted(made["required"])} if isinstance(made.get("required"), list) else made


def normalised_fields(body: dict[str, Any]) -> dict[str, Any]:
    """A recorded or a written body without its messages in one form. All that may differ, and why:

    - stream false, tool_choice auto, strict false, a null: what their absence means;
    - stream_options: asked for unless the config says otherwise;
    - tool_choice "any" is Mistral's older word for "required";
    - a response_format has no description of its own; where it is strict, titles and what says nothing of a
      text are left out of its schema, and the order of required is that of properties.
    """
    made = {
        key: value for key, value in body.items() if key not in ("messages", "stream_options") and value is not None
    }
    if made.get("stream") is False:
        del made["stream"]
    if made.get("tool_choice") == "auto":
        del made["tool_choice"]
    if made.get("tool_choice") == "any":
        made["tool_choice"] = "required"
    if "tools" in made:
        made["tools"] = [{**t, "function": without_titles(falsely_strict(t["function"]))} for t in made["tools"]]
    if "json_schema" in made.get("response_format", {}):
        said = falsely_strict(without_titles(made["response_format"]["json_schema"]))
        made["response_format"] = {"type": "json_schema", "json_schema": said}
        said.pop("description", None)
    return made


def falsely_strict(table: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in table.items() if (key, value) != ("strict", False)}


def test_all_recordings_are_used() -> None:
    """Each of the files is in one of the two collections that are read and written to the last one."""
    if recordings("*/*.json"):
        assert [len(recordings(f"openai/openai-{api}.*.json")) for api in ("chat", "responses")] == [62, 32]
