"""OpenAI's embeddings: its official client, whose default is Base64."""

import openai
import pytest
from flexchat import Embeddings, Usage

VECTORS = ((0.5, -1.25), (3.0, 0.0))


@pytest.fixture
async def embedding(told, client_of):
    """Make an official client of an app whose model makes embeddings; return it, and what is asked of the model."""
    asked = []

    async def embed(texts, model, *, purpose=None, dimensions=None, timeout_s=None):
        asked.append((tuple(texts), model, dimensions))
        return Embeddings(vectors=VECTORS[: len(texts)], model=model, usage=Usage(input_tokens=7))

    told.says("x").embed = embed
    told.tables["embedding"] = {"llm": "robot", "model": "e1"}
    client = openai.AsyncOpenAI(
        api_key="x", base_url="http://127.0.0.1/v1", http_client=client_of(told.app()), max_retries=0
    )
    yield client, asked
    await client.close()


@pytest.mark.parametrize("form", [openai.omit, "float", "base64"])
async def test_texts_become_vectors(embedding, form):
    """In their order, with the tokens; numbers or Base64."""
    client, asked = embedding
    found = await client.embeddings.create(model="flexchat", input=["a", "b"], encoding_format=form, dimensions=2)
    assert asked == [(("a", "b"), "e1", 2)]
    if form != "base64":  # the client decodes only what it has chosen itself
        assert [tuple(each.embedding) for each in found.data] == [*VECTORS]
    else:
        assert found.data[0].embedding == "AAAAPwAAoL8="
    assert ([each.index for each in found.data], found.usage.total_tokens) == ([0, 1], 7)


async def test_a_model_of_an_llm_may_be_named(embedding):
    """A name alone is a model of the only LLM."""
    client, asked = embedding
    await client.embeddings.create(model="robot/e2", input="a")
    await client.embeddings.create(model="e3", input="a")
    assert asked == [(("a",), "e2", None), (("a",), "e3", None)]


@pytest.mark.parametrize(
    ("given", "problem"),
    [([1, 2], "arrays of tokens"), ([[1, 2]], "arrays of tokens"), ([], "input"), ("", "input"), (["a", " "], "input")],
)
async def test_what_is_no_text_is_refused(embedding, given, problem):
    """400."""
    client, asked = embedding
    with pytest.raises(openai.BadRequestError, match=problem):
        await client.embeddings.create(model="flexchat", input=given)
    assert asked == []


async def test_a_service_without_embeddings_is_named(told, client_of):
    """400, not the 502 of a service that is broken."""
    told.says("x")
    told.tables["embedding"] = {"llm": "robot", "model": "e1"}
    response = await client_of(told.app()).post("/v1/embeddings", json={"model": "flexchat", "input": "a"})
    assert (response.status_code, response.json()["error"]["param"]) == (400, "model")
    assert "cannot make embeddings" in response.json()["error"]["message"]
