"""Texts become vectors in as many requests as it takes, in their order."""

import asyncio
import base64
import json
import struct
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from flexchat_openai.config import OpenAIConfig
from flexchat_openai.provider import OpenAIProvider
from flexchat_sdk import ModelNotFoundError, ProviderError, ProviderProtocolError, ProviderTimeoutError
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples


def provider(handler: Callable[[httpx.Request], httpx.Response]) -> OpenAIProvider:
    return OpenAIProvider(OpenAIConfig(base_url="https://h.example/v1"), transport=httpx.MockTransport(handler))


def answer(body: Any, status: int = 200) -> OpenAIProvider:
    return provider(lambda request: httpx.Response(status, json=body))


def item(index: int | None, *numbers: float) -> dict[str, Any]:
    return {"object": "embedding", "embedding": list(numbers), **({} if index is None else {"index": index})}


async def test_one_request_says_what_is_wanted() -> None:
    """Model, texts, floats, and a length where one is wanted; model and usage come back."""
    seen = []

    def handler(request: httpx.Request) -> httpx.Response:
        assert request.url.path == "/v1/embeddings"
        seen.append(json.loads(request.content))
        usage = {"prompt_tokens": 5, "total_tokens": 5}
        return httpx.Response(200, json={"data": [item(1, 3, 4.5), item(0, 1, 2)], "model": "e-1", "usage": usage})

    found = await provider(handler).embed(["a", "b"], "e", dimensions=2, purpose="query")

    assert seen == [{"model": "e", "input": ["a", "b"], "encoding_format": "float", "dimensions": 2}]
    assert [list(vector) for vector in found.vectors] == [[1, 2], [3, 4.5]]
    assert (found.model, found.usage and found.usage.input_tokens, found.warnings) == ("e-1", 5, ())


async def test_nothing_is_asked_for_no_texts() -> None:
    """No texts, no vectors, no request."""
    assert (await answer({}, 500).embed([], "e")).vectors == ()


async def test_many_texts_go_in_several_requests() -> None:
    """At most 2048 at once, and no more than an answer of 16 MiB can hold; order and usage are kept."""
    sizes = []

    def handler(request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["input"]
        sizes.append(len(texts))
        data = [item(n, float(text), 0.0) for n, text in enumerate(texts)]
        return httpx.Response(200, json={"data": data, "usage": {"prompt_tokens": len(texts)}})

    found = await provider(handler).embed([str(n) for n in range(5000)], "e")

    assert [vector[0] for vector in found.vectors] == list(range(5000))
    assert found.usage is not None
    assert found.usage.input_tokens == 5000
    assert max(sizes) == 2048
    assert len(sizes) <= 4


async def test_long_texts_go_in_smaller_requests() -> None:
    """No request has more than 300,000 tokens, by an estimate that is rather too high."""
    sizes = []

    def handler(request: httpx.Request) -> httpx.Response:
        texts = json.loads(request.content)["input"]
        sizes.append(sum(map(len, texts)))
        return httpx.Response(200, json={"data": [item(n, 1.0) for n in range(len(texts))]})

    found = await provider(handler).embed(["x" * 400_000] * 4 + ["字" * 8000] * 40, "e", dimensions=1)

    assert len(found.vectors) == 44
    assert max(sizes) <= 800_000


@pytest.mark.parametrize(
    "data",
    [
        [item(None, 1, 2), item(None, 3, 4)],
        [{"index": "1", "embedding": [3, 4]}, {"index": 0.0, "embedding": [1, 2]}],
        [item(0, 1, 2), item(0, 3, 4)],
        [
            {"index": 1, "embedding": base64.b64encode(struct.pack("<2f", 3, 4)).decode()},
            {"index": 0, "embedding": base64.b64encode(struct.pack("<2f", 1, 2)).decode()},
        ],
    ],
)
async def test_servers_that_deviate_are_understood(data: list[Any]) -> None:
    """Without an index, with the same one, or in base64 though floats were asked for."""
    found = await answer({"data": data}).embed(["a", "b"], "e")

    assert [list(vector) for vector in found.vectors] == [[1, 2], [3, 4]]
    assert found.usage is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data": None},
        {"data": []},
        {"data": [item(0, 1.0)]},
        {"data": [item(0, 1.0), item(1, 1.0, 2.0)]},
        {"data": [item(0, 1.0), {"index": 1}]},
        {"data": [item(0, 1.0), {"index": "first", "embedding": [1.0]}]},
        {"data": [item(0, 1.0), {"index": None, "embedding": [1.0]}]},
        {"data": [item(0, 1.0), None]},
        {"data": [item(0, 1.0), item(1, 2.0), None]},
        {"data": [item(0, 1.0), {"index": 1, "embedding": ["x"]}]},
        {"data": [item(0, 1.0), {"index": 1, "embedding": "!!"}]},
        {"data": [item(0, 1.0), {"index": 1, "embedding": [True]}]},
        {"data": [item(0, 1.0), {"index": 1, "embedding": []}]},
        {"data": [item(0, 1.0), {"index": 1, "embedding": [1e308, 1e308]}]},
        [],
        5,
    ],
)
async def test_what_holds_no_vectors_is_an_error(body: Any) -> None:
    """Too few, of different lengths, or no numbers: never a vector in the wrong place."""
    with pytest.raises(ProviderProtocolError) as caught:
        await answer(body).embed(["a", "b"], "e")
    assert caught.value.model == "e"


async def test_refusals_are_errors_as_elsewhere() -> None:
    """By status and body; JSON that is none, and time that has run out."""
    with pytest.raises(ModelNotFoundError):
        await answer({"error": {"code": "model_not_found", "message": "no"}}, 404).embed(["a"], "e")
    with pytest.raises(ProviderProtocolError, match="not JSON"):
        await provider(lambda r: httpx.Response(200, content=b"{")).embed(["a"], "e")

    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(60)
        raise AssertionError("the deadline has passed")

    made = OpenAIProvider(OpenAIConfig(base_url="https://h.example"), transport=httpx.MockTransport(slow))
    with pytest.raises(ProviderTimeoutError):
        await made.embed(["a"], "e", timeout_s=0.02)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "index", "embedding", "usage", "model"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@settings(max_examples=examples(40))
@given(values)
async def test_any_json_gives_vectors_or_an_error_of_ours(body: Any) -> None:
    """Law: no shape of JSON raises anything but a ProviderError."""
    content = json.dumps(body).encode()

    try:
        found = await provider(lambda r: httpx.Response(200, content=content)).embed(["a"], "e")
    except ProviderError:
        return
    assert len(found.vectors) == 1
