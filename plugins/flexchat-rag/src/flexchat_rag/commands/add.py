"""flexchat rag add: files and folders into a collection."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat.store import Collection
from flexchat_cli import FAILED, FILE_NAME, INTERRUPTED, OK, CommandContext, argument

from ..config import DEFAULT_COLLECTION
from .opening import choose_store, format_count, format_seconds, store_options, with_chat

if TYPE_CHECKING:
    from ..ingest.pipeline import IngestOptions, IngestReport

MAX_ENDINGS = 20

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.IGNORECASE)


@click.command
@argument("paths", metavar="PATH", nargs=-1, required=True, type=FILE_NAME, help="a file or a folder")
@store_options(f"collection to add to (default: the config's, else '{DEFAULT_COLLECTION}')")
@click.option("--description", metavar="TEXT", help="what the collection is about; models choose collections by this")
@click.option("--match-threshold", type=float, metavar="D", help="distance below which a hit is a match")
@click.option("--partial-threshold", type=float, metavar="D", help="… and below which it is a partial match")
@click.option("--include", multiple=True, metavar="GLOB", help="only these files; repeatable")
@click.option("--exclude", multiple=True, metavar="GLOB", help="not these files; repeatable")
@click.option("--follow-links", is_flag=True, help="follow symbolic links in folders")
@click.option("--max-file-size", default="100MB", metavar="SIZE", help="refuse larger files (100MB)")
@click.option("--encoding", metavar="NAME", help="encoding of text files (default: detected for each file)")
@click.option("--prune", is_flag=True, help="delete stored passages of files that no longer exist")
@click.option("--text-field", multiple=True, metavar="F", help="a field with text in JSON, JSONL and CSV; repeatable")
@click.option("--text-separator", metavar="TEXT", help=r"between them; \n is a line's end (\n\n)")
@click.option("--title-field", metavar="F", help="the title (title)")
@click.option("--source-field", metavar="F", help="the source (default: the file)")
@click.option("--id-field", metavar="F", help="the id (default: made from source and text)")
@click.option("--metadata-field", multiple=True, metavar="F", help="only these fields as metadata; repeatable")
@click.option("--metadata", multiple=True, metavar="NAME=VALUE", help="for every document; repeatable")
@click.option("--chunk-size", type=int, metavar="N", help="characters of a passage, at most (900)")
@click.option("--overlap", type=int, metavar="N", help="characters it repeats of the one before (100)")
@click.pass_obj
def add(
    context: CommandContext, /, paths: tuple[str, ...], store: str | None, collection: str | None, **options: Any
) -> int:
    """Read files and folders into a collection.

    The exit status is 1 if one of them failed.
    """
    from .progress import Progress

    terminal, (about, ingesting) = context.terminal, _read_options(**options)
    progress = Progress(terminal)

    async def work(chat: Any) -> tuple[IngestReport, str]:
        chosen = await choose_store(chat, store, collection, fillable=True)
        fillable = chosen.fillable()
        name = collection or getattr(chosen.entry, "collection", None) or DEFAULT_COLLECTION
        if about:
            by_name = {each.name: each for each in await fillable.collections()}
            await fillable.save_collection(attrs.evolve(by_name.get(name, Collection(name=name)), **about))
        return await progress.ingest(fillable, paths, collection=name, options=ingesting), name

    try:
        report, name = with_chat(context, work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        count = progress.report.files if progress.report else 0
        terminal.say(
            f"stopped: {format_count(count, 'file')} {'is' if count == 1 else 'are'} finished and kept; "
            "run the same command to continue"
        )
        return INTERRUPTED
    if context.json:
        terminal.json({"collection": name, **attrs.asdict(report)})
    else:
        if report.left_out:
            terminal.say(_summarize_left_out(report.left_out))
        terminal.out(f"{name}: {_summarize(report)}")
    return FAILED if report.failed else OK


def _summarize(report: IngestReport) -> str:
    names = ("added", "changed", "unchanged", "removed", "failed")
    counts = [f"{count:,} {name}" for name in names if (count := getattr(report, name))]
    counts += [f"{report.noted:,} with notes"] if report.noted else []
    files = ", ".join(counts) or "no files found (--include '*.xyz' adds other file types)"
    return f"{files}; {format_count(report.passages, 'passage')} in {format_seconds(report.seconds)}"


def _summarize_left_out(counts: dict[str, int]) -> str:
    """Summarize the skipped contents of folders in one sentence."""
    endings = {name: count for name, count in counts.items() if name not in ("hidden", "links")}
    parts = [f"{count:,} {name}" for name, count in sorted(endings.items(), key=lambda pair: (-pair[1], pair[0]))]
    more = [f"{len(parts) - MAX_ENDINGS:,} other kinds"] if len(parts) > MAX_ENDINGS else []
    parts = parts[:MAX_ENDINGS] + more
    others = [f"{counts['hidden']:,} hidden"] if counts.get("hidden") else []
    others += [f"{format_count(counts['links'], 'link')} (--follow-links)"] if counts.get("links") else []
    advice = " (--include '*.xyz' takes other endings, as text)" if parts else ""
    return f"left out: {', '.join(parts + others)}{advice}"


def _read_options(
    *,
    description: str | None,
    match_threshold: float | None,
    partial_threshold: float | None,
    max_file_size: str,
    text_separator: str | None,
    metadata: Sequence[str],
    chunk_size: int | None,
    overlap: int | None,
    **options: Any,
) -> tuple[dict[str, Any], IngestOptions]:
    """Return what the options change in the collection, and how files are read."""
    from ..ingest.pipeline import IngestOptions
    from ..ingest.records import FieldMapping, number_or_text

    size = _SIZE.fullmatch(max_file_size.strip())
    if size is None:
        raise click.UsageError(f"--max-file-size {max_file_size}: write a size like 100MB")
    about = {"description": description, "match_threshold": match_threshold, "partial_threshold": partial_threshold}
    for kind, distance in (("match", match_threshold), ("partial", partial_threshold)):
        if distance is not None and not 0 <= distance <= 2:
            raise click.UsageError(f"--{kind}-threshold is a cosine distance, 0 to 2, not {distance:g}")
    for name, value in options.items():
        if value == "" or (isinstance(value, tuple) and "" in value):
            raise click.UsageError(f"--{name.replace('_', '-')} is empty: leave it out, or give a value")
    values = {}
    for pair in metadata:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--metadata {pair}: write NAME=VALUE")
        values[name] = number_or_text(value)
    mapping = FieldMapping(
        text_fields=options.pop("text_field"),
        text_separator=_unescape(text_separator),
        title_field=options.pop("title_field"),
        source_field=options.pop("source_field"),
        id_field=options.pop("id_field"),
        metadata_fields=options.pop("metadata_field") or None,
    )
    sizes = {"chunk_chars": chunk_size, "overlap_chars": overlap}
    options |= {name: value for name, value in sizes.items() if value is not None}
    most = int(float(size[1]) * _UNITS[size[2].casefold()])
    try:
        ingesting = IngestOptions(mapping=mapping, metadata=values, max_file_bytes=most, **options)
    except ValueError as error:
        text = str(error).replace("chunk_chars", "--chunk-size").replace("overlap_chars", "--overlap")
        raise click.UsageError(text if text.startswith("--") else f"--encoding: {text}") from None
    return {name: value for name, value in about.items() if value is not None}, ingesting


def _unescape(text: str | None) -> str | None:
    r"""Resolve the escapes \n, \t and \\ in an option's value."""
    signs = {"n": "\n", "t": "\t", "\\": "\\"}
    return None if text is None else re.sub(r"\\([nt\\])", lambda escape: signs[escape[1]], text)
