"""What in a clause could be meant for a parameter, and how surely."""

from __future__ import annotations

import re
from collections.abc import Iterator

import attrs

from .clause import Clause
from .fits import fits
from .meant import MENTIONED, NO_NAMES, PLAIN_CUES, Candidate, cue_of, made
from .number_candidates import number_candidates
from .parameters import Parameter
from .values import Value
from .vocabulary import ENUM_SYNONYMS, LANGUAGES
from .words import groups_of, name_words, stem


def candidates_of(parameter: Parameter, clause: Clause, tool_words: frozenset[str]) -> Iterator[Candidate]:
    """Yield the candidates for a parameter; free text is not among them.

    Args:
        tool_words: Stems and synonym groups of the tool's words, which are hardly arguments.
    """
    if parameter.options:
        yield from _options(parameter, clause)
        return
    if "integer" in parameter.types or "number" in parameter.types:
        yield from number_candidates(parameter, clause, tool_words)
    if "boolean" in parameter.types:
        yield from _boolean(parameter, clause)
    if "string" in parameter.types:
        yield from _strings(parameter, clause, tool_words)
    if "array" in parameter.types:
        yield from _arrays(parameter, clause)


def _options(parameter: Parameter, clause: Clause) -> Iterator[Candidate]:
    for option in parameter.options:
        if isinstance(option, bool) or option is None:
            continue
        if isinstance(option, int | float):
            for value in clause.values:
                if value.kind == "number" and value.value == option:
                    yield made(parameter, clause, value, option, 2.5, 0.5)
        elif isinstance(option, str):
            yield from _option(parameter, clause, option)


def _option(parameter: Parameter, clause: Clause, option: str) -> Iterator[Candidate]:
    said = [re.escape(word) for word in name_words(option)] or [re.escape(option)]
    exact = [(r"[\s_-]*".join(said) + r"(?:s|es)?", 3.5)]
    exact += [(re.escape(other), 2.5) for group in ENUM_SYNONYMS if option.casefold() in group for other in group[1:]]
    code = {code: name for name, code in LANGUAGES.items()}.get(option.casefold())
    exact += [(re.escape(code), 3.0)] if code and parameter.kind == "language" else []
    for pattern, score in exact:
        for match in re.finditer(rf"(?<![\w]){pattern}(?![\w])", clause.text, re.I):
            word = Value("option", option, match.start(), match.end())
            short = len(match[0]) < 3 and not match[0].isupper() and "°" not in match[0]
            yield made(parameter, clause, word, option, 0.5 if short else score, 0.0 if short else 0.7)
    own = stem(option)
    if own in clause.stems and " " not in option:
        word_ = clause.stems[own]
        yield made(parameter, clause, Value("option", option, word_.start, word_.end), option, 3.0, 0.7)


def _boolean(parameter: Parameter, clause: Clause) -> Iterator[Candidate]:
    places = [clause.stems[w] for w in parameter.words if w in clause.stems]
    meaningful = [w for w in parameter.words if w not in _BOOLEAN_FRAME]
    if not meaningful or not all(w in clause.stems for w in meaningful):
        return
    start, end = min(p.start for p in places), max(p.end for p in places)
    after = re.match(r"\s*(?:is|=|:|to)?\s*(true|yes|on|false|no|off)\b", clause.text[end:], re.I)
    if after:
        yield Candidate(parameter, after[1].casefold() in ("true", "yes", "on"), 6.0, 0.7, start, end + after.end())
        return
    negated = re.search(
        r"\b(?:no|not|without|don't|dont|never|disable|exclude|skip)\b[\w\s]{0,12}$", clause.before(start), re.I
    )
    yield Candidate(parameter, not negated, 3.0, 0.5, negated_start(start, negated), end)


_BOOLEAN_FRAME = frozenset(map(stem, ("include", "is", "with", "use", "enable", "has", "show", "should", "allow")))


def negated_start(start: int, negated: re.Match[str] | None) -> int:
    """Return where a negated word begins, the negation included."""
    return start - len(negated[0]) if negated else start


