"""The calculator: what an expression in the language of mathjs is worth.

Nothing of the expression is ever handed to an interpreter. tokens.py and grammar.py read it, functions.py computes
one operation at a time on 64-bit floats; so no expression can run code, wrap a whole number or take long (at most
200 operations of some 10 µs).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .errors import MathError
from .functions import FUNCTIONS, LARGEST_EXACT, OPERATORS, holds, spoken
from .grammar import Node, Number, parse


def evaluate(expression: str) -> float | int | bool:
    """Return what an arithmetic expression is worth.

    The language is that of mathjs without units, matrices, complex and big numbers, variables and functions of
    one's own; the package's README has it in full. The result is finite; a whole number up to 2^53 is an int.

    Raises:
        MathError: It is not such an expression, goes beyond the limits (1,000 characters, 200 operations,
            50 levels), or has no finite real result. The text says which and is fit for a model.
    """
    try:
        return _presentable(_Calculation().value(parse(expression)))
    except RecursionError:  # the caller's own stack was nearly full
        raise MathError("the expression is nested too deeply") from None


def _presentable(value: float | bool) -> float | int | bool:
    if isinstance(value, bool) or not value.is_integer() or abs(value) > LARGEST_EXACT:
        return value
    return int(value)


class _Calculation:
    """One walk through a tree. Remembers where a number first grew beyond all bounds."""

    def __init__(self) -> None:
        self._grew = ""

    def value(self, tree: Node) -> float | bool:
        worth = self._of(tree)
        if math.isnan(worth):
            raise MathError("the result is not a number (NaN)")
        if math.isinf(worth):
            raise MathError(self._grew or "the result is infinite")
        return worth

    def _of(self, node: Node) -> float | bool:
        if isinstance(node, Number):
            return node.value
        if node.name == "?":
            condition, yes, no = node.arguments
            return self._of(yes if holds(self._of(condition)) else no)
        if node.name in ("and", "or"):
            left, right = node.arguments
            first = holds(self._of(left))
            decided = first == (node.name == "or")  # then the other side is not looked at, as in mathjs
            return first if decided else holds(self._of(right))
        arguments = []
        for argument in node.arguments:
            arguments.append(float(self._of(argument)))
        return self._applied(node.name, arguments)

    def _applied(self, name: str, arguments: Sequence[float]) -> float | bool:
        operation = OPERATORS.get(name) or FUNCTIONS[name].call
        worth = operation(*arguments)
        if math.isfinite(worth):
            return worth
        if math.isnan(worth) and not any(map(math.isnan, arguments)):
            raise MathError(_undefined(name, arguments))
        if not self._grew and all(map(math.isfinite, arguments)):
            self._grew = _growth(name, arguments)
        return worth


def _undefined(name: str, arguments: Sequence[float]) -> str:
    written = _written(name, arguments)
    if name == "/" and arguments[1] == 0:
        return f"division by zero in {written}"
    if any(map(math.isinf, arguments)):
        return f"{written} is not defined"
    return f"{written} is not a real number (complex numbers are not supported)"


def _growth(name: str, arguments: Sequence[float]) -> str:
    written = _written(name, arguments)
    if (name == "/" and arguments[1] == 0) or (name == "^" and arguments[0] == 0):
        return f"division by zero in {written}"
    return f"the result of {written} is too large or infinite (numbers go up to 1.8e308)"


def _written(name: str, arguments: Sequence[float]) -> str:
    """Return an operation as the user may have written it, with at most four arguments."""
    words = [spoken(x) for x in arguments[:4]]
    if name in OPERATORS:
        return f"{words[0]} {name} {words[1]}" if len(words) == 2 else f"{words[0]}{name}"
    return f"{name}({', '.join(words)}{', …' if len(arguments) > 4 else ''})"
