"""Cuts a message into requests and finds the call that answers each."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from .choose_tool import ENOUGH, Match, Tool, choose_tool
from .clause import Clause
from .fill_arguments import fill_arguments
from .vocabulary import PREPOSITIONS
from .words import groups_of, is_stop_word, stem

MAX_CHARACTERS = 2_000
"""Of a message, this much is read, and at most MAX_SENTENCES: matching words takes time, and this is a rehearsal."""

MAX_SENTENCES = 16

_MAX_CUTS = 12
# A longer sentence is a text rather than several requests.
_MOST_TO_CUT = 400
_SENTENCE_END = re.compile(
    r"(?<![ .][A-Za-z])(?<!\b(?:Mr|Dr|St|No|vs))(?<!\bMrs)(?<!\bProf)[.!?]+[\"'”’)]*\s+|\s*\n+\s*"
)
_JOINT = re.compile(r"\s*[,;]?\s+(?:and|then|also|plus)(?:\s+(?:then|also|please))*\s+|\s*[,;]\s+|\s*;\s*", re.I)
_COUNT_OF_PARTS = 2


@attrs.frozen
class Step:
    """One request of a message, and what can be done about it.

    Attributes:
        text: The request in the user's words.
        tool: The tool that fits; None if none does.
        arguments: What to call it with.
        missing: Names of required parameters the message says nothing of; with any, there is no call.
    """

    text: str
    tool: str | None = None
    arguments: Mapping[str, Any] = attrs.field(factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def is_call(self) -> bool:
        """Whether it can be called."""
        return self.tool is not None and not self.missing


def plan(
    message: str, tools: Sequence[Tool], today: dt.date, *, earlier: str = "", must_call: bool = False
) -> tuple[Step, ...]:
    """Return the requests of a message, in order.

    Args:
        earlier: The user's message before, for one that only adds to it: "and in Paris?".
        must_call: Take the best tool, however badly it fits.
    """
    enough = 0.1 if must_call else ENOUGH
    sentences = _sentences(message)
    parts: list[Match | str] = []
    helped = False
    for i, sentence in enumerate(sentences):
        context = " . ".join(s for j, s in enumerate(sentences) if j != i)
        found = _requests(sentence, context, tools, today, enough)
        helped = helped or any(isinstance(p, Match) and p.from_context for p in found)
        parts += found
    if helped:  # what only said an argument of another sentence is no request
        parts = [p for p in parts if isinstance(p, Match)]
    if earlier and not any(isinstance(p, Match) and p.complete for p in parts):
        parts = _continued(earlier, message[:MAX_CHARACTERS], tools, today) or parts
    return tuple(_distinct(_step(part) for part in parts))


def _sentences(text: str) -> list[str]:
    found = [s for s in _SENTENCE_END.split(text[:MAX_CHARACTERS]) if s and re.search(r"\w", s)]
    return found[:MAX_SENTENCES]


def _step(part: Match | str) -> Step:
    if isinstance(part, str):
        return Step(part.strip())
    filled = part.filled
    return Step(part.clause.text.strip(), part.tool.name, filled.arguments, filled.missing)


def _distinct(steps: Iterator[Step]) -> Iterator[Step]:
    seen = set()
    for step in steps:
        key = json.dumps([step.tool, dict(step.arguments)], sort_keys=True, default=str) if step.is_call else step.text
        if key not in seen:
            seen.add(key)
            yield step


def _requests(text: str, context: str, tools: Sequence[Tool], today: dt.date, enough: float) -> list[Match | str]:
    """The requests of a sentence; what fits no tool stays as its text."""
    rest, found = text, []
    carried: Match | None = None
    while rest:
        whole = choose_tool(Clause(rest, today), tools, enough=enough)
        if carried is not None:
            whole = _carry(carried, rest, today) or whole
        cut = _first_cut(rest, whole, tools, today, carried) if len(rest) <= _MOST_TO_CUT else None
        if cut is None:
            found.append(_completed(whole, context, today) if whole else rest)
            break
        carried, rest = cut
        found.append(carried)
    return found


def _first_cut(
    text: str, whole: Match | None, tools: Sequence[Tool], today: dt.date, carried: Match | None
) -> tuple[Match, str] | None:
    """The first place where what is before and what is after are two requests, each with a call of its own."""
    for number, joint in enumerate(_JOINT.finditer(text)):
        if number >= _MAX_CUTS:
            break
        if whole is not None and whole.complete and _is_inside(joint, whole):
            continue
        before, after = text[: joint.start()], text[joint.end() :]
        if not before.strip() or not after.strip() or text[: joint.start()].count('"') % 2:
            continue
        left = choose_tool(Clause(before, today), tools)
        if carried is not None:
            left = _carry(carried, before, today) or left
        if left is None or not left.complete:
            continue
        # "news from Rome, 5 headlines" is one request: as a whole it says more to the same tool.
        one = whole is not None and whole.complete and whole.tool == left.tool
        if one and whole is not None and len(whole.filled.arguments) > len(left.filled.arguments):
            continue
        if _begins_request(after, left, tools, today):
            return left, after
    return None


def _begins_request(text: str, left: Match, tools: Sequence[Tool], today: dt.date) -> bool:
    """Whether a text, or what it has before its next joint, is a request of its own or repeats the one before."""
    ends = [len(text), *(j.start() for j in _JOINT.finditer(text))][: _COUNT_OF_PARTS + 1]
    for end in ends:
        match = choose_tool(Clause(text[:end], today), tools)
        if match is not None and match.complete and (match.tool != left.tool or not match.filled.guessed):
            return True
        if _carry(left, text[:end], today) is not None:
            return True
    return False


def _is_inside(joint: re.Match[str], whole: Match) -> bool:
    """Whether a joint lies within one value: "a, b and c" for a list, an expression, a quote."""
    values = [v for v in whole.clause.values if v.kind in ("quoted", "expression", "moment")]
    if any(v.start < joint.start() and joint.end() < v.end for v in values):
        return True
    lists = [
        whole.filled.used[n]
        for n, v in whole.filled.arguments.items()
        if isinstance(v, list) and n in whole.filled.used
    ]
    return any(start < joint.start() and joint.end() < end for start, end in lists)


def _carry(last: Match, text: str, today: dt.date) -> Match | None:
    """The call before once more, with what a text says otherwise: "… in Tokyo, and in Paris?".

    None if the text says more than values, or none that the call before has.
    """
    clause = Clause(text, today)
    names = {n for n in last.filled.used if n not in last.filled.guessed or _is_plain(last.filled.arguments[n])}
    # Where a value would do for two parameters, the one that was said last is meant.
    order = sorted(names, key=lambda n: -last.filled.used[n][0])
    filled = fill_arguments(last.tool.schema, clause, last.tool.all_words, only=names, order=order, free_text=False)
    if not filled.arguments or not filled.used:
        return None
    for word in clause.words:
        known = stem(word.text) in last.tool.words or groups_of(word.text) & last.tool.words.keys()
        inside = any(start <= word.start and word.end <= end for start, end in filled.used.values())
        if not (inside or known or is_stop_word(word.text) or word.text.casefold() in PREPOSITIONS):
            return None
    arguments = {**last.filled.arguments, **filled.arguments}
    used = {**last.filled.used, **filled.used}
    return Match(last.tool, clause, attrs.evolve(filled, arguments=arguments, missing=(), used=used), last.score)


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _completed(match: Match, context: str, today: dt.date) -> Match:
    """The match, with what it lacks taken from the rest of the message if that is there."""
    if match.complete or not context:
        return match
    clause = Clause(f"{match.clause.text} . {context}", today)
    filled = fill_arguments(match.tool.schema, clause, match.tool.all_words, free_text=False)
    return attrs.evolve(match, filled=filled, from_context=True) if not filled.missing else match


def _continued(earlier: str, message: str, tools: Sequence[Tool], today: dt.date) -> list[Match | str]:
    """What a message asks that only adds to the one before; nothing if it does not."""
    sentences = _sentences(earlier)
    before = [m for s in sentences for m in _requests(s, "", tools, today, ENOUGH) if isinstance(m, Match)]
    if not before:
        return []
    last = before[-1]
    if last.complete:
        added = _carry(last, message, today)
        return [added] if added is not None else []
    clause = Clause(f"{last.clause.text} : {message}", today)
    filled = fill_arguments(last.tool.schema, clause, last.tool.all_words)
    new = any(end > len(last.clause.text) for _, end in filled.used.values())
    return [Match(last.tool, clause, filled, last.score)] if not filled.missing and new else []
