"""What a text holds that could be an argument: numbers, quotes, names, addresses, dates, arithmetic …"""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import attrs

from .dates import find_moments
from .expressions import find_expressions
from .time_zones import find_zones
from .vocabulary import COUNTS, CURRENCIES, MULTIPLIERS, NUMBER_WORDS, PREPOSITIONS
from .words import Word, is_stop_word, words_of

_QUOTED = re.compile(
    r'"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»|`([^`]+)`|(?<!\w)[\'‘]([^\'’]+(?:[\'’]\w[^\'’]*)*)[\'’](?!\w)'
)
_URL = re.compile(r"\bhttps?://[^\s<>\"'`]+[^\s<>\"'`.,;:!?)\]]")
_EMAIL = re.compile(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.I)
_PATH = re.compile(r"(?<![\w/.])(?:[~.]{0,2}/[\w./-]*\w|(?:\w[\w-]*/)*[\w-]+\.(?!\d)[A-Za-z]\w{0,4})(?![\w@])")
_PHONE = re.compile(r"(?<!\w)\+[0-9][0-9 ()-]{6,18}[0-9]\b|\b[0-9]{3}-[0-9]{3}-[0-9]{4}\b")
_IDENTIFIER = re.compile(r"#[A-Za-z0-9][\w-]*|\b(?=[\w-]*[0-9])(?=[\w-]*[A-Za-z])[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*\b")
_NUMBER = re.compile(
    r"(?P<sign>(?<![\w)%.])-)?(?<![\w.,])(?P<currency>[$€£¥₹])?"
    r"(?P<number>(?:[0-9]{1,3}(?:,[0-9]{3}){1,4}|[0-9]{1,15})(?:\.[0-9]{1,15})?)(?![0-9])"
    r"(?P<unit>[A-Za-z°%€£¥]{1,12})?(?![\w])"
)
_UNIT = re.compile(r"[\s-]{0,2}(?:degrees\s+)?([A-Za-z°%€$£¥]+)")
_TICKER = re.compile(r"(?<![\w.])\$?[A-Z]{2,5}(?:\.[A-Z]{1,2})?(?![\w])")


@attrs.frozen
class Value:
    """Something in a text that could be an argument.

    Attributes:
        kind: "quoted", "url", "email", "uuid", "path", "phone", "identifier", "number", "expression", "moment",
            "zone", "currency", "symbol", "name".
        value: As an argument would say it. A moment's is (date, time).
        unit: The word a number counts: "minutes", "€", "%".
        sure: Whether the text marks it (a name that only begins a sentence does not).
    """

    kind: str
    value: Any
    start: int
    end: int
    unit: str = ""
    sure: bool = True

    def overlaps(self, start: int, end: int) -> bool:
        """Return whether it shares a character with a stretch of text."""
        return self.start < end and start < self.end


def find_values(text: str, today: dt.date) -> tuple[Value, ...]:
    """Return everything a text holds that could be an argument, kind by kind and in order.

    Stretches of different kinds may overlap ("17% of 230" is an expression and two numbers); numbers and names inside
    quotes, addresses and dates are not listed.
    """
    quotes = [
        Value("quoted", (next(filter(None, m.groups()))).strip(), m.start(), m.end())
        for m in _QUOTED.finditer(text)
        if next(filter(None, m.groups())).strip()
    ]
    taken = [Value("url", m[0], m.start(), m.end()) for m in _URL.finditer(text)]
    for kind, pattern in (("email", _EMAIL), ("uuid", _UUID), ("path", _PATH), ("phone", _PHONE)):
        hidden = _hide(text, taken)
        taken += [Value(kind, m[0], m.start(), m.end()) for m in pattern.finditer(hidden)]
    hidden = _hide(text, taken)
    moments = [Value("moment", (m.date, m.time), m.start, m.end) for m in find_moments(_hide(hidden, quotes), today)]
    hidden = _hide(hidden, moments)
    expressions = [Value("expression", e.text, e.start, e.end) for e in find_expressions(hidden)]
    # Of arithmetic in quotes only a quote that is nothing else counts: "[0-9]+" calculates nothing.
    expressions = [
        e for e in expressions if all(q.value == text[e.start : e.end] for q in quotes if q.overlaps(e.start, e.end))
    ]
    bare = _hide(hidden, quotes)
    numbers = _numbers(bare)
    identifiers = [
        Value("identifier", m[0].lstrip("#"), m.start(), m.end())
        for m in _IDENTIFIER.finditer(bare)
        if m[0][0] == "#" or all(n.start != m.start() for n in numbers)
    ]
    numbers = [n for n in numbers if not any(i.start < n.start < i.end for i in identifiers)]
    zones = [Value("zone", z.name, z.start, z.end, sure=z.capitalised) for z in find_zones(text)]
    symbols = [
        Value("symbol", m[0].lstrip("$"), m.start(), m.end()) for m in _TICKER.finditer(bare) if not is_stop_word(m[0])
    ]
    return (
        *quotes,
        *taken,
        *moments,
        *expressions,
        *numbers,
        *identifiers,
        *zones,
        *_currencies(bare),
        *symbols,
        *_names(bare),
    )


def _hide(text: str, values: list[Value]) -> str:
    for value in values:
        text = text[: value.start] + "\0" * (value.end - value.start) + text[value.end :]
    return text


