"""The wrapper as it is: its flaws, its errors, and what the original keeps in it."""

import asyncio
import json

import pytest
from flexchat.config.structure import structure_mapping
from flexchat.plugin.host import PluginHost
from flexchat.store import Collection, Document, DocumentStoreContext, RetrievalError, Source, UnknownCollectionError
from flexchat_chromadb import plugin
from flexchat_chromadb.config import Auth, Retry, WrapperConfig
from flexchat_chromadb.store import WrapperStore

SECRET = "s3cret-t0ken-12345"
AT_ONCE = Retry(delay=0)
PLANTS = [Document(id=f"d{i}", text=f"plant {i} {'leaf ' * i}", metadata={"n": i}) for i in range(4)]


@pytest.fixture
async def opened(server, place):
    """Open a store of this test's wrapper, with settings of its own."""
    stores = []

    def make(context=None, **settings):
        config = WrapperConfig(**{"url": server.url(place), "retry": AT_ONCE, **settings})
        stores.append(WrapperStore(config, context or DocumentStoreContext(name="old")))
        return stores[-1]

    yield make
    for store in stores:
        await store.aclose()


@pytest.fixture
def world(server, place):
    return server.world(place)


async def texts(store, question, collection="plants", **rest):
    hits = await store.query(question, collection=collection, **{"top_k": 10, **rest})
    return [d.text for d in hits.documents]


def test_an_entry_of_the_original_is_read_as_it_is():
    """Every key the original's wrapper provider reads; the core's own are taken out before."""
    entry = {
        "url": "http://localhost:5006",
        "collection": "kb",
        "timeout": 30000,
        "max_distance": 1.0,
        "default_threshold": 0.3,
        "auth": {"type": "api-key", "key": SECRET, "header": "X-Key"},
        "headers": {"X-Tenant": "a"},
        "retry": {"max_attempts": 3, "delay": 1000},
        "health_check_endpoint": "/health",
    }

    config, problems = structure_mapping(entry, WrapperConfig)

    assert not problems
    assert config.auth.header == "X-Key"
    assert SECRET not in repr(config)
    assert SECRET not in repr(config.auth)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({}, "url"),
        ({"url": "localhost:5006"}, "must start with http"),
        ({"url": "http://x", "timeout": 0}, "timeout must be more than 0"),
        ({"url": "http://x", "auth": {"type": "bearer"}}, "needs 'token'"),
        ({"url": "http://x", "auth": {"type": "digest"}}, "bearer"),
        ({"url": "http://x", "retry": {"max_attempts": 0}}, "max_attempts"),
        ({"url": "http://x", "health_check_endpoint": "health"}, "starts with /"),
        ({"url": "http://x", "max_distance": -1}, "max_distance must be 0 or more"),
    ],
)
def test_what_is_wrong_in_an_entry_is_told(entry, words):
    """At load, by the key's name."""
    _, problems = structure_mapping(entry, WrapperConfig)

    assert any(words in problem for problem in problems), problems


def test_the_plugin_registers_the_store():
    """Under the name the original's configs have."""
    assert PluginHost(strict=True).register(plugin, "chromadb").provides == ("document store chromadb-wrapper",)


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        (Auth(type="bearer", token=SECRET), "Authorization", f"Bearer {SECRET}"),
        (Auth(type="basic", username="u", password="p"), "Authorization", "Basic dTpw"),
        (Auth(type="api-key", key=SECRET), "X-Api-Key", SECRET),
        (Auth(type="api-key", key=SECRET, header="X-Mine"), "X-Mine", SECRET),
    ],
)
async def test_every_request_proves_who_asks(opened, world, auth, header, value):
    """In each of the three ways, with the headers of the entry beside it."""
    await opened(auth=auth, headers={"X-Tenant": "a"}).collections()

    sent = {name.lower(): text for name, text in world.asked[-1][3].items()}
    assert sent[header.lower()] == value
    assert sent["x-tenant"] == "a"


async def test_trouble_is_told_with_host_and_entry_and_never_the_token(opened, server, world, place):
    """A server that is away, one that refuses quoting the key, and one that is no wrapper."""
    auth = Auth(type="bearer", token=SECRET)
    with pytest.raises(RetrievalError, match=r"stores\.old: .*127\.0\.0\.1:9") as away:
        await opened(url="http://127.0.0.1:9", auth=auth).collections()
    world.failures = [401]
    with pytest.raises(RetrievalError, match=rf"127\.0\.0\.1:{server.port} refused with status 401") as refused:
        await opened(auth=auth).collections()
    with pytest.raises(RetrievalError, match="status 404"):
        await opened(url=server.url(f"{place}/not/a/wrapper"), auth=auth).collections()

    assert SECRET not in f"{away.value}{refused.value}"


