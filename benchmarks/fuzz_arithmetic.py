"""Throws random expressions at the calculator and reports what came of them.

    python benchmarks/fuzz_arithmetic.py [--count 1000000] [--seed 1]

Four kinds of input take turns: expressions made from the grammar, the same with random damage, whole-number
expressions whose exact value is known, and hostile or random text. Exit status 1 if anything but MathError was
raised, a call took longer than 250 ms, a whole number wrapped, or memory grew by more than 30 MB.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import time
from array import array
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import attrs
from flexchat_builtin.arithmetic import evaluate
from flexchat_builtin.functions import CONSTANTS, FUNCTIONS
from flexchat_builtin.parameters import MathError

SLOWEST_ALLOWED_MS = 250.0
GROWTH_ALLOWED_MB = 30.0

NUMBERS = [*map(str, (0, 1, 2, 3, 7, 10, 45, 230, 2**53 - 1, 2**63 - 1)), "0.1", "0.15", ".5", "2.5"]
NUMBERS += ["1e3", "1e-7", "6.02e23", "1e308", "5e-324"]
PIECES = [
    "[",
    "[1,",
    "[1]+",
    "std(",
    "(",
    "-",
    "not ",
    "1+",
    "2^",
    "9!",
    "1?1:",
    "sqrt(",
    "1e308*",
    "max(1,",
    "%",
    "2pi",
    "7mod ",
]
OPERATORS = [
    ".*",
    "./",
    ".^",
    "+",
    "-",
    "*",
    "/",
    "^",
    "%",
    " mod ",
    "==",
    "<",
    ">=",
    " and ",
    " or ",
    " xor ",
    "% of ",
    "**",
    "",
]
ALPHABET = "0123456789.+-*/%^()[]<>=!?:, eEpixyabsqrtmodnotand_"
HOSTILE = (
    "(*(open('MARKER','w') for i in (1,)),)",
    "{open('MARKER','w') for i in (1,)}",
    "sqrt(*(open('MARKER','w') for i in (1,)))",
    "__import__('os').system('touch MARKER')",
    "(1).__class__.__base__.__subclasses__()",
    "[x for x in (1,)]",
    "lambda: 1",
    "f'{open(1)}'",
    "'a'*10**9",
    "'%1000000000d'%1",
    "9**9**9",
    "9^9^9^9",
    "10**10000000",
    "abs(2)**64",
    "abs(4294967296)*abs(4294967296)",
    "maximum(2**63-1,1)+1",
    "factorial(1e9)",
    "combinations(9007199254740992, 4503599627370496)",
    "permutations(9007199254740992)",
    "lcm(9007199254740991, 9007199254740881, 9007199254740847)",
    "gcd(1e300, 3)",
    "1e308*10-1e308*10",
    "5 cm to inch",
    "x = 3",
    "f(x) = x^2",
    "import('fs')",
    "simplify('x+x')",
    "1/0",
    "0/0",
    "sqrt(-1)",
    "NaN",
    "Infinity",
    "\u0661+\u0662",
    "\ud800",
    "1\x002",
    "round(2.5, 1e9)",
    "nthRoot(2, 5e-324)",
    "mod(1e308, 5e-324)",
    "std(Infinity, 1)",
    "gamma(171)",
    "[" + "1," * 999 + "1]",
    "sum([" + "1e308," * 999 + "1])",
    "+".join(["round([" + "1.005," * 99 + "1], 2)"] * 90),
    "[[1, 2], [3]]",
    "[1, 2].__class__",
    "[1](2)[3]",
)


def made(rng: random.Random, depth: int = 3) -> str:
    """Return an expression of the grammar; its value may still not exist."""
    if depth == 0 or rng.random() < 0.25:
        return rng.choice(NUMBERS) if rng.random() < 0.8 else rng.choice([*CONSTANTS])
    kind = rng.random()
    if kind < 0.45:
        return f"{made(rng, depth - 1)}{_padded(rng, rng.choice(OPERATORS))}{made(rng, depth - 1)}"
    if kind < 0.75:
        name = rng.choice([*FUNCTIONS])
        function = FUNCTIONS[name]
        count = rng.randint(function.min_count, min(function.max_count, function.min_count + 3))
        return f"{name}({', '.join(made(rng, depth - 1) for _ in range(count))})"
    if kind < 0.82:
        return f"({made(rng, depth - 1)})"
    if kind < 0.85:
        return f"[{', '.join(made(rng, depth - 1) for _ in range(rng.randint(0, 4)))}]"
    if kind < 0.92:
        return rng.choice(["-", "+", "not ", "--"]) + made(rng, depth - 1)
    if kind < 0.97:
        return made(rng, depth - 1) + rng.choice(["!", "%", "!!"])
    return f"{made(rng, depth - 1)} ? {made(rng, depth - 1)} : {made(rng, depth - 1)}"


def _padded(rng: random.Random, operator: str) -> str:
    return f" {operator} " if rng.random() < 0.5 else operator


def damaged(rng: random.Random) -> str:
    """Return an expression with up to five characters removed, doubled, swapped or replaced."""
    text = list(made(rng))
    for _ in range(rng.randint(1, 5)):
        place = rng.randrange(len(text) + 1)
        text[place : place + rng.randint(0, 2)] = rng.choice(ALPHABET) * rng.randint(0, 2)
    return "".join(text)


def hostile(rng: random.Random) -> str:
    """Return an attack, a monster near the limits, or noise."""
    kind = rng.random()
    if kind < 0.5:
        return rng.choice(HOSTILE)
    if kind < 0.55:
        piece = rng.choice(PIECES)
        return (piece * rng.randint(1, 1_100 // len(piece)) + "1")[: rng.randint(1, 1_100)]
    if kind < 0.6:
        return f"{rng.choice([*FUNCTIONS])}({','.join(rng.choice(NUMBERS) for _ in range(rng.randint(0, 199)))})"
    if kind < 0.9:
        return "".join(rng.choice(ALPHABET) for _ in range(rng.randint(0, 60)))
    return "".join(chr(rng.choice([rng.randrange(128), rng.randrange(0x110000)])) for _ in range(rng.randint(0, 40)))


def exact(rng: random.Random, depth: int = 3) -> tuple[str, int, int]:
    """Return an expression of whole numbers, its exact value, and how far doubles may be off: 0 up to 2^53."""
    if depth == 0 or rng.random() < 0.2:
        value = rng.choice([rng.randrange(20), rng.randrange(10**6), 2 ** rng.randrange(63), rng.randrange(2**63)])
        return str(value), value, _rounding(value)
    (left, a, off_a), (right, b, off_b) = exact(rng, depth - 1), exact(rng, depth - 1)
    operator = rng.choice(["+", "-", "*", "^", " mod "])
    if operator == "^":
        power, value, off = rng.randrange(8), 1, 0
        for _ in range(power):
            value, off = value * a, _product_error(value, off, a, off_a)
        return f"({left})^{power}", value, off
    if operator == "*":
        return f"({left}*{right})", a * b, _product_error(a, off_a, b, off_b)
    if operator == " mod " and b and not (off_a or off_b):
        return f"({left} mod {right})", a % b, 0
    value, operator = (a - b, "-") if operator == "-" else (a + b, "+")
    return f"({left}{operator}({right}))", value, off_a + off_b + _rounding(value)


OVERFLOWN = 10**400
"""The error of a number that no double can hold; it stays with everything made from it, even a product with 0."""


def _rounding(value: int) -> int:
    if abs(value) > 10**300:
        return OVERFLOWN
    return 0 if abs(value) <= 2**53 else abs(value) >> 51


def _product_error(a: int, off_a: int, b: int, off_b: int) -> int:
    return max(off_a, off_b, abs(a) * off_b + abs(b) * off_a + off_a * off_b + _rounding(a * b))


def is_wrong(text: str, value: int, off: int) -> bool:
    """Return whether the calculator misses the exact value by more than the rounding of doubles."""
    try:
        return abs(Fraction(evaluate(text)) - value) > off
    except MathError:
        return off < OVERFLOWN


def resident_mb() -> float:
    """Return the memory of this process in MB; 0 where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * 4096 / 1e6


