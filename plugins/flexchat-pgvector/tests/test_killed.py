"""kill -9 of the whole server while documents are added: nothing that was acknowledged is lost."""

import asyncio
import os
import random

import pytest
from flexchat.store import Document, DocumentStoreContext, RetrievalError
from flexchat_pgvector.config import PgvectorConfig
from flexchat_pgvector.document_store import PgvectorStore
from flexchat_testing import HashingEmbedder

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("FLEXCHAT_KILLS", "2"))


async def test_what_was_acknowledged_is_there_after_the_server_was_killed(own_server):
    """Each batch is there whole or not at all, with its vectors, and the count is right. FLEXCHAT_KILLS kills more."""
    acknowledged, begun, pause = set(), 0, random.Random(1)
    for _ in range(KILLS):
        store = PgvectorStore(PgvectorConfig(dsn=own_server.dsn()), DocumentStoreContext(embedder=HashingEmbedder()))
        await store.collections()

        async def fill(store=store):
            nonlocal begun
            while True:
                batch = begun
                begun += 1
                documents = [Document(id=f"{batch}-{n}", text=f"text {batch} {n}") for n in range(10)]
                await store.add(documents, collection="c")
                acknowledged.add(batch)

        filling = [asyncio.create_task(fill()) for _ in range(2)]
        await asyncio.sleep(pause.uniform(0.05, 0.4))  # the moment of the kill, not a wait for anything
        await asyncio.to_thread(own_server.kill)
        assert all(isinstance(e, RetrievalError) for e in await asyncio.gather(*filling, return_exceptions=True))
        await store.aclose()
        await asyncio.to_thread(own_server.start)
    store = PgvectorStore(PgvectorConfig(dsn=own_server.dsn()), DocumentStoreContext(embedder=HashingEmbedder()))
    kept = [d.id for d in await store.list(collection="c", limit=10**6)]
    batches = {int(id.split("-")[0]) for id in kept}
    assert acknowledged
    assert acknowledged <= batches
    assert len(kept) == 10 * len(batches)
    assert (await store.collections())[0].documents == len(kept)
    hits = await store.query(f"text {max(acknowledged)} 0", collection="c", top_k=3)
    assert hits.distances[0] < 0.5
    await store.aclose()
