"""flexchat rag add: files and folders into a collection, with progress: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Sequence
from typing import Any

import attrs
import click
from flexchat.store import Collection, DocumentStore, run_in_thread
from flexchat_cli import FAILED, FILE_NAME, INTERRUPTED, OK, CommandContext, argument

from ..config import DEFAULT_COLLECTION
from ..ingest.files import Walk
from ..ingest.pipeline import IngestOptions, IngestReport, add_files
from ..ingest.records import FieldMapping, number_or_text
from .opening import OpenStore, format_count, format_seconds, store_options, with_store

SECONDS_BEFORE_THE_FIRST_LINE = 2.0
SECONDS_BETWEEN_LINES = 10.0
SECONDS_BETWEEN_BEATS = 0.5
MAX_NOTES = 20
"""Shown of one run; the others are counted."""
MAX_ENDINGS = 20

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)b?", re.IGNORECASE)


class Progress:
    """Fills a store and shows the progress on standard error.

    Attributes:
        report: The latest report; None before the first passage is stored.
    """

    def __init__(self, terminal: Any) -> None:
        self.report: IngestReport | None = None
        self._terminal, self._total, self._notes = terminal, 0, 0
        self._bar: Any = None
        self._is_told = False  # that it may take long
        self._begun = time.monotonic()
        self._due = time.monotonic() + min(SECONDS_BEFORE_THE_FIRST_LINE, SECONDS_BETWEEN_LINES)

    async def ingest(
        self, store: DocumentStore, paths: Sequence[str], *, collection: str, options: IngestOptions | None = None
    ) -> IngestReport:
        """Bring a collection up to date with files; see ingest."""
        options = options or IngestOptions()
        walk = Walk(paths, include=options.include, exclude=options.exclude, follow_links=options.follow_links)
        self._total = await run_in_thread(lambda: sum(1 for _ in walk.files()))
        if sys.stderr is not None and sys.stderr.isatty():
            from tqdm import tqdm

            self._bar = tqdm(total=self._total, unit=" files", file=sys.stderr, dynamic_ncols=True, leave=False)
        beating = asyncio.ensure_future(self._beat())
        try:
            return await add_files(store, paths, collection=collection, options=options, watch=self.show)
        finally:
            beating.cancel()
            if self._bar is not None:
                self._bar.close()

    def show(self, report: IngestReport, message: str) -> None:
        """Show the report so far, and a message about a file."""
        self.report = report
        is_note = message.startswith("note: ")
        self._notes += is_note
        if is_note and self._notes == MAX_NOTES + 1:
            self._say("note: there are messages about more files: --json lists them")
        elif message and not (is_note and self._notes > MAX_NOTES):
            self._say(message)
        if self._bar is not None:
            self._bar.n = min(report.files, self._total)
            self._bar.set_postfix_str(format_count(report.passages, "passage"), refresh=False)
            self._bar.update(0)
        else:
            self._tell_if_due()

    async def _beat(self) -> None:
        """Refresh the display regularly, also while a model loads or one large file is read."""
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_BEATS)
            if self._bar is not None:
                self._bar.refresh()
            else:
                self._tell_if_due()

    def _tell_if_due(self) -> None:
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + SECONDS_BETWEEN_LINES
        if self.report is None or not (self.report.files or self.report.passages or self._is_told):
            self._is_told = True
            self._say(
                f"none of {format_count(self._total, 'file')} yet; the first passages take longest where an embedding "
                "model has to be loaded"
            )
        else:
            passages = format_count(self.report.passages, "passage")
            waiting = f" and {self.report.under_way:,} under way" if self.report.under_way else ""
            seconds = format_seconds(time.monotonic() - self._begun)
            files = f"{self.report.files:,} of {format_count(self._total, 'file')}"
            self._say(f"{files}, {passages}{waiting} after {seconds}")

    def _say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.clear()
        self._terminal.say(line)


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
    terminal, (about, ingesting) = context.terminal, _read_options(**options)
    progress = Progress(terminal)

    async def work(chosen: OpenStore) -> tuple[IngestReport, str]:
        name = collection or getattr(chosen.entry, "collection", None) or DEFAULT_COLLECTION
        if about:
            by_name = {each.name: each for each in await chosen.store.collections()}
            await chosen.store.save_collection(attrs.evolve(by_name.get(name, Collection(name=name)), **about))
        return await progress.ingest(chosen.store, paths, collection=name, options=ingesting), name

    try:
        report, name = with_store(context, store, collection, work)
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
