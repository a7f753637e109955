"""How well the "sqlite" store finds: recall@10, nDCG@10 (binary gain) and MRR on the Cranfield collection.

    python benchmarks/retrieval_quality.py [FOLDER]

FOLDER holds documents.jsonl, queries.jsonl and judgements.tsv; absent: the folder retrieval in $FLEXCHAT_SHARED, or
in a folder `shared` beside the project. Vectors are made by flexchat-minilm. All questions count, 225 of them.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from flexchat.plugin import Document, Reranker, RetrieverContext
from flexchat.plugin.host import PluginHost
from flexchat.services.embedders import ProviderEmbedder
from flexchat_minilm.config import MODEL, MiniLMConfig
from flexchat_minilm.plugin import create
from flexchat_rag.config import SqliteConfig
from flexchat_rag.retriever import SqliteStore

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


def rerankers() -> dict[str, Reranker]:
    host = PluginHost()
    host.load_installed()
    return {name: type_.create() for name, type_ in host.rerankers.by_name.items()}


async def main(folder: Path) -> None:
    documents, questions = lines(folder / "documents.jsonl"), lines(folder / "queries.jsonl")
    relevant: dict[str, set[str]] = defaultdict(set)
    for line in (folder / "judgements.tsv").read_text().splitlines()[1:]:
        query, document, grade = line.split("\t")
        if int(grade) > 0:
            relevant[query].add(document)
    embedder = ProviderEmbedder(create(MiniLMConfig()), MODEL)
    with tempfile.TemporaryDirectory() as place:

        def store(search: Any, reranker: Reranker | None = None) -> SqliteStore:
            context = RetrieverContext(folder=Path(place), embedder=embedder, reranker=reranker)
            return SqliteStore(SqliteConfig(path="cranfield.db", search=search), context)

        filled, started = store("hybrid"), time.perf_counter()
        await filled.add(
            [Document(id=d["id"], title=d["title"], text=d["text"]) for d in documents], collection="cranfield"
        )
        await filled.aclose()
        print(f"{len(documents)} documents added in {time.perf_counter() - started:.0f} s\n")
        print("| search | recall@10 | nDCG@10 | MRR | ms/question |\n| --- | --- | --- | --- | --- |")
        for question in questions:  # its vector is kept: what is timed is the store
            await embedder.embed([question["text"]], purpose="query")
        for search in ("keyword", "vector", "hybrid"):
            opened = store(search)
            await row(search, opened, questions, relevant)
            await opened.aclose()
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
