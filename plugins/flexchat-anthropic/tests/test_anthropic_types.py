"""The bodies we write are what Anthropic's own SDK would send, and the answers of the kit what it would read."""

import json
from typing import Any

import pytest
from flexchat.plugin import Implementation, ToolCall, ToolDefinition
from flexchat_anthropic.conformance import AnthropicConformance
from flexchat_anthropic.request import RequestWriter
from flexchat_anthropic.tools import encode_tools
from flexchat_sdk import (
    AssistantMessage,
    ChatOptions,
    MediaPart,
    OpaquePart,
    ProviderData,
    Reasoning,
    ReasoningPart,
    ResponseFormat,
    SystemMessage,
    TextPart,
    ToolMessage,
    UserMessage,
)

pytestmark = pytest.mark.slow  # importing Anthropic's SDK takes seconds
HERE = "https://here.example"
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": ["string", "null"], "minLength": 1}, "kind": {"const": "x"}},
    "required": ["city"],
}


@pytest.fixture(scope="module")
def types() -> Any:
    return pytest.importorskip("anthropic.types", reason="anthropic is not installed")


def ours(block: Any) -> ProviderData:
    return ProviderData(scope="anthropic", origin=HERE, data={"block": block})


def conversation() -> tuple[Any, ...]:
    call = ToolCall.from_object("f", {"city": "ü"}, wire_id="w", provider_data=ours({"caller": {"type": "direct"}}))
    foreign = ToolCall.from_object("g", {}, id="functions.g:0")
    search = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}}
    return (
        SystemMessage(content="s"),
        UserMessage(
            content="hi",
            media=(
                MediaPart(kind="image", mime_type="image/png", data=b"\xff"),
                MediaPart(kind="document", mime_type="application/pdf", url="https://x", name="a.pdf"),
                MediaPart(kind="document", mime_type="text/plain", data=b"x"),
            ),
        ),
        AssistantMessage(
            parts=(
                ReasoningPart(text="Hm", provider_data=ours({"signature": "s"})),
                ReasoningPart(redacted=True, provider_data=ours({"type": "redacted_thinking", "data": "e"})),
                OpaquePart(kind="server_tool_use", provider_data=ours(search)),
                TextPart(text="t"),
                call,
            )
        ),
        ToolMessage(
            tool_call_id=call.id,
            name="f",
            content='{"a": 1}',
            media=(
                MediaPart(kind="image", mime_type="image/png", data=b"\xff"),
                MediaPart(kind="document", mime_type="application/pdf", data=b"%PDF-", name="a.pdf"),
                MediaPart(kind="document", mime_type="text/plain", data=b"x"),
            ),
        ),
        AssistantMessage(parts=(foreign,)),
        ToolMessage(tool_call_id=foreign.id, name="g", content="words", is_error=True),
        UserMessage(content="more"),
    )


def plain(value: Any) -> Any:
    """What the SDK's types kept of a body: they leave out what they do not know."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value if isinstance(value, str) or not hasattr(value, "__iter__") else [plain(item) for item in value]


@pytest.mark.parametrize("cache", [None, {"type": "ephemeral", "ttl": "1h"}], ids=["plain", "cached"])
@pytest.mark.parametrize("model", ["claude-3-7-sonnet-latest", "claude-opus-4-5", "claude-sonnet-4-6", "claude-opus-5"])
def test_bodies_validate(types: Any, model: str, cache: Any) -> None:
    """Every message, every tool, every setting: nothing the SDK would not know."""
    from pydantic import TypeAdapter

    implementation = Implementation(type="mock")
    tools = tuple(
        encode_tools(
            [
                ToolDefinition(
                    name="f", description="d", parameters=SCHEMA, implementation=implementation, strict=True
                ),
                ToolDefinition(name="g", description="d", parameters={"type": "object"}, implementation=implementation),
            ]
        )
    )
    writer = RequestWriter(HERE, api_version="2023-06-01", cache=cache)
    params = TypeAdapter(types.message_create_params.MessageCreateParamsNonStreaming)
    for options in (
        ChatOptions(tools=tools, stop=("x",), parallel_tool_calls=False),
        ChatOptions(tools=tools, tool_choice="required", allowed_tools=("f",)),
        ChatOptions(tools=tools, tool_choice="required"),
        ChatOptions(tools=tools, tool_choice="none"),
        ChatOptions(response_format=ResponseFormat(schema=SCHEMA), reasoning=Reasoning(effort="low", summary=True)),
        ChatOptions(reasoning=Reasoning(budget_tokens=2000, summary=False)),
        ChatOptions(reasoning=Reasoning(effort="none")),
    ):
        body = json.loads(bytes(writer.body(conversation(), model, options, max_tokens=9000).content))

        assert plain(params.validate_python(body)) == body


def test_the_kits_answers_are_what_the_service_sends(types: Any) -> None:
    """Whole and streamed."""
    from pydantic import TypeAdapter

    kit = AnthropicConformance()
    events = TypeAdapter(types.RawMessageStreamEvent)
    for reply in (kit.text_reply("x"), kit.tool_reply([("f", {"n": 1})], text="t"), kit.opaque_reply("s")):
        assert types.Message.model_validate(reply).stop_reason == reply["stop_reason"]
        for piece in kit.as_stream(reply):
            data = json.loads(piece.partition("data: ")[2])
            if data["type"] != "ping":
                assert events.validate_python(data).type == data["type"]
