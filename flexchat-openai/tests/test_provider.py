"""The provider as a whole: what it sends, what it returns, and what it makes of every fault of a server."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_sdk import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    ModelInfo,
    ProviderAuthError,
    ProviderProtocolError,
    ProviderRequestError,
    SystemMessage,
    TextDelta,
    UserMessage,
)

KEY = "sk-test-canary-1234567890"
MESSAGES = (SystemMessage(content="s"), UserMessage(content="hi"))
ANSWER = {
    "id": "r",
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}],
}
STREAM = (
    b'data: {"id":"r","model":"m-1","choices":[{"index":0,"delta":{"content":"Hel"}}]}\n\n'
    b'data: {"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)
MESSAGE = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "Hello"}]}
RESPONSE = {"id": "r", "model": "m-1", "status": "completed", "output": [MESSAGE]}
RESPONSE_STREAM = b"".join(
    b"data: " + json.dumps({**event, "output_index": 0}).encode() + b"\n\n"
    for event in (
        {"type": "response.output_item.added", "item": {**MESSAGE, "content": []}},
        {"type": "response.output_text.delta", "delta": "Hel"},
        {"type": "response.output_text.delta", "delta": "lo"},
        {"type": "response.output_item.done", "item": MESSAGE},
        {"type": "response.completed", "response": RESPONSE},
    )
)
FIRST_EVENT = STREAM[: STREAM.index(b"data", 5)]


def provider(handler: Callable[[httpx.Request], httpx.Response], **config: Any) -> OpenAIProvider:
    settings = {"api_key": KEY, "base_url": "https://h.example/v1", **config}
    return OpenAIProvider(OpenAIConfig(**settings), transport=httpx.MockTransport(handler))


async def generated(made: OpenAIProvider) -> ChatResult:
    try:
        return await made.generate_chat(MESSAGES, "m", ChatOptions())
    finally:
        await made.aclose()


async def streamed(made: OpenAIProvider) -> list[ChatEvent]:
    try:
        return [event async for event in made.stream_chat(MESSAGES, "m", ChatOptions())]
    finally:
        await made.aclose()


@pytest.mark.parametrize(
    ("base_url", "api", "model", "path"),
    [
        ("https://api.openai.com/v1", "auto", "gpt-4.1", "/v1/chat/completions"),
        ("https://api.openai.com/v1", "auto", "gpt-5-mini", "/v1/chat/completions"),
        ("https://api.openai.com/v1", "auto", "gpt-5-pro", "/v1/responses"),
        ("https://api.openai.com/v1", "auto", "gpt-5.4", "/v1/responses"),
        ("https://api.openai.com/v1", "auto", "gpt-7-unheard-of", "/v1/responses"),
        ("https://api.openai.com/v1", "chat", "gpt-5.4", "/v1/chat/completions"),
        ("https://h.example/v1", "auto", "gpt-5.4", "/v1/chat/completions"),
        ("https://h.example/v1", "auto", "unheard-of", "/v1/chat/completions"),
        ("https://h.example/v1", "responses", "gpt-4.1", "/v1/responses"),
    ],
)
async def test_which_api_is_asked_depends_on_host_and_model(base_url: str, api: str, model: str, path: str) -> None:
    """At api.openai.com by the table of models, elsewhere Chat Completions; what the config says wins; one for both."""
    paths = []

    def handler(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.path)
        return httpx.Response(200, json=RESPONSE if request.url.path.endswith("responses") else ANSWER)

    made = provider(handler, base_url=base_url, api=api)
    result = await made.generate_chat(MESSAGES, model, ChatOptions())

    assert (paths, result.content) == ([path], "Hello")
    assert made.tool_format(model) == ("openai.responses" if path == "/v1/responses" else "openai")
    assert made.endpoint == base_url.removesuffix("/v1")


async def test_the_responses_api_streams() -> None:
    """The same text in pieces, and the same result."""
    made = provider(lambda r: httpx.Response(200, content=RESPONSE_STREAM), api="responses")
    whole = provider(lambda r: httpx.Response(200, json=RESPONSE), api="responses")

    assert await streamed(made) == [TextDelta(0, "Hel"), TextDelta(0, "lo"), AnswerEnd(await generated(whole))]


async def test_an_error_that_asks_for_the_other_api_names_the_setting() -> None:
    """Whoever reads it knows what to write."""
    text = "Function tools are not supported for m in /v1/chat/completions. To use function tools, use /v1/responses"
    body = {"error": {"message": text, "type": "invalid_request_error", "param": None, "code": None}}
    with pytest.raises(ProviderRequestError, match='api = "responses"') as caught:
        await generated(provider(lambda r: httpx.Response(400, json=body)))
    assert caught.value.kind == "needs_responses_api"
    with pytest.raises(ProviderRequestError, match='api = "chat"'):
        await generated(provider(lambda r: httpx.Response(404, json={"detail": "Not Found"}), api="responses"))


@pytest.mark.parametrize(
    ("host", "setting", "together"),
    [
        ("api.openai.com", None, True),
        ("me.openai.azure.com", None, True),
        ("api.groq.com", None, False),
        ("127.0.0.1:8080", None, False),
        ("127.0.0.1:8080", True, True),
        ("api.openai.com", False, False),
    ],
)
def test_tools_and_a_format_go_together_where_that_is_known_to_work(host: str, setting: Any, together: bool) -> None:
    """Elsewhere a grammar for the answer would keep the model from calling; what the config says wins."""
    made = provider(lambda r: httpx.Response(500), base_url=f"https://{host}/v1", tools_with_format=setting)

    assert made.combines_tools_and_format("any") is together


async def test_an_exchange_is_held() -> None:
    """Address, key, organisation and project go where OpenAI wants them; the answer comes back as a result."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "https://h.example/v1/chat/completions"
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["openai-organization"] == "o"
        assert request.headers["openai-project"] == "p"
        assert request.headers["x-mine"] == "1"
        assert json.loads(request.content)["messages"][1] == {"role": "user", "content": "hi"}
        return httpx.Response(200, json=ANSWER)

    result = await generated(provider(handler, organization="o", project="p", extra_headers={"X-Mine": "1"}))

    assert (result.content, result.model, result.finish_reason) == ("Hello", "m-1", "stop")


