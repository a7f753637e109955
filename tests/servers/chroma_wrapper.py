"""The original's RAG wrapper in small, on loopback: its documented endpoints, with their flaws, and no model.

Every first part of a path is a wrapper of its own: http://127.0.0.1:PORT/one and /two share nothing.
"""

import asyncio
import json
import threading
from contextlib import contextmanager

from aiohttp import web
from flexchat_testing import HashingEmbedder

ORDERED = {"$gt": "__gt__", "$gte": "__ge__", "$lt": "__lt__", "$lte": "__le__"}


class World:
    """One wrapper.

    Attributes:
        collections: Metadata and documents, by name; documents are {id: (text, metadata, vector)}.
        asked: Requests as (method, path, body, headers).
        failures: Statuses that the next requests are answered with instead.
        unhealthy, cross_encoder: What the health check says.
    """

    def __init__(self):
        self.collections = {}
        self.asked = []
        self.failures = []
        self.unhealthy = False
        self.cross_encoder = None


class Refused(Exception):
    """An answer other than 200."""

    def __init__(self, status, detail):
        super().__init__(detail)
        self.status, self.detail = status, detail


class ChromaWrapper:
    """All wrappers of one server."""

    def __init__(self):
        self.worlds = {}
        self.port = 0
        self._embedder = HashingEmbedder()

    def world(self, name):
        return self.worlds.setdefault(name, World())

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/{name}"

    async def handle(self, request):
        name, *path = request.path.strip("/").split("/")
        world = self.world(name)
        body = json.loads(await request.read() or "{}")
        world.asked.append((request.method, "/" + "/".join(path), body, dict(request.headers)))
        try:
            if world.failures:
                raise Refused(world.failures.pop(0), "this failure was ordered")
            answer = await self.answer(world, request, path, body)
        except Refused as refused:
            return web.json_response({"detail": refused.detail}, status=refused.status)
        return web.json_response(answer)

    async def answer(self, world, request, path, body):
        match request.method, *path:
            case "GET", "health":
                return self.health(world)
            case "GET", "collections":
                return {"collections": [self.described(world, name) for name in world.collections]}
            case "POST", "collections":
                return self.create(world, body)
            case "GET", "collections", name:
                self.known(world, name, 404)
                return self.described(world, name)
            case "PUT", "collections", name, "metadata":
                return self.describe(world, name, body, request.query.get("merge", "true") != "false")
            case "DELETE", "collections", name:
                self.known(world, name, 500)
                del world.collections[name]
                return {"deleted": name}
            case "POST", "collections", name, "documents":
                return await self.add(world, name, body)
            case "DELETE", "collections", name, "documents":
                documents = self.known(world, name, 500)[1]
                for id in body["ids"]:
                    documents.pop(id, None)
                return {"deleted": True, "count": len(body["ids"])}  # of what was asked for, there or not
            case "GET", "collections", name, "documents":
                return self.page(world, name, request.query)
            case "POST", "query":
                return await self.query(world, body)
            case "POST", "rerank":
                return self.rerank(world, body)
        raise Refused(404, "Not Found")

    def health(self, world):
        if world.unhealthy:
            return [{"status": "unhealthy", "error": "disk full"}, 503]  # meant as a status, sent as 200
        said = {
            "status": "healthy",
            "collections_count": len(world.collections),
            "embedding_models": [{"id": "hashing", "name": "hashing", "status": "loaded", "dimensions": 256}],
        }
        return {**said, "cross_encoder": world.cross_encoder} if world.cross_encoder else said

    def known(self, world, name, status):
        if name not in world.collections:
            raise Refused(status, f"Collection {name} does not exist")
        return world.collections[name]

    def described(self, world, name):
        metadata, documents = world.collections[name]
        return {"name": name, "count": len(documents), "metadata": metadata}

    def create(self, world, body):
        if body.get("embedding_model") != "hashing":
            raise Refused(400, "Embedding model is not loaded. Loaded: hashing")
        if body["name"] in world.collections:
            raise Refused(500, "400: Collection already exists")
        metadata = {**body.get("metadata", {}), "embedding_model": "hashing", "hnsw:space": "cosine"}
        world.collections[body["name"]] = (metadata, {})
        return {"created": body["name"]}

    def describe(self, world, name, body, merge):
        old, documents = self.known(world, name, 500)
        metadata = {**old, **body["metadata"]} if merge else body["metadata"]
        if "hnsw:space" in metadata:
            raise Refused(500, "Changing the distance function of a collection once it is created is not supported")
        world.collections[name] = (metadata, documents)
        return {"updated": name}

    async def add(self, world, name, body):
        metadata, documents = self.known(world, name, 500)
        if not body.get("documents") or not all(d.get("text") for d in body["documents"]):
            raise Refused(400, "No documents provided")
        if "embedding_model" not in metadata:
            raise Refused(400, "Collection has no embedding model in its metadata")
        for document in body["documents"]:
            if not document.get("metadata"):
                raise Refused(500, "Expected metadata to be a non-empty dict")
            for value in document["metadata"].values():
                if not isinstance(value, str | int | float):
                    raise Refused(500, f"Expected metadata value to be a str, int, float or bool, got {value}")
        vectors = await self._embedder.embed([d["text"] for d in body["documents"]], purpose="document")
        for document, vector in zip(body["documents"], vectors, strict=True):
            documents.setdefault(document["id"], (document["text"], document["metadata"], vector))  # known: ignored
        return {"added": True, "count": len(vectors), "ids": [d["id"] for d in body["documents"]]}

    def page(self, world, name, asked):
        _, documents = self.known(world, name, 404)
        limit, offset = int(asked.get("limit", 100)), int(asked.get("offset", 0))
        if limit > 1000:
            raise Refused(422, "limit must be at most 1000")
        where = json.loads(asked["where"]) if "where" in asked else None
        fit = [(id, d) for id, d in documents.items() if where is None or passes(where, d[1])]
        page = [{"id": id, "text": text, "metadata": said} for id, (text, said, _) in fit[offset : offset + limit]]
        return {"documents": page, "count": len(page), "total": len(page)}  # total is the page's too

    async def query(self, world, body):
        metadata, documents = self.known(world, body["collection"], 404)
        if not body.get("query"):
            raise Refused(400, "Query is required")
        (wanted,) = await self._embedder.embed([body["query"]], purpose="query")
        where = body.get("where")
        found = [
            {"text": text, "distance": 1 - sum(a * b for a, b in zip(wanted, vector, strict=True)), "metadata": said}
            for text, said, vector in documents.values()
            if where is None or passes(where, said)
        ]
        found.sort(key=lambda result: result["distance"])
        return {"results": found[: body.get("top_k", 3)], "collection_metadata": metadata}

    def rerank(self, world, body):
        """The shortest text is the best."""
        if not world.cross_encoder:
            raise Refused(503, "No cross-encoder loaded")
        order = sorted(enumerate(body["documents"]), key=lambda pair: len(pair[1]["text"]))
        ranked = [{"id": d["id"], "score": 1 / len(d["text"]), "original_rank": rank} for rank, d in order]
        return {"reranked": ranked[: body["top_k"]]}


