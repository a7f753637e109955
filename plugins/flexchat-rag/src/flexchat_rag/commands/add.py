"""flexchat rag add: files and folders into a collection."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import attrs
from flexchat.store import Collection

from ..config import DEFAULT_COLLECTION
from .opening import add_store_arguments, choose_store, spoken_count, spoken_seconds, with_chat

INTERRUPTED = 130

MOST_ENDINGS = 20

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.IGNORECASE)


def add_arguments(parser: Any) -> None:
    """Say what rag add takes."""
    parser.add_argument("paths", nargs="+", metavar="PATH", help="a file or a folder")
    add_store_arguments(parser, f"collection to add to (default: the config's, else '{DEFAULT_COLLECTION}')")
    about = parser.add_argument_group("about the collection")
    about.add_argument("--description", metavar="TEXT", help="what it is about; models choose collections by this")
    about.add_argument("--match-threshold", type=float, metavar="D", help="distance below which a hit is a match")
    about.add_argument("--partial-threshold", type=float, metavar="D", help="… and below which it is a partial match")
    files = parser.add_argument_group("which files")
    files.add_argument("--include", action="append", default=[], metavar="GLOB", help="only these; repeatable")
    files.add_argument("--exclude", action="append", default=[], metavar="GLOB", help="not these; repeatable")
    files.add_argument("--follow-links", action="store_true", help="follow symbolic links in folders")
    files.add_argument("--max-file-size", default="100MB", metavar="SIZE", help="refuse larger files (100MB)")
    files.add_argument("--encoding", metavar="NAME", help="encoding of text files (default: detected for each file)")
    files.add_argument("--prune", action="store_true", help="delete stored passages of files that no longer exist")
    fields = parser.add_argument_group("records (JSON, JSONL, CSV)")
    fields.add_argument("--text-field", action="append", default=[], metavar="F", help="a field with text; repeatable")
    fields.add_argument("--text-separator", metavar="TEXT", help=r"between them; \n is a line's end (\n\n)")
    fields.add_argument("--title-field", metavar="F", help="the title (title)")
    fields.add_argument("--source-field", metavar="F", help="the source (default: the file)")
    fields.add_argument("--id-field", metavar="F", help="the id (default: made from source and text)")
    fields.add_argument("--metadata-field", action="append", metavar="F", help="only these as metadata; repeatable")
    cutting = parser.add_argument_group("passages")
    cutting.add_argument("--metadata", action="append", default=[], metavar="NAME=VALUE", help="for every document")
    cutting.add_argument("--chunk-size", type=int, metavar="N", help="characters of a passage, at most (900)")
    cutting.add_argument("--overlap", type=int, metavar="N", help="characters it repeats of the one before (100)")


def run(args: Any) -> int:
    """Read the files and store them; the exit status is 1 if one of them failed."""
    from ..ingest.pipeline import IngestReport
    from .progress import Progress

    options, progress = _options(args), Progress(args.terminal)

    async def work(chat: Any) -> tuple[IngestReport, str]:
        chosen = await choose_store(chat, args.store, args.collection, fillable=True)
        store = chosen.fillable()
        name = args.collection or getattr(chosen.entry, "collection", None) or DEFAULT_COLLECTION
        await _describe(store, name, args)
        return await progress.ingest(store, args.paths, collection=name, options=options), name

    try:
        report, name = with_chat(args, work)
    except (KeyboardInterrupt, asyncio.CancelledError):
        done = progress.report.files if progress.report else 0
        args.terminal.say(
            f"stopped: {spoken_count(done, 'file')} {'is' if done == 1 else 'are'} finished and kept; "
            "run the same command to continue"
        )
        return INTERRUPTED
    if args.json:
        args.terminal.json({"collection": name, **attrs.asdict(report)})
    else:
        if report.left_out:
            args.terminal.say(_left_out(report.left_out))
        args.terminal.out(_summary(report, name))
    return 1 if report.failed else 0


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
    """Return what folders hold that was not looked into, in one sentence."""
    endings = {name: count for name, count in counts.items() if name not in ("hidden", "links")}
    parts = [f"{count:,} {name}" for name, count in sorted(endings.items(), key=lambda pair: (-pair[1], pair[0]))]
    more = [f"{len(parts) - MOST_ENDINGS:,} other kinds"] if len(parts) > MOST_ENDINGS else []
    parts = parts[:MOST_ENDINGS] + more
    others = [f"{counts['hidden']:,} hidden"] if counts.get("hidden") else []
    others += [f"{spoken_count(counts['links'], 'link')} (--follow-links)"] if counts.get("links") else []
    advice = " (--include '*.xyz' takes other endings, as text)" if parts else ""
    return f"left out: {', '.join(parts + others)}{advice}"


async def _describe(store: Any, name: str, args: Any) -> None:
    said = {
        key: getattr(args, key)
        for key in ("description", "match_threshold", "partial_threshold")
        if getattr(args, key) is not None
    }
    if said:
        known = {collection.name: collection for collection in await store.collections()}
        await store.save_collection(attrs.evolve(known.get(name, Collection(name=name)), **said))


def _options(args: Any) -> Any:
    from ..ingest.chunk import CHUNK_CHARS, LEAST_CHUNK_CHARS, OVERLAP_CHARS
    from ..ingest.encoding import COMMON_ENCODINGS, encoding_named
    from ..ingest.fields import FieldMapping, number_or_text
    from ..ingest.pipeline import IngestOptions

    wrong_size = f"--max-file-size {args.max_file_size}: write a size like 100MB"
    size = _SIZE.fullmatch(args.max_file_size.strip()) or args.refuse(wrong_size)
    for name in ("match_threshold", "partial_threshold"):
        value = getattr(args, name)
        if value is not None and not 0 <= value <= 2:
            args.refuse(f"--{name.replace('_', '-')} is a cosine distance, 0 to 2, not {value:g}")
    chunk = CHUNK_CHARS if args.chunk_size is None else args.chunk_size
    if chunk < LEAST_CHUNK_CHARS:
        args.refuse(f"--chunk-size is at least {LEAST_CHUNK_CHARS} characters, not {chunk}")
    overlap = min(OVERLAP_CHARS, chunk // 4) if args.overlap is None else args.overlap
    if not 0 <= overlap <= chunk // 4:
        args.refuse(f"--overlap is 0 to {chunk // 4}, a quarter of a passage, not {overlap}")
    for name in ("include", "exclude", "text_field", "title_field", "source_field", "id_field", "metadata_field"):
        given = getattr(args, name)
        if given is not None and "" in ([given] if isinstance(given, str) else given):
            args.refuse(f"--{name.replace('_', '-')} is empty: leave it out, or give a value")
    metadata = {}
    for pair in args.metadata:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            args.refuse(f"--metadata {pair}: write NAME=VALUE")
        metadata[name] = number_or_text(value)
    if args.encoding is not None and encoding_named(args.encoding) is None:
        args.refuse(f"--encoding {args.encoding}: there is no such encoding; some are {', '.join(COMMON_ENCODINGS)}")
    return IngestOptions(
        include=tuple(args.include),
        exclude=tuple(args.exclude),
        follow_links=args.follow_links,
        mapping=FieldMapping(
            text_fields=tuple(args.text_field),
            text_separator=_unescaped(args.text_separator),
            title_field=args.title_field,
            source_field=args.source_field,
            id_field=args.id_field,
            metadata_fields=tuple(args.metadata_field) if args.metadata_field is not None else None,
        ),
        encoding=args.encoding,
        metadata=metadata,
        chunk_chars=chunk,
        overlap_chars=overlap,
        max_file_bytes=int(float(size[1]) * _UNITS[size[2].casefold()]),
        prune=args.prune,
    )


def _unescaped(text: str | None) -> str | None:
    r"""Return a text with what is typed for line ends and tabs: \n, \t, and \\ for a backslash."""
    signs = {"n": "\n", "t": "\t", "\\": "\\"}
    return None if text is None else re.sub(r"\\([nt\\])", lambda found: signs[found[1]], text)


PARTS: Any = {"add_arguments": add_arguments, "run": run}
