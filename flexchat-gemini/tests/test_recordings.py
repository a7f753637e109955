"""Every recorded exchange with a real service is read right, and written right.

The expected values are read out of the recorded JSON here, independently of the package.
"""

import json
import re
from pathlib import Path
from typing import Any

import httpx
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_gemini.answer import FRAMING, GeminiAnswer
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_gemini.request import RequestWriter
from flexchat_gemini.tools import encode_tools, encode_tools_as_parameters
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
    ToolMessage,
    UserMessage,
)
from flexchat_testing import RecordedExchange, RecordingConformance
from recordings import recordings

HERE = "https://here.example"
HI = (UserMessage(content="hi"),)
# Recorded errors: file (part of its name), exchanges, the error's class and whether asking again may help.
ERRORS = {
    ("adk-go.testmodel-trackingheaders", None): ("ProviderAuthError", False),
    ("braintrust-sdk-python.wrappers-error-handling", None): ("ModelNotFoundError", False),
    ("crewai.google-streaming-returns-usage-metrics", None): ("ProviderAuthError", False),  # a bad key, as 400
    ("genai.errorresponse", None): ("ProviderRateLimitError", False),  # the day's quota is among the violations
    ("mirascope.model-not-found", None): ("ModelNotFoundError", False),
    ("opentelemetry-instrumentation-vertexai-generate-content", None): ("ProviderRequestError", False),
    ("pydantic-ai.model-name-suggestions", None): ("ModelNotFoundError", False),
}
# Requests that cannot be said in our terms, and why.
UNSAYABLE = {
    ("opentelemetry-instrumentation-vertexai-generate-content", None): "its only content has the role 'invalid_role'"
}


def chunks(exchange: RecordedExchange) -> list[dict[str, Any]]:
    body = exchange.response["body"]
    if isinstance(body, str):
        return [json.loads(line[6:]) for line in body.replace("\r\n", "\n").split("\n") if line.startswith("data: {")]
    return body if isinstance(body, list) else [body]


def received_parts(exchange: RecordedExchange) -> list[dict[str, Any]]:
    return [
        part
        for chunk in chunks(exchange)
        for candidate in chunk.get("candidates", ())
        for part in candidate.get("content", {}).get("parts", ())
    ]


class TestRecordings(RecordingConformance):
    """The native API (TC-82, TC-83, TC-84)."""

    supports = frozenset({"requests"})
    count = 76
    errors = ERRORS
    unwritable = UNSAYABLE

    def files(self) -> list[Path]:
        return recordings("gemini/gemini-gen.*.json")

    def make_provider(self, transport: httpx.AsyncBaseTransport, exchange: RecordedExchange) -> ChatProvider:
        version, _, path = exchange.request["path"].strip("/").rpartition("/models/")[0].partition("/")
        schemas: Any = "parameters" if as_parameters(exchange.body) else "auto"
        config = GeminiConfig(base_url=HERE, api_version=version, path=path, schema_field=schemas)
        return GeminiProvider(config, transport=transport)

    def model_of(self, exchange: RecordedExchange) -> str:
        return str(exchange.request["path"].rsplit("/", 1)[-1].partition(":")[0])

    def asks_for_stream(self, exchange: RecordedExchange) -> bool:
        return bool(exchange.request["path"].endswith(":streamGenerateContent"))

    def check_error(self, exchange: RecordedExchange, error: ProviderError) -> None:
        assert error.status == exchange.response["status"]

    def check_answer(self, exchange: RecordedExchange, result: ChatResult) -> None:
        parts = received_parts(exchange)
        calls = [p["functionCall"] for p in parts if "functionCall" in p]
        assert (result.content or "") == "".join(p.get("text", "") for p in parts if not p.get("thought"))
        thoughts = "".join(p.text for p in result.message.parts if isinstance(p, ReasoningPart))
        assert thoughts == "".join(p["text"] for p in parts if p.get("thought"))
        assert [(c.name, c.arguments, c.wire_id) for c in result.tool_calls] == [
            (c["name"], c.get("args", {}), c.get("id")) for c in calls
        ]
        assert len({c.id for c in result.tool_calls}) == len(calls)
        candidates = [c for chunk in chunks(exchange) for c in chunk["candidates"]]
        finish = [c["finishReason"] for c in candidates if "finishReason" in c][-1]
        assert result.raw_finish == finish
        words = {"STOP": "tool_calls" if calls else "stop", "MAX_TOKENS": "length"}
        words |= {"MODEL_ARMOR": "content_filter", "UNEXPECTED_TOOL_CALL": "malformed_tool_call"}
        assert result.finish_reason == words[finish]
        usage: dict[str, Any] = {}
        for chunk in chunks(exchange):
            usage |= chunk["usageMetadata"]
        assert result.usage is not None
        assert result.usage.raw == usage
        tokens = (result.usage.input_tokens or 0) + (result.usage.output_tokens or 0)
        assert tokens == usage["totalTokenCount"] or "candidatesTokenCount" not in usage
        assert result.usage.output_tokens == (
            usage.get("candidatesTokenCount", 0) + usage.get("thoughtsTokenCount", 0)
            if "candidatesTokenCount" in usage or "thoughtsTokenCount" in usage
            else None
        )
        assert result.usage.cache_read_tokens == usage.get("cachedContentTokenCount")
        assert result.model == chunks(exchange)[-1]["modelVersion"]
        grounded = any("groundingMetadata" in c for c in candidates)
        cited = [c for part in result.message.parts for c in getattr(part, "citations", ())]
        assert any("groundingMetadata" in c for c in cited) is grounded
        ordinary = finish == "STOP" or (finish == "MAX_TOKENS" and bool(result.content))
        assert bool(result.warnings) is not ordinary

    def request_of(self, exchange: RecordedExchange, earlier: Any) -> tuple[list[Message], ChatOptions]:
        body = camel(exchange.body)
        return ours(body, [(received_parts(answered), message) for answered, message in earlier]), options_of(body)

    def comparable(self, body: dict[str, Any], exchange: RecordedExchange) -> dict[str, Any]:
        made = normalised(camel(body))
        for declaration in made["functions"] if RECURSIVE in exchange.file else ():
            del declaration["parametersJsonSchema"]["required"]
        return made


