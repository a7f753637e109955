"""The provider as a whole: what it sends and what it returns."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult
from flexchat_anthropic.config import AnthropicConfig
from flexchat_anthropic.provider import AnthropicProvider
from flexchat_sdk import (
    AssistantMessage,
    ChatEvent,
    ChatOptions,
    Message,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderData,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
    ReasoningPart,
    SystemMessage,
    TextDelta,
    TextPart,
    UserMessage,
    result_of,
)

KEY = "sk-ant-canary-1234567890"
MODEL = "claude-sonnet-4-6"
MESSAGES: tuple[Message, ...] = (SystemMessage(content="s"), UserMessage(content="hi"))
ANSWER = {
    "id": "msg",
    "type": "message",
    "role": "assistant",
    "model": "m-1",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 1, "output_tokens": 2},
}
EVENTS = (
    {"type": "message_start", "message": {**ANSWER, "content": [], "stop_reason": None}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 2}},
    {"type": "message_stop"},
)
STREAM = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in EVENTS).encode()
BOUND = {"message": "messages.1.content.0: thinking: The block is bound to a different conversation."}
REFUSED = {"type": "error", "error": {"type": "invalid_request_error", **BOUND}}
Handler = Callable[[httpx.Request], httpx.Response]


def provider(handler: Handler, **config: Any) -> AnthropicProvider:
    settings = {"api_key": KEY, "base_url": "https://h.example", "max_tokens": 4096, **config}
    return AnthropicProvider(AnthropicConfig(**settings), transport=httpx.MockTransport(handler))


def always(status: int, body: Any, **headers: str) -> Handler:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _: httpx.Response(
        status, headers={k.replace("_", "-"): v for k, v in headers.items()}, content=content
    )


async def generated(
    made: AnthropicProvider, model: str = MODEL, messages: tuple[Message, ...] = MESSAGES, **options: Any
) -> ChatResult:
    try:
        return await made.generate_chat(messages, model, ChatOptions(**options))
    finally:
        await made.aclose()


async def streamed(
    made: AnthropicProvider, model: str = MODEL, messages: tuple[Message, ...] = MESSAGES, **options: Any
) -> list[ChatEvent]:
    try:
        return [event async for event in made.stream_chat(messages, model, ChatOptions(**options))]
    finally:
        await made.aclose()


async def test_an_exchange_is_held() -> None:
    """The key is in its header, the version and the betas in theirs; the answer comes back as a result (TC-81)."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert (request.method, str(request.url)) == ("POST", "https://h.example/v1/messages")
        assert request.headers["x-api-key"] == KEY
        assert request.headers["anthropic-version"] == "2026-10-21"
        assert request.headers["anthropic-beta"] == "one,two"
        assert request.headers["x-mine"] == "1"
        assert "authorization" not in request.headers
        body = json.loads(request.content)
        assert (body["model"], body["max_tokens"], body["metadata"]) == (MODEL, 4096, {"user_id": "u"})
        assert "stream" not in body
        return httpx.Response(200, json=ANSWER)

    made = provider(
        handler, betas=("one", "two"), extra_headers={"X-Mine": "1"}, extra_body={"metadata": {"user_id": "u"}}
    )
    result = await generated(made)
    assert (result.content, result.finish_reason, result.model, result.warnings) == ("Hello", "stop", "m-1", ())


