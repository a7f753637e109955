"""flexchat rag export: a collection as JSON lines, which ``flexchat rag add`` reads back as they were."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .opening import RagCommandError, add_store_arguments, all_documents, as_data, choose_store, spoken_count, with_chat


def add_arguments(parser: Any) -> None:
    """Say what rag export takes."""
    add_store_arguments(parser, "which collection (default: the only one)")
    parser.add_argument(
        "--output", metavar="FILE", help="a .jsonl file, replaced once everything is written (default: print)"
    )


def run(args: Any) -> int:
    """Write a line for each document."""
    if not args.output:
        with_chat(args, lambda chat: _export(chat, args, args.terminal.write))
        return 0
    if Path(args.output).suffix not in (".jsonl", ".ndjson"):
        args.refuse(f"--output {args.output}: name it .jsonl, so that rag add knows how to read it")
    from flexchat.store import replacing  # loads SQLite

    try:
        with replacing(Path(args.output)) as file:
            name, count = with_chat(args, lambda chat: _export(chat, args, file.write))
    except OSError as error:
        raise RagCommandError(f"'{args.output}' cannot be written: {error.strerror or error}") from None
    if args.json:
        args.terminal.json({"collection": name, "documents": count, "output": args.output})
    else:
        args.terminal.say(f"{spoken_count(count, 'passage')} of '{name}' written to {args.output}")
    return 0


async def _export(chat: Any, args: Any, write: Callable[[str], Any]) -> tuple[str, int]:
    chosen = await choose_store(chat, args.store, args.collection, fillable=True)
    store, collection = chosen.fillable(), await chosen.collection(args.collection)
    count = 0
    async for document in all_documents(store, collection.name):
        write(json.dumps(as_data(document), ensure_ascii=False) + "\n")
        count += 1
    return collection.name, count


PARTS: Any = {"add_arguments": add_arguments, "run": run}