def joined(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Received parts as they go back: unsigned texts of one kind that follow each other are one, empty ones none."""
    made: list[dict[str, Any]] = []
    for part in parts:
        if part == {"text": ""}:
            continue
        if made and "text" in part and {*part, *made[-1]} <= {"text", "thought"} and part.keys() == made[-1].keys():
            made[-1] = {**part, "text": made[-1]["text"] + part["text"]}
        else:
            made.append(part)
    return made


async def test_every_recorded_answer_goes_back_byte_for_byte() -> None:
    """Signatures, ids, thoughts, code and its results: the same JSON to the same host, in the same order."""
    laws = TestRecordings()
    replayed = signed = 0
    for exchange in laws.exchanges():
        if any(part in exchange.file for part, _ in ERRORS):
            continue
        message = (await laws.ask(exchange)).message
        contents = json.loads(
            RequestWriter(HERE, GeminiConfig()).body((*HI, message), "gemini-2.5-flash", ChatOptions())[0]
        )
        sent = [content["parts"] for content in contents["contents"] if content["role"] == "model"]
        assert sent == ([joined(received_parts(exchange))] if received_parts(exchange) else [])
        replayed += len(sent)
        signed += sum("thoughtSignature" in part for parts in sent for part in parts)
    assert not laws.files() or (replayed, signed) == (64, 55)


def ours(body: dict[str, Any], answers: list[tuple[list[dict[str, Any]], AssistantMessage]]) -> list[Message]:
    """Recorded contents in our terms; a model's content is the message its answer was, where it was recorded."""
    made: list[Message] = []
    if instruction := body.get("systemInstruction"):
        parts = instruction["parts"]
        made += [SystemMessage(content=p["text"]) for p in (parts if isinstance(parts, list) else [parts])]
    waiting: list[Any] = []
    for content in body["contents"]:
        if content["role"] == "model":
            message = next((m for parts, m in answers if alike(parts, content["parts"])), None)
            if message is None:
                chunk = {"candidates": [{"content": content, "finishReason": "STOP"}]}
                end = [
                    *AnswerReader(GeminiAnswer(HERE), raised, ProviderProtocolError, FRAMING).whole(
                        json.dumps(chunk).encode()
                    )
                ][-1]
                assert isinstance(end, AnswerEnd)
                message = end.result.message
            made.append(message)
            waiting = [*message.tool_calls]
        for part in content["parts"] if content["role"] == "user" else ():
            if "functionResponse" in part:
                response = part["functionResponse"]
                call = waiting.pop(0)
                assert call.name == response["name"]
                text = json.dumps(response["response"])
                made.append(ToolMessage(tool_call_id=call.id, name=call.name, content=text))
            else:
                made.append(UserMessage(content=part["text"]))
    return made


def raised(body: object) -> ProviderError:
    return ProviderError(str(body))


def comparable(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Model parts without what clients of the recordings did to them on the way back. All of it:

    - thoughts, empty texts and the space at the end of texts are left out by some;
    - the id of a call is left out by some, and its args by one;
    - signatures are re-encoded to the URL-safe alphabet by Google's SDK, left out of texts by some, and put on the
      second call too by one (ruby_llm): only that of the first call is compared.
    """
    made: list[dict[str, Any]] = []
    for part in parts:
        if call := part.get("functionCall"):
            signature = "" if made and "call" in made[-1] else part.get("thoughtSignature", "")
            signature = signature.replace("+", "-").replace("/", "_").rstrip("=")
            made.append({"call": call["name"], "args": call.get("args", {}), "signature": signature})
        elif part.get("text", "").strip() and not part.get("thought"):
            made.append({"text": part["text"].strip()})
    return made


def alike(received: list[dict[str, Any]], sent: list[dict[str, Any]]) -> bool:
    return bool(comparable(received)) and comparable(received) == comparable(sent)


def camel(value: Any, inside: str = "") -> Any:
    """A recorded request with the keys of our spelling: the server takes snake_case too. Names users chose stay."""
    if isinstance(value, list):
        return [camel(item) for item in value]
    if not isinstance(value, dict) or inside in ("args", "response"):
        return value
    keys = {k: k if inside == "properties" else re.sub(r"_(\w)", lambda m: m[1].upper(), k) for k in value}
    return {keys[k]: camel(v, "" if inside == "properties" else keys[k]) for k, v in value.items()}


# The dialect (dialects.py) says recursive properties cannot be required; the service takes them.
RECURSIVE = "output-google-validated-accepts-what-auto"
SCHEMAS = {"parameters", "parametersJsonSchema", "responseSchema", "responseJsonSchema"}


def plain_schema(schema: Any) -> Any:
    """A schema up to what says nothing to a model: types' case, titles, defaults, order, how null is said."""
    if isinstance(schema, list):
        return [plain_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(choices := schema.get("anyOf"), list) and {"type": "null"} in choices and len(choices) == 2:
        choices = [choice for choice in choices if choice != {"type": "null"}]
        schema = {**schema, **choices[0], "nullable": True, "anyOf": []}
    made = {}
    for key, value in schema.items():
        if key == "properties":
            made[key] = {name: plain_schema(inner) for name, inner in value.items()}
        elif key == "type":
            made[key] = value.lower() if isinstance(value, str) else sorted(value)
        elif key not in ("title", "default", "propertyOrdering") and value != []:
            made[key] = plain_schema(value)
    return {k: v for k, v in made.items() if v != {}}


def json_schema(schema: Any) -> Any:
    """A recorded schema of the service's own kind as a tool definition would have it."""
    schema = json.loads(re.sub(r'"type": "([A-Z]+)"', lambda m: f'"type": "{m[1].lower()}"', json.dumps(schema)))
    return {"properties": {}, **schema}


def options_of(body: dict[str, Any]) -> ChatOptions:
    """The options that ask for a recorded request, and whether its format is of the service's own kind."""
    config = dict(body.get("generationConfig") or {})
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig", {})
    mode = calling.get("mode", "AUTO").upper()
    tools: list[dict[str, Any]] = []
    for tool in body.get("tools") or ():
        for declared in tool.get("functionDeclarations") or ():
            field = "parametersJsonSchema" if "parametersJsonSchema" in declared else "parameters"
            definition = ToolDefinition(
                name=declared["name"],
                description=declared["description"] or "-",
                parameters=json_schema(declared.get(field) or {"type": "object"}),
                implementation=Implementation(type="mock"),
                strict=mode == "VALIDATED" or None,
            )
            encode = encode_tools if field == "parametersJsonSchema" else encode_tools_as_parameters
            tools += encode([definition])
        if native := {k: v for k, v in tool.items() if k != "functionDeclarations" and v is not None}:
            tools.append(native)
    thinking = config.pop("thinkingConfig", None)
    schema = config.pop("responseSchema", None) or config.get("responseJsonSchema")
    extra = {k: body[k] for k in ("safetySettings", "modelArmorConfig") if body.get(k)}
    if flag := (body.get("toolConfig") or {}).get("includeServerSideToolInvocations"):
        extra["toolConfig"] = {"includeServerSideToolInvocations": flag}
    if "responseModalities" in config:
        extra["generationConfig"] = {"responseModalities": config["responseModalities"]}
    options = ChatOptions(
        max_tokens=config.get("maxOutputTokens"),
        temperature=config.get("temperature"),
        stop=tuple(config.get("stopSequences", ())),
        seed=config.get("seed"),
        tools=tuple(tools),
        tool_choice={"ANY": "required", "NONE": "none"}.get(mode, "auto"),  # type: ignore[arg-type]
        response_format=ResponseFormat(schema=json_schema(schema)) if schema else None,
        reasoning=thinking
        and Reasoning(
            effort=thinking.get("thinkingLevel"),
            budget_tokens=thinking.get("thinkingBudget"),
            summary=thinking.get("includeThoughts"),
        ),
        extra=extra,
    )
    return options


def as_parameters(body: Any) -> bool:
    """Return whether a request's format is of the service's own kind."""
    return "responseSchema" in (camel(body).get("generationConfig") or {})


def normalised(body: dict[str, Any]) -> dict[str, Any]:
    """A request up to what carries no meaning. All that differs between clients:

    - spelling of keys (camel), null and empty tables, ``thought: false``, case of enumerations;
    - the role of instructions, their parts as one object or several;
    - mode AUTO, which is the default;
    - all declarations in one object, native tools beside it in any order;
    - an output schema (``response``), which we do not send; schemas up to plain_schema, and an empty one is none;
    - a description that is empty;
    - model parts up to ``comparable``, the ids of responses; neighbouring contents of one role are one.
    """
    made: dict[str, Any] = {k: v for k, v in body.items() if v not in (None, {}, [])}
    if instruction := made.pop("systemInstruction", None):
        parts = instruction["parts"]
        made["system"] = "\n\n".join(p["text"] for p in (parts if isinstance(parts, list) else [parts]))
    made["contents"] = []
    for content in map(normalised_content, body["contents"]):
        last = made["contents"][-1] if made["contents"] else {}
        if last and (last["role"], "name" in last["parts"][0]) == (content["role"], "name" in content["parts"][0]):
            last["parts"] += content["parts"]
        else:
            made["contents"].append(content)
    objects = made.pop("tools", ())
    declared = [d for tool in objects for d in tool.get("functionDeclarations") or ()]
    made["functions"] = [
        {"name": d["name"], "description": d["description"] or "-"}
        | {k: plain_schema(d[k]) for k in ("parameters", "parametersJsonSchema") if d.get(k, {}).get("properties")}
        for d in declared
    ]
    made["natives"] = {k for tool in objects for k, v in tool.items() if k != "functionDeclarations" and v is not None}
    config = dict(made.pop("generationConfig", {}))
    for key in SCHEMAS & config.keys():
        config[key] = plain_schema(config[key])
    if level := config.get("thinkingConfig", {}).get("thinkingLevel"):
        config["thinkingConfig"] = {**config["thinkingConfig"], "thinkingLevel": level.upper()}
    made["config"] = config
    tool_config = dict(made.pop("toolConfig", {}))
    mode = tool_config.pop("functionCallingConfig", {}).get("mode", "AUTO").upper()
    return {**made, "mode": mode, "toolConfig": tool_config}


def normalised_content(content: dict[str, Any]) -> dict[str, Any]:
    if content["role"] == "model":
        return {"role": "model", "parts": comparable(content["parts"])}
    parts = []
    for part in content["parts"]:
        if response := part.get("functionResponse"):
            parts.append({"name": response["name"], "response": response["response"]})
        else:
            parts.append({"text": part["text"]})
    return {"role": content["role"], "parts": parts}
