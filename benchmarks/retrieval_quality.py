"""How well the "sqlite" store finds: recall@10, nDCG@10 (binary gain) and MRR on the Cranfield collection.

    python benchmarks/retrieval_quality.py [FOLDER]

The rows with a reranker have it from the context a store is opened with, as any store has: those that plugins bring,
and late interaction, which is this file's own (see LateInteraction). FOLDER holds documents.jsonl, queries.jsonl and
judgements.tsv; absent: the folder retrieval in $FLEXCHAT_SHARED, or in a folder `shared` beside the project. Vectors
are made by flexchat-minilm. All questions count, 225 of them.
"""

from __future__ import annotations

import asyncio
import functools
import json
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from flexchat import Document
from flexchat.document_stores import StoreEmbedder
from flexchat.llms.llm import LLM
from flexchat.plugin.host import PluginHost
from flexchat.store import DocumentStoreContext, Reranker
from flexchat_minilm.config import MODEL, MiniLMConfig
from flexchat_minilm.plugin import create
from flexchat_minilm.provider import load_tokenizer, model_file
from flexchat_rag.config import SqliteConfig
from flexchat_rag.retriever import SqliteStore
from flexchat_rag.store.database import read_as

ROOT = Path(__file__).resolve().parents[1]
DEPTH = 100


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def measures(found: Sequence[str], relevant: set[str]) -> tuple[float, float, float]:
    """Recall@10, nDCG@10 and the reciprocal rank of one question; 0 where nothing is relevant."""
    if not relevant:
        return 0.0, 0.0, 0.0
    gains = [id in relevant for id in found]
    ideal = sum(1 / math.log2(place + 2) for place in range(min(10, len(relevant))))
    gained = sum(gain / math.log2(place + 2) for place, gain in enumerate(gains[:10]))
    first = 1 / (gains.index(True) + 1) if True in gains else 0.0
    return sum(gains[:10]) / len(relevant), gained / ideal, first


async def row(name: str, store: SqliteStore, questions: list[Any], relevant: dict[str, set[str]]) -> None:
    sums, started = [0.0, 0.0, 0.0], time.perf_counter()
    for question in questions:
        hits = await store.query(question["text"], collection="cranfield", top_k=DEPTH)
        values = measures([document.id or "" for document in hits.documents], relevant[question["id"]])
        sums = [total + value for total, value in zip(sums, values, strict=True)]
    each = 1000 * (time.perf_counter() - started) / len(questions)
    recall, ndcg, rank = (total / len(questions) for total in sums)
    print(f"| {name} | {recall:.4f} | {ndcg:.4f} | {rank:.4f} | {each:.1f} |", flush=True)


class LateInteraction:
    """A reranker without a model of its own: it compares what flexchat-minilm's model makes of every single token.

    A passage's score is the mean, over the question's tokens and over the passage's, of how near the nearest token of
    the other side is (after Khattab and Zaharia, 2020, ColBERT; both ways, as here, is measured better with this model,
    which was not trained for it: 0.417 against 0.402 nDCG@10 where only the question's tokens count).

    Args:
        blended: Whether the order in which the passages come counts as much as these scores, by reciprocal rank fusion.
    """

    def __init__(self, *, blended: bool) -> None:
        self._blended = blended

    async def rerank(self, query: str, passages: Sequence[str]) -> Sequence[float]:
        question, *read = await asyncio.gather(*(asyncio.to_thread(token_vectors, text) for text in (query, *passages)))
        scores = []
        for passage in read:
            nearness = question @ passage.T
            scores.append(float(nearness.max(axis=1).mean() + nearness.max(axis=0).mean()))
        if not self._blended:
            return scores
        order = sorted(range(len(scores)), key=lambda place: -scores[place])
        return [1 / (60 + place) + 1 / (60 + order.index(place)) for place in range(len(scores))]

    async def aclose(self) -> None: ...


@functools.cache
def token_vectors(text: str) -> Any:
    return _token_reader()(text)


@functools.cache
def _token_reader() -> Callable[[str], Any]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model_file(), options, providers=["CPUExecutionProvider"])
    tokenizer = load_tokenizer()

    def read(text: str) -> Any:
        ids = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
        rows = session.run(None, given)[0][0][1:-1]  # without the marks of begin and end
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    return read


def rerankers() -> dict[str, Reranker]:
    host = PluginHost()
    host.load_installed()
    return {
        **{name: type_.create() for name, type_ in host.rerankers.by_name.items()},
        "late interaction": LateInteraction(blended=False),
        "late interaction and order": LateInteraction(blended=True),
    }


async def main(folder: Path) -> None:
    documents, questions = lines(folder / "documents.jsonl"), lines(folder / "queries.jsonl")
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "judgements.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant[query].add(document)
    embedder = StoreEmbedder(LLM(name="minilm", provider=create(MiniLMConfig())), MODEL)
    with tempfile.TemporaryDirectory() as place:

        def store(search: Any, reranker: Reranker | None = None) -> SqliteStore:
            context = DocumentStoreContext(folder=Path(place), embedder=embedder, reranker=reranker)
            return SqliteStore(SqliteConfig(path="cranfield.db", search=search), context)

        filled, started = store("hybrid"), time.perf_counter()
        await filled.add(
            [Document(id=d["id"], title=d["title"], text=d["text"]) for d in documents], collection="cranfield"
        )
        await filled.aclose()
        print(f"{len(documents)} documents added in {time.perf_counter() - started:.0f} s\n")
        print("| search | recall@10 | nDCG@10 | MRR | ms/question |\n| --- | --- | --- | --- | --- |")
        for question in questions:  # vectors are kept: what is timed is the store
            await embedder.embed([question["text"]], purpose="query")
        for search in ("keyword", "vector", "hybrid"):
            opened = store(search)
            await row(search, opened, questions, relevant)
            await opened.aclose()
        token_texts = [*(read_as(d["title"], d["text"]) for d in documents), *(q["text"] for q in questions)]
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(token_vectors, token_texts))
        for name, reranker in rerankers().items():
            opened = store("hybrid", reranker)
            await row(f"hybrid + {name}", opened, questions, relevant)
            await opened.aclose()


if __name__ == "__main__":
    shared = Path(os.environ.get("FLEXCHAT_SHARED") or ROOT.parent / "shared")
    where = Path(sys.argv[1]) if len(sys.argv) > 1 else shared / "retrieval"
    if not (where / "documents.jsonl").exists():
        sys.exit(f"{where} has no documents.jsonl: name the folder with the Cranfield collection")
    asyncio.run(main(where))