def _numbers(text: str) -> list[Value]:
    found = []
    for match in _NUMBER.finditer(text):
        digits = match["number"].replace(",", "")
        number: float = float(digits) if "." in digits else int(digits)
        number = int(number) if float(number).is_integer() else number
        unit = match["unit"] or match["currency"] or ""
        end = match.end()
        if unit.casefold() in ("k", "m") and match["currency"]:
            number, unit = number * (1_000 if unit.casefold() == "k" else 1_000_000), match["currency"]
        if unit.casefold() in ("st", "nd", "rd", "th"):
            unit = ""
        if not unit and (following := _UNIT.match(text, end)) and following[1].casefold() not in PREPOSITIONS:
            unit = following[1]
        start = match.start("sign") if match["sign"] else match.start("number")
        found.append(Value("number", -number if match["sign"] else number, start, match.end("number"), unit))
    return [*found, *_worded(text)]


def _worded(text: str) -> list[Value]:
    """Numbers in words: "twenty-five", "three hundred", "half a dozen"; "an hour" is one hour."""
    found: list[Value] = []
    words = [part for word in words_of(text) for part in _parts(word)]
    i = 0
    while i < len(words):
        number, size = _read_number(words, i)
        if size:
            end = words[i + size - 1].end
            following = _UNIT.match(text, end)
            unit = following[1] if following and following[1].casefold() not in PREPOSITIONS else ""
            sure = words[i].text.casefold() not in ("a", "an", "one", "half")
            found.append(Value("number", number, words[i].start, end, unit, sure))
        i += size or 1
    return found


def _parts(word: Word) -> list[Word]:
    """ "twenty-five" as two words; every other word as it is."""
    pieces = word.text.split("-")
    if len(pieces) == 2 and all(piece.casefold() in NUMBER_WORDS for piece in pieces):
        middle = word.start + len(pieces[0])
        return [Word(pieces[0], word.start, middle), Word(pieces[1], middle + 1, word.end)]
    return [word]


def _read_number(words: list[Word], i: int) -> tuple[float, int]:
    """The number that begins at a word, and how many words say it; (0, 0) if none does."""
    folded = [w.text.casefold() for w in words[i : i + 6]]
    if folded[0] == "half" and folded[1:2] in (["a"], ["an"]) and folded[2:3] != ["dozen"]:
        return 0.5, 2
    for size in (3, 2, 1):
        said = " ".join(folded[:size])
        if said in COUNTS and len(folded) >= size:
            return COUNTS[said], size
    total = current = size = 0
    for word in folded:
        if word in NUMBER_WORDS and (size == 0 or _goes_on(current, NUMBER_WORDS[word])):
            current += NUMBER_WORDS[word]
        elif word in MULTIPLIERS and size and current:
            current *= MULTIPLIERS[word]
            if MULTIPLIERS[word] >= 1000:
                total, current = total + current, 0
        else:
            break
        size += 1
    if size:
        return total + current, size
    return (1, 1) if folded[0] in ("a", "an") and len(folded) > 1 else (0, 0)


def _goes_on(number: int, more: int) -> bool:
    """Whether "twenty" goes on with "five", or "three hundred" with "ten"."""
    return (number % 100 >= 20 and number % 10 == 0 and 0 < more < 10) or (number > 0 and number % 100 == 0)


def _currencies(text: str) -> list[Value]:
    found = [
        Value("currency", CURRENCIES[word.text.casefold()], word.start, word.end)
        for word in words_of(text)
        if word.text.casefold() in CURRENCIES and (word.text != "try")
    ]
    found += [Value("currency", CURRENCIES[m[0]], m.start(), m.end()) for m in re.finditer(r"[$€£¥₹]", text)]
    return sorted(found, key=lambda v: v.start)


_JOINERS = {"of", "de", "la", "del", "da", "van", "von", "der", "den", "the", "le"}


def _names(text: str) -> list[Value]:
    """Runs of capitalised words. One that begins a sentence is not sure to be a name."""
    found = []
    words = words_of(text)
    i = 0
    while i < len(words):
        if not _is_capitalised(words[i]):
            i += 1
            continue
        last = i
        for j in range(i + 1, min(i + 8, len(words))):
            between = text[words[j - 1].end : words[j].start]
            if between not in (" ", ". ") or (between == ". " and len(words[j - 1].text) > 3):
                break
            if _is_capitalised(words[j]):
                last = j
            elif words[j].text not in _JOINERS:
                break
        first = i
        if _begins_sentence(text, words[i].start):
            found.append(_name(text, words[first], words[last], sure=False))
            first += 1
        if first <= last:
            while first < last and words[first].text in _JOINERS:
                first += 1
            found.append(_name(text, words[first], words[last], sure=True))
        i = last + 1
    return found


def _name(text: str, first: Word, last: Word, *, sure: bool) -> Value:
    name = text[first.start : last.end]
    bare = re.sub(r"['’]s$", "", name)
    return Value("name", bare, first.start, first.start + len(bare), sure=sure)


def _is_capitalised(word: Word) -> bool:
    return word.text[0].isupper() and not is_stop_word(word.text)


def _begins_sentence(text: str, place: int) -> bool:
    before = text[:place].rstrip(" \t\"'“‘(")
    return not before or before[-1] in ".!?\n:;"
