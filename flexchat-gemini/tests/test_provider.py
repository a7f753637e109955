"""The provider as a whole: what it sends and what it returns."""

import asyncio
import json
import math
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from flexchat.plugin import ChatResult, Implementation, ToolDefinition
from flexchat_gemini.config import GeminiConfig
from flexchat_gemini.provider import GeminiProvider
from flexchat_gemini.tools import encode_tools
from flexchat_sdk import (
    AnswerEnd,
    ChatEvent,
    ChatOptions,
    ModelInfo,
    ModelNotFoundError,
    ProviderAuthError,
    ProviderError,
    ProviderOverloadedError,
    ProviderProtocolError,
    ProviderRateLimitError,
    ProviderRequestError,
    ProviderTimeoutError,
    SystemMessage,
    TextDelta,
    UserMessage,
)

KEY = "AIzaTestCanary1234567890"
TOKEN = "ya29.test-canary-token"
MESSAGES = (SystemMessage(content="s"), UserMessage(content="hi"))
ANSWER = {
    "candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}, "finishReason": "STOP", "index": 0}],
    "modelVersion": "m-1",
    "responseId": "r",
}
FIRST = b'data: {"candidates":[{"content":{"parts":[{"text":"Hel"}]}}],"modelVersion":"m-1","responseId":"r"}\r\n\r\n'
STREAM = FIRST + b'data: {"candidates":[{"content":{"parts":[{"text":"lo"}]},"finishReason":"STOP"}]}\r\n\r\n'
CITY = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS = tuple(
    encode_tools(
        [ToolDefinition(name="f", description="d", parameters=CITY, implementation=Implementation(type="mock"))]
    )
)
Handler = Callable[[httpx.Request], httpx.Response]


def provider(handler: Handler, **config: Any) -> GeminiProvider:
    settings = {"api_key": KEY, "base_url": "https://h.example", **config}
    return GeminiProvider(GeminiConfig(**settings), transport=httpx.MockTransport(handler))


def always(status: int, body: Any, **headers: str) -> Handler:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda _: httpx.Response(status, headers=headers, content=content)


async def generated(made: GeminiProvider, model: str = "m", **options: Any) -> ChatResult:
    try:
        return await made.generate_chat(MESSAGES, model, ChatOptions(**options))
    finally:
        await made.aclose()


async def streamed(made: GeminiProvider, model: str = "m", **options: Any) -> list[ChatEvent]:
    try:
        return [event async for event in made.stream_chat(MESSAGES, model, ChatOptions(**options))]
    finally:
        await made.aclose()


async def test_an_exchange_is_held() -> None:
    """The key is in its header and in no address; the answer comes back as a result (TC-81)."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "https://h.example/v1beta/models/gemini-2.5-flash:generateContent"
        assert request.headers["x-goog-api-key"] == KEY
        assert "authorization" not in request.headers
        assert request.headers["x-mine"] == "1"
        body = json.loads(request.content)
        assert body["contents"] == [{"role": "user", "parts": [{"text": "hi"}]}]
        assert body["safetySettings"] == [{"category": "c"}]
        assert body["labels"] == {"a": "b"}
        return httpx.Response(200, json=ANSWER)

    made = provider(
        handler,
        extra_headers={"X-Mine": "1"},
        extra_body={"labels": {"a": "b"}},
        safety_settings=({"category": "c"},),
    )
    assert made.endpoint == "https://h.example"
    result = await generated(made, "gemini-2.5-flash")

    assert (result.content, result.model, result.response_id) == ("Hello", "m-1", "r")
    assert (result.finish_reason, result.warnings) == ("stop", ())


async def test_a_streamed_exchange_ends_in_the_same_result() -> None:
    """Deltas, then exactly what the unstreamed exchange returns."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert str(request.url) == "https://h.example/v1beta/models/m:streamGenerateContent?alt=sse"
        return httpx.Response(200, content=STREAM)

    events = await streamed(provider(handler))
    result = await generated(provider(always(200, ANSWER)))

    assert events == [TextDelta(0, "Hel"), TextDelta(0, "lo"), AnswerEnd(result)]


async def test_a_server_that_streams_unasked_is_understood() -> None:
    """Events where whole JSON was asked for are put together."""
    made = provider(always(200, STREAM, **{"content-type": "text/event-stream"}))

    assert (await generated(made)).content == "Hello"


