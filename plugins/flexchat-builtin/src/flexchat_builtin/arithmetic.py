"""The calculator: evaluates expressions in the language of mathjs.

No part of an expression reaches an interpreter: grammar.py parses it, functions.py computes one operation
at a time on 64-bit floats, and lists.py those on lists. An expression therefore cannot run code, overflow silently or
take long (at most 200 operations, on lists of at most 10,000 numbers in all).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from . import lists
from .functions import FUNCTIONS, MAX_EXACT, OPERATORS, format_number, holds
from .grammar import List, Node, Number, parse
from .lists import Numbers
from .parameters import MathError


def evaluate(expression: str) -> float | int | bool | list[float | int]:
    """Evaluate an arithmetic expression to a number, a boolean or a list of numbers.

    The language is that of mathjs without units, matrices, complex and big numbers, variables and user-defined
    functions; see the package's README. Results are finite; a whole number up to 2^53 is an int.

    Raises:
        MathError: The expression is invalid, exceeds the limits (1,000 characters, 200 operations, 50 levels, lists of
            1,000 numbers), or has no finite real result. The text names the reason and is suitable for a model.
    """
    try:
        value = _Calculation().value(parse(expression))
    except RecursionError:  # Only if the caller's own stack was nearly full: 50 levels fit otherwise.
        raise MathError("the expression is nested too deeply") from None
    return [_presentable(each) for each in value] if isinstance(value, tuple) else _presentable(value)


def _presentable(value: float | bool) -> float | int | bool:
    if isinstance(value, bool) or not value.is_integer() or abs(value) > MAX_EXACT:
        return value
    return int(value)


class _Calculation:
    """One evaluation of a tree. Records the operation that first overflowed, for the error text."""

    def __init__(self) -> None:
        self._overflow = ""
        self._work = 0

    def value(self, tree: Node) -> float | bool | Numbers:
        value = self._evaluate(tree)
        for each in value if isinstance(value, tuple) else (value,):
            if math.isnan(each):
                raise MathError("the result is not a number (NaN)")
            if math.isinf(each):
                raise MathError(self._overflow or "the result is infinite")
        return value

    def _evaluate(self, node: Node) -> float | bool | Numbers:
        if isinstance(node, Number):
            return node.value
        if isinstance(node, List):
            return tuple(self._number(each, "matrices are not supported: a list holds") for each in node.elements)
        if node.name == "?":
            condition, yes, no = node.arguments
            return self._evaluate(yes if holds(self._number(condition, "the condition of ? takes")) else no)
        if node.name in ("and", "or"):
            first_operand, right = node.arguments
            first = holds(self._number(first_operand, f"{node.name} takes"))
            decided = first == (node.name == "or")  # Short-circuit evaluation, as in mathjs.
            return first if decided else holds(self._number(right, f"{node.name} takes"))
        values = [self._evaluate(argument) for argument in node.arguments]
        arguments = [value if isinstance(value, tuple) else float(value) for value in values]
        numbers = [argument for argument in arguments if isinstance(argument, float)]
        if len(numbers) < len(arguments) or node.name == "dot":
            return self._apply_to_lists(node.name, arguments)
        return self._apply(node.name.removeprefix("."), numbers)

    def _number(self, node: Node, use: str) -> float:
        value = self._evaluate(node)
        if isinstance(value, tuple):
            raise MathError(f"{use} numbers, not lists")
        return float(value)

    def _apply(self, name: str, arguments: Sequence[float]) -> float | bool:
        operation = OPERATORS.get(name) or FUNCTIONS[name].call
        return self._check(name, arguments, operation(*arguments))

    def _apply_to_lists(self, name: str, arguments: Sequence[float | Numbers]) -> float | Numbers:
        first = next((each for each in arguments if isinstance(each, tuple)), ())
        self._work += len(first)
        if self._work > lists.MAX_WORK:
            raise MathError(f"the operations on lists compute more than {lists.MAX_WORK} numbers")
        if name == "dot":
            flat = [each for numbers in arguments if isinstance(numbers, tuple) for each in numbers]
            return self._check(name, flat, lists.dot(arguments))
        if lists.is_of_all(name):
            return self._check(name, first, lists.of_all(name, arguments))
        values = lists.one_by_one(name, arguments)
        for row, value in zip(lists.rows(name, arguments), values, strict=True):
            self._check(name.removeprefix("."), row, value)
        return tuple(values)

    def _check(self, name: str, arguments: Sequence[float], value: float) -> float:
        """Check the value of an operation and return it, recording an overflow.

        Raises:
            MathError: The value is NaN although no argument is.
        """
        if math.isfinite(value):
            return value
        if math.isnan(value) and not any(map(math.isnan, arguments)):
            raise MathError(_undefined(name, arguments))
        if not self._overflow and all(map(math.isfinite, arguments)):
            self._overflow = _overflow_text(name, arguments)
        return value


def _undefined(name: str, arguments: Sequence[float]) -> str:
    operation = _format_operation(name, arguments)
    if name == "/" and arguments[1] == 0:
        return f"division by zero in {operation}"
    if any(map(math.isinf, arguments)):
        return f"{operation} is not defined"
    return f"{operation} is not a real number (complex numbers are not supported)"


def _overflow_text(name: str, arguments: Sequence[float]) -> str:
    operation = _format_operation(name, arguments)
    if (name == "/" and arguments[1] == 0) or (name == "^" and arguments[0] == 0):
        return f"division by zero in {operation}"
    return f"the result of {operation} is too large or infinite (numbers go up to 1.8e308)"


def _format_operation(name: str, arguments: Sequence[float]) -> str:
    """Format an operation in the language of expressions, with at most four arguments."""
    words = [format_number(x) for x in arguments[:4]]
    if name in OPERATORS:
        return f"{words[0]} {name} {words[1]}" if len(words) == 2 else f"{words[0]}{name}"
    return f"{name}({', '.join(words)}{', …' if len(arguments) > 4 else ''})"