@attrs.frozen(kw_only=True)
class Report:
    """What came of a run.

    Attributes:
        times_s: Seconds each call took, ascending.
        slowest: The input that took longest.
        wrong: How many whole-number expressions missed their exact value.
        growth_mb: How much memory grew over its size after warming up, at most.
    """

    valid: int
    refused: int
    unhandled: int
    wrong: int
    times_s: Sequence[float]
    slowest: str
    before_mb: float
    growth_mb: float

    @property
    def is_fine(self) -> bool:
        """Whether all targets are met."""
        quick = self.times_s[-1] * 1e3 <= SLOWEST_ALLOWED_MS
        return not self.unhandled and not self.wrong and quick and self.growth_mb <= GROWTH_ALLOWED_MB


def fuzz(count: int, seed: int) -> Report:
    """Evaluate count inputs, a quarter of each kind."""
    rng = random.Random(seed)
    for _ in range(2_000):  # numexpr loaded, its templates compiled
        judged(made(rng))
    before = peak = resident_mb()
    tally = Counter({"valid": 0, "refused": 0, "unhandled": 0})
    times, wrong, slowest, longest = array("d"), 0, "", 0.0
    for number in range(count):
        if number % 4 == 2:
            text, value, off = exact(rng)
            wrong += len(text) <= 1_000 and is_wrong(text, value, off)
        else:
            text = (made, damaged, None, hostile)[number % 4](rng)
        started = time.thread_time()
        tally[judged(text)] += 1
        times.append(took := time.thread_time() - started)
        if took > longest:
            slowest, longest = text, took
        if number % 10_000 == 0:
            peak = max(peak, resident_mb() - number * times.itemsize / 1e6)  # the list of times is ours
    return Report(
        **tally, wrong=wrong, times_s=sorted(times), slowest=slowest, before_mb=before, growth_mb=peak - before
    )


