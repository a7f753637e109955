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
from .opening import choose_store, spoken_count, spoken_seconds, store_options, with_chat

if TYPE_CHECKING:
    from ..ingest.pipeline import IngestOptions

MOST_ENDINGS = 20

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.IGNORECASE)


@attrs.frozen(kw_only=True)
class About:
    """Options that describe the collection."""

    description: str | None = None
    match_threshold: float | None = None
    partial_threshold: float | None = None


@attrs.frozen(kw_only=True)
class Reading:
    """Options for selecting files, mapping records to documents and chunking, by option name."""

    include: Sequence[str] = ()
    exclude: Sequence[str] = ()
    follow_links: bool = False
    max_file_size: str = "100MB"
    encoding: str | None = None
    prune: bool = False
    text_field: Sequence[str] = ()
    text_separator: str | None = None
    title_field: str | None = None
    source_field: str | None = None
    id_field: str | None = None
    metadata_field: Sequence[str] = ()
    metadata: Sequence[str] = ()
    chunk_size: int | None = None
    overlap: int | None = None


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
    from ..ingest.pipeline import IngestReport
    from .progress import Progress

    about = About(**{field.name: options.pop(field.name) for field in attrs.fields(About)})
    terminal, ingesting = context.terminal, _options(Reading(**options), about)
    progress = Progress(terminal)

    async def work(chat: Any) -> tuple[IngestReport, str]:
        chosen = await choose_store(chat, store, collection, fillable=True)
        fillable = chosen.fillable()
        name = collection or getattr(chosen.entry, "collection", None) or DEFAULT_COLLECTION
        await _describe(fillable, name, about)
        return await progress.ingest(fillable, paths, collection=name, options=ingesting), name

    try:
        report, name = with_chat(context, work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        done = progress.report.files if progress.report else 0
        terminal.say(
            f"stopped: {spoken_count(done, 'file')} {'is' if done == 1 else 'are'} finished and kept; "
            "run the same command to continue"
        )
        return INTERRUPTED
    if context.json:
        terminal.json({"collection": name, **attrs.asdict(report)})
    else:
        if report.left_out:
            terminal.say(_left_out(report.left_out))
        terminal.out(_summary(report, name))
    return FAILED if report.failed else OK


def _summary(report: Any, collection: str) -> str:
    counts = [
        f"{getattr(report, name):,} {name}"
        for name in ("added", "changed", "unchanged", "removed", "failed")
        if getattr(report, name)
    ]
    if report.noted:
        counts.append(f"{report.noted:,} with notes")
    said = ", ".join(counts) or "no files found (--include '*.xyz' adds other file types)"
    return f"{collection}: {said}; {spoken_count(report.passages, 'passage')} in {spoken_seconds(report.seconds)}"


def _left_out(counts: dict[str, int]) -> str:
    """Summarize the skipped contents of folders in one sentence."""
    endings = {name: count for name, count in counts.items() if name not in ("hidden", "links")}
    parts = [f"{count:,} {name}" for name, count in sorted(endings.items(), key=lambda pair: (-pair[1], pair[0]))]
    more = [f"{len(parts) - MOST_ENDINGS:,} other kinds"] if len(parts) > MOST_ENDINGS else []
    parts = parts[:MOST_ENDINGS] + more
    others = [f"{counts['hidden']:,} hidden"] if counts.get("hidden") else []
    others += [f"{spoken_count(counts['links'], 'link')} (--follow-links)"] if counts.get("links") else []
    advice = " (--include '*.xyz' takes other endings, as text)" if parts else ""
    return f"left out: {', '.join(parts + others)}{advice}"


async def _describe(store: Any, name: str, about: About) -> None:
    said = {key: value for key, value in attrs.asdict(about).items() if value is not None}
    if said:
        known = {collection.name: collection for collection in await store.collections()}
        await store.save_collection(attrs.evolve(known.get(name, Collection(name=name)), **said))


def _options(given: Reading, about: About) -> IngestOptions:
    from ..ingest.chunk import CHUNK_CHARS, LEAST_CHUNK_CHARS, OVERLAP_CHARS
    from ..ingest.encoding import COMMON_ENCODINGS, encoding_named
    from ..ingest.fields import FieldMapping, number_or_text
    from ..ingest.pipeline import IngestOptions

    size = _SIZE.fullmatch(given.max_file_size.strip())
    if size is None:
        raise click.UsageError(f"--max-file-size {given.max_file_size}: write a size like 100MB")
    for kind, distance in (("match", about.match_threshold), ("partial", about.partial_threshold)):
        if distance is not None and not 0 <= distance <= 2:
            raise click.UsageError(f"--{kind}-threshold is a cosine distance, 0 to 2, not {distance:g}")
    chunk = CHUNK_CHARS if given.chunk_size is None else given.chunk_size
    if chunk < LEAST_CHUNK_CHARS:
        raise click.UsageError(f"--chunk-size is at least {LEAST_CHUNK_CHARS} characters, not {chunk}")
    overlap = min(OVERLAP_CHARS, chunk // 4) if given.overlap is None else given.overlap
    if not 0 <= overlap <= chunk // 4:
        raise click.UsageError(f"--overlap is 0 to {chunk // 4}, a quarter of a passage, not {overlap}")
    for name in ("include", "exclude", "text_field", "title_field", "source_field", "id_field", "metadata_field"):
        written = getattr(given, name)
        if written is not None and "" in ([written] if isinstance(written, str) else written):
            raise click.UsageError(f"--{name.replace('_', '-')} is empty: leave it out, or give a value")
    metadata = {}
    for pair in given.metadata:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise click.UsageError(f"--metadata {pair}: write NAME=VALUE")
        metadata[name] = number_or_text(value)
    if given.encoding is not None and encoding_named(given.encoding) is None:
        some = ", ".join(COMMON_ENCODINGS)
        raise click.UsageError(f"--encoding {given.encoding}: there is no such encoding; some are {some}")
    return IngestOptions(
        include=tuple(given.include),
        exclude=tuple(given.exclude),
        follow_links=given.follow_links,
        mapping=FieldMapping(
            text_fields=tuple(given.text_field),
            text_separator=_unescaped(given.text_separator),
            title_field=given.title_field,
            source_field=given.source_field,
            id_field=given.id_field,
            metadata_fields=tuple(given.metadata_field) or None,
        ),
        encoding=given.encoding,
        metadata=metadata,
        chunk_chars=chunk,
        overlap_chars=overlap,
        max_file_bytes=int(float(size[1]) * _UNITS[size[2].casefold()]),
        prune=given.prune,
    )


def _unescaped(text: str | None) -> str | None:
    r"""Resolve the escapes \n, \t and \\ in an option's value."""
    signs = {"n": "\n", "t": "\t", "\\": "\\"}
    return None if text is None else re.sub(r"\\([nt\\])", lambda found: signs[found[1]], text)
