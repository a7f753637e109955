"""Operations on one or two 64-bit floats with IEEE 754 results: never an exception.

Python's math module raises where C returns NaN or infinity; arithmetic.py turns these into error texts with the
operation that caused them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping


def compute(name: str, *numbers: float) -> float:
    """Apply the named operation to one or two numbers."""
    return _OPERATIONS[name](*numbers)


def _divided(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if not a or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _power(a: float, b: float) -> float:
    negative = math.copysign(1.0, a) < 0 and b % 2 == 1
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if negative else math.inf
    except ValueError:
        if a:
            return math.nan
        return -math.inf if negative else math.inf


def _sign(a: float) -> float:
    return a if math.isnan(a) else float((a > 0) - (a < 0))


def _growing(call: Callable[[float], float]) -> Callable[[float], float]:
    """Wrap a function that overflows for large arguments: infinity in place of OverflowError."""

    def value(a: float) -> float:
        try:
            return call(a)
        except OverflowError:
            return math.inf

    return value


def _odd(call: Callable[[float], float]) -> Callable[[float], float]:
    return lambda a: math.copysign(call(abs(a)), a)


def _within(low: float, call: Callable[[float], float], high: float = math.inf) -> Callable[[float], float]:
    """Restrict a function to the domain from low to high; NaN outside."""
    return lambda a: call(a) if low <= a <= high else math.nan


def _from_pole(pole: float, call: Callable[[float], float]) -> Callable[[float], float]:
    """Restrict a function to arguments above a pole, where its value is minus infinity."""
    return lambda a: call(a) if a > pole else -math.inf if a == pole else math.nan


def _atanh(a: float) -> float:
    return math.copysign(math.inf, a) if abs(a) == 1 else math.atanh(a) if abs(a) < 1 else math.nan


def _turning(call: Callable[[float], float]) -> Callable[[float], float]:
    return lambda a: call(a) if math.isfinite(a) else math.nan


_OPERATIONS: Mapping[str, Callable[..., float]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "^": _power,
    "abs": abs,
    "sign": _sign,
    "sqrt": _within(0.0, math.sqrt),
    "exp": _growing(math.exp),
    "expm1": _growing(math.expm1),
    "log": _from_pole(0.0, math.log),
    "log10": _from_pole(0.0, math.log10),
    "log2": _from_pole(0.0, math.log2),
    "log1p": _from_pole(-1.0, math.log1p),
    "sin": _turning(math.sin),
    "cos": _turning(math.cos),
    "tan": _turning(math.tan),
    "asin": _within(-1.0, math.asin, 1.0),
    "acos": _within(-1.0, math.acos, 1.0),
    "atan": math.atan,
    "atan2": math.atan2,
    "sinh": _odd(_growing(math.sinh)),
    "cosh": _growing(math.cosh),
    "tanh": math.tanh,
    "asinh": math.asinh,
    "acosh": _within(1.0, math.acosh),
    "atanh": _atanh,
}
