"""Ingestion: reads several files concurrently, stores each atomically, and skips unchanged ones.

All state is in the store: running the same command again continues an interrupted run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import attrs
from flexchat.plugin import FlexChatError
from flexchat.store import Document, DocumentStore, Source, UnknownCollectionError, error_name, run_in_thread

from ..config import DEFAULT_COLLECTION
from .encoding import COMMON_ENCODINGS, encoding_named
from .files import FoundFile, Kind, Walk, kind_of
from .records import MAX_NAME_CHARS, FieldMapping, bounded
from .sections import (
    CHUNK_CHARS,
    MIN_CHUNK_CHARS,
    OVERLAP_CHARS,
    Reading,
    Record,
    Section,
    Trouble,
    UnreadableFileError,
    documents_of,
    without_base64,
)

MAX_FILE_BYTES = 100_000_000

MAX_AT_ONCE = 500
"""Passages handed to the store in one step; more of them are handed over in several."""

MAX_CHARS_AT_ONCE = 4_000_000

FILES_AT_ONCE = 4
"""While a model makes vectors for one file, the next ones are read."""

MAX_TROUBLES = 20
"""Told of one file; the others are counted."""

MAX_REPORTED = 1_000
"""Failures, and notes, of one run; the others are counted."""

PATIENCE = 5
"""Files in a row that the store may refuse before the run is given up: it is the store then, and not a file."""

_PAGE = 1_000

_Batch = tuple[list[Document], bool]

Outcome = Literal["added", "changed", "unchanged", "removed", "failed"]


def _encoding(label: str | None) -> str | None:
    if label is None:
        return None
    if name := encoding_named(label):
        return name
    raise ValueError(f"'{label[:40]}' is not an encoding; some are {', '.join(COMMON_ENCODINGS)}")


def _globs(patterns: Iterable[str]) -> tuple[str, ...]:
    if isinstance(patterns, str):
        raise TypeError(f"include and exclude are lists of patterns: write [{patterns!r}]")
    return tuple(patterns)


@attrs.frozen(kw_only=True)
class IngestOptions:
    """Options for selecting, reading and chunking files.

    Attributes:
        metadata: Added to every document; metadata from the file itself takes precedence.
        encoding: Encoding of text files; None to detect it for each.
        max_file_bytes: Larger files are rejected.
        chunk_chars: Maximum number of characters of a passage; at least MIN_CHUNK_CHARS.
        overlap_chars: Characters repeated from the previous passage; at most a quarter of chunk_chars.
        prune: Delete documents of files that no longer exist in the given folders.

    Raises:
        ValueError: The encoding is unknown, or a number is out of range.
        TypeError: include or exclude is a single string.
    """

    include: tuple[str, ...] = attrs.field(default=(), converter=_globs)
    exclude: tuple[str, ...] = attrs.field(default=(), converter=_globs)
    follow_links: bool = False
    mapping: FieldMapping = attrs.field(factory=FieldMapping)
    encoding: str | None = attrs.field(default=None, converter=_encoding)
    metadata: dict[str, Any] = attrs.field(factory=dict)
    chunk_chars: int = CHUNK_CHARS
    overlap_chars: int = attrs.field()
    max_file_bytes: int = MAX_FILE_BYTES
    prune: bool = False

    @overlap_chars.default
    def _usual_overlap(self) -> int:
        return min(OVERLAP_CHARS, self.chunk_chars // 4)

    def __attrs_post_init__(self) -> None:
        if self.chunk_chars < MIN_CHUNK_CHARS:
            raise ValueError(f"chunk_chars is at least {MIN_CHUNK_CHARS}, not {self.chunk_chars}")
        if not 0 <= self.overlap_chars <= self.chunk_chars // 4:
            most = self.chunk_chars // 4
            raise ValueError(f"overlap_chars is 0 to {most}, a quarter of a passage, not {self.overlap_chars}")


@attrs.define(kw_only=True)
class IngestReport:
    """Result of an ingestion, or its progress so far.

    Attributes:
        files: Finished files by outcome. A file with an unreadable part counts as added or changed, and as failed.
        noted: Number of files with notes.
        passages: Number of passages in added and changed files.
        under_way: Number of passages passed to the store and not yet stored; 0 at the end.
        stored: Number of passages that were new to the store or had changed.
        failures: One sentence per failure, at most MAX_REPORTED.
        notes: One sentence per skipped content or assumption, at most MAX_REPORTED.
        left_out: Skipped contents of folders, counted: {".xlsx": 3, "hidden": 1}.
    """

    files: int = 0

    added: int = 0
    changed: int = 0
    unchanged: int = 0
    removed: int = 0
    failed: int = 0
    noted: int = 0
    passages: int = 0
    under_way: int = 0
    stored: int = 0
    seconds: float = 0.0
    failures: list[str] = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    left_out: dict[str, int] = attrs.field(factory=dict)

    def count(self, outcome: Outcome, failure: str = "", note: str = "") -> None:
        """Count a file."""
        self.files += 1
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.failed += bool(failure) and outcome != "failed"
        self.noted += bool(note)
        for texts, text in ((self.failures, failure), (self.notes, note)):
            if text and len(texts) < MAX_REPORTED:
                texts.append(text)


Watcher = Callable[[IngestReport, str], None]
"""Called as passages are stored and after each file, with the report so far and what is to be told: "failed: …" or
"note: …", or an empty text."""


async def add_files(
    store: DocumentStore,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    *,
    collection: str = DEFAULT_COLLECTION,
    options: IngestOptions | None = None,
    watch: Watcher | None = None,
) -> IngestReport:
    """Synchronize a collection with files, as ``flexchat rag add`` does. Unchanged files are skipped.

    Unreadable files are listed in the report; their stored documents are left alone.

    Args:
        store: A writable store: ``chat.stores["documents"]``.
        paths: Files and folders, or a single path.

    Raises:
        RetrievalError, StorageError, ProviderError: The store or its embedder fails altogether.
    """
    run = _Run(store, collection, options or IngestOptions(), watch or (lambda report, failure: None))
    named_paths = [paths] if isinstance(paths, str | os.PathLike) else paths
    return await run.over([os.fspath(path) for path in named_paths])


class _Run:
    def __init__(self, store: DocumentStore, collection: str, options: IngestOptions, watch: Watcher) -> None:
        self._store, self._collection, self._options, self._watch = store, collection, options, watch
        self.report = IngestReport()
        self._known: dict[str, Source] = {}
        self._seen: set[str] = set()
        self._refused_in_a_row = 0

    async def over(self, paths: Sequence[str]) -> IngestReport:
        begun = time.monotonic()
        self._known = {source.name: source async for source in all_sources(self._store, self._collection)}
        options = self._options
        walk = Walk(paths, include=options.include, exclude=options.exclude, follow_links=options.follow_links)
        files, one_at_a_time = walk.files(), asyncio.Lock()

        async def work() -> None:
            while True:
                async with one_at_a_time:
                    file = await run_in_thread(next, files, None)
                if file is None:
                    return
                await self._take(file)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(FILES_AT_ONCE):
                    group.create_task(work())
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None
        if options.prune:
            await self._prune(walk)
        self.report.left_out = dict(walk.left_out)
        self.report.seconds = time.monotonic() - begun
        return self.report

    async def _take(self, file: FoundFile | Trouble) -> None:
        if isinstance(file, Trouble):
            self._done("failed", file.text)
            return
        if file.source in self._seen:
            return
        self._seen.add(file.source)
        reading, note = Reading(encoding=self._options.encoding), ""
        try:
            outcome, failure = await self._store_file(file, reading)
        except UnreadableFileError as error:
            outcome, failure = "failed", f"{file.source} {error}"
        except OSError as error:
            outcome, failure = "failed", f"{file.source} cannot be read: {error.strerror or error}"
        except FlexChatError as error:
            self._refused_in_a_row += 1
            if self._refused_in_a_row >= PATIENCE:
                raise
            outcome, failure = "failed", f"{file.source} was not stored: {error}"
        else:
            self._refused_in_a_row = 0
            if outcome != "unchanged" and (notes := reading.notes()):
                note = f"{file.source} {'; '.join(notes)}"
        self._done(outcome, failure, note)

    def _done(self, outcome: Outcome, failure: str = "", note: str = "") -> None:
        self.report.count(outcome, failure, note)
        messages = [f"{kind}: {text}" for kind, text in (("failed", failure), ("note", note)) if text]
        for message in messages or [""]:
            self._watch(self.report, message)

    async def _store_file(self, file: FoundFile, reading: Reading) -> tuple[Outcome, str]:
        stored, troubles = self._known.get(file.source), _Troubles()

        def begin() -> tuple[str, _Batch, Iterator[Document]]:
            kind = kind_of(file.path, reading)
            digest = _digest(file.path, kind, self._options)
            if stored is not None and stored.complete and stored.digest == digest:
                return "", ([], False), iter(())
            documents = _documents(file, kind, self._options, troubles, reading)
            return digest, _take_batch(documents), documents

        digest, (batch, is_full), documents = await run_in_thread(begin)
        if not digest:
            return "unchanged", ""
        if not batch and not troubles.count:
            reading.note("holds no text")
        while is_full:
            following, is_full = await run_in_thread(_take_batch, documents)
            if following:
                await self._add(batch, Source(name=file.source, digest=digest, complete=False))
                batch = following
        # An incomplete source gets no digest: the next run reads it again and reports the missing parts again.
        await self._add(batch, Source(name=file.source, digest=f"{digest}!" if troubles.count else digest))
        return "added" if stored is None else "changed", f"{file.source}: {troubles}" if troubles.count else ""

    async def _add(self, batch: Sequence[Document], source: Source) -> None:
        self.report.under_way += len(batch)
        self._watch(self.report, "")
        try:
            stored = await self._store.add(batch, collection=self._collection, source=source)
        finally:
            self.report.under_way -= len(batch)
        self.report.stored += stored
        self.report.passages += len(batch)
        self._watch(self.report, "")

    async def _prune(self, walk: Walk) -> None:
        folders = [os.path.join(folder, "") if folder != os.curdir else "" for folder in walk.folders()]
        removed = [name for name in self._known if name not in self._seen and _was_below(name, folders)]
        for start in range(0, len(removed), 100):
            part = removed[start : start + 100]
            await self._store.delete(collection=self._collection, sources=part)
            self.report.removed += len(part)


async def all_sources(store: DocumentStore, collection: str) -> Any:
    """Yield the sources of a collection; none if it does not exist."""
    after: str | None = None
    while True:
        try:
            page = await store.sources(collection=collection, limit=_PAGE, after=after)
        except UnknownCollectionError:
            return
        for source in page:
            yield source
        if len(page) < _PAGE:
            return
        after = page[-1].name


class _Troubles:
    """The parts of one file that could not be read."""

    def __init__(self) -> None:
        self.count = 0
        self._texts: list[str] = []

    def add(self, trouble: Trouble) -> None:
        self.count += 1
        if len(self._texts) < MAX_TROUBLES:
            self._texts.append(trouble.text)

    def __str__(self) -> str:
        more = self.count - len(self._texts)
        return "; ".join(self._texts) + (f"; and {more:,} more" if more else "")


def _documents(
    file: FoundFile, kind: Kind, options: IngestOptions, troubles: _Troubles, reading: Reading
) -> Iterator[Document]:
    for piece in kind.read(file.path, options.mapping, reading):
        if isinstance(piece, Trouble):
            troubles.add(piece)
            continue
        if isinstance(piece, Record) and max(len(piece.id or ""), len(piece.source or "")) > MAX_NAME_CHARS:
            troubles.add(Trouble(f"an id or a source has more than {MAX_NAME_CHARS:,} characters: {piece.id!r:.60}"))
            continue
        for document in documents_of(
            _in_bounds(piece, reading), source=file.source, size=options.chunk_chars, overlap=options.overlap_chars
        ):
            if options.metadata:
                document = attrs.evolve(document, metadata={**options.metadata, **document.metadata})
            yield document


def _in_bounds(piece: Section | Record, reading: Reading) -> Section | Record:
    """Drop metadata and titles of a piece that are too long to be repeated in each of its passages."""
    if isinstance(piece, Record) and piece.whole:
        return piece
    text, count = without_base64(piece.text)
    if count:
        reading.unread["piece# of Base64"] += count
        piece = attrs.evolve(piece, text=text)
    metadata = bounded(piece.metadata)
    if len(metadata) < len(piece.metadata):
        reading.unread["field# as metadata, being too long or too many"] += len(piece.metadata) - len(metadata)
        piece = attrs.evolve(piece, metadata=metadata)
    if isinstance(piece, Record) and len(piece.title or "") > MAX_NAME_CHARS:
        reading.unread[f"end# of titles of more than {MAX_NAME_CHARS:,} characters"] += 1
        piece = attrs.evolve(piece, title=(piece.title or "")[:MAX_NAME_CHARS])
    return piece


def _take_batch(documents: Iterator[Document]) -> _Batch:
    """Return the next documents, and whether more may follow: the batch is full."""
    batch: list[Document] = []
    size = 0
    try:
        for document in documents:
            batch.append(document)
            size += len(document.text)
            if len(batch) >= MAX_AT_ONCE or size >= MAX_CHARS_AT_ONCE:
                return batch, True
    except (FlexChatError, OSError):
        raise
    except Exception as error:
        raise UnreadableFileError(f"cannot be read ({error_name(error)[:230]})") from error
    return batch, False


def _digest(path: Path, kind: Kind, options: IngestOptions) -> str:
    """Hash a file together with the options and the reader version that determine its passages.

    Raises:
        UnreadableFileError: The file is too large.
    """
    read = [kind.name, kind.version, options.chunk_chars, options.overlap_chars, sorted(options.metadata.items())]
    read += [options.encoding] if kind.text and options.encoding else []
    state = hashlib.blake2b(repr([*read, options.mapping if kind.records else None]).encode(), digest_size=20)
    size = 0
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            size += len(block)
            if size > options.max_file_bytes:
                size = max(size, path.stat().st_size)
                raise UnreadableFileError(
                    f"has {size / 1e6:,.1f} MB, and {options.max_file_bytes / 1e6:,.1f} MB are read at most "
                    "(--max-file-size says how many)"
                )
            state.update(block)
    return state.hexdigest()


def _was_below(name: str, folders: Sequence[str]) -> bool:
    """Return True if the named file would be inside one of the folders but does not exist."""
    below = any(
        name.startswith(folder) if folder else not os.path.isabs(name) and not name.startswith("..")
        for folder in folders
    )
    return below and not os.path.lexists(name)
