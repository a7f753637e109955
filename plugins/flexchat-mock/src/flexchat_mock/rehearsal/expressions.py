"""Arithmetic in a text, in signs or in words, written so that a calculator can read it."""

from __future__ import annotations

import re

import attrs

from .vocabulary import MULTIPLIERS, NUMBER_WORDS

_FUNCTIONS = (
    "sqrt|cbrt|abs|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|log10|log2|log|ln|exp|round|floor|ceil|min|max|pow"
)
_AMOUNT = r"(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+"
_WORDED = "|".join(sorted(NUMBER_WORDS, key=len, reverse=True))
_ONES = "|".join(word for word, number in NUMBER_WORDS.items() if 0 < number < 10)

_TOKEN = re.compile(
    rf"""
    (?P<number>(?<![A-WYZa-wyz_.])(?:{_AMOUNT})(?![A-WYZa-wyz_0-9]|\.[0-9]))
    | (?P<percent_of>\s*(?:%|\bper\s?cent\b)\s*of\b(?:\s+the\b)?)
    | (?P<percent>%(?=\s*(?:[-+*/)^?.!,;=]|$))|\bper\s?cent\b)
    | (?P<root>\b(?:the\s+)?(?P<which>square|cube)\s+root\s+of\b|√)
    | (?P<power>\b(?:raised\s+)?to\s+the\s+power\s+of\b|\braised\s+to\b|\*\*|\^)
    | (?P<square>\bsquared\b|²)
    | (?P<cube>\bcubed\b|³)
    | (?P<times>\bmultiplied\s+by\b|\btimes\b|(?<=[0-9)\s])[x×·](?=[\s(0-9])|\*)
    | (?P<divide>\bdivided\s+by\b|÷|/)
    | (?P<plus>\bplus\b|\+)
    | (?P<minus>\bminus\b|[-−–])
    | (?P<modulo>\bmod(?:ulo)?\b|%)
    | (?P<function>\b(?:{_FUNCTIONS})(?=\s*\())
    | (?P<constant>\bpi\b|π)
    | (?P<word_number>\b(?:{_WORDED})(?:[\s-](?:{_ONES}))?(?:\s(?:hundred|thousand|million))?\b)
    | (?P<open>\() | (?P<close>\)) | (?P<comma>,)
    | (?P<space>\s+)
    """,
    re.VERBOSE | re.IGNORECASE,
)

_BINARY = {"plus": "+", "minus": "-", "times": "*", "divide": "/", "power": "^", "modulo": "%"}
_POSTFIX = {"square": "^2", "cube": "^3", "percent": "%"}

_N = rf"(-?(?:{_AMOUNT})|\b(?:{_WORDED})\b)"
_LIST = rf"({_N}(?:(?:\s*,\s*(?:and\s+)?|\s+and\s+){_N})+)"
_SAID = (
    (re.compile(rf"\b(?:sum\s+of|add(?:\s+up)?|total\s+of)\s+(?P<list>{_LIST})", re.I), " + ", "{}"),
    (re.compile(rf"\b(?:product\s+of|multiply)\s+(?P<list>{_LIST})", re.I), " * ", "{}"),
    (re.compile(rf"\b(?:average|mean)\s+of\s+(?P<list>{_LIST})", re.I), " + ", "({}) / {n}"),
    (re.compile(rf"\bdifference\s+(?:of|between)\s+(?P<list>{_N}\s+and\s+{_N})", re.I), " - ", "{}"),
)
_VERBS = (
    (re.compile(rf"\badd\s+(?P<a>{_N})\s+to\s+(?P<b>{_N})", re.I), "{b} + {a}"),
    (re.compile(rf"\bsubtract\s+(?P<a>{_N})\s+from\s+(?P<b>{_N})", re.I), "{b} - {a}"),
    (re.compile(rf"\bmultiply\s+(?P<a>{_N})\s+(?:by|with)\s+(?P<b>{_N})", re.I), "{a} * {b}"),
    (re.compile(rf"\bdivide\s+(?P<a>{_N})\s+by\s+(?P<b>{_N})", re.I), "{a} / {b}"),
    (re.compile(rf"\bhalf\s+of\s+(?P<a>{_N})", re.I), "{a} / 2"),
    (re.compile(rf"\b(?:a\s+)?third\s+of\s+(?P<a>{_N})", re.I), "{a} / 3"),
    (re.compile(rf"\b(?:a\s+)?quarter\s+of\s+(?P<a>{_N})", re.I), "{a} / 4"),
    (re.compile(rf"\b(?:double|twice)\s+(?P<a>{_N})", re.I), "2 * {a}"),
)

_MAX_TOKENS = 200
_MAX_DEPTH = 30


@attrs.frozen
class Expression:
    """Arithmetic found in a text."""

    text: str
    start: int
    end: int


@attrs.frozen
class _Token:
    kind: str
    text: str
    start: int
    end: int


def find_expressions(text: str) -> tuple[Expression, ...]:
    """Return the arithmetic in a text, in order. A lone number is none."""
    found = [*_in_words(text), *_in_signs(text)]
    chosen: list[Expression] = []
    for candidate in sorted(found, key=lambda e: (e.start - e.end, e.start)):
        if all(candidate.end <= other.start or other.end <= candidate.start for other in chosen):
            chosen.append(candidate)
    return tuple(sorted(chosen, key=lambda e: e.start))