@pytest.mark.parametrize(
    ("config", "model", "path"),
    [
        ({}, "models/x", "/v1beta/models/x"),
        ({}, "tunedModels/x", "/v1beta/tunedModels/x"),
        ({"api_version": "v1"}, "x", "/v1/models/x"),
        ({"api_version": ""}, "x", "/models/x"),
        ({"base_url": "https://h.example/v1"}, "x", "/v1/models/x"),
        ({"base_url": "https://h.example/proxy/"}, "x", "/proxy/v1beta/models/x"),
        ({}, "a?b#c d", "/v1beta/models/a%3Fb%23c%20d"),
        (
            {"path": "/projects/p/locations/l/publishers/google/", "api_version": "v1"},
            "gemini-2.5-flash",
            "/v1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash",
        ),
        (
            {"path": "projects/p/locations/l/publishers/google", "api_version": "v1"},
            "projects/p/locations/l/endpoints/1",
            "/v1/projects/p/locations/l/endpoints/1",
        ),
    ],
)
async def test_a_model_has_its_address(config: dict[str, Any], model: str, path: str) -> None:
    """A name gets models/ before it, a resource name stays; Vertex AI has a path of its own."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.raw_path.decode() == path + ":generateContent"
        return httpx.Response(200, json=ANSWER)

    assert (await generated(provider(handler, **config), model)).content == "Hello"


async def test_vertex_takes_a_token() -> None:
    """As bearer; no key is needed, and it shows in no error."""

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        assert "x-goog-api-key" not in request.headers
        return httpx.Response(401, json={"error": {"code": 401, "message": f"bad {TOKEN}"}})

    vertex = {"base_url": "https://aiplatform.googleapis.com", "api_key": None}
    with pytest.raises(ProviderAuthError) as caught:
        await generated(provider(handler, access_token=TOKEN, **vertex))
    assert TOKEN not in str(caught.value)
    with pytest.raises(ProviderAuthError, match="GOOGLE_ACCESS_TOKEN, or access_token"):
        await generated(provider(handler, **vertex))


async def test_google_needs_a_key_and_others_do_not() -> None:
    """Without a key nothing is sent to Google; the error says what to write. A key may also be an extra header."""
    google = "https://generativelanguage.googleapis.com"
    with pytest.raises(ProviderAuthError, match="set the environment variable GEMINI_API_KEY, or api_key"):
        await generated(provider(always(500, {}), api_key=None, base_url=google))
    with pytest.raises(ProviderAuthError):
        await streamed(provider(always(500, {}), api_key=None, base_url=google))
    with pytest.raises(ProviderAuthError):
        await provider(always(500, {}), api_key=None, base_url=google).list_models()
    with pytest.raises(ProviderAuthError):
        await provider(always(500, {}), api_key=None, base_url=google).embed(["a"], "m")

    header = {"X-Goog-Api-Key": "k"}
    assert (await generated(provider(always(200, ANSWER), api_key=None, base_url=google, extra_headers=header))).content
    assert (await generated(provider(always(200, ANSWER), api_key=None))).content == "Hello"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_errors_have_their_class_and_no_key(stream: bool) -> None:
    """With status, model and provider; a masked text (TC-84)."""
    refusals = {
        ProviderAuthError: (400, {"error": {"code": 400, "message": f"API key not valid: {KEY}"}}),
        ModelNotFoundError: (404, {"error": {"code": 404, "message": "models/m is not found"}}),
        ProviderRateLimitError: (429, [{"error": {"code": 429, "message": KEY}}]),
        ProviderOverloadedError: (503, b"<html>later</html>"),
        ProviderProtocolError: (404, b"<html>nothing</html>"),
        ProviderRequestError: (400, {"error": {"message": "no"}}),
    }
    for kind, (status, body) in refusals.items():
        with pytest.raises(kind) as caught:
            await (streamed if stream else generated)(provider(always(status, body)))
        assert KEY not in str(caught.value)
        assert (caught.value.model, caught.value.provider, caught.value.status) == ("m", "gemini", status)


async def test_an_error_with_status_200_is_an_error() -> None:
    """In a whole answer and in the middle of a stream."""
    error = {"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}
    with pytest.raises(ProviderOverloadedError):
        await generated(provider(always(200, error)))
    with pytest.raises(ProviderOverloadedError) as caught:
        await streamed(provider(always(200, FIRST + b"data: " + json.dumps(error).encode() + b"\r\n\r\n")))
    assert caught.value.model == "m"


async def test_what_was_left_out_is_a_warning_of_the_result() -> None:
    """Streamed and whole."""
    options = {"tools": TOOLS, "parallel_tool_calls": False}
    result = await generated(provider(always(200, ANSWER)), **options)
    last = (await streamed(provider(always(200, STREAM)), **options))[-1]

    assert isinstance(last, AnswerEnd)
    assert len(result.warnings) == 1
    assert last.result.warnings == result.warnings


def old_service(seen: list[str], answer: Any) -> Handler:
    def handler(request: httpx.Request) -> httpx.Response:
        declared = json.loads(request.content)["tools"][0]["functionDeclarations"][0]
        seen.append(next(name for name in declared if name.startswith("parameters")))
        if seen[-1] == "parameters":
            return httpx.Response(200, content=answer if isinstance(answer, bytes) else json.dumps(answer).encode())
        text = "Invalid JSON payload received. Unknown name \"parametersJsonSchema\" at 'tools[0]': Cannot find field."
        return httpx.Response(400, json={"error": {"code": 400, "message": text, "status": "INVALID_ARGUMENT"}})

    return handler


async def test_a_service_that_knows_no_json_schema_is_asked_again() -> None:
    """Once, with a warning; from then on tools go out as it takes them, whichever way they were encoded."""
    for run in ("whole", "streamed"):
        seen: list[str] = []
        made = provider(old_service(seen, ANSWER if run == "whole" else STREAM))
        warnings = []
        for _ in range(2):
            if run == "whole":
                result = await made.generate_chat(MESSAGES, "m", ChatOptions(tools=TOOLS))
            else:
                last = [event async for event in made.stream_chat(MESSAGES, "m", ChatOptions(tools=TOOLS))][-1]
                assert isinstance(last, AnswerEnd)
                result = last.result
            assert result.content == "Hello"
            warnings.append(len(result.warnings))
        assert seen == ["parametersJsonSchema", "parameters", "parameters"]
        assert warnings == [1, 0]
        assert made.tool_format("m") == "gemini.parameters"


async def test_the_field_for_schemas_can_be_set() -> None:
    """Then there is no second try, or none is needed."""
    seen: list[str] = []
    with pytest.raises(ProviderRequestError):
        await generated(provider(old_service(seen, ANSWER), schema_field="parametersJsonSchema"), tools=TOOLS)
    await generated(provider(old_service(seen, ANSWER), schema_field="parameters"), tools=TOOLS)
    assert seen == ["parametersJsonSchema", "parameters"]


async def test_tools_and_format_are_combined_from_gemini_3_on() -> None:
    """What is not known is asked for one after the other: that works everywhere."""
    made = provider(always(200, ANSWER))

    assert [made.combines_tools_and_format(m) for m in ("gemini-2.5-pro", "gemini-3-pro-preview", "mine")] == [
        False,
        True,
        False,
    ]


def embedder(requests: list[dict[str, Any]], *, vector: Callable[[str], list[float]]) -> Handler:
    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1beta/models/e:batchEmbedContents"
        body = json.loads(request.content)
        requests.append(body)
        vectors = [{"values": vector(each["content"]["parts"][0]["text"])} for each in body["requests"]]
        return httpx.Response(200, json={"embeddings": vectors, "usageMetadata": {"promptTokenCount": len(vectors)}})

    return handler


async def test_texts_are_embedded_in_batches() -> None:
    """At most 100 in one request, in order; each names its model, its purpose and the length."""
    requests: list[dict[str, Any]] = []
    made = provider(embedder(requests, vector=lambda text: [float(text), 1.0]))
    texts = [str(number) for number in range(250)]

    found = await made.embed(texts, "e", purpose="query")

    assert [len(request["requests"]) for request in requests] == [100, 100, 50]
    assert requests[0]["requests"][0] == {
        "model": "models/e",
        "content": {"parts": [{"text": "0"}]},
        "taskType": "RETRIEVAL_QUERY",
    }
    assert found.vectors == tuple((float(text), 1.0) for text in texts)
    assert found.usage is not None
    assert found.usage.input_tokens == 250
    await made.embed(["1"], "e", purpose="document")
    assert requests[-1]["requests"][0]["taskType"] == "RETRIEVAL_DOCUMENT"
    assert (await made.embed([], "e")).vectors == ()


async def test_shortened_vectors_have_length_one() -> None:
    """The service normalises only whole ones; nothing but zeros stays."""
    requests: list[dict[str, Any]] = []
    made = provider(embedder(requests, vector=lambda text: [3.0, 4.0] if text == "a" else [0, 0]))

    found = await made.embed(["a", "b"], "e", dimensions=2)

    assert requests[0]["requests"][0]["outputDimensionality"] == 2
    assert math.hypot(*found.vectors[0]) == pytest.approx(1)
    assert found.vectors[1] == (0.0, 0.0)


async def test_models_that_take_no_batch_are_asked_text_by_text() -> None:
    """A refusal of batches, no such address (Vertex AI), one vector for all texts; remembered."""
    refusals: list[tuple[int, Any]] = [
        (400, {"error": {"message": "Only one content is supported; use embedContent"}}),
        (404, b"<html>no</html>"),
        (200, {"embeddings": [{"values": [9.0]}]}),
    ]
    for status, body in refusals:
        seen: list[str] = []

        def handler(
            request: httpx.Request, status: int = status, body: Any = body, seen: list[str] = seen
        ) -> httpx.Response:
            seen.append(request.url.path.rpartition(":")[2])
            if seen[-1] == "batchEmbedContents":
                return httpx.Response(status, content=body if isinstance(body, bytes) else json.dumps(body).encode())
            text = json.loads(request.content)["content"]["parts"][0]["text"]
            return httpx.Response(
                200, json={"embedding": {"values": [float(text)]}, "usageMetadata": {"promptTokenCount": 2}}
            )

        made = provider(handler)
        found = await made.embed(["1", "2"], "e")
        assert found.vectors == ((1.0,), (2.0,))
        assert found.usage is not None
        assert found.usage.input_tokens == 4
        await made.embed(["3"], "e")
        assert seen == ["batchEmbedContents", "embedContent", "embedContent", "embedContent"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"embeddings": [{"values": [1.0]}, {"values": []}]},
        {"embeddings": [{"values": [1.0]}, {"values": ["x"]}]},
        {"embeddings": [{"values": [1.0]}, {"values": 5}]},
        {"embeddings": [{"values": [1.0]}, None]},
        {"embeddings": 5},
        {"embeddings": [{"values": [1.0]}, {"values": [1.0, 2.0]}]},
        {"embeddings": [{"values": [1.0]}] * 3},
        {"embeddings": []},
        b"<html>",
    ],
)
async def test_vectors_that_make_no_sense_are_an_error(body: Any) -> None:
    """Too many, too few, of different lengths, no numbers."""
    with pytest.raises(ProviderProtocolError):
        await provider(always(200, body)).embed(["a", "b"], "e")


async def test_embedding_has_errors_and_a_deadline_of_its_own() -> None:
    """Refusals have their class, single ones too; all requests together have the time that is given."""
    with pytest.raises(ProviderAuthError):
        await provider(always(403, {"error": {"message": "no"}})).embed(["a"], "e")
    with pytest.raises(ModelNotFoundError) as caught:
        await provider(always(404, {"error": {"message": "models/e is not found"}})).embed(["a"], "e")
    assert caught.value.model == "e"

    async def never(request: httpx.Request) -> httpx.Response:
        await asyncio.Event().wait()
        raise AssertionError("it never is set")

    with pytest.raises(ProviderTimeoutError):
        await provider(never).embed(["a"], "e", timeout_s=0.01)


async def test_models_are_listed_page_by_page() -> None:
    """Without models/ before the name; what a model can do as far as the service and the table know."""
    pages: dict[str | None, dict[str, Any]] = {
        None: {
            "models": [
                {
                    "name": "models/gemini-2.5-flash",
                    "displayName": "Flash",
                    "inputTokenLimit": 1048576,
                    "supportedGenerationMethods": ["generateContent", "countTokens"],
                    "thinking": True,
                },
                {"name": "models/gemini-embedding-001", "supportedGenerationMethods": ["embedContent"]},
                {"name": 3},
                "x",
            ],
            "nextPageToken": "a/b&c",
        },
        "a/b&c": {
            "models": [
                {"name": "models/gemini-3-pro-image-preview", "supportedGenerationMethods": ["generateContent"]},
                {"name": "models/brand-new", "supportedGenerationMethods": ["generateContent"]},
                {"name": "tunedModels/mine", "inputTokenLimit": "many"},
            ]
        },
    }

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1beta/models"
        assert request.url.params["pageSize"] == "1000"
        return httpx.Response(200, json=pages[request.url.params.get("pageToken")])

    assert list(await provider(handler).list_models()) == [
        ModelInfo(
            id="gemini-2.5-flash",
            name="Flash",
            capabilities=frozenset({"chat", "tools", "vision", "audio", "reasoning"}),
            context_length=1048576,
        ),
        ModelInfo(id="gemini-embedding-001", capabilities=frozenset({"embedding"})),
        ModelInfo(id="gemini-3-pro-image-preview", capabilities=frozenset({"chat", "vision", "audio"})),
        ModelInfo(id="brand-new"),
        ModelInfo(id="tunedModels/mine"),
    ]


async def test_lists_that_cannot_be_read_are_errors() -> None:
    """A refusal has its class; an endless list ends; an empty one is one."""
    with pytest.raises(ProviderProtocolError, match="list of models"):
        await provider(always(200, {"data": []})).list_models()
    with pytest.raises(ProviderProtocolError):
        await provider(always(200, b"<html>")).list_models()
    with pytest.raises(ProviderAuthError):
        await provider(always(403, {"error": {"message": KEY}})).list_models()
    endless = await provider(always(200, {"models": [{"name": "models/x"}], "nextPageToken": "t"})).list_models()
    assert len(endless) == 100
    assert await provider(always(200, {})).list_models() == []


async def test_a_provider_shows_no_key() -> None:
    """Neither does an error about a header."""
    with pytest.raises(ProviderError) as caught:
        provider(always(200, {}), extra_headers={"x": f"{KEY}\n"})
    assert KEY not in str(caught.value)
