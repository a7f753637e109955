"""The calculator's tokenizer. Rejects characters that no arithmetic expression contains."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple

from .errors import MathError

MAX_CHARACTERS = 1_000
"""Maximum length of an expression, without its lists."""

MAX_WITH_LISTS = 10_000

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

_INSTEAD = {
    **dict.fromkeys("×·", "write * for multiplication"),
    "÷": "write / for division",
    **dict.fromkeys("−–", "write the plain minus sign -"),
    "π": "write pi",
    "√": "write sqrt(…)",
    "²": "write ^2",
    "³": "write ^3",
    "°": "angles are in radians; 45 degrees is 45 * pi / 180",
    "≤": "write <=",
    "≥": "write >=",
    "≠": "write !=",
    **dict.fromkeys("{}", "objects and sets are not supported"),
    **dict.fromkeys("'\"", "text is not supported, only numbers"),
    **dict.fromkeys(";\n\r", "only one expression is calculated at a time"),
    "|": "bitwise operators are not supported; write or, or abs(…) for an absolute value",
    "&": "bitwise operators are not supported; write and",
    "~": "bitwise operators are not supported; write not",
    **dict.fromkeys("$€£", "write amounts of money without the currency sign"),
}


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
