"""How fast the "sqlite" store is with 100,000 vectors of 384 numbers, beside LanceDB and Chroma where those are there.

    python benchmarks/vectors.py [--count N]

Vectors are drawn around 1,000 centres, questions too; texts have 40 words whose frequencies follow Zipf's
law, questions 6 without the 50 most frequent ones, which are a language's stop words. Each
contestant has a process and a folder of its own, one after the other. "exact" is the best a contestant does without an
approximate index. Memory is what the process grows by from before it opens a filled store to after its questions.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

DIMENSIONS, QUESTIONS, TOP, BATCH = 384, 200, 10, 1000
CONTESTANTS = {"flexchat sqlite": "flexchat_rag", "lancedb exact": "lancedb", "chroma": "chromadb"}


def data(count: int) -> tuple[Any, Any, list[str], list[str]]:
    rng = np.random.default_rng(7)
    centres = rng.standard_normal((1000, DIMENSIONS), dtype=np.float32)

    def around(number: int) -> Any:
        rows = centres[rng.integers(0, 1000, number)] + rng.standard_normal((number, DIMENSIONS), dtype=np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    shares = 1 / np.arange(1, 30_001)
    shares /= shares.sum()
    words = np.array([f"w{number}x" for number in range(30_000)])
    texts = [" ".join(line) for line in words[rng.choice(30_000, (count, 40), p=shares)]]
    telling = shares[50:] / shares[50:].sum()
    questions = [" ".join(line) for line in words[50 + rng.choice(29_950, (QUESTIONS, 6), p=telling)]]
    return around(count), around(QUESTIONS), texts, questions


def resident() -> float:
    """Megabytes this process holds."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


class Numbered:
    """Gives text number i the vector number i: what it is given begins with "d" or "q" and the number."""

    name = "benchmark/numbered"

    def __init__(self, documents: Any, questions: Any) -> None:
        self.of = {"d": documents, "q": questions}

    async def embed(self, texts: Sequence[str], *, purpose: Literal["query", "document"]) -> Any:
        return [self.of[text[0]][int(text[1 : text.index(" ")])] for text in texts]


def quantiles(times: list[float]) -> tuple[float, float]:
    return round(float(np.percentile(times, 50)), 2), round(float(np.percentile(times, 95)), 2)


async def flexchat_sqlite(folder: Path, fill: bool, count: int) -> dict[str, Any]:
    from flexchat import Document
    from flexchat.store import DocumentStoreContext
    from flexchat_rag.config import SqliteConfig
    from flexchat_rag.retriever import SqliteStore

    vectors, asked, texts, questions = data(count)
    context = DocumentStoreContext(folder=folder, embedder=Numbered(vectors, asked))

    def opened(search: Any) -> SqliteStore:
        return SqliteStore(SqliteConfig(path="bench.db", search=search), context)

    if fill:
        store, started = opened("hybrid"), time.perf_counter()
        for start in range(0, count, BATCH):
            rows = [Document(id=str(i), text=f"d{i} {texts[i]}") for i in range(start, min(start + BATCH, count))]
            await store.add(rows, collection="c")
        seconds = time.perf_counter() - started
        await store.aclose()
        return {"insert/s": round(count / seconds)}
    expected, before, result = exact(vectors, asked), resident(), {}
    for search in ("vector", "hybrid"):
        store, times, right = opened(search), [], 0
        started = time.perf_counter()
        await store.query(f"q0 {questions[0]}", collection="c", top_k=TOP)
        result.setdefault("reopen ms", round(1000 * (time.perf_counter() - started)))
        for number, question in enumerate(questions):
            started = time.perf_counter()
            hits = await store.query(f"q{number} {question}", collection="c", top_k=TOP)
            times.append(1000 * (time.perf_counter() - started))
            right += len({int(document.id or -1) for document in hits.documents} & expected[number])
        prefix = "" if search == "vector" else "hybrid "
        result[f"{prefix}p50 ms"], result[f"{prefix}p95 ms"] = quantiles(times)
        if search == "vector":
            result["recall"] = right / (TOP * QUESTIONS)
            result["RSS +MB"] = round(resident() - before)
        await store.aclose()
    return result


