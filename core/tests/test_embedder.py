"""The embedder of a document store, over a provider."""

import asyncio
import contextlib

import pytest
from flexchat.document_stores import MAX_QUERIES, StoreEmbedder
from flexchat.domain import Embeddings
from flexchat.errors import ProviderOverloadedError
from flexchat.llms.llm import LLM


class Provider:
    """Makes vectors of the texts' lengths; waits for go, and fails while it is told to."""

    name = "own"

    def __init__(self):
        self.asked = []
        self.go = asyncio.Event()
        self.go.set()
        self.fails = False

    async def embed(self, texts, model, *, purpose=None, dimensions=None, timeout_s=None):
        self.asked.append((texts, model, purpose))
        await self.go.wait()
        if self.fails:
            raise ProviderOverloadedError("busy")
        return Embeddings(vectors=tuple((float(len(text)), 1.0) for text in texts), model=model)


@pytest.fixture
async def provider():
    return Provider()


@pytest.fixture
def embedder(provider):
    return StoreEmbedder(LLM(name="vectors", provider=provider), "small")


async def test_its_name_says_what_vectors_can_be_compared(embedder):
    """Provider and model."""
    assert embedder.name == "own/small"


async def test_documents_are_embedded_as_they_come_each_time(embedder, provider):
    """In one request, in their order, with the purpose and the model."""
    for _ in range(2):
        assert await embedder.embed(["a", "abc"], purpose="document") == ((1.0, 1.0), (3.0, 1.0))

    assert provider.asked == [(["a", "abc"], "small", "document")] * 2


async def test_the_same_question_is_asked_once_also_side_by_side(embedder, provider):
    """One message asks several collections the same."""
    provider.go.clear()
    asked = [asyncio.create_task(embedder.embed(["why?"], purpose="query")) for _ in range(5)]
    await asyncio.sleep(0)
    provider.go.set()

    assert await asyncio.gather(*asked) == [[(4.0, 1.0)]] * 5
    assert await embedder.embed(["why?"], purpose="query") == [(4.0, 1.0)]
    assert provider.asked == [(["why?"], "small", "query")]


async def test_a_question_is_no_document(embedder, provider):
    """Some models make different vectors for the two."""
    await embedder.embed(["why?"], purpose="query")
    await embedder.embed(["why?"], purpose="document")

    assert [purpose for _, _, purpose in provider.asked] == ["query", "document"]


async def test_whoever_stops_waiting_does_not_stop_the_others(embedder, provider):
    """The request goes on while anybody may want it."""
    provider.go.clear()
    first, second = (asyncio.create_task(embedder.embed(["why?"], purpose="query")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await first
    provider.go.set()

    assert await second == [(4.0, 1.0)]
    assert len(provider.asked) == 1


async def test_what_nobody_waits_for_any_more_is_stopped_and_asked_anew(embedder, provider):
    """A request that hangs does not make the same question hang for ever."""
    provider.go.clear()
    running = asyncio.all_tasks()
    waiting = [asyncio.create_task(embedder.embed(["why?"], purpose="query")) for _ in range(2)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    assert [type(end) for end in await asyncio.gather(*waiting, return_exceptions=True)] == [
        asyncio.CancelledError,
        asyncio.CancelledError,
    ]
    provider.go.set()

    assert await embedder.embed(["why?"], purpose="query") == [(4.0, 1.0)]
    assert len(provider.asked) == 2
    assert asyncio.all_tasks() == running


async def test_a_failure_is_not_remembered(embedder, provider):
    """The next one asks again."""
    provider.fails = True
    with pytest.raises(ProviderOverloadedError):
        await embedder.embed(["why?"], purpose="query")
    provider.fails = False

    assert await embedder.embed(["why?"], purpose="query") == [(4.0, 1.0)]


async def test_only_so_many_questions_are_remembered(embedder, provider):
    """Those asked last; a question that is asked again counts as asked last."""
    for number in range(MAX_QUERIES):
        await embedder.embed([f"{number}"], purpose="query")
    await embedder.embed(["0"], purpose="query")
    await embedder.embed(["new"], purpose="query")
    provider.asked.clear()

    await embedder.embed(["0"], purpose="query")
    assert provider.asked == []
    await embedder.embed(["1"], purpose="query")
    assert len(provider.asked) == 1


@pytest.mark.parametrize(("text", "sent"), [("", "."), (" \n", "."), ("cut \ud83d", "cut \ufffd"), ("a\0b", "a\0b")])
async def test_what_services_refuse_is_never_sent(embedder, provider, text, sent):
    """An empty text, and half a character."""
    await embedder.embed([text], purpose="query")
    await embedder.embed([text], purpose="document")

    assert [texts for texts, _, _ in provider.asked] == [[sent]] * 2


def test_an_embedder_serves_one_event_loop_after_the_other():
    """What an earlier loop remembered cannot be awaited in the next."""
    provider = None

    async def ask():
        nonlocal provider
        provider = provider or Provider()
        provider.go = asyncio.Event()
        provider.go.set()
        return await embedder.embed(["why?"], purpose="query")

    class Later:
        name = "own"

        async def embed(self, *given, **rest):
            return await provider.embed(*given, **rest)

    embedder = StoreEmbedder(LLM(name="vectors", provider=Later()), "small")

    assert asyncio.run(ask()) == asyncio.run(ask())