async def test_a_server_that_streams_unasked_is_understood() -> None:
    """Events where whole JSON was asked for are put together."""
    reply = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=STREAM)

    assert (await generated(provider(lambda r: reply))).content == "Hello"


async def test_what_was_left_out_is_a_warning_of_the_result() -> None:
    """A temperature the model refuses is dropped and said, streamed and whole."""
    options = ChatOptions(temperature=0.5)
    whole = provider(lambda r: httpx.Response(200, json=ANSWER))
    pieces = provider(lambda r: httpx.Response(200, content=STREAM))

    result = await whole.generate_chat(MESSAGES, "gpt-5-mini", options)
    last = [event async for event in pieces.stream_chat(MESSAGES, "gpt-5-mini", options)][-1]

    assert isinstance(last, AnswerEnd)
    assert result.warnings == last.result.warnings == ("gpt-5-mini does not accept temperature: left out",)


async def test_the_limits_name_depends_on_the_host() -> None:
    """The new one at api.openai.com and for models that reason, max_tokens elsewhere, what the config says always."""
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(next(name for name in json.loads(request.content) if name.startswith("max_")))
        return httpx.Response(200, json=ANSWER)

    for config in ({"base_url": "https://api.openai.com/v1"}, {}, {"max_tokens_field": "max_completion_tokens"}):
        await provider(handler, **config, api="chat").generate_chat(MESSAGES, "m", ChatOptions(max_tokens=1))

    await provider(handler, api="chat").generate_chat(MESSAGES, "gpt-5-mini", ChatOptions(max_tokens=1))

    assert seen == ["max_completion_tokens", "max_tokens", "max_completion_tokens", "max_completion_tokens"]


async def test_openai_itself_needs_a_key_and_others_do_not() -> None:
    """Without a key nothing is sent to api.openai.com; the error says what to write."""
    with pytest.raises(ProviderAuthError, match="no key for"):
        await generated(provider(lambda r: httpx.Response(500), api_key=None, base_url="https://api.openai.com/v1"))

    def handler(request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        return httpx.Response(200, json=ANSWER)

    assert (await generated(provider(handler, api_key=None))).content == "Hello"


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"id": "gpt-5.4", "object": "model", "owned_by": "openai"}, ModelInfo(id="gpt-5.4")),
        ({"id": "a", "max_model_len": 8192}, ModelInfo(id="a", context_length=8192)),
        ({"id": "a", "meta": {"n_ctx": 4096, "n_ctx_train": 32768}}, ModelInfo(id="a", context_length=4096)),
        ({"id": "a", "type": "chat", "context_length": 5}, ModelInfo(id="a", context_length=5)),
        ({"id": "a", "type": "embedding"}, ModelInfo(id="a", capabilities=frozenset({"embedding"}))),
        ({"id": "a", "context_length": "many", "name": 5, "capabilities": ["completion"]}, ModelInfo(id="a")),
        (
            {"id": "a", "capabilities": {"completion_chat": True, "function_calling": True, "vision": False}},
            ModelInfo(id="a", capabilities=frozenset({"chat", "tools"})),
        ),
        (
            {
                "id": "a/b",
                "name": "B",
                "context_length": 9,
                "supported_parameters": ["tools", "reasoning"],
                "architecture": {"input_modalities": ["text", "image"]},
            },
            ModelInfo(
                id="a/b",
                name="B",
                context_length=9,
                capabilities=frozenset({"chat", "tools", "reasoning", "vision"}),
            ),
        ),
    ],
)
async def test_models_are_listed_as_far_as_servers_tell(item: dict[str, Any], expected: ModelInfo) -> None:
    """Capabilities only where the server tells all of them; nothing is guessed from a name."""
    for body in ({"data": [item, {"no": "id"}, 5]}, [item]):
        made = provider(lambda r, body=body: httpx.Response(200, json=body))  # type: ignore[misc]
        assert await made.list_models() == (expected,)


async def test_what_is_no_list_of_models_is_an_error() -> None:
    """A list that cannot be read, and a refusal."""
    with pytest.raises(ProviderProtocolError, match="list of models"):
        await provider(lambda r: httpx.Response(200, json={"data": 5})).list_models()
    with pytest.raises(ProviderAuthError):
        await provider(lambda r: httpx.Response(401)).list_models()
