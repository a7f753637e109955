"""The calculator's functions by name, with bounded run time for any arguments.

Names and semantics follow mathjs 15. Arguments and results are 64-bit floats. The math module raises where C returns
NaN or infinity; here NaN means "not a real number" and infinity "too large", and arithmetic.py turns both into texts.
"""

from __future__ import annotations

import decimal
import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from .parameters import MathError


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
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
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


MAX_EXACT = 2**53  # up to here every whole number is a double
MANY = 1_000  # no expression has room for that many arguments

CONSTANTS: Mapping[str, float | bool] = {
    "pi": math.pi,
    "e": math.e,
    "tau": math.tau,
    "phi": (1 + math.sqrt(5)) / 2,
    "Infinity": math.inf,
    "NaN": math.nan,
    "true": True,
    "false": False,
}


class Function(NamedTuple):
    """A function available to expressions, with its range of argument counts."""

    call: Callable[..., float]
    min_count: int = 1
    max_count: int = 1


def nearly_equal(a: float, b: float) -> bool:
    """Compare two numbers to 12 digits, as in mathjs, so that 0.1 + 0.2 == 0.3."""
    return math.isclose(a, b, rel_tol=1e-12, abs_tol=1e-15)


def modulo(a: float, b: float) -> float:
    """Compute the remainder with the sign of b; as in mathjs, a mod 0 is a and 7 mod 0.1 is 0."""
    if b == 0:
        return a
    if a.is_integer() and b.is_integer():
        return a % b
    quotient = compute("/", a, b)
    if not math.isfinite(quotient):
        return math.nan
    whole = round(quotient)
    return 0.0 if nearly_equal(quotient, whole) and whole else a % b


def _rounding(mode: str) -> Callable[..., float]:
    def rounded(x: float, decimals: float = 0.0) -> float:
        if decimals not in range(16):
            raise MathError("the number of decimals must be a whole number from 0 to 15")
        if not abs(x) < 2**52:
            return x  # Without decimals, or not finite.
        nearest = _quantized(x, int(decimals), decimal.ROUND_HALF_UP)
        # 2.9999999999999996 is 3 with a rounding error: its floor should be 3.
        return nearest if nearly_equal(x, nearest) else _quantized(x, int(decimals), mode)

    return rounded


def _quantized(x: float, decimals: int, mode: str) -> float:
    # Round the shortest decimal of x: 1.005 is half-way to a reader, though its binary value is not.
    exact = decimal.Decimal(repr(x))
    return float(exact.quantize(decimal.Decimal(1).scaleb(-decimals), mode, decimal.Context(prec=40)))


def _whole(name: str, x: float) -> int:
    if not (x.is_integer() and abs(x) <= MAX_EXACT):
        raise MathError(f"{name} needs whole numbers up to 2^53, got {format_number(x)}")
    return int(x)


def _as_float(whole: int) -> float:
    try:
        return float(whole)
    except OverflowError:
        return math.inf


def factorial(x: float) -> float:
    """Compute x!, using the gamma function between whole numbers."""
    if x < 0:
        raise MathError(f"the factorial of a negative number is not defined ({format_number(x)})")
    if x.is_integer() and x <= 170:
        return float(math.factorial(int(x)))
    try:
        return math.gamma(x + 1)
    except OverflowError:
        return math.inf


def _combinations(n: float, k: float) -> float:
    total, chosen = _whole("combinations", n), _whole("combinations", k)
    if not 0 <= chosen <= total:
        raise MathError("combinations(n, k) needs 0 <= k <= n")
    chosen = min(chosen, total - chosen)
    # From 1,030 on the result exceeds 2^1024, and computing it exactly would take minutes.
    return _as_float(math.comb(total, chosen)) if chosen < 1_030 else math.inf


def _permutations(n: float, k: float | None = None) -> float:
    if k is None:
        return factorial(n)
    total, chosen = _whole("permutations", n), _whole("permutations", k)
    if not 0 <= chosen <= total:
        raise MathError("permutations(n, k) needs 0 <= k <= n")
    return _as_float(math.perm(total, chosen)) if chosen <= 170 else math.inf


def _gcd(*values: float) -> float:
    return float(math.gcd(*(_whole("gcd", v) for v in values)))


def _lcm(*values: float) -> float:
    return _as_float(math.lcm(*(_whole("lcm", v) for v in values)))


def _log(x: float, base: float | None = None) -> float:
    if base in (2.0, 10.0):
        return compute(f"log{base:.0f}", x)  # Exact, whereas log(1000) / log(10) is 2.9999999999999996.
    return compute("log", x) if base is None else compute("/", compute("log", x), compute("log", base))


def _nth_root(x: float, root: float = 2.0) -> float:
    if root == 0:
        raise MathError("nthRoot needs a root other than 0")
    if x < 0 and root % 2 != 1:
        raise MathError("the root of a negative number must be odd (complex numbers are not supported)")
    size = _tidy_root(compute("^", abs(x), 1 / abs(root)), abs(root), abs(x))
    size = math.copysign(size, x)
    return size if root > 0 else compute("/", 1.0, size)