async def test_a_streamed_exchange_ends_in_the_same_result() -> None:
    """Piece by piece, and then what generate_chat returns; warnings too."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert json.loads(request.content)["stream"] is True
        return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=STREAM)

    events = await streamed(provider(handler), seed=1)
    assert events[:-1] == [TextDelta(0, "Hel"), TextDelta(0, "lo")]
    assert result_of(events) == await generated(provider(always(200, ANSWER)), seed=1)
    assert len(result_of(events).warnings) == 1


async def test_long_answers_are_streamed_though_nobody_listens() -> None:
    """From about 16,000 tokens on; the result is the same."""
    streams = []

    def handler(request: httpx.Request) -> httpx.Response:
        streams.append(json.loads(request.content).get("stream", False))
        content = STREAM if streams[-1] else json.dumps(ANSWER).encode()
        return httpx.Response(200, content=content)

    results = [await generated(provider(handler), max_tokens=tokens) for tokens in (16_384, 16_385)]
    assert streams == [False, True]
    assert results[0] == results[1]
    await generated(provider(handler, max_tokens=None))  # as the table says of this model
    assert streams[-1] is True


async def test_a_server_that_streams_unasked_or_not_at_all_is_understood() -> None:
    """By what it sends, not by what was asked for."""
    assert (await generated(provider(always(200, STREAM, content_type="text/event-stream")))).content == "Hello"
    assert result_of(await streamed(provider(always(200, ANSWER)))).content == "Hello"


@pytest.mark.parametrize(
    ("base_url", "address"),
    [
        ("https://h.example", "https://h.example/v1/messages"),
        ("https://h.example/anthropic/", "https://h.example/anthropic/v1/messages"),
        ("https://h.example/v1", "https://h.example/v1/messages"),
        ("https://h.example/v1/?a=b", "https://h.example/v1/messages?a=b"),
    ],
)
async def test_a_server_has_its_address(base_url: str, address: str) -> None:
    """With or without the version."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == address
        return httpx.Response(200, json=ANSWER)

    await generated(provider(handler, base_url=base_url))