# Which kinds of value a kind of text takes: (score, evidence).
_TAKES: dict[str, dict[str, tuple[float, float]]] = {
    "expression": {"expression": (4.0, 3.0)},
    "zone": {"zone": (4.0, 1.0)},
    "email": {"email": (4.5, 2.0), "name": (1.0, 0.0)},
    "url": {"url": (4.5, 2.0)},
    "path": {"path": (4.5, 1.0), "quoted": (2.0, 0.2)},
    "uuid": {"uuid": (4.5, 1.0)},
    "phone": {"phone": (4.5, 1.5)},
    "currency": {"currency": (3.0, 0.8)},
    "symbol": {"symbol": (3.5, 1.0), "name": (1.0, 0.0)},
    "place": {"name": (3.0, 0.5), "quoted": (2.5, 0.3)},
    "identifier": {"uuid": (4.0, 1.0), "identifier": (3.0, 0.7), "quoted": (2.0, 0.2), "number": (1.5, 0.2)},
    "name": {"quoted": (3.0, 0.3), "name": (2.5, 0.3)},
    "": {"quoted": (1.8, 0.2), "name": (1.5, 0.1), "identifier": (1.2, 0.1), "symbol": (1.2, 0.1)},
}


def _strings(parameter: Parameter, clause: Clause, tool_words: frozenset[str]) -> Iterator[Candidate]:
    if parameter.kind in ("moment", "date", "time"):
        yield from _moments(parameter, clause)
        return
    if parameter.kind == "language":
        yield from _languages(parameter, clause)
        return
    for value in clause.values:
        score, evidence = _TAKES.get(parameter.kind, {}).get(value.kind, (0.0, 0.0))
        if not score:
            continue
        said = str(value.value)
        if value.kind == "name" and not value.sure:
            first = said.split()[0]
            if stem(first) in tool_words or groups_of(first):
                continue  # "Turn on …" names nothing
            score, evidence = min(score, 0.8), 0.0
        if value.kind == "zone" and not value.sure and not cue_of(parameter, clause, value.start)[0] > 0:
            score, evidence = 1.0, 0.2
        if value.kind == "email" and parameter.schema.get("format") == "email":
            score += 0.5
        yield made(parameter, clause, value, said, score, evidence)
    yield from _by_pattern(parameter, clause)
    yield from _phrases(parameter, clause, tool_words)


def _by_pattern(parameter: Parameter, clause: Clause) -> Iterator[Candidate]:
    """Words of a certain form, where the schema asks for one."""
    pattern = parameter.schema.get("pattern")
    if not isinstance(pattern, str) or fits({"pattern": pattern}, "Word") or fits({"pattern": pattern}, "word"):
        return
    for match in re.finditer(r"[^\s,;!?()\"'“”]+", clause.text):
        word = match[0].rstrip(".:")
        if fits({"pattern": pattern}, word):
            value = Value("word", word, match.start(), match.start() + len(word))
            yield made(parameter, clause, value, word, 2.6, 0.7)


def _phrases(parameter: Parameter, clause: Clause, tool_words: frozenset[str]) -> Iterator[Candidate]:
    """ "in paris" for a place, "in the handbook collection" for a collection."""
    for phrase in clause.phrases:
        words = phrase.text.split()
        if len(words) > 1 and parameter.words and stem(words[-1]) in parameter.words and parameter.kind != "text":
            yield Candidate(parameter, " ".join(words[:-1]), 4.0, 0.5, phrase.start, phrase.end)
        elif phrase.cue in parameter.cues and parameter.kind in ("place", "name") and len(words) <= 4:
            rank = parameter.cues.index(phrase.cue)
            yield Candidate(parameter, phrase.text, 2.4 - 0.1 * rank, 0.1, phrase.start, phrase.end)
        elif parameter.kind == "" and phrase.cue in parameter.cues and len(words) <= 4:
            yield Candidate(parameter, phrase.text, 2.2, 0.1, phrase.start, phrase.end)
        elif (
            parameter.kind == ""
            and phrase.cue in ("in", "of", "for", "at", "with", "called", "named")
            and len(words) <= 3
        ):
            yield Candidate(parameter, phrase.text, 1.1, 0.0, phrase.start, phrase.end)
    if (
        parameter.kind in ("", "name", "identifier", "place", "path", "symbol")
        and parameter.name.casefold() not in NO_NAMES
    ):
        for form in {parameter.name, " ".join(name_words(parameter.name))}:
            pattern = rf"(?<!\w){re.escape(form)}\s*(?:\s(?:is|to|of|as|called|named)|=|:)?\s+([^\s,.;:!?\"'“]+)"
            for match in re.finditer(pattern, clause.text, re.I):
                if match[1].casefold() not in PLAIN_CUES | _FRAME and not (
                    stem(match[1]) in tool_words or groups_of(match[1]) & tool_words
                ):
                    yield Candidate(parameter, match[1], 3.0, 0.5, match.start(), match.end())


