"""The bodies we write are what Google's own SDK would accept: its types forbid unknown fields."""

import json
import warnings
from typing import Any

import pytest
from flexchat.plugin import Implementation, ToolCall, ToolDefinition
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.request import RequestWriter
from flexchat_gemini.tools import encode_tools, encode_tools_as_parameters
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    MediaPart,
    OpaquePart,
    ProviderData,
    Reasoning,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

pytestmark = pytest.mark.slow  # importing Google's SDK takes seconds
HERE = "https://here.example"
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": ["string", "null"], "minLength": 1, "description": "d"},
        "days": {"type": "integer", "minimum": 1, "enum": [1, 2, 3]},
        "kind": {"const": "x"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
        "title": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    },
    "required": ["city"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def types() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("google.genai.types", reason="google-genai is not installed")


def conversation() -> tuple[Any, ...]:
    data = ProviderData(scope="gemini", origin=HERE, data={"part": {"thoughtSignature": "c2ln"}})
    code = {"executableCode": {"code": "1", "language": "PYTHON"}}
    signed = ToolCall.from_object("f", {"city": "ü"}, wire_id="w", provider_data=data)
    foreign = ToolCall.from_object("g", {})
    return (
        SystemMessage(content="s"),
        UserMessage(content="hi", media=(MediaPart(kind="image", mime_type="image/png", data=b"\xff"),)),
        AssistantMessage(
            parts=(
                TextPart(text="t"),
                OpaquePart(
                    kind="executableCode", provider_data=ProviderData(scope="gemini", origin=HERE, data={"part": code})
                ),
                signed,
            )
        ),
        ToolMessage(
            tool_call_id=signed.id,
            name="f",
            content='{"a": 1}',
            media=(MediaPart(kind="image", mime_type="image/png", data=b"\xff"),),
        ),
        AssistantMessage(parts=(foreign,)),
        ToolMessage(tool_call_id=foreign.id, name="g", content="words", is_error=True),
        SystemMessage(content="later"),
    )


@pytest.mark.parametrize("as_parameters", [False, True], ids=["JSON Schema", "parameters"])
@pytest.mark.parametrize("model", ["gemini-2.5-pro", "gemini-3-flash-preview"])
def test_bodies_validate(types: Any, model: str, as_parameters: bool) -> None:
    """Every content, every declaration, every setting."""
    encode = encode_tools_as_parameters if as_parameters else encode_tools
    implementation = Implementation(type="mock")
    tools = [
        ToolDefinition(name="f", description="d", parameters=SCHEMA, implementation=implementation, strict=True),
        ToolDefinition(name="g", description="d", parameters={"type": "object"}, implementation=implementation),
    ]
    writer = RequestWriter(HERE, GeminiConfig(schema_field="parameters" if as_parameters else "auto"))
    common: dict[str, Any] = {
        "max_tokens": 5,
        "temperature": 0.0,
        "top_p": 0.5,
        "stop": ("x",),
        "seed": 1,
        "reasoning": Reasoning(effort="low", summary=True),
    }
    for options in (
        ChatOptions(tools=tuple(encode(tools)), **common),
        ChatOptions(tools=tuple(encode(tools)), tool_choice="required", allowed_tools=("f",)),
        ChatOptions(tools=tuple(encode(tools)), tool_choice="none"),
        ChatOptions(response_format=ResponseFormat(schema=SCHEMA), **common),
    ):
        body = json.loads(bytes(writer.body(conversation(), model, options)[0]))

        for content in body.pop("contents"):
            types.Content.model_validate_json(json.dumps(content))
        types.Content.model_validate(body.pop("systemInstruction"))
        for tool in body.pop("tools", ()):
            types.Tool.model_validate(tool)
        types.ToolConfig.model_validate(body.pop("toolConfig", {}))
        types.GenerationConfig.model_validate(body.pop("generationConfig", {}))
        assert body == {}


def test_the_sentinel_is_sent_to_models_that_insist(types: Any) -> None:
    """It reads as a signature: base64 of something."""
    content, *_ = RequestWriter(HERE, GeminiConfig()).body(conversation(), "gemini-3-pro-preview", ChatOptions())
    body = json.loads(bytes(content))
    call = body["contents"][3]["parts"][0]

    assert call["thoughtSignature"] == "skip_thought_signature_validator"
    assert types.Part.model_validate_json(json.dumps(call)).thought_signature