def _cube_root(x: float) -> float:
    return math.copysign(_tidy_root(math.cbrt(abs(x)), 3.0, abs(x)), x)


def _tidy_root(size: float, root: float, x: float) -> float:
    """Round a root to the nearest whole number if that is exact: 64 ^ (1/3) is 3.9999999999999996."""
    if not size < MAX_EXACT:
        return size
    whole = float(round(size))
    return whole if compute("^", whole, root) == x else size


def _sum(*values: float) -> float:
    return functools.reduce(operator.add, values)


def _mean(*values: float) -> float:
    return _sum(*values) / len(values)


def _median(*values: float) -> float:
    if any(map(math.isnan, values)):
        return math.nan
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else _mean(ordered[half - 1], ordered[half])


def _mode(*values: float) -> float:
    counts = Counter(values)
    highest = max(counts.values())
    modes = [value for value, count in counts.items() if count == highest]
    if len(modes) > 1:
        raise MathError(f"there are several modes: {', '.join(map(format_number, modes[:10]))}")
    return modes[0]


def _variance(*values: float) -> float:
    if len(values) == 1:
        return values[0] - values[0]
    middle = _mean(*values)
    return _sum(*(compute("*", v - middle, v - middle) for v in values)) / (len(values) - 1)


def _deviation(*values: float) -> float:
    return compute("sqrt", _variance(*values))


def _extreme(pick: Callable[[tuple[float, ...]], float]) -> Callable[..., float]:
    return lambda *values: math.nan if any(map(math.isnan, values)) else pick(values)


def _elementary(name: str, arguments: int = 1) -> Function:
    return Function(functools.partial(compute, name), arguments, arguments)


FUNCTIONS: Mapping[str, Function] = {
    **{name: _elementary(name) for name in ("abs", "sign", "sqrt", "exp", "expm1", "log10", "log2", "log1p")},
    **{name: _elementary(name) for name in ("sin", "cos", "tan", "asin", "acos", "atan")},
    **{name: _elementary(name) for name in ("sinh", "cosh", "tanh", "asinh", "acosh", "atanh")},
    "atan2": _elementary("atan2", 2),
    "pow": Function(functools.partial(compute, "^"), 2, 2),
    "mod": Function(modulo, 2, 2),
    "square": Function(lambda x: compute("*", x, x)),
    "cube": Function(lambda x: compute("*", compute("*", x, x), x)),
    "cbrt": Function(_cube_root),
    "nthRoot": Function(_nth_root, 1, 2),
    "hypot": Function(math.hypot, 1, MANY),
    "log": Function(_log, 1, 2),
    "round": Function(_rounding(decimal.ROUND_HALF_UP), 1, 2),
    "floor": Function(_rounding(decimal.ROUND_FLOOR), 1, 2),
    "ceil": Function(_rounding(decimal.ROUND_CEILING), 1, 2),
    "fix": Function(_rounding(decimal.ROUND_DOWN), 1, 2),
    "gcd": Function(_gcd, 2, MANY),
    "lcm": Function(_lcm, 2, MANY),
    "factorial": Function(factorial),
    "combinations": Function(_combinations, 2, 2),
    "permutations": Function(_permutations, 1, 2),
    "sum": Function(_sum, 1, MANY),
    "prod": Function(lambda *values: functools.reduce(operator.mul, values), 1, MANY),
    "mean": Function(_mean, 1, MANY),
    "median": Function(_median, 1, MANY),
    "mode": Function(_mode, 1, MANY),
    "std": Function(_deviation, 1, MANY),
    "variance": Function(_variance, 1, MANY),
    "dot": Function(lambda *_: math.nan, 2, 2),  # Only defined for lists; see lists.py.
    "min": Function(_extreme(min), 1, MANY),
    "max": Function(_extreme(max), 1, MANY),
}

OPERATORS: Mapping[str, Callable[..., float]] = {
    **{name: functools.partial(compute, name) for name in ("+", "-", "*", "/", "^")},
    "mod": modulo,
    "%": lambda x: compute("/", x, 100.0),
    "!": factorial,
    "negative": lambda x: -x,
    "positive": lambda x: x,
    "not": lambda x: not holds(x),
    "xor": lambda x, y: holds(x) != holds(y),
    "==": nearly_equal,
    "!=": lambda x, y: not nearly_equal(x, y),
    "<": lambda x, y: x < y and not nearly_equal(x, y),
    ">": lambda x, y: x > y and not nearly_equal(x, y),
    "<=": lambda x, y: x <= y or nearly_equal(x, y),
    ">=": lambda x, y: x >= y or nearly_equal(x, y),
}


def holds(x: float) -> bool:
    """Convert a number to a boolean: all numbers except 0 and NaN are true."""
    return x != 0 and not math.isnan(x)


def format_number(x: float) -> str:
    """Format a number for a reader: 3 rather than 3.0."""
    if math.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return str(int(x)) if x.is_integer() and abs(x) <= MAX_EXACT else repr(x)
