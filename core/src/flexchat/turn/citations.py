"""Which passages an answer was based on, and which of them it names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..domain import Citation, Document, RagResults
from ..plugin.call import Cited

_MIN_NAME_CHARS = 4
"""Characters a title needs to be recognised in a text."""


def citations_of(answer: str, rag: RagResults, in_prompt: bool, cited: Sequence[Cited]) -> tuple[Citation, ...]:
    """Return the citations of a turn: those of the prompt first, each passage's title and source once.

    Args:
        shown: Whether the prompt had the documents of phase 2.
        found: What tools cited with ToolContext.cite.
    """
    if not in_prompt and not cited:
        return ()
    folded = answer.casefold()
    citations: dict[tuple[str, str | None, str | None], Citation] = {}
    for document, store, distance, via in (*(_of_prompt(rag) if in_prompt else ()), *_of_tools(cited)):
        key = (document.title, document.source, document.collection)
        if key not in citations:
            citations[key] = Citation(
                title=document.title,
                source=document.source,
                collection=document.collection,
                store=store,
                distance=round(distance, 6),
                named=any(_stands_in(name, folded) for name in (document.title, document.source)),
                via=via,
            )
    return tuple(citations.values())


def _of_prompt(rag: RagResults) -> Iterable[tuple[Document, str, float, str]]:
    for hit in rag.hits:
        for document, distance in zip(hit.documents, hit.distances, strict=True):
            yield document, hit.store, distance, "prompt"


def _of_tools(cited: Sequence[Cited]) -> Iterable[tuple[Document, str, float, str]]:
    for each in cited:
        for document, distance in zip(each.hits.documents, each.hits.distances, strict=True):
            yield document, each.store, distance, each.tool


def _stands_in(name: str | None, folded: str) -> bool:
    if name is None or len(name) < _MIN_NAME_CHARS or name == "Untitled":
        return False
    file = name.replace("\\", "/").rsplit("/", 1)[-1]
    return name.casefold() in folded or (len(file) >= _MIN_NAME_CHARS and file.casefold() in folded)
