"""``flexchat rag export``: write a collection as JSON lines, which ``flexchat rag add`` restores unchanged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from flexchat_cli import FILE_NAME, CommandContext

from .opening import RagCommandError, all_documents, as_data, choose_store, format_count, store_options, with_chat


@click.command
@store_options("which collection (default: the only one)")
@click.option(
    "--output",
    metavar="FILE",
    type=FILE_NAME,
    help="a .jsonl file, replaced once everything is written (default: print)",
)
@click.pass_obj
def export(context: CommandContext, store: str | None, collection: str | None, output: str | None) -> None:
    """Write a collection as JSON lines, which rag add reads.

    A line for each document.
    """
    if output is None:
        with_chat(context, lambda chat: _export(chat, store, collection, context.terminal.write))
        return
    if Path(output).suffix not in (".jsonl", ".ndjson"):
        raise click.UsageError(f"--output {output}: name it .jsonl, so that rag add knows how to read it")
    from flexchat.store import replacing  # loads SQLite

    try:
        with replacing(Path(output)) as file:
            name, count = with_chat(context, lambda chat: _export(chat, store, collection, file.write))
    except OSError as error:
        raise RagCommandError(f"'{output}' cannot be written: {error.strerror or error}") from None
    if context.json:
        context.terminal.json({"collection": name, "documents": count, "output": output})
    else:
        context.terminal.say(f"{format_count(count, 'passage')} of '{name}' written to {output}")


async def _export(
    chat: Any, store_name: str | None, collection_name: str | None, write: Callable[[str], Any]
) -> tuple[str, int]:
    chosen = await choose_store(chat, store_name, collection_name, fillable=True)
    store, collection = chosen.fillable(), await chosen.collection(collection_name)
    count = 0
    async for document in all_documents(store, collection.name):
        write(json.dumps(as_data(document), ensure_ascii=False) + "\n")
        count += 1
    return collection.name, count
