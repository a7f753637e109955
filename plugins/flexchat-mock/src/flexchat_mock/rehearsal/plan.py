"""Splits a message into requests and selects a tool call for each."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from .fill_arguments import Argument, fill_arguments
from .values import values_of
from .words import content_stems

MAX_CHARACTERS, _MAX_REQUESTS = 2_000, 24  # longer messages are truncated: matching takes time
_ENOUGH = 2.0
_IN_NAME = 2.0  # weight of a word of the tool's name; words of its description and of parameter names weigh 1
_NOTHING_ELSE = 1.0  # if the request consists of the tool's words only
_INCOMPLETE = 0.4

_SENTENCE_END = re.compile(r"(?<=[.!?])[\"'”’)]*\s+|\s*\n\s*")
_JOINT = re.compile(r"(?:\s*[,;]\s*|\s+)(?:and|then|also)(?:\s+(?:then|also))*\s+|\s*[,;]\s+", re.IGNORECASE)


@attrs.frozen
class Tool:
    """A tool of the request, with weights of the word stems in its name, parameters and description."""

    name: str
    schema: Mapping[str, Any]
    about: Mapping[str, float]


@attrs.frozen
class Step:
    """One request of a message, quoted, with the tool and arguments selected for it."""

    text: str
    tool: str | None = None
    filled: Mapping[str, Argument] = attrs.field(factory=dict)
    missing: tuple[str, ...] = ()  # required parameters without a value in the request

    @property
    def is_call(self) -> bool:
        """True if a tool is selected and no required argument is missing."""
        return self.tool is not None and not self.missing

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of the call."""
        return {name: argument.value for name, argument in self.filled.items()}


def read_tools(wire: Sequence[Mapping[str, Any]]) -> tuple[Tool, ...]:
    """Parse the tools of a request from their wire format."""
    return tuple(_read(entry.get("function", entry)) for entry in wire)


def _read(function: Mapping[str, Any]) -> Tool:
    schema = function.get("parameters")
    schema = schema if isinstance(schema, Mapping) else {}
    properties = schema.get("properties")
    texts = [str(function.get("description")), *(properties if isinstance(properties, Mapping) else ())]
    about = {word: 1.0 for text in texts for word in content_stems(str(text))}
    return Tool(function["name"], schema, about | dict.fromkeys(content_stems(function["name"]), _IN_NAME))


def plan(message: str, tools: Sequence[Tool]) -> tuple[Step, ...]:
    """Split a message into requests, in order, and select a call for each."""
    sentences = _SENTENCE_END.split(message[:MAX_CHARACTERS])
    return tuple(step for sentence in sentences for step in _requests(sentence, tools))[:_MAX_REQUESTS]


def _requests(sentence: str, tools: Sequence[Tool]) -> list[Step]:
    """Split a sentence at each "and" or comma that a complete request follows."""
    steps: list[Step] = []
    for joint, piece in _pieces(sentence):
        last = steps[-1] if steps else None
        step = _choose(piece, tools)
        if not step.is_call:
            step = _again(last, piece) or step
        if last is None or (step.is_call and last.is_call):
            steps.append(step)
        else:
            steps[-1] = _choose(last.text + joint + piece, tools)
    return steps


def _pieces(sentence: str) -> Iterator[tuple[str, str]]:
    """Yield (separator, piece) pairs. Quotations and expressions are not split."""
    closed = [value for value in values_of(sentence) if value.kind in ("quote", "expression")]
    start, joint = 0, ""
    cuts = [m for m in _JOINT.finditer(sentence) if not any(v.start < m.end() and m.start() < v.end for v in closed)]
    for cut in cuts[:_MAX_REQUESTS]:
        if re.search(r"\w", sentence[start : cut.start()]):
            yield joint, sentence[start : cut.start()].strip()
            start, joint = cut.end(), cut[0]
    if re.search(r"\w", sentence[start:]):
        yield joint, sentence[start:].strip()


def _choose(text: str, tools: Sequence[Tool]) -> Step:
    """Select the best matching tool, preferring tools without missing arguments."""
    best, best_rank = Step(text), 0.0
    values, words = values_of(text), content_stems(text)
    for tool in tools:
        arguments, missing = fill_arguments(tool.schema, text, values, tool.about)
        score = sum(tool.about.get(word, 0.0) for word in words) + sum(each.evidence for each in arguments.values())
        score += _NOTHING_ELSE if words and words <= tool.about.keys() else 0.0
        rank = score * (_INCOMPLETE if missing else 1.0)
        if score >= _ENOUGH and rank > best_rank:
            best, best_rank = Step(text, tool.name, arguments, missing), rank
    return best


def _again(last: Step | None, piece: str) -> Step | None:
    """Repeat the previous call with a new value if the piece is just that: "in Paris", "and Rome"."""
    values = values_of(piece)
    if last is None or not last.is_call or len(values) != 1:
        return None
    (value,) = values
    is_alone = not content_stems(f"{piece[: value.start]} {piece[value.end :]}")
    for name, argument in last.filled.items() if is_alone else ():
        if argument.uses is not None and argument.uses.kind == value.kind:
            as_written = argument.value != argument.uses.value
            new_value = piece[value.start : value.end] if as_written else value.value
            return Step(piece, last.tool, {**last.filled, name: attrs.evolve(argument, value=new_value, uses=value)})
    return None