def passes(where, metadata):
    """What Chroma does with a filter: kinds of values are strict, one condition a table, no order of texts."""
    if len(where) != 1:
        raise Refused(500, f"Expected where to have exactly one operator, got {where}")
    ((field, said),) = where.items()
    if field in ("$and", "$or"):
        if len(said) < 2:
            raise Refused(500, f"Expected where value for {field} to be a list with at least two conditions")
        holding = [passes(part, metadata) for part in said]
        return all(holding) if field == "$and" else any(holding)
    said = said if isinstance(said, dict) else {"$eq": said}
    ((operator, value),) = said.items()
    found = metadata.get(field)
    same = type(found) is type(value)
    if operator == "$eq":
        return same and found == value
    if operator == "$ne":
        return not (same and found == value)
    if operator in ORDERED and type(value) in (int, float):
        return same and getattr(found, ORDERED[operator])(value)
    raise Refused(500, f"Expected operand of {operator} to be a number, got {value!r}")


@contextmanager
def running():
    """Run a server in a thread of its own, so that every event loop can ask it."""
    server, loop = ChromaWrapper(), asyncio.new_event_loop()
    ready = threading.Event()

    async def start():
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{tail:.*}", server.handle)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.port = runner.addresses[0][1]
        ready.set()
        return runner

    def run():
        runner = loop.run_until_complete(start())
        loop.run_forever()
        loop.run_until_complete(runner.cleanup())
        loop.close()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not ready.wait(10):
        raise RuntimeError("the server did not start")
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
