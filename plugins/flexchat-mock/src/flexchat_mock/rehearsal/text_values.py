"""Free text for a parameter: what is quoted, named, led to, or left over."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .clause import Clause, bare
from .meant import Candidate, named
from .parameters import Parameter
from .words import Word, groups_of, is_stop_word, name_words, stem

FREE_KINDS = ("text", "topic", "name", "", "identifier")
"""Kinds of text that may be any words."""

_CUES = {
    "topic": r"about|regarding|concerning|for|on|called|named|titled|of|to",
    "text": r"saying|that\s+says|that\s+reads|reading|that|to",
    "name": r"called|named|titled|about|for|to",
    "": r"called|named|about|for|of|to",
    "identifier": r"called|named|for|of",
}
_LATE = {"that", "to", "of"}


def text_candidates(
    parameter: Parameter,
    others: Sequence[Parameter],
    clause: Clause,
    used: Sequence[tuple[int, int]],
    tool_words: frozenset[str],
) -> Iterator[Candidate]:
    """Yield stretches of free text for a parameter.

    Args:
        others: The tool's other parameters; their names end a text.
        used: Stretches that other arguments have taken.
        tool_words: Stems and synonym groups of the tool's words: "search for" is no part of what is searched for.
    """
    for value in clause.values:
        if value.kind == "quoted" and not _taken(value.start, value.end, used):
            said = named(parameter, clause, value.start)
            saying = re.search(r"\b(?:saying|says|reading|reads)[\s:]*$", clause.before(value.start), re.I)
            meant = 5.0 if said or (saying and parameter.kind == "text") else 4.0 if parameter.kind == "text" else 3.0
            if parameter.kind == "text" and re.search(r"\b(?:in|of)\s*$", clause.before(value.start), re.I):
                meant += 0.5
            yield Candidate(parameter, value.value, meant, 0.3, value.start, value.end)
    for start, inner in _named_places(parameter, clause, tool_words):
        yield from _cut(parameter, clause, start, inner, _end(clause, inner, used, others), 4.5, 0.5)
    if parameter.kind in ("text", "topic", ""):
        for match in re.finditer(r":\s+(?=\S)", clause.text):
            yield from _cut(
                parameter, clause, match.start(), match.end(), _end(clause, match.end(), used, others), 2.6, 0.1
            )
    if parameter.required or parameter.kind in ("topic", "text"):
        yield from _led_to(parameter, others, clause, used)
    if parameter.required:
        yield from _left_over(parameter, clause, used, tool_words)


def _named_places(parameter: Parameter, clause: Clause, tool_words: frozenset[str]) -> Iterator[tuple[int, int]]:
    """Where the parameter's name leads to a text: "with the subject …", "body: …"."""
    for form in {parameter.name, " ".join(name_words(parameter.name))}:
        lead = r"(?:\b(?:with|and|the|a|as|of|in)\s+)*(?<!\w)"
        sign = r"(?:\s*[:=]\s*|\s+(?:is|as|saying|that\s+says|of)\s+|\s+)"
        for match in re.finditer(lead + re.escape(form) + sign, clause.text, re.I):
            following = next((w for w in clause.words if w.start >= match.end()), None)
            quoted = clause.text[match.end() : match.end() + 1] in tuple("\"'“`«")
            if following is not None and not quoted and not (_is_of(following, tool_words) and match[0][-1:].isspace()):
                yield match.start(), match.end()


def _led_to(
    parameter: Parameter, others: Sequence[Parameter], clause: Clause, used: Sequence[tuple[int, int]]
) -> Iterator[Candidate]:
    cues = _CUES.get(parameter.kind, "")
    if not cues:
        return
    for match in re.finditer(rf"(?<!\w)(?P<cue>{cues})\s+", clause.text, re.I):
        cue = match["cue"].casefold()
        score = (
            1.3
            if cue in _LATE
            else 2.6
            if cue in ("about", "regarding", "concerning", "saying", "called", "named")
            else 2.1
        )
        end = _end(clause, match.end(), used, others)
        yield from _cut(parameter, clause, match.start(), match.end(), end, score - match.start() / 1e5, 0.1)


def _left_over(
    parameter: Parameter, clause: Clause, used: Sequence[tuple[int, int]], tool_words: frozenset[str]
) -> Iterator[Candidate]:
    """The longest stretch nobody has taken, without the words that name the tool."""
    best: tuple[int, int] | None = None
    edges = [0, *(e for pair in sorted(used) for e in pair), len(clause.text)]
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        words = [w for w in clause.words if start <= w.start and w.end <= end]
        words = words[_frame(words, tool_words, parameter.kind) :]
        while words and (
            words[-1].text.casefold() in _TRAILING or (parameter.kind != "text" and _is_of(words[-1], tool_words))
        ):
            words = words[:-1]
        if words and (best is None or words[-1].end - words[0].start > best[1] - best[0]):
            best = words[0].start, words[-1].end
    if best is not None:
        yield from _cut(parameter, clause, best[0], best[0], best[1], 0.9, 0.0)


def _frame(words: Sequence[Word], tool_words: frozenset[str], kind: str) -> int:
    """How many words at the beginning only ask: "please echo", "can you find the"."""
    last = size = 0
    for word in words:
        of_tool = _is_of(word, tool_words)
        if not of_tool and not is_stop_word(word.text):
            break
        size += 1
        last = size if of_tool else last
    # A text may begin with any word ("hello"): only what leads to the tool's own word is cut.
    return last if kind == "text" else size


def _is_of(word: Word, tool_words: frozenset[str]) -> bool:
    return stem(word.text) in tool_words or bool(groups_of(word.text) & tool_words)


_TRAILING = {
    "please",
    "saying",
    "that",
    "for",
    "to",
    "in",
    "into",
    "on",
    "at",
    "with",
    "from",
    "of",
    "and",
    "me",
    "now",
    "by",
    "as",
    "the",
    "about",
}


def _end(clause: Clause, start: int, used: Sequence[tuple[int, int]], others: Sequence[Parameter]) -> int:
    """Where a text ends: at the next argument that is taken, or at the name of another parameter."""
    end = min((s for s, _ in used if s >= start), default=len(clause.text))
    for other in others:
        for form in {other.name, " ".join(name_words(other.name))}:
            if len(form) < 3:
                continue
            pattern = rf",?\s+(?:and\s+)?(?:with\s+)?(?:the\s+)?(?<!\w){re.escape(form)}(?!\w)"
            match = re.compile(pattern, re.I).search(clause.text, start, end)
            if match and match.start() > start:
                end = match.start()
    return end


def _cut(
    parameter: Parameter, clause: Clause, start: int, inner: int, end: int, score: float, evidence: float
) -> Iterator[Candidate]:
    said = clause.text[inner:end]
    text = (
        bare(said) if parameter.kind != "text" else said.strip(' \t\n\0"“”?' if said.count("?") == 1 else ' \t\n\0"“”')
    )
    text = re.sub(r"\s+(?:please|and|with|for|to|in|into|at|on|by)$", "", text, flags=re.I)
    if parameter.kind == "text":
        text = text.rstrip(",;:")
        text = text[:-1] if text.endswith(".") and text.count(".") == 1 else text
    if text and "\0" not in text:
        yield Candidate(parameter, text, score, evidence, start, end)


def _taken(start: int, end: int, used: Sequence[tuple[int, int]]) -> bool:
    return any(start < b and a < end for a, b in used)