def main() -> int:
    """Run, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.thread_time()
    report = fuzz(options.count, options.seed)
    at = report.times_s
    rows = {
        "inputs": f"{options.count:,} (seed {options.seed}) in {time.thread_time() - began:.1f} s",
        "valid": f"{report.valid:,}",
        "refused": f"{report.refused:,}",
        "unhandled": f"{report.unhandled:,}",
        "wrong whole numbers": f"{report.wrong:,}",
        "p50": f"{at[len(at) // 2] * 1e6:.1f} µs",
        "p99": f"{at[len(at) * 99 // 100] * 1e6:.1f} µs",
        "slowest": f"{at[-1] * 1e3:.2f} ms  {report.slowest[:60]!r}",
        "memory before": f"{report.before_mb:.1f} MB, grew by {report.growth_mb:.1f} MB at most",
        "verdict": "fine" if report.is_fine else "NOT FINE",
    }
    for name, figure in rows.items():
        print(f"{name:<21} {figure}")
    return 0 if report.is_fine else 1


def judged(text: str) -> str:
    """Return "valid", "refused" or, for anything that is not the calculator's own error, "unhandled"."""
    try:
        worth = evaluate(text)
    except MathError:
        return "refused"
    except Exception as error:
        print(f"unhandled {type(error).__name__}: {error}: {text!r}", file=sys.stderr)
        return "unhandled"
    each = worth if isinstance(worth, list) else [worth]
    if not all(type(one) in (int, float, bool) and math.isfinite(one) for one in each):
        print(f"unpresentable {worth!r}: {text!r}", file=sys.stderr)
        return "unhandled"
    return "valid"


if __name__ == "__main__":
    sys.exit(main())
