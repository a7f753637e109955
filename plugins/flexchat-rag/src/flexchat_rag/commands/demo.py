"""``flexchat demo rag``: read documents and answer a question from them; needs no key, network or config."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from flexchat_cli import FILE_NAME, TEXT, CommandContext, argument

from ..ingest.pipeline import IngestReport
from .add import Progress
from .opening import format_count, format_seconds

QUESTION = "How do I limit how long a turn may take?"
STORE = COLLECTION = "demo"
NEXT_STEP = (
    "The search ran for real, the answer is quoted by a rehearsal model. Yours: flexchat rag add PATH … fills a store "
    "that stays, flexchat init openai (or: ollama, gemini, anthropic, local) connects a real model"
)
_TOP_K = 4
_INDENT = "       "
_MAX_FAILURES = 5
_PROMPT = "Answer the question from these passages, and name the source.\n\n{{rag_context}}"


@click.command
@argument(
    "paths",
    metavar="PATH",
    nargs=-1,
    type=FILE_NAME,
    help="files and folders to read; else docs/ and README.md of this folder",
)
@click.option("--question", metavar="TEXT", type=TEXT, default=QUESTION, help=f"what to ask, in place of: {QUESTION}")
@click.pass_obj
def demo_rag(context: CommandContext, paths: Sequence[str], question: str) -> int:
    """See documents read, found and quoted; needs no key.

    The store is temporary. The exit status is 1 if nothing was read.
    """
    question = question.strip() or QUESTION
    with tempfile.TemporaryDirectory(prefix="flexchat-demo-") as folder, contextlib.ExitStack() as stack:
        paths = paths or [name for name in ("docs", "README.md") if os.path.exists(name)]
        if not paths:
            paths = _readmes(Path(folder, "readmes"))
            stack.enter_context(contextlib.chdir(Path(folder, "readmes")))
        context.config = str(_config(Path(folder)))
        return asyncio.run(_show(context, [*paths], question))


def _config(folder: Path) -> Path:
    """Write the demo's config: a store in the same folder, and the model that quotes passages."""
    path = folder / "flexchat.json"
    # No threshold: all hits go into the prompt. A real service would exclude weak matches.
    store = {"provider": "sqlite", "path": "documents.db", "collection": COLLECTION, "top_k": _TOP_K}
    config = {
        "stores": {STORE: {**store, "match_threshold": 2.0}},
        "llms": {"rehearsal": {"provider": "rehearsal"}},
        "responses": [{"llm": "rehearsal", "model": "rehearsal", "prompt": _PROMPT}],
    }
    path.write_text(json.dumps(config), encoding="utf-8")
    return path


async def _show(context: CommandContext, paths: list[str], question: str) -> int:
    async with context.open_chat() as chat:
        store: Any = chat.stores[STORE]
        report = await Progress(context.terminal).ingest(store, paths, collection=COLLECTION)
        if not report.passages:
            _tell_files(context.terminal.say, report, None)
            context.terminal.error(f"nothing to ask: no passage was read from {', '.join(paths)}")
            return 1
        embedding = next(c.embedding for c in await store.collections() if c.name == COLLECTION)
        hits = await store.query(question, collection=COLLECTION, top_k=_TOP_K)
        response = await chat.respond(question)
    if context.json:
        data = {"files": report.added + report.changed, "passages": report.passages, "failures": report.failures}
        data |= {"embedding": embedding, "question": question}
        pairs = zip(hits.documents, hits.distances, strict=True)
        entries = [{"title": each.title, "source": each.source, "distance": distance} for each, distance in pairs]
        context.terminal.json({**data, "hits": entries, "answer": response.content})
        return 0
    out = context.terminal.out
    _tell_files(out, report, embedding)
    out()
    out(f"You:   {question}", "bold")
    for document, distance in zip(hits.documents, hits.distances, strict=True):
        out(f"{_INDENT}{distance:.3f}  {document.title}  ({document.source})", "dim")
    out("Model: " + response.content.replace("\n", f"\n{_INDENT}"))
    out()
    out(NEXT_STEP)
    return 0


def _tell_files(out: Any, report: IngestReport, embedding: str | None) -> None:
    read = report.added + report.changed
    passages = format_count(report.passages, "passage")
    out(f"Read:  {format_count(read, 'file')}, {passages}, {format_seconds(report.seconds)}")
    for failure in report.failures[:_MAX_FAILURES]:
        out(f"{_INDENT}left out: {failure}", "red")
    if len(report.failures) > _MAX_FAILURES:
        out(f"{_INDENT}… and {len(report.failures) - _MAX_FAILURES} more", "red")
    if report.passages:
        by_words = "words alone: pip install flexchat-minilm adds search by meaning, offline too"
        out(f"Found: by {f'words and meaning ({embedding}, on this machine)' if embedding else by_words}")


def _readmes(folder: Path) -> list[str]:
    """Write the READMEs of the installed FlexChat packages into a folder. Returns their names."""
    folder.mkdir()
    for distribution in importlib.metadata.distributions():
        path = folder / f"{distribution.metadata['Name']}.md"
        text = distribution.metadata.json.get("description")
        if path.name.startswith("flexchat") and not path.exists() and isinstance(text, str) and text.strip():
            path.write_text(text, encoding="utf-8")
    return sorted(path.name for path in folder.iterdir())