def exact(vectors: Any, asked: Any) -> list[set[int]]:
    return [set(np.argsort(-(vectors @ question))[:TOP].tolist()) for question in asked]


def asked_one_by_one(query: Callable[[Any], set[int]], vectors: Any, asked: Any) -> dict[str, Any]:
    expected, times, right = exact(vectors, asked), [], 0
    for question, wanted in zip(asked, expected, strict=True):
        started = time.perf_counter()
        found = query(question)
        times.append(1000 * (time.perf_counter() - started))
        right += len(found & wanted)
    p50, p95 = quantiles(times)
    return {"p50 ms": p50, "p95 ms": p95, "recall": right / (TOP * QUESTIONS)}


async def lancedb_exact(folder: Path, fill: bool, count: int) -> dict[str, Any]:
    import lancedb

    vectors, asked, texts, _ = data(count)
    if fill:
        started, table = time.perf_counter(), None
        for start in range(0, count, BATCH):
            rows = [{"id": i, "text": texts[i], "vector": vectors[i]} for i in range(start, min(start + BATCH, count))]
            table = lancedb.connect(folder).create_table("t", rows) if table is None else table.add(rows) and table
        return {"insert/s": round(count / (time.perf_counter() - started))}
    before, started = resident(), time.perf_counter()
    table = lancedb.connect(folder).open_table("t")

    def query(question: Any) -> set[int]:
        found = table.search(question).metric("cosine").limit(TOP).select(["id", "text"]).to_list()
        return {row["id"] for row in found}

    query(asked[0])
    reopened = round(1000 * (time.perf_counter() - started))
    return {"reopen ms": reopened, **asked_one_by_one(query, vectors, asked), "RSS +MB": round(resident() - before)}


async def chroma(folder: Path, fill: bool, count: int) -> dict[str, Any]:
    import chromadb

    vectors, asked, texts, _ = data(count)
    before, started = resident(), time.perf_counter()
    client = chromadb.PersistentClient(str(folder), chromadb.Settings(anonymized_telemetry=False))
    table = client.get_or_create_collection("bench", metadata={"hnsw:space": "cosine"}, embedding_function=None)
    if fill:
        for start in range(0, count, BATCH):
            some = range(start, min(start + BATCH, count))
            table.add(
                ids=[str(i) for i in some], embeddings=vectors[start : some.stop], documents=texts[start : some.stop]
            )
        return {"insert/s": round(count / (time.perf_counter() - started))}

    def query(question: Any) -> set[int]:
        found = table.query(query_embeddings=[question], n_results=TOP)
        return {int(id) for id in found["ids"][0]}

    query(asked[0])
    reopened = round(1000 * (time.perf_counter() - started))
    return {"reopen ms": reopened, **asked_one_by_one(query, vectors, asked), "RSS +MB": round(resident() - before)}


def run(name: str, step: str, folder: str, count: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--count", str(count), "--one", name, step, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"failed": (done.stderr.strip().splitlines() or ["?"])[-1]}
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--one", nargs=3, metavar=("NAME", "STEP", "FOLDER"))
    args = parser.parse_args()
    if args.one:
        name, step, folder = args.one
        work = globals()[name.replace(" ", "_")]
        print(json.dumps(asyncio.run(work(Path(folder), step == "fill", args.count))))
        return
    columns = ("insert/s", "reopen ms", "p50 ms", "p95 ms", "recall", "RSS +MB", "hybrid p50 ms", "hybrid p95 ms")
    print(f"| {args.count:,} x {DIMENSIONS} | {' | '.join(columns)} |\n|{' --- |' * (len(columns) + 1)}")
    for name, module in CONTESTANTS.items():
        if importlib.util.find_spec(module) is None:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = {**run(name, "fill", folder, args.count), **run(name, "ask", folder, args.count)}
        cells = [str(found.get(column, "-")) for column in columns]
        print(f"| {name} | {' | '.join(cells)} |{found.get('failed', '')}", flush=True)


if __name__ == "__main__":
    main()
