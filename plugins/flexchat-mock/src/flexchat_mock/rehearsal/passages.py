"""Answers quoted from the documents in a prompt: the sentences that share the most words with the question."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence

import attrs

from .values import content_stems

# The form FlexChat gives {{rag_context}}: "### TITLE (from COLLECTION)", "Source: FILE", a blank line, the text.
_PASSAGE = re.compile(
    r"(?:\A|(?<=\n))### (?P<title>[^\n]{1,500}?)(?P<from> \(from [^\n]{1,300}\))?"
    r"(?P<line>\nSource: (?P<source>[^\n]+))?\n\n"
)
_BETWEEN = "\n\n---\n\n"
_FENCE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1[^\n]*$|\Z)", re.MULTILINE | re.DOTALL)
_OWN_LINE = re.compile(r"\s*(?:[-*+>|]|\d+[.)]|#{1,6}\s)")
_HEADING, _TABLE_RULE = re.compile(r"\s*#{1,6}\s"), re.compile(r"[\s|:+-]*")
_MARK = re.compile(r"^[-*+>|]\s+|\s*\|$")
_END = re.compile(r"(?<=[.!?])\s+(?=[^\s\da-z])")

_MAX_CHARACTERS, _MAX_SENTENCE = 200_000, 400
_RANK_FACTOR = 0.7  # factor per preceding passage: the search results are sorted, best first
_TITLE_WEIGHT = 0.5  # weight of a word that occurs only in the title


@attrs.frozen(kw_only=True)
class Passage:
    """A document in a prompt."""

    title: str
    source: str | None
    text: str


def read_passages(prompt: str) -> tuple[Passage, ...]:
    """Parse the passages of a prompt, in order.

    A heading begins a passage only with a collection or a source, so that a prompt's own headings are ignored.
    """
    prompt = prompt[:_MAX_CHARACTERS]
    heads: list[re.Match[str]] = []
    for head in _PASSAGE.finditer(prompt):
        # Other headings are part of a passage's text.
        if (not heads or prompt.endswith(_BETWEEN, 0, head.start())) and (head["from"] or head["line"]):
            heads.append(head)
    ends = [*(head.start() - len(_BETWEEN) for head in heads), len(prompt)][1:]
    return tuple(
        Passage(title=head["title"], source=head["source"], text=prompt[head.end() : end])
        for head, end in zip(heads, ends, strict=True)
    )


def from_passages(question: str, passages: Sequence[Passage]) -> str:
    """Quote the sentence that best matches the question, with its source; or state that none matches."""
    stems_asked = content_stems(question)
    sentences = [(place, text) for place, passage in enumerate(passages) for text in _sentences(passage.text)]
    stems = [content_stems(text) for _, text in sentences]
    counts = Counter(word for one in stems for word in one)
    weights = {word: math.log(1 + len(sentences) / counts[word]) for word in stems_asked if counts[word]}
    titles = [content_stems(passage.title) for passage in passages]
    best, best_score = None, 0.0
    for (place, text), own in zip(sentences, stems, strict=True):
        score = sum(weights[word] for word in weights if word in own)
        score += _TITLE_WEIGHT * sum(weights[word] for word in weights if word in titles[place] - own) if score else 0
        if score * _RANK_FACTOR**place > best_score:
            best, best_score = (passages[place], text), score * _RANK_FACTOR**place
    if best is None:
        return "The passages found share no word with the question."
    passage, sentence = best
    return f"{sentence} (Source: {f'{passage.title}, {passage.source}' if passage.source else passage.title})"


def _sentences(text: str) -> Iterator[str]:
    """Yield quotable units: sentences, list entries and table rows; no code and no headings."""
    for block in re.split(r"\n\s*\n", _FENCE.sub("\n\n", text)):
        pieces: list[str] = []
        for line in block.splitlines():
            if pieces and not _OWN_LINE.match(line) and not _HEADING.match(pieces[-1]):
                pieces[-1] += " " + line.strip()
            else:
                pieces.append(line.strip())
        for piece, following in itertools.zip_longest(pieces, pieces[1:], fillvalue="."):
            if _HEADING.match(piece) or _TABLE_RULE.fullmatch(piece) or _TABLE_RULE.fullmatch(following):
                continue  # The row above a table's rule is its header.
            for sentence in _END.split(_MARK.sub("", piece)):
                yield sentence if len(sentence) <= _MAX_SENTENCE else sentence[: _MAX_SENTENCE - 1] + "…"