async def test_a_gateway_takes_a_token() -> None:
    """As bearer token."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert "x-api-key" not in request.headers
        return httpx.Response(200, json=ANSWER)

    await generated(provider(handler, api_key=None, auth_token=KEY))


async def test_anthropic_needs_a_key_and_others_do_not() -> None:
    """It is said before anything is sent."""
    made = provider(always(200, ANSWER), api_key=None, base_url="https://api.anthropic.com")
    for asking in (made.generate_chat(MESSAGES, MODEL, ChatOptions()), made.list_models()):
        with pytest.raises(ProviderAuthError, match="ANTHROPIC_API_KEY"):
            await asking
    with pytest.raises(ProviderAuthError, match="ANTHROPIC_API_KEY"):
        await streamed(made)
    assert (await generated(provider(always(200, ANSWER), api_key=None))).content == "Hello"


async def test_the_limit_of_a_model_nobody_knows_is_asked_for_once() -> None:
    """4096 where the service does not tell; a list of models tells all of them."""
    asked: list[str] = []

    def handler(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        if request.url.path == "/v1/models":
            return httpx.Response(200, json={"data": [{"id": "listed", "max_tokens": 300}], "has_more": False})
        if request.method == "GET":
            return httpx.Response(
                200, json={"id": "x", "max_tokens": 200} if request.url.path.endswith("/told") else {}
            )
        limits.append(json.loads(request.content)["max_tokens"])
        return httpx.Response(200, json=ANSWER)

    limits: list[int] = []
    made = provider(handler, max_tokens=None)
    await made.list_models()
    for model in ("told", "told", "untold", "untold", "listed"):
        await made.generate_chat(MESSAGES, model, ChatOptions())
    await made.generate_chat(MESSAGES, "set", ChatOptions(max_tokens=7))

    assert limits == [200, 200, 4096, 4096, 300, 7]
    assert [path for path in asked if path.startswith("/v1/models")] == [
        "/v1/models",
        "/v1/models/told",
        "/v1/models/untold",
    ]


async def test_a_look_up_that_fails_spoils_no_request() -> None:
    """The request itself says what is wrong, if anything is."""

    def handler(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            raise httpx.ConnectError("no")
        return httpx.Response(200, json=ANSWER)

    assert (await generated(provider(handler, max_tokens=None), "unknown")).content == "Hello"
    refusal = {"type": "error", "error": {"type": "not_found_error", "message": "model: unknown"}}
    with pytest.raises(ModelNotFoundError):
        await generated(provider(always(404, refusal), max_tokens=None), "unknown")


@pytest.mark.parametrize("stream", [False, True])
async def test_thinking_that_is_refused_is_left_out_once(stream: bool) -> None:
    """It was bound to what the conversation was then: the request goes again without it, and the answer says so."""
    bodies: list[Any] = []

    def handler(request: httpx.Request) -> httpx.Response:
        bodies.append(json.loads(request.content))
        if "signature" in json.dumps(bodies[-1]) or always_refuses:
            return httpx.Response(400, json=REFUSED)
        return httpx.Response(200, content=STREAM if stream else json.dumps(ANSWER).encode())

    data = ProviderData(scope="anthropic", origin="https://h.example", data={"block": {"signature": "s"}})
    thought = AssistantMessage(parts=(ReasoningPart(text="Hm", provider_data=data), TextPart(text="x")))
    messages = (*MESSAGES, thought, UserMessage(content="more"))
    always_refuses = False
    if stream:
        result = result_of(await streamed(provider(handler), messages=messages))
    else:
        result = await generated(provider(handler), messages=messages)
    assert result.content == "Hello"
    assert [len(body["messages"][1]["content"]) for body in bodies] == [2, 1]
    assert any("earlier thinking" in warning for warning in result.warnings)

    always_refuses = True
    bodies.clear()
    with pytest.raises(ProviderError):
        await (
            streamed(provider(handler), messages=messages)
            if stream
            else generated(provider(handler), messages=messages)
        )
    assert len(bodies) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_errors_have_their_model_and_no_key(stream: bool) -> None:
    """Also where the service quotes it."""
    body = {"type": "error", "error": {"type": "authentication_error", "message": f"bad key {KEY}"}}
    made = provider(always(401, body, request_id="req_1"))
    with pytest.raises(ProviderAuthError) as caught:
        await (streamed(made) if stream else generated(made))

    assert (caught.value.model, caught.value.status, caught.value.request_id) == (MODEL, 401, "req_1")
    assert KEY not in f"{caught.value!r} {made!r}"


async def test_an_error_with_status_200_is_an_error() -> None:
    """In the middle of a stream, as recorded, and whole."""
    body = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    event = f"event: error\ndata: {json.dumps(body)}   \n\n".encode()
    for answer in (body, event, STREAM[:300] + b"\n\n" + event):
        for asking in (streamed, generated):
            kind = "application/json" if answer is body else "text/event-stream"
            with pytest.raises(ProviderError) as caught:
                await asking(provider(always(200, answer, content_type=kind)))
            if answer is not body and answer is not event:
                continue  # cut in the middle of an event
            assert (caught.value.status, caught.value.retryable) == (529, True)


async def test_models_are_listed_page_by_page() -> None:
    """Until there are no more."""

    def handler(request: httpx.Request) -> httpx.Response:
        query = dict(request.url.params)
        assert query["limit"] == "1000"
        if "after_id" not in query:
            return httpx.Response(200, json={"data": [{"id": "a/1"}], "has_more": True, "last_id": "a/1"})
        assert query["after_id"] == "a/1"
        return httpx.Response(200, json={"data": [{"id": "b"}], "has_more": False, "last_id": "b"})

    made = provider(handler)
    assert [model.id for model in await made.list_models()] == ["a/1", "b"]
    endless = provider(always(200, {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}))
    assert len(await endless.list_models()) == 100


async def test_lists_that_cannot_be_read_are_errors() -> None:
    """And refusals are what they are elsewhere."""
    for body in (b"", b"[]", b"{}", b"not JSON"):
        with pytest.raises(ProviderProtocolError, match="list of models"):
            await provider(always(200, body)).list_models()
    with pytest.raises(ProviderAuthError):
        await provider(always(401, {})).list_models()


async def test_several_requests_share_their_time() -> None:
    """A look-up and a second try are within timeout_s."""

    async def handler(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError

    made = AnthropicProvider(AnthropicConfig(base_url="https://h.example"), transport=httpx.MockTransport(handler))
    with pytest.raises(ProviderTimeoutError):
        await generated(made, "unknown", timeout_s=0.05)
