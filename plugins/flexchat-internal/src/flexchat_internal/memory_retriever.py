"""The document store "memory": documents from the config or from text files, ranked by BM25.

Files are read at the first query and stay in memory until the app is closed. Matches words, not meanings.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
from flexchat.store import (
    Collection,
    Document,
    DocumentStoreContext,
    RetrievalError,
    RetrievalHits,
    UnknownCollectionError,
    Where,
    holds,
    located,
    open_file,
    read_filter,
)

# The usual BM25 constants (Robertson and Zaragoza, 2009): saturation of term frequency, and length normalization.
_K1 = 1.2
_B = 0.75

_WORD = re.compile(r"[^\W_]+")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_SUFFIXES = (".md", ".markdown", ".txt", ".rst")


MAX_TERMS = 64  # maximum number of words of a question that are searched for, the first ones
MAX_QUESTION = 20_000  # maximum length of a question; the rest is ignored


class MemoryStoreError(RetrievalError):
    """A document cannot be read; the text names it and the reason."""


@attrs.frozen(kw_only=True)
class MemoryConfig:
    """A stores entry with provider = "memory".

    Attributes:
        documents: Inline documents.
        paths: UTF-8 text or Markdown files, or folders of such files; each file is one document, titled by its
            first heading, else by its name.
        collection: The collection of files, and of documents without one.
        description: The subject of the documents, for prompts.
    """

    documents: tuple[Document, ...] = ()
    paths: tuple[str, ...] = ()
    collection: str | None = None
    description: str = ""


class MemoryRetriever:
    """Ranks in-memory documents by the words they share with a query."""

    def __init__(self, config: MemoryConfig, context: DocumentStoreContext | None = None) -> None:
        self._config = config
        folder = context.folder if context is not None else None
        self._places = [located(name, folder) for name in config.paths]
        self._index: Index | None = None
        self._lock = asyncio.Lock()

    async def query(
        self, text: str, *, collection: str | None, top_k: int, where: Where | None = None
    ) -> RetrievalHits:
        """Return at most top_k documents that share a word with *text*, best first.

        The distance is 1 - score / best possible score: 0 for a perfect match, 1 for no word in common; documents at
        distance 1 are not returned.

        Raises:
            MemoryStoreError: A file cannot be read.
            UnknownCollectionError: The collection does not exist.
        """
        condition = read_filter(where)
        index = await self._read()
        if collection is not None and collection not in index.collections:
            raise UnknownCollectionError(collection, index.collections)
        results = index.search(text, collection, top_k, lambda document: holds(condition, document.metadata))
        return RetrievalHits(
            documents=tuple(document for document, _ in results),
            distances=tuple(distance for _, distance in results),
            description=self._config.description,
        )

    async def collections(self) -> tuple[Collection, ...]:
        """Return the collections of the documents.

        Raises:
            MemoryStoreError: A file cannot be read.
        """
        counts = (await self._read()).collections
        return tuple(
            Collection(name=name, description=self._config.description, documents=count)
            for name, count in counts.items()
        )

    async def _read(self) -> Index:
        async with self._lock:  # simultaneous first queries read the files once
            if self._index is None:
                self._index = await asyncio.to_thread(lambda: Index(_documents(self._config, self._places)))
            return self._index

    async def aclose(self) -> None:
        """Release the documents."""
        self._index = None


class Index:
    """An inverted index: documents with their word counts."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.documents = tuple(documents)
        self._counts = [Counter(_words(f"{d.title} {d.text}")) for d in self.documents]
        self._lengths = [counts.total() for counts in self._counts]
        self._average = sum(self._lengths) / len(self._lengths) if self._lengths else 0.0
        self._holders = Counter(word for counts in self._counts for word in counts)

    @property
    def collections(self) -> Counter[str]:
        """Number of documents per collection, sorted by name."""
        return Counter(sorted(d.collection for d in self.documents if d.collection is not None))

    def search(
        self, text: str, collection: str | None, top_k: int, passes: Callable[[Document], bool]
    ) -> list[tuple[Document, float]]:
        """Return the best documents with their distances. The order of equal ones is stable."""
        terms = itertools.islice(dict.fromkeys(_words(text[:MAX_QUESTION])), MAX_TERMS)
        words = {word: self._weight(word) for word in terms}
        best = sum(words.values()) * (_K1 + 1)
        scored = []
        for place, document in enumerate(self.documents):
            if collection in (None, document.collection) and passes(document):
                score = sum(weight * self._frequency(word, place) for word, weight in words.items())
                if score > 0:
                    scored.append((document, max(0.0, 1 - score / best)))
        scored.sort(key=lambda pair: pair[1])
        return scored[: max(0, top_k)]

    def _weight(self, word: str) -> float:
        """Inverse document frequency of a word."""
        holders = self._holders[word]
        return math.log(1 + (len(self.documents) - holders + 0.5) / (holders + 0.5))

    def _frequency(self, word: str, place: int) -> float:
        """Saturated, length-normalized frequency of a word in a document, 0 to K1 + 1."""
        count = self._counts[place][word]
        length = self._lengths[place] / self._average if self._average else 0.0
        return count * (_K1 + 1) / (count + _K1 * (1 - _B + _B * length)) if count else 0.0


def _words(text: str) -> Iterable[str]:
    """Yield the words of a text, with plurals reduced to singulars."""
    for word in _WORD.findall(text.casefold()):
        yield word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def _documents(config: MemoryConfig, places: Iterable[Path]) -> Iterable[Document]:
    for entry in config.documents:
        yield attrs.evolve(entry, collection=entry.collection or config.collection)
    for place in places:
        for path in _files(place):
            yield _read(path, config.collection)


def _files(path: Path) -> list[Path]:
    if os.path.isdir(path):
        return sorted(p for p in path.rglob("*") if p.suffix.casefold() in _SUFFIXES and os.path.isfile(p))
    return [path]


def _read(path: Path, collection: str | None) -> Document:
    try:
        with open_file(path) as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        raise MemoryStoreError(f"'{path}' cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise MemoryStoreError(f"'{path}' is not UTF-8 text (byte {error.start})") from error
    heading = _HEADING.search(text)
    return Document(text=text, title=heading[1] if heading else path.stem, source=str(path), collection=collection)
