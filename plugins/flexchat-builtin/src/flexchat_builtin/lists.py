"""Operations of the calculator on lists: element-wise ones, and aggregates.

numexpr computes sums and the functions of C's math library (engine.py); functions.py handles the rest one by one.
"""

from __future__ import annotations

from collections.abc import Sequence

from .engine import TEMPLATES, compute_list
from .functions import FUNCTIONS, MANY, OPERATORS, compute
from .parameters import MathError

Numbers = tuple[float, ...]

MAX_NUMBERS = 1_000  # maximum length of a list
MAX_WORK = 10_000  # maximum number of values that all operations of an expression on lists compute together

_ONE_BY_ONE = {
    *("+", "-", "*", "/", "^", "mod", "negative", "positive"),
    *(name for name in FUNCTIONS if name in TEMPLATES and FUNCTIONS[name].max_count < MANY),
    *("pow", "square", "cube", "cbrt", "nthRoot", "log", "round", "floor", "ceil", "fix"),
}


def is_of_all(name: str) -> bool:
    """Return True for aggregates: functions of any number of arguments, or of one list."""
    return name in FUNCTIONS and FUNCTIONS[name].max_count == MANY


def of_all(name: str, arguments: Sequence[float | Numbers]) -> float:
    """Compute an aggregate such as sum([1, 2, 3]).

    Raises:
        MathError: Lists and numbers are mixed, or the list is too short.
    """
    numbers = arguments[0]
    if len(arguments) > 1 or not isinstance(numbers, tuple):
        raise MathError(f"{name} takes numbers or one list, not both")
    if len(numbers) < FUNCTIONS[name].min_count:
        raise MathError(f"{name} needs a list of at least {FUNCTIONS[name].min_count} numbers")
    if name in ("variance", "std") and len(numbers) > 1:
        from_mean = compute_list("-", numbers, _sum(numbers) / len(numbers))
        variance = _sum(compute_list("*", from_mean, from_mean)) / (len(numbers) - 1)
        return variance if name == "variance" else compute("sqrt", variance)
    if name == "mean":
        return _sum(numbers) / len(numbers)
    return compute_list(name, numbers)[0] if name in TEMPLATES else FUNCTIONS[name].call(*numbers)


def dot(arguments: Sequence[float | Numbers]) -> float:
    """Compute the dot product of two lists.

    Raises:
        MathError: The arguments are not two lists of equal length.
    """
    a, b = arguments
    if not isinstance(a, tuple) or not isinstance(b, tuple):
        raise MathError("dot takes two lists")
    rows("dot", arguments)
    return _sum(compute_list("*", a, b))


def rows(name: str, arguments: Sequence[float | Numbers]) -> list[list[float]]:
    """Broadcast the arguments of an element-wise operation: [1, 2] + 3 gives [[1, 3], [2, 3]].

    Raises:
        MathError: The lists are not of equal length.
    """
    sizes = list(dict.fromkeys(len(each) for each in arguments if isinstance(each, tuple)))
    if len(sizes) > 1:
        raise MathError(f"the lists have {sizes[0]} and {sizes[1]} numbers: {name} needs lists of equal length")
    return [[each[i] if isinstance(each, tuple) else each for each in arguments] for i in range(sizes[0])]


def one_by_one(name: str, arguments: Sequence[float | Numbers]) -> list[float]:
    """Apply an operation element by element to lists of equal length and numbers.

    Raises:
        MathError: The operation does not accept lists, or their lengths differ.
    """
    if name == "*" and all(isinstance(each, tuple) for each in arguments):
        raise MathError("a product of two lists can mean two things: write a .* b for a list, dot(a, b) for a number")
    name = name.removeprefix(".")
    if name not in _ONE_BY_ONE:
        raise MathError(f"{name} takes numbers, not lists")
    applied = rows(name, arguments)
    template = "^" if name == "pow" else name
    if template in TEMPLATES and not (name == "log" and len(arguments) == 2):  # There is no template for log(x, base).
        return compute_list(template, *arguments)
    operation = OPERATORS.get(name) or FUNCTIONS[name].call
    return [float(operation(*row)) for row in applied]


def _sum(numbers: Sequence[float]) -> float:
    return compute_list("sum", numbers)[0]
