"""A server that is away, refuses, or is restarted: a sentence for a person, and then on as before."""

import asyncio

import pytest
from flexchat import UserMessage
from flexchat.store import ConversationTurn, Document, DocumentStoreContext, RetrievalError
from flexchat_pgvector.config import PgvectorConfig
from flexchat_pgvector.document_store import PgvectorStore
from flexchat_postgresql.config import PostgresqlConfig
from flexchat_postgresql.conversation_store import PostgresqlConversations

pytestmark = pytest.mark.slow

SECRET = "hunter2-swordfish"


def store_at(dsn, schema="flexchat", **rest):
    config = PgvectorConfig(dsn=dsn, schema=schema, connect_timeout_s=5, **rest)
    return PgvectorStore(config, DocumentStoreContext(name="docs"))


async def test_no_server():
    """Where nobody listens, the text says who wanted what, and where; nothing secret."""
    with pytest.raises(RetrievalError) as refused:
        await store_at(f"postgresql://me:{SECRET}@127.0.0.1:9/db").collections()
    assert str(refused.value).startswith("docs: PostgreSQL at me@127.0.0.1:9/db cannot be reached")
    assert SECRET not in str(refused.value) + str(refused.value.__cause__) + repr(refused.value)


async def test_an_unknown_language(server, schema):
    """The text says where to look up those there are."""
    store = store_at(server.dsn(), schema, language="klingon")
    with pytest.raises(RetrievalError, match="pg_ts_config"):
        await store.add([Document(text="x")], collection="c")
    await store.aclose()


async def test_both_stores_share_a_schema(server, schema):
    """Each has its tables and its version."""
    documents = store_at(server.dsn(), schema)
    conversations = PostgresqlConversations(PostgresqlConfig(dsn=server.dsn(), schema=schema))
    turn = ConversationTurn(id="1", messages=(UserMessage(content="x"),))
    added = documents.add([Document(text="water")], collection="c")
    await asyncio.gather(conversations.append("c", turn, tenant="t"), added)
    assert (await conversations.get("c", tenant="t")).turns == 1
    await documents.aclose()
    await conversations.aclose()


async def test_a_hostile_schema_is_a_name(server):
    """It is quoted wherever it is used."""
    schema = 'x"; DROP TABLE y; -- {z}'
    store = store_at(server.dsn(), schema)
    await store.add([Document(id="a", text="water")], collection="c")
    assert (await store.query("water", collection=None, top_k=1)).documents[0].id == "a"
    await store.aclose()


async def test_a_restarted_server_is_asked_again(own_server):
    """Connections that broke meanwhile are replaced without an error; while it is down, the error says so."""
    store = store_at(own_server.dsn())
    await store.add([Document(id="a", text="water")], collection="c")
    await asyncio.gather(*(store.collections() for _ in range(5)))
    own_server.kill()
    with pytest.raises(RetrievalError, match="cannot be reached"):
        await store.collections()
    own_server.start()
    await store.add([Document(id="b", text="fire")], collection="c")
    assert [d.id for d in await store.list(collection="c")] == ["a", "b"]
    await asyncio.to_thread(own_server.stop)
    await asyncio.to_thread(own_server.start)
    assert len(await asyncio.gather(*(store.collections() for _ in range(5)))) == 5
    await store.aclose()


async def test_cancelled_work_gives_its_connection_back(server, schema):
    """After a storm of it, as many connections as before do their work, and no more are open than may be."""
    store = store_at(server.dsn(), schema, pool_size=3)
    await store.add([Document(id="a", text="water")], collection="c")
    for turns in range(60):
        task = asyncio.create_task(store.query("water", collection="c", top_k=1))
        for _ in range(turns % 12):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    found = await asyncio.gather(*(store.query("water", collection="c", top_k=1) for _ in range(20)))
    assert all(hits.documents[0].id == "a" for hits in found)
    assert len(store._connections._idle) <= 3
    await store.aclose()


def test_a_store_is_used_from_one_event_loop_after_the_other(server, schema):
    """asyncio.run twice with one store: the second starts anew."""
    store = store_at(server.dsn(), schema)
    asyncio.run(store.add([Document(id="a", text="water")], collection="c"))

    async def again():
        hits = await store.query("water", collection="c", top_k=1)
        await store.aclose()
        return hits

    assert asyncio.run(again()).documents[0].id == "a"


def test_the_secret_is_not_shown():
    """The config does not show its dsn."""
    assert SECRET not in repr(PgvectorConfig(dsn=f"postgresql://me:{SECRET}@h/db"))