_FRAME = {"and", "or", "the", "a", "an", "is", "are", "was", "please", "now", "my", "that", "which"}


def _moments(parameter: Parameter, clause: Clause) -> Iterator[Candidate]:
    for value in clause.values:
        if value.kind != "moment":
            continue
        date, time = value.value
        said = date if parameter.kind == "date" else time if parameter.kind == "time" else None
        if parameter.kind == "moment":
            said = f"{date or clause.today.isoformat()}T{time or '00:00:00'}"
            said += "Z" if parameter.schema.get("format") == "date-time" else ""
        elif parameter.kind == "time" and said and parameter.schema.get("format") != "time":
            said = said.removesuffix(":00")
        elif said and parameter.schema.get("format") == "time":
            said += "Z"
        if said:
            moment = made(parameter, clause, value, said, 4.0, 0.5)
            match = re.search(r"\b(?:on|at|for|by|from|until)\s+(?:the\s+)?$", clause.before(moment.start), re.I)
            # A date and a time beside it may go to two parameters: each uses up its half only.
            if date and time and parameter.kind in ("date", "time"):
                middle = (value.start + value.end) // 2
                half = (value.start, middle) if parameter.kind == "date" else (middle, value.end)
                yield attrs.evolve(moment, start=half[0], end=half[1])
            else:
                yield attrs.evolve(moment, start=moment.start - len(match[0]) if match else moment.start)


def _languages(parameter: Parameter, clause: Clause) -> Iterator[Candidate]:
    described = str(parameter.schema.get("description", "")) + parameter.name
    coded = (
        "pattern" in parameter.schema
        or parameter.schema.get("maxLength") == 2
        or re.search(r"\bcode|\biso\b|_code", described, re.I)
    )
    for word in clause.words:
        if word.text.casefold() in LANGUAGES:
            code = LANGUAGES[word.text.casefold()]
            name = word.text[0].upper() + word.text[1:]
            value = Value("language", name, word.start, word.end)
            yield made(parameter, clause, value, code if coded else name, 3.0, 0.8)


def _arrays(parameter: Parameter, clause: Clause) -> Iterator[Candidate]:
    items = parameter.schema.get("items")
    if not isinstance(items, dict):
        items = {}
    of_what = items.get("type")
    options = items.get("enum")
    if isinstance(options, list):
        single = attrs.evolve(parameter, options=tuple(options), types=("string",))
        chosen = sorted((c for c in _options(single, clause) if c.score >= MENTIONED), key=lambda c: c.start)
        if chosen:
            said = list(dict.fromkeys(c.value for c in chosen))
            yield Candidate(parameter, said, 3.5, 0.7, chosen[0].start, chosen[-1].end)
    elif of_what in ("integer", "number"):
        numbers = [v for v in clause.values if v.kind == "number" and v.sure]
        if numbers:
            said = [v.value for v in numbers]
            yield Candidate(parameter, said, 2.5, 0.3, numbers[0].start, numbers[-1].end)
    elif of_what in ("string", None):
        for kind in ("email", "url", "quoted"):
            found = [v for v in clause.values if v.kind == kind]
            meant = kind in parameter.described | parameter.words or items.get("format") in ("email", "uri")
            score = 4.0 if meant else 3.5 if kind == "quoted" and len(found) > 1 else 2.0
            if found:
                yield Candidate(parameter, [v.value for v in found], score, 0.5, found[0].start, found[-1].end)
        yield from _list(parameter, clause)


def _list(parameter: Parameter, clause: Clause) -> Iterator[Candidate]:
    """ "a, b and c" after a colon, a preposition or the parameter's name."""
    places = [(m.end(), 3.0) for m in re.finditer(r":\s+", clause.text)]
    places += [
        (p.inner, 2.2 if p.cue in ("of", "with", "for", "from", *parameter.cues) else 1.0) for p in clause.phrases
    ]
    places += [(w.end, 3.5) for w in clause.words if stem(w.text) in parameter.words]
    for start, score in places:
        match = re.match(r"\s*[^.;:!?\n\0]+", clause.text[start:])
        pieces = re.split(r"\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+", match[0].strip()) if match else []
        pieces = [re.sub(r"^(?:the|a|an|some)\s+", "", p).strip() for p in pieces]
        if (
            match
            and all(pieces)
            and all(len(p.split()) <= 4 for p in pieces)
            and (len(pieces) > 1 or score > MENTIONED)
        ):
            penalty = 0.0 if len(pieces) > 1 else 0.8
            yield Candidate(parameter, pieces, score - penalty, 0.3, start, start + match.end())
