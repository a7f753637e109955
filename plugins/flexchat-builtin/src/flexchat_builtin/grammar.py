"""Splits an expression in the language of mathjs into tokens, and parses it into a tree of three node types.

The node types are an allowlist: there is none for an attribute, an index, a string, an assignment or a user-defined
function, and a call names an entry of functions.FUNCTIONS. Nodes are named tuples, because creating attrs classes would
take longer than a first calculation. Precedence, from loose to tight:

    a ? b : c      or      xor      and      == != < > <= >=      + -      * / .* ./ mod % of
    2 pi (implicit)      n% (percent)      -a +a not a      a ^ b, a .^ b (from the right)      n!
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, NoReturn

from .functions import CONSTANTS, FUNCTIONS, MANY
from .lists import MAX_NUMBERS
from .parameters import MathError

MAX_CHARACTERS, MAX_WITH_LISTS = 1_000, 10_000  # of an expression: without its lists, and with them

_ILLEGAL = re.compile(r"[^0-9A-Za-z_+\-*/%^()\[\].,<>=!?: \t]")
_LIST = re.compile(r"\[[^\[\]]*\]")
_RADIX = re.compile(r"(?<![0-9A-Za-z_.])0[xXbBoO][0-9A-Za-z]")
_TOKEN = re.compile(
    r"(?P<space>[ \t]*)(?:"
    r"(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"
    r"|(?P<operator>\*\*|//|<<|>>|[=!<>]=|\.[*/^]|[-+*/%^()\[\],<>=!?:.])"
    r"|(?P<end>$))"
)

# Characters, tokens and names that are not arithmetic, with what to write instead.
_REFUSALS = json.loads(Path(__file__).with_name("refusals.json").read_text("utf-8"))
_INSTEAD = {character: reason for reason, characters in _REFUSALS["characters"].items() for character in characters}
_REASONS = {name: reason for reason, names in _REFUSALS["names"].items() for name in names.split()}


class Token(NamedTuple):
    """One token of an expression.

    Attributes:
        place: Position of its first character, from 1, for error texts.
        spaced: True if whitespace precedes it: the only difference between 5 % -3 and 5% - 3.
    """

    kind: Literal["number", "name", "operator", "end"]
    text: str
    place: int
    spaced: bool


def tokens_of(expression: str) -> tuple[Token, ...]:
    """Tokenize an expression. The last token is of kind "end".

    Raises:
        MathError: The expression is too long, or contains an invalid character.
    """
    if len(expression) > MAX_WITH_LISTS:
        raise MathError(f"the expression has {len(expression)} characters, {MAX_WITH_LISTS} are allowed with its lists")
    if len(expression) > MAX_CHARACTERS and (size := len(_LIST.sub("", expression))) > MAX_CHARACTERS:
        raise MathError(f"the expression has {size} characters, {MAX_CHARACTERS} are allowed")
    expression = expression.strip()
    if match := _ILLEGAL.search(expression):
        character = match[0]
        if character == ";" and "[" in expression:
            raise MathError("matrices are not supported, only lists of numbers: write [1, 2, 3]")
        raise MathError(
            f"{ascii_name(character)} at character {match.start() + 1} is not understood"
            + (f": {_INSTEAD[character]}" if character in _INSTEAD else "")
        )
    if match := _RADIX.search(expression):
        raise MathError(f"hexadecimal, octal and binary numbers are not supported ({match[0]}…)")
    return tuple(_cut(expression))


def _cut(expression: str) -> Iterator[Token]:
    position, kind = 0, ""
    while kind != "end":
        match = _TOKEN.match(expression, position)
        assert match is not None  # Every valid character is an operator or begins another token.
        kind = match.lastgroup or ""
        start = match.start(kind)
        yield Token(kind=kind, text=match[kind], place=start + 1, spaced=start > position)  # type: ignore[arg-type]
        position = match.end()


def ascii_name(character: str) -> str:
    """Format a character for an error text: quoted, or as its code point if it is not printable."""
    return f"'{character}'" if character.isprintable() else f"U+{ord(character):04X}"


def unknown(name: str, names: Iterable[str]) -> MathError:
    """Build the error for a name that is neither a function nor a constant."""
    text = name if len(name) <= 40 else name[:39] + "…"
    if name in _REASONS:
        return MathError(f"'{text}' is not available: {_REASONS[name]}")
    folded = {k.casefold(): k for k in names}
    close = difflib.get_close_matches(text.casefold(), folded, n=1)
    hint = f"did you mean '{folded[close[0]]}'?" if close else "variables are not supported; put in the number"
    return MathError(f"unknown name '{text}'", hint=hint)


MAX_DEPTH = 50
MAX_OPERATIONS = 200

_BINARY = {
    "or": 1, "xor": 2, "and": 3,
    "==": 4, "!=": 4, "<": 4, ">": 4, "<=": 4, ">=": 4,
    "+": 5, "-": 5,
    "*": 6, "/": 6, ".*": 6, "./": 6, "mod": 6, "%": 6, "of": 6,
}  # fmt: skip
_COMPARISON, _SUM = 4, 5
_PREFIXES = {"-": "negative", "+": "positive", "not": "not"}
_SAME = {"%": "mod", "of": "*"}
_WORDS = frozenset({"or", "xor", "and", "not", "mod", "of", "to", "in"})


class Number(NamedTuple):
    """A literal number or boolean."""

    value: float | bool


class Operation(NamedTuple):
    """An application of functions.OPERATORS, functions.FUNCTIONS or the conditional "?" to arguments."""

    name: str
    arguments: tuple[Node, ...]


class List(NamedTuple):
    """A list whose elements are expressions."""

    elements: tuple[Node, ...]


Node = Number | Operation | List


def parse(expression: str) -> Node:
    """Parse an expression.

    Raises:
        MathError: The expression is not arithmetic, or exceeds a limit; the text names the construct.
    """
    return _Parser(tokens_of(expression)).whole()


class _Parser:
    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self._tokens = tokens
        self._last = len(tokens) - 1
        self._position = 0
        self._depth = 0
        self._operations = 0
        self._call_end = -1  # End of the last function call: a parenthesis right after it is an error, not a product.

    @property
    def _token(self) -> Token:
        return self._tokens[self._position]

    @property
    def _next(self) -> Token:
        return self._tokens[min(self._position + 1, self._last)]

    def _take(self, text: str) -> bool:
        """Consume the next token if it is *text*."""
        if self._token.text != text:
            return False
        self._position += 1
        return True

    def _make(self, name: str, *arguments: Node) -> Operation:
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise MathError(f"the expression has more than {MAX_OPERATIONS} operations")
        return Operation(name, arguments)

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise MathError(f"the expression is nested deeper than {MAX_DEPTH} levels")

    def whole(self) -> Node:
        if len(self._tokens) == 1:
            raise MathError("the expression is empty")
        if any(token.text == "=" for token in self._tokens):
            raise MathError("assignments and function definitions are not supported; write == to compare")
        node = self._choice()
        if self._token.kind != "end":
            self._refuse_token()
        return node

    def _choice(self) -> Node:
        self._deeper()
        node = self._binary(1)
        if self._take("?"):
            yes = self._choice()
            if not self._take(":"):
                raise MathError("a choice is written condition ? a : b; the ':' is missing")
            node = self._make("?", node, yes, self._choice())
        self._depth -= 1
        return node

    def _binary(self, loosest: int) -> Node:
        left = last = self._juxtaposed()
        while (level := _BINARY.get(self._token.text, 0)) >= loosest:
            operator = self._token.text
            self._position += 1
            if operator == "of" and not _is_percent(last):
                raise MathError("'of' is understood only after a percentage, as in 15% of 45")
            last = right = self._binary(level + 1)
            if level == _SUM and _is_percent(right):
                right = self._make("*", left, right)  # 200 + 10% is 220, as in mathjs
            left = self._make(_SAME.get(operator, operator), left, right)
            if level == _COMPARISON == _BINARY.get(self._token.text):
                raise MathError("comparisons cannot be chained: write a < b and b < c")
        return left

    def _juxtaposed(self) -> Node:
        """Parse an implicit product: 2 pi, 3(4 + 5), (2)(3)."""
        node = self._percentage()
        while self._is_fraction_factor(node):
            self._position += 1
            node = self._make("/", node, self._percentage())
        while self._begins_factor():
            node = self._make("*", node, self._percentage())
        return node

    def _is_fraction_factor(self, node: Node) -> bool:
        """Return True for 1/2 pi and 8/2(3): a division of two literals binds tighter than an implicit product."""
        if self._token.text != "/" or self._next.kind != "number":
            return False
        unsigned = node.arguments[0] if isinstance(node, Operation) and node.name == "negative" else node
        if not isinstance(unsigned, Number) or self._tokens[self._position - 1].kind != "number":
            return False
        after = self._tokens[self._position + 2]
        return after.text == "(" or (after.kind == "name" and after.text not in _WORDS)

    def _begins_factor(self) -> bool:
        token = self._token
        if token.kind == "number":
            before = self._tokens[self._position - 1]
            if before.kind == "number":
                raise MathError(f"an operator is missing between {before.text} and {token.text}")
            return before.kind == "name" or before.text in (")", "!")
        if token.text == "[":
            raise MathError("an index is not supported; write * for a product with a list")
        if token.text != "(":
            return token.kind == "name" and token.text not in _WORDS
        if self._position == self._call_end:
            raise MathError("the result of a function is not a function: write * before the second parenthesis")
        return True

    def _percentage(self) -> Node:
        node = self._prefixed()
        if self._token.text == "%" and not self._is_modulo():
            self._position += 1
            node = self._make("%", node)
        return node

    def _is_modulo(self) -> bool:
        """Return True if this % is modulo, as in 7 % 3 and 5 % -3; not in 17% - 5, 17%-5 and 15% of 45."""
        follower = self._next
        if follower.text in ("+", "-"):
            return self._token.spaced
        if follower.kind == "name":
            return follower.text == "not" or self._is_named(self._position + 1)
        return follower.kind == "number" or follower.text == "("

    def _is_named(self, position: int) -> bool:
        """Return True if the name there is a value or a function; for mod, only in mod(7, 3)."""
        text = self._tokens[position].text
        return text not in _WORDS or (text == "mod" and self._tokens[position + 1].text == "(")

    def _prefixed(self) -> Node:
        operator = self._token.text
        if operator not in _PREFIXES:
            return self._power()
        self._position += 1
        self._deeper()
        node = self._prefixed()
        self._depth -= 1
        return self._make(_PREFIXES[operator], node)

    def _power(self) -> Node:
        node = self._primary()
        while self._take("!"):
            node = self._make("!", node)
        if self._token.text in ("^", "**", ".^"):
            operator = ".^" if self._token.text == ".^" else "^"
            self._position += 1
            self._deeper()
            node = self._make(operator, node, self._prefixed())
            self._depth -= 1
        return node

    def _primary(self) -> Node:
        token = self._token
        if token.kind == "number":
            self._position += 1
            return _number(token.text)
        if token.kind == "name" and self._is_named(self._position):
            self._position += 1
            return self._parse_name(token.text)
        if self._take("["):
            return self._list()
        if not self._take("("):
            self._refuse_token()
        node = self._choice()
        self._close("an opening parenthesis is never closed")
        return _unpercented(node)

    def _list(self) -> Node:
        if self._token.text == "]":
            raise MathError("a list needs at least one number")
        elements = [self._element()]
        while self._take(","):
            elements.append(self._element())
            if len(elements) > MAX_NUMBERS:
                raise MathError(f"a list has at most {MAX_NUMBERS} numbers")
        self._close("an opening bracket is never closed", "]")
        return List(tuple(elements))

    def _element(self) -> Node:
        """Parse a list element, with a fast path for literals: lists may be longer than the operation limit."""
        sign = int(self._token.text == "-")
        number = self._next if sign else self._token
        after = self._tokens[min(self._position + sign + 1, self._last)]
        if number.kind == "number" and after.text in (",", "]"):
            self._position += sign + 1
            value = _number(number.text).value
            return Number(-value if sign else value)
        return self._choice()

    def _parse_name(self, name: str) -> Node:
        if name in CONSTANTS:
            return Number(CONSTANTS[name])
        function = FUNCTIONS.get(name)
        if function is None:
            raise unknown(name, [*FUNCTIONS, *CONSTANTS])
        if not self._take("("):
            raise MathError(f"{name} is a function: write {name}(…)")
        arguments = [self._choice()] if self._token.text != ")" else []
        while self._take(","):
            arguments.append(self._choice())
        self._close(f"the parenthesis after {name} is never closed")
        self._call_end = self._position
        holds_more = function.max_count == MANY and isinstance(arguments[0] if arguments else None, List)
        if not function.min_count <= len(arguments) <= function.max_count and not holds_more:
            count = _argument_count(function.min_count, function.max_count)
            raise MathError(f"{name} takes {count}, got {len(arguments)}")
        return self._make(name, *arguments)

    def _close(self, never: str, sign: str = ")") -> None:
        if not self._take(sign):
            if self._token.kind == "end":
                raise MathError(never)
            self._refuse_token()

    def _refuse_token(self) -> NoReturn:
        text = self._token.text
        if self._token.kind == "end":
            raise MathError("the expression ends where a number is expected")
        if text in _REFUSALS["tokens"]:
            raise MathError(_REFUSALS["tokens"][text])
        if text in _REASONS:
            raise unknown(text, ())
        raise MathError(f"unexpected '{text}' at character {self._token.place}")


def _is_percent(node: Node) -> bool:
    return isinstance(node, Operation) and node.name == "%"


def _unpercented(node: Node) -> Node:
    """Convert a percentage in parentheses to a plain fraction: 200 + (10%) is 200.1."""
    if isinstance(node, Operation) and node.name == "%":
        return Operation("/", (*node.arguments, Number(100.0)))
    return node


def _number(text: str) -> Number:
    value = float(text)
    if value == float("inf"):
        raise MathError(f"the number {text if len(text) <= 40 else text[:39] + '…'} is too large")
    return Number(value)


def _argument_count(least: int, most: int) -> str:
    if most == least:
        return f"{least} argument" + "s" * (least != 1)
    return f"{least} or {most} arguments" if most == 2 else f"at least {least} argument" + "s" * (least != 1)