async def test_what_may_help_is_asked_again_and_what_may_not_is_not(opened, world):
    """503 passes by itself; the wrapper says 500 of wrong requests too."""
    world.failures = [503, 503]
    assert await opened().collections() == []
    assert len(world.asked) == 3

    world.failures = [503] * 3
    with pytest.raises(RetrievalError, match="status 503"):
        await opened().collections()
    world.asked.clear()
    world.failures = [500]
    with pytest.raises(RetrievalError, match="this failure was ordered"):
        await opened().collections()
    assert len(world.asked) == 1


async def test_an_unwell_wrapper_says_200_and_is_not_believed(opened, world):
    """Its answer is a list of the report and the status it meant."""
    world.unhealthy = True

    with pytest.raises(RetrievalError, match="status 503: disk full"):
        await opened().check_health()
    with pytest.raises(RetrievalError, match="503"):
        await opened().add(PLANTS, collection="plants")
    assert world.collections == {}


async def test_what_the_original_keeps_of_a_collection_counts(opened, world):
    """Thresholds, as numbers or texts, its description, and the fields that hold title and source."""
    metadata = {
        "embedding_model": "hashing",
        "hnsw:space": "cosine",
        "match_threshold": "0.2",
        "partial_threshold": 0.7,
        "description": "House plants",
        "title_field": "headline",
        "source_field": "url",
        "display_name": "Plants",
    }
    store = opened()
    world.collections["plants"] = (metadata, {})
    body = {"documents": [{"id": "1", "text": "a fern", "metadata": {"headline": "Fern", "url": "u", "n": 1}}]}
    await store._api.ask("POST", "/collections/plants/documents", body)

    hits = await store.query("fern", collection="plants", top_k=3)
    (listed,) = await store.collections()

    assert (hits.match_threshold, hits.partial_threshold, hits.description) == (0.2, 0.7, "House plants")
    assert hits.documents == (
        Document(text="a fern", title="Fern", source="u", collection="plants", metadata={"n": 1}),
    )
    assert (listed.embedding, listed.documents, listed.metadata) == ("hashing", 1, {"display_name": "Plants"})


@pytest.mark.parametrize("value", [True, "near", [1], {"a": 1}, 5, -1, "nan", None])
async def test_a_threshold_that_is_none_is_left_to_the_config(opened, world, value):
    """Whatever somebody wrote there."""
    world.collections["plants"] = ({"embedding_model": "hashing", "match_threshold": value}, {})

    (listed,) = await opened().collections()

    assert listed.match_threshold is None


async def test_what_is_too_far_away_is_left_out(opened):
    """max_distance, 1.0 if the entry does not say."""
    await opened().add(PLANTS, collection="plants")

    near = await opened(max_distance=0.3).query("plant 0", collection="plants", top_k=10)

    assert len(await texts(opened(), "plant 0")) == 4
    assert 0 < len(near.documents) < 4
    assert all(distance <= 0.3 for distance in near.distances)


async def test_a_collection_of_the_entry_is_the_only_one(opened):
    """Searched and listed alone; one that is not there is told with those that are."""
    await opened().add(PLANTS, collection="plants")
    await opened().add([Document(text="plant eater")], collection="animals")
    pinned = opened(collection="animals")

    assert await texts(pinned, "plant", None) == ["plant eater"]
    assert [c.name for c in await pinned.collections()] == ["animals"]
    with pytest.raises(UnknownCollectionError, match=r"'plant' \(did you mean 'plants'\?\)"):
        await texts(opened(collection="plant"), "x", None)


async def test_a_filter_goes_to_the_wrapper_in_chromas_form(opened, world):
    """The original never sent it; several keys need an explicit $and."""
    store = opened()
    await store.add(PLANTS, collection="plants")

    assert await texts(store, "plant", where={"n": {"$gte": 2, "$lt": 3}}) == [PLANTS[2].text]
    assert [*world.asked[-1][2]["where"]] == ["$and"]


