"""The document store "chromadb-wrapper".

The wrapper cannot replace a document, delete by source or filter, or store sources. This module composes these from
several requests: writes of one store are serialized, and continue to their end if the caller is cancelled.
"""

from __future__ import annotations

import asyncio
import datetime
import functools
import itertools
import json
import math
import urllib.parse
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import attrs
from flexchat.store import (
    Collection,
    Document,
    DocumentStoreContext,
    RetrievalError,
    RetrievalHits,
    Source,
    UnknownCollectionError,
    Where,
    holds,
    read_filter,
    reranked,
    storable,
)

from . import documents as chroma
from .api import WrapperApi, WrapperError, quoted
from .config import WrapperConfig
from .documents import Stored, checked_name, chroma_filter, read_collection

P = ParamSpec("P")
T = TypeVar("T")
Hits = list[tuple[float, Document]]

_PAGE = 1000
"""Documents of one answer; the wrapper gives no more."""
_IDS_PER_QUESTION = 40
"""Ids looked up at once: they travel in the address."""
_RERANKED = 30
"""Hits the cross-encoder reads."""


def serialized(
    method: Callable[Concatenate[WrapperStore, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[WrapperStore, P], Coroutine[Any, Any, T]]:
    """Run one call of a store at a time, and to its end even if its caller is cancelled."""

    @functools.wraps(method)
    async def run(store: WrapperStore, /, *args: P.args, **keywords: P.kwargs) -> T:
        async def run_alone() -> T:
            async with store.lock:
                return await method(store, *args, **keywords)

        task = asyncio.ensure_future(run_alone())
        store.writes.add(task)
        task.add_done_callback(store.writes.discard)
        # Mark the exception as retrieved: a cancelled caller no longer awaits the task.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    return run


class WrapperStore:
    """The document store of one ``stores`` entry."""

    def __init__(self, config: WrapperConfig, context: DocumentStoreContext | None = None) -> None:
        context = context or DocumentStoreContext()
        self._config = config
        self._name = context.name
        self._reranker = context.reranker
        self._api = WrapperApi(config, context.name)
        self.lock = asyncio.Lock()
        self.writes: set[asyncio.Task[Any]] = set()
        self._can_rerank: bool | None = None

    async def query(
        self, text: str, *, collection: str | None, top_k: int, where: Where | None = None
    ) -> RetrievalHits:
        """Return the nearest documents within max_distance; see Retriever."""
        condition = read_filter(where)
        name = collection if collection is not None else self._config.collection
        searched = [await self._collection(name)] if name is not None else await self.collections()
        depth = max(top_k, _RERANKED) if self._reranks else top_k
        searches = (self._nearest(text, each, depth, chroma_filter(condition)) for each in searched)
        hits = [hit for hits in await asyncio.gather(*searches) for hit in hits]
        near = [(d, document) for d, document in hits if d <= self._config.max_distance]
        fit = [(d, document) for d, document in near if holds(condition, document.metadata)]
        best = (await self._reranked(text, sorted(fit, key=lambda hit: hit[0])))[: max(0, top_k)]
        about = searched[0] if name is not None else Collection(name="")
        return RetrievalHits(
            documents=tuple(document for _, document in best),
            distances=tuple(distance for distance, _ in best),
            description=about.description,
            match_threshold=about.match_threshold,
            partial_threshold=about.partial_threshold,
        )

    async def collections(self) -> Sequence[Collection]:
        """Return all collections, or only the configured one; see Retriever."""
        if self._config.collection is not None:
            return [await self._collection(self._config.collection)]
        answer = await self._api.ask("GET", "/collections")
        listed = [read_collection(each) for each in _tables(answer, "collections")]
        return sorted((each for each in listed if each.name), key=lambda each: each.name)

    @serialized
    async def add(self, documents: Sequence[Document], *, collection: str, source: Source | None = None) -> int:
        """Store documents; see DocumentStore. Changed ones are deleted first: the wrapper ignores existing ids."""
        name = checked_name(collection)
        try:
            about, is_new = await self._collection(name), False
        except UnknownCollectionError:
            about, is_new = Collection(name=name), True
        new = {d.id: d for d in (chroma.prepared(document, about) for document in documents)}
        if is_new:
            about = await self._create(about)
        old = {each.document.id: each for each in await self._own_documents([*new], about)} if not is_new else {}
        marks = Stored(document=Document(text=""))
        if source is not None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds") if source.complete else None
            marks = attrs.evolve(marks, digest=storable(source.digest), added_at=now)
        is_finished = source is not None and source.complete
        ready = [attrs.evolve(marks, document=document) for document in new.values()]
        if source is not None and is_finished and not ready:
            stored = await self._all(about, {about.source_field: storable(source.name)})
            last = [each for each in stored if each.digest == marks.digest][:1]
            ready = [attrs.evolve(each, added_at=marks.added_at) for each in last]
            old = {each.document.id: each for each in ready}
        moved = [each for each in ready if is_finished or _differs(each, old.get(each.document.id))]
        await self._replace(moved, old, about)
        if source is not None and is_finished:
            stored = await self._all(about, {about.source_field: storable(source.name)})
            await self._remove([each.document.id or "" for each in stored if each.digest != marks.digest], about)
        return sum(id not in old or old[id].document != document for id, document in new.items())

    @serialized
    async def delete(
        self,
        *,
        collection: str,
        ids: Sequence[str] | None = None,
        sources: Sequence[str] | None = None,
        where: Where | None = None,
    ) -> int:
        """Delete documents; see DocumentStore. Reads the matching documents first, to delete them by id."""
        condition, id_set = read_filter(where), None if ids is None else {storable(id) for id in ids}
        source_names = None if sources is None else {storable(source) for source in sources}
        about = await self._collection(collection)
        matching = [
            each.document.id or ""
            for each in await self._all(about, where)
            if holds(condition, each.document.metadata)
            and (id_set is None or each.document.id in id_set)
            and (source_names is None or each.document.source in source_names)
        ]
        await self._remove(matching, about)
        return len(matching)

    async def list(
        self, *, collection: str, where: Where | None = None, limit: int = 100, after: str | None = None
    ) -> Sequence[Document]:
        """Return documents ordered by id; see DocumentStore. Each page reads all matching documents."""
        condition, about = read_filter(where), await self._collection(collection)
        matching = [each.document for each in await self._all(about, where)]
        matching = [d for d in matching if holds(condition, d.metadata) and (after is None or (d.id or "") > after)]
        return sorted(matching, key=lambda document: document.id or "")[:limit]

    async def sources(self, *, collection: str, limit: int = 1000, after: str | None = None) -> Sequence[Source]:
        """Return the sources passed to add; see DocumentStore. Reads the whole collection."""
        by_name: dict[str, list[Stored]] = {}
        for each in await self._all(await self._collection(collection), None):
            if each.digest is not None and each.document.source is not None:
                by_name.setdefault(each.document.source, []).append(each)
        names = [name for name in sorted(by_name) if after is None or name > after]
        return [_source(name, by_name[name]) for name in names[:limit]]

    @serialized
    async def save_collection(self, collection: Collection) -> None:
        """Create a collection, or replace its description; see DocumentStore."""
        checked_name(collection.name)
        try:
            old = await self._collection(collection.name)
        except UnknownCollectionError:
            await self._create(collection)
            return
        metadata = chroma.collection_metadata(collection)
        if old.embedding is not None:
            metadata["embedding_model"] = old.embedding
        # Replace rather than merge: a merge would resend the distance metric, which Chroma rejects.
        path = f"/collections/{quoted(collection.name)}/metadata?merge=false"
        await self._api.ask("PUT", path, {"metadata": metadata})

    @serialized
    async def delete_collection(self, name: str) -> None:
        """Delete a collection; see DocumentStore."""
        await self._collection(name)
        await self._api.ask("DELETE", f"/collections/{quoted(name)}")

    async def check_health(self) -> Mapping[str, Any]:
        """Return the wrapper's health report.

        Raises:
            RetrievalError: The wrapper is unreachable or unhealthy.
        """
        return dict(await self._api.ask("GET", self._config.health_check_endpoint))

    async def aclose(self) -> None:
        """Wait for pending writes, then close all connections."""
        await asyncio.gather(*self.writes, return_exceptions=True)
        await self._api.aclose()

    async def _replace(self, new: Sequence[Stored], old: Mapping[str | None, Stored], about: Collection) -> None:
        """Replace documents; if the wrapper rejects the new ones, restore the old ones."""
        replaced = [old[each.document.id] for each in new if each.document.id in old]
        await self._remove([each.document.id or "" for each in replaced], about)
        done: list[str] = []
        try:
            for part in _parts(new, _PAGE):
                done += [each.document.id or "" for each in part]
                await self._post(part, about)
        except RetrievalError:
            await self._remove(done, about)
            await self._post(replaced, about)
            raise

    async def _post(self, stored: Sequence[Stored], about: Collection) -> None:
        if stored:
            body = {"documents": [chroma.wire_document(each, about) for each in stored]}
            await self._api.ask("POST", f"/collections/{quoted(about.name)}/documents", body, patience=2)

    async def _remove(self, ids: Sequence[str], about: Collection) -> None:
        for part in _parts(ids, _PAGE):
            path = f"/collections/{quoted(about.name)}/documents"
            await self._api.ask("DELETE", path, {"ids": [*part]}, patience=2)

    async def _own_documents(self, ids: Sequence[str | None], about: Collection) -> Sequence[Stored]:
        """Return the stored documents among *ids* that FlexChat added."""
        documents: list[Stored] = []
        for part in _parts(ids, _IDS_PER_QUESTION):
            where = {"$or": [{chroma.ID_FIELD: id} for id in part]} if part[1:] else {chroma.ID_FIELD: part[0]}
            documents += await self._pages(about, where)
        return documents

    async def _all(self, about: Collection, where: Where | None) -> Sequence[Stored]:
        return await self._pages(about, chroma_filter(read_filter(where)).where)

    async def _pages(self, about: Collection, where: Mapping[str, Any] | None) -> Sequence[Stored]:
        documents: list[Stored] = []
        for offset in itertools.count(0, _PAGE):
            parameters = {"limit": str(_PAGE), "offset": str(offset), **({"where": json.dumps(where)} if where else {})}
            path = f"/collections/{quoted(about.name)}/documents?{urllib.parse.urlencode(parameters)}"
            page = _tables(await self._api.ask("GET", path), "documents")
            documents += [chroma.read_stored(each, about) for each in page]
            if len(page) < _PAGE:
                break
        return documents

    async def _collection(self, name: str) -> Collection:
        """Return the collection *name*.

        Raises:
            UnknownCollectionError: It does not exist.
        """
        try:
            if not name or len(name) > 512:
                raise WrapperError("a name has 3 to 512 characters", 404)
            return read_collection({"name": name, **await self._api.ask("GET", f"/collections/{quoted(name)}")})
        except WrapperError as error:
            if error.status != 404:
                raise
        except UnicodeEncodeError:
            pass  # An unpaired surrogate: no name contains one.
        tables = _tables(await self._api.ask("GET", "/collections"), "collections")
        raise UnknownCollectionError(name[:200], [str(each.get("name")) for each in tables])

    async def _create(self, collection: Collection) -> Collection:
        model = self._config.embedding_model
        if model is None:
            models = _tables(await self.check_health(), "embedding_models")
            if not models:
                raise RetrievalError("the wrapper has loaded no embedding model, so no collection can be made")
            model = str(models[0].get("id"))
        metadata = chroma.collection_metadata(collection)
        body = {"name": collection.name, "metadata": metadata, "embedding_model": model}
        try:
            await self._api.ask("POST", "/collections", body)
        except WrapperError as error:
            if error.status != 500:  # The wrapper's error if another client created the collection first.
                raise
        return await self._collection(collection.name)

    async def _nearest(self, text: str, about: Collection, top_k: int, filter: Any) -> Hits:
        limit = top_k if filter.is_exact else _PAGE
        limit = max(1, min(limit, about.documents))
        body = {"query": storable(text) or " ", "top_k": limit, "collection": about.name}
        if filter.where is not None:
            body["where"] = filter.where
        answer = await self._api.ask("POST", "/query", body)
        metadata = answer.get("collection_metadata") or answer.get("collectionMetadata")
        if isinstance(metadata, Mapping):
            about = read_collection({"name": about.name, "count": about.documents, "metadata": metadata})
        results = [each for each in _tables(answer, "results") if _is_number(each.get("distance"))]
        hits = [(max(0.0, float(each["distance"])), chroma.read_document(each, about)) for each in results]
        return [(distance, document) for distance, document in hits if document.text.strip()]

    @property
    def _reranks(self) -> bool:
        return self._config.rerank_on_server or self._reranker is not None

    async def _reranked(self, text: str, hits: Hits) -> Hits:
        """Reorder the best hits with the reranker; the others follow."""
        first, rest = hits[:_RERANKED], hits[_RERANKED:]
        if not first or not self._reranks:
            return hits
        passages = [document.text for _, document in first]
        if self._reranker is not None:
            order = await reranked(self._reranker, text, passages, store=self._name)
        else:
            if self._can_rerank is None:
                self._can_rerank = bool((await self.check_health()).get("cross_encoder"))
            if not self._can_rerank:
                return hits
            documents = [{"id": str(index), "text": passage} for index, passage in enumerate(passages)]
            body = {"query": storable(text) or " ", "documents": documents, "top_k": len(documents)}
            ranked = _tables(await self._api.ask("POST", "/rerank", body), "reranked")
            scores = {int(each["id"]): each["score"] for each in ranked if _is_number(each.get("score"))}
            order = sorted(range(len(first)), key=lambda index: -scores.get(index, -math.inf))
        return [*(first[index] for index in order), *rest]


def _source(name: str, stored: Sequence[Stored]) -> Source:
    """Build a source from its documents: its last complete state, or else its partial one."""
    complete = [each for each in stored if each.added_at is not None]
    last = max(complete, key=lambda each: each.added_at or "") if complete else stored[-1]
    digest, is_complete = last.digest or "", bool(complete)
    return Source(name=name, digest=digest, complete=is_complete, documents=len(stored), added_at=last.added_at)


def _differs(new: Stored, old: Stored | None) -> bool:
    return old is None or old.document != new.document or (new.digest is not None and old.digest != new.digest)


def _tables(answer: Mapping[str, Any], field: str) -> list[Mapping[str, Any]]:
    """Return the list of objects in a field of a response.

    Raises:
        RetrievalError: The field is not a list of objects.
    """
    tables = answer.get(field)
    if not isinstance(tables, list):
        raise RetrievalError(f"the wrapper's answer has no list '{field}': is url that of a wrapper?")
    return [each for each in tables if isinstance(each, Mapping)]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _parts(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]
