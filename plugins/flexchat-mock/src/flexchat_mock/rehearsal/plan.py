"""Splits a message into requests, selects a tool call for each, and fills its arguments from the text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs

from .values import Value, content_stems, is_stop_word, name_words, stem, values_of, words_of

_KINDS = {
    word: words.split()[0]
    for words in (
        "expression formula",
        "zone timezone tz",
        "email mail recipient",
        "url uri link",
        "date day",
        "words query question topic text message content body prompt",
    )
    for word in words.split()
}
"""The kind of value of a parameter with such a word in its name, or such a format; "words" are free text."""

_CUES = {"replace": "by|with", "replacement": "by|with", "separator": "at|by", "to": "to|into", "from": "from"}
"""Words that introduce the value of a parameter of that name: "by 'dog'"."""

_EVIDENCE = {"expression": 3.0, "zone": 1.5, "name": 0.5, "quote": 0.5}


@attrs.frozen
class Argument:
    """A value for a parameter."""

    value: Any
    evidence: float = 0.0  # weight in favour of the tool
    uses: Value | None = None  # no other parameter may use this value


@attrs.frozen
class _Parameter:
    name: str
    types: Collection[Any]
    options: Sequence[Any]
    kind: str
    is_needed: bool  # required, or the only parameter: a guess is better than nothing

    @property
    def takes_words(self) -> bool:
        return "string" in self.types and not self.options and self.kind in ("", "words")


def fill_arguments(
    schema: Mapping[str, Any], text: str, values: Sequence[Value], about: Collection[str]
) -> tuple[dict[str, Argument], tuple[str, ...]]:
    """Extract arguments for *schema* from a text. Returns them, and the required parameters that are missing."""
    listed = schema.get("required")
    required = [str(name) for name in listed] if isinstance(listed, list | tuple) else []
    parameters = sorted(_parameters(schema, required), key=lambda p: p.name not in required)
    arguments: dict[str, Argument] = {}
    free, rest = [*values], text
    for find in (_match_option, _match_label, _take_next):
        for parameter in (p for p in parameters if p.name not in arguments):
            if (argument := find(parameter, text, free)) is not None:
                arguments[parameter.name] = argument
                if (used := argument.uses) is not None:
                    free.remove(used)
                    rest = rest[: used.start] + " " * (used.end - used.start) + rest[used.end :]
    empty = next((p.name for p in parameters if p.is_needed and p.takes_words and p.name not in arguments), None)
    if empty is not None and (remainder := _drop_tool_words(rest, about)):
        arguments[empty] = Argument(remainder)
    ordered = {p.name: arguments[p.name] for p in parameters if p.name in arguments}
    return ordered, tuple(name for name in required if name not in arguments)


def _parameters(schema: Mapping[str, Any], required: Sequence[str]) -> list[_Parameter]:
    properties = schema.get("properties")
    parts = {str(name): part for name, part in properties.items()} if isinstance(properties, Mapping) else {}
    parameters = []
    for name, part in parts.items():
        part = part if isinstance(part, Mapping) else {}
        forms = part.get("anyOf")  # For "anyOf: X or null", use X.
        forms = forms if isinstance(forms, list) else []
        part = {**part, **next((f for f in forms if isinstance(f, Mapping) and f.get("type") != "null"), {})}
        kinds, options = part.get("type", "string"), part.get("enum")
        types, options = (list(each) if isinstance(each, list | tuple) else [] for each in (kinds, options))
        words = (*name_words(str(part.get("format", ""))), *name_words(name))
        kind = next((_KINDS[word] for word in words if word in _KINDS), "")
        parameters.append(_Parameter(name, types or [kinds], options, kind, name in required or len(parts) == 1))
    return parameters


def _match_option(parameter: _Parameter, text: str, free: Sequence[Value]) -> Argument | None:
    """Match one of the values of the parameter's enum."""
    options = (o for o in parameter.options if re.search(rf"(?<!\w){re.escape(str(o))}(?!\w)", text, re.IGNORECASE))
    return next((Argument(option, 1.0) for option in options), None)


def _match_label(parameter: _Parameter, text: str, free: Sequence[Value]) -> Argument | None:
    """Match a value labelled by the parameter's name: "limit 10", "3 days", "in the text '…'", "by 'dog'".

    The first word of the text is usually a verb, so it is a label only if a colon or an equals sign follows.
    """
    name = r"[\s_-]*".join(map(re.escape, name_words(parameter.name))) or re.escape(parameter.name)
    lead = rf"(?:\w\W+{name}\s*(?:\bis\b|\bof\b|[:=])?|^\W*{name}\s*[:=])\s*"
    cues = "|".join(_CUES[word] for word in name_words(parameter.name) if word in _CUES) or r"(?!)"
    for value in free:
        unit = re.match(r"\s*-?([^\W\d]+)", text[value.end :])
        counted = value.kind == "number" and unit is not None and stem(unit[1]) in content_stems(parameter.name)
        is_meant = counted or re.search(rf"(?:{lead}|\b(?:{cues})\s+)$", text[: value.start], re.IGNORECASE)
        if is_meant and (argument := _convert(parameter, text, value)) is not None:
            return argument
    return None


def _take_next(parameter: _Parameter, text: str, free: Sequence[Value]) -> Argument | None:
    """Take the next suitable value. Optional parameters take numbers and names only if they match their kind."""
    sure = [value for value in free if parameter.is_needed or value.kind in ("quote", parameter.kind)]
    return next((argument for value in sure if (argument := _convert(parameter, text, value)) is not None), None)


def _convert(parameter: _Parameter, text: str, value: Value) -> Argument | None:
    """Convert a value to an argument; None if its type does not match the parameter."""
    evidence = _EVIDENCE.get(value.kind, 1.0)
    if value.kind == "number":
        fits = "number" in parameter.types or ("integer" in parameter.types and isinstance(value.value, int))
        return Argument(value.value, evidence, value) if fits else None
    if "string" in parameter.types and value.kind == (parameter.kind or "quote"):
        return Argument(value.value, evidence, value)
    if not parameter.takes_words or value.kind == "expression" or (parameter.kind and value.kind != "quote"):
        return None
    return Argument(value.value if value.kind == "quote" else text[value.start : value.end], 0.5, value)


def _drop_tool_words(text: str, about: Collection[str]) -> str:
    """Return the text from its first content word that is not about the tool."""
    for word in words_of(text):
        if not is_stop_word(word[0]) and stem(word[0]) not in about:
            return text[word.start() :].rstrip(" \t.,;:!?")
    return ""


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