async def test_the_cross_encoder_orders_hits_and_their_texts_stay(opened, world):
    """Where the entry wants it and the wrapper has one; the original lost the texts."""
    await opened().add(PLANTS, collection="plants")
    plain = await texts(opened(), "plant 3 leaf leaf leaf")
    without = await texts(opened(rerank_on_server=True), "plant 3 leaf leaf leaf")
    world.cross_encoder = "shortest"
    reranked = await opened(rerank_on_server=True).query("plant 3 leaf leaf leaf", collection="plants", top_k=2)

    assert without == plain
    assert plain[0] == PLANTS[3].text
    assert [d.text for d in reranked.documents] == [PLANTS[0].text, PLANTS[1].text]
    assert reranked.distances[0] > reranked.distances[1]


async def test_a_reranker_of_the_config_orders_hits(opened):
    """rerank in the entry names one of a plugin."""

    class Longest:
        async def rerank(self, query, passages):
            return [len(passage) for passage in passages]

    store = opened(DocumentStoreContext(reranker=Longest()))
    await store.add(PLANTS, collection="plants")

    assert (await texts(store, "plant 0"))[0] == PLANTS[3].text


async def test_somebody_who_was_quicker_to_create_a_collection_is_no_trouble(opened, world):
    """The wrapper answers 500 for a name that is there."""
    first, second = opened(), opened()

    counts = await asyncio.gather(
        first.add(PLANTS[:2], collection="plants"), second.add(PLANTS[2:], collection="plants")
    )

    assert counts == [2, 2]
    assert len(world.collections["plants"][1]) == 4


async def test_what_the_wrapper_takes_not_leaves_the_old_documents(opened, world):
    """Replacing is deleting and adding; where the adding fails, what was deleted is put back."""
    store = opened()
    await store.add(PLANTS, collection="plants")
    post = world.asked[-1]
    changed = [Document(id="d0", text="changed"), Document(id="d9", text="")]

    with pytest.raises(RetrievalError, match="No documents provided"):
        await store.add(changed, collection="plants")

    assert post[1].endswith("/documents")
    assert sorted(await texts(store, "plant")) == sorted(d.text for d in PLANTS)


async def test_a_document_of_somebody_else_is_listed_and_deleted(opened, world):
    """What the original's interface uploaded has no marks of ours."""
    store = opened()
    await store.save_collection(Collection(name="plants"))
    body = {"documents": [{"id": "theirs", "text": "a fern", "metadata": {"k": "v"}}]}
    await store._api.ask("POST", "/collections/plants/documents", body)

    (found,) = await store.list(collection="plants")

    assert (found.id, found.title, found.metadata) == ("theirs", "Untitled", {"k": "v"})
    assert await store.sources(collection="plants") == []
    assert await store.delete(collection="plants", ids=["theirs"]) == 1


async def test_more_documents_than_a_page_are_read(opened):
    """The wrapper gives 1000 at most, and says as total how many it gave."""
    store = opened()
    await store.add([Document(id=f"{i:04}", text=f"t{i}") for i in range(1500)], collection="plants")

    assert len(await store.list(collection="plants", limit=5000)) == 1500
    assert (await store.list(collection="plants", limit=1, after="1400"))[0].id == "1401"


async def test_nested_metadata_become_json_text_and_null_is_left_out(opened):
    """As the original stores them: Chroma takes plain values only."""
    store = opened()
    metadata = {"list": [1, "ä"], "table": {"a": 1}, "null": None, "n": 1}
    await store.add([Document(id="a", text="a", metadata=metadata)], collection="plants")

    (found,) = await store.list(collection="plants")

    assert found.metadata == {"list": json.dumps([1, "ä"], ensure_ascii=False), "table": '{"a": 1}', "n": 1}
    with pytest.raises(RetrievalError, match="'n': 18446744073709551616 has more than 64 bits"):
        await store.add([Document(text="a", metadata={"n": 2**64})], collection="plants")


async def test_a_source_in_parts_whose_last_is_empty_is_complete(opened):
    """The mark goes to a document of an earlier part."""
    store = opened()
    part = [Document(text="one", source="s"), Document(text="two", source="s")]
    await store.add(part, collection="plants", source=Source(name="s", digest="1", complete=False))
    assert [s.complete for s in await store.sources(collection="plants")] == [False]

    await store.add([], collection="plants", source=Source(name="s", digest="1"))

    (source,) = await store.sources(collection="plants")
    assert (source.complete, source.documents) == (True, 2)


@pytest.mark.parametrize(
    "answer", [b"[]", b"null", b'"x"', b"{}", b'{"collections": 1}', b"\xff", b"<html>", b"[" * 50000]
)
async def test_an_answer_that_makes_no_sense_is_an_error_that_says_so(opened, answer):
    """Another server at that address."""

    async def serve(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(answer) + answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(RetrievalError, match="is url that of a wrapper"):
            await opened(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}").collections()