def _in_words(text: str) -> list[Expression]:
    found = []
    for pattern, sign, form in _SAID:
        for match in pattern.finditer(text):
            numbers = [_number(n) for n in re.findall(_N, match["list"], re.I)]
            written = form.format(sign.join(numbers), n=len(numbers))
            found.append(Expression(written, match.start(), match.end()))
    for pattern, form in _VERBS:
        for match in pattern.finditer(text):
            parts = {name: _number(value) for name, value in match.groupdict().items()}
            found.append(Expression(form.format(**parts), match.start(), match.end()))
    return found


def _number(text: str) -> str:
    return str(NUMBER_WORDS.get(text.casefold(), text.replace(",", "")))


def _in_digits(text: str) -> int:
    """ "twenty-five hundred" as 2500."""
    number = 0
    for word in re.split(r"[\s-]+", text.casefold()):
        number = number * MULTIPLIERS[word] if word in MULTIPLIERS else number + NUMBER_WORDS[word]
    return number


def _in_signs(text: str) -> list[Expression]:
    found = []
    for run in _runs(text):
        start = 0
        while start < len(run):
            reader = _Reader(run, start)
            written = reader.expression(0)
            if written is not None and reader.worked:
                first, last = run[start], run[reader.place - 1]
                original = text[first.start : last.end]
                # What is written in signs already is left as it is.
                plain = re.fullmatch(r"[0-9A-Za-z_.+\-*/^()% ]+", original) and not reader.worded
                found.append(Expression(original if plain else written, first.start, last.end))
                start = reader.place
            else:
                start += 1
    return found


def _runs(text: str) -> list[list[_Token]]:
    """The stretches of a text that consist of arithmetic only."""
    runs: list[list[_Token]] = [[]]
    place = 0
    for match in _TOKEN.finditer(text):
        if match.start() != place or len(runs[-1]) >= _MAX_TOKENS:
            runs.append([])
        place = match.end()
        kind = match.lastgroup or ""
        if kind == "which":
            kind = "root"
        if kind != "space":
            runs[-1].append(_Token(kind, match[0], match.start(), match.end()))
    return [run for run in runs if run]


class _Reader:
    """Reads one expression from tokens.

    Attributes:
        place: The token after the expression.
        worked: Whether it has anything to calculate.
        worded: Whether any of it was said in words.
    """

    def __init__(self, tokens: list[_Token], place: int) -> None:
        self.tokens, self.place = tokens, place
        self.worked = self.worded = False

    def kind(self) -> str:
        return self.tokens[self.place].kind if self.place < len(self.tokens) else ""

    def take(self) -> _Token:
        token = self.tokens[self.place]
        self.place += 1
        in_words = token.kind in _SAID_IN_WORDS and token.text.isascii() and token.text not in ("**",)
        self.worded = self.worded or (in_words and (len(token.text) > 1 or token.text in "xX"))
        return token

    def expression(self, depth: int) -> str | None:
        """operand (operator operand)*; None if no operand is here."""
        written = self.operand(depth)
        while written is not None and self.kind() in (*_BINARY, "percent_of"):
            before = self.place, self.worked, self.worded
            operator = self.take()
            right = self.operand(depth)
            if right is None:
                self.place, self.worked, self.worded = before
                break
            self.worked = True
            sign = "% of" if operator.kind == "percent_of" else _BINARY[operator.kind]
            if operator.kind == "percent_of":
                written = f"{written}% of {right}"
            else:
                written = f"{written}^{right}" if sign == "^" else f"{written} {sign} {right}"
        return written

    def operand(self, depth: int) -> str | None:
        if depth > _MAX_DEPTH:
            return None
        before = self.place, self.worked, self.worded
        written = self._operand(depth)
        if written is None:
            self.place, self.worked, self.worded = before
            return None
        while self.kind() in _POSTFIX:
            token = self.take()
            self.worked = self.worked or token.kind != "percent"
            written += _POSTFIX[token.kind]
        return written

    def _operand(self, depth: int) -> str | None:
        match self.kind():
            case "number":
                return self.take().text.replace(",", "")
            case "word_number":
                self.worded = True
                return str(_in_digits(self.take().text))
            case "constant":
                self.take()
                return "pi"
            case "minus" | "plus":
                sign = _BINARY[self.take().kind]
                inner = self.operand(depth + 1)
                return None if inner is None else sign.replace("+", "") + inner
            case "root":
                token = self.take()
                self.worded = self.worked = True
                inner = self.operand(depth + 1)
                function = "cbrt" if "cube" in token.text.casefold() else "sqrt"
                if inner is None:
                    return None
                return f"{function}{inner}" if inner.startswith("(") else f"{function}({inner})"
            case "function":
                name = self.take().text
                self.worked = True
                return self._bracket(depth, name)
            case "open":
                return self._bracket(depth, "")
        return None

    def _bracket(self, depth: int, name: str) -> str | None:
        self.take()
        parts = [self.expression(depth + 1)]
        while name and self.kind() == "comma" and parts[-1] is not None:
            self.take()
            parts.append(self.expression(depth + 1))
        if self.kind() != "close" or None in parts:
            return None
        self.take()
        return f"{name}({', '.join(p for p in parts if p is not None)})"


_SAID_IN_WORDS = {
    "percent_of",
    "percent",
    "root",
    "power",
    "square",
    "cube",
    "times",
    "divide",
    "plus",
    "minus",
    "modulo",
}
