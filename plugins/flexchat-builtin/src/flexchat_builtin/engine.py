"""The only module that calls numexpr, which computes with lists. It passes constant templates and 64-bit floats.

numexpr compiles its first argument with Python's compiler and guards this with a pattern that can be bypassed
(numexpr 2.14.2). No text of a user or a model may reach it: each operation is one constant template over the
variables a and b, which are 64-bit floats or arrays of them.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any


@functools.cache
def load() -> Callable[..., Any]:
    """Import numexpr (about 0.2 s with numpy) on the first call and return its ``evaluate``.

    numexpr starts a thread per core and logs their number. Lists of a thousand numbers need no threads, so this
    prevents both, unless the program has already imported numexpr.
    """
    # If the program has imported it itself, its log and its number of threads are the program's own.
    ours = "numexpr" not in sys.modules
    log = logging.getLogger("numexpr.utils")
    was_disabled, log.disabled = log.disabled, log.disabled or ours
    try:
        import numexpr
    finally:
        log.disabled = was_disabled
    if ours:
        numexpr.set_num_threads(1)
    evaluate: Callable[..., Any] = numexpr.evaluate
    return evaluate


def is_loaded() -> bool:
    """Return True if numexpr is already imported."""
    return load.cache_info().currsize > 0


_SAME_NAMES = (
    *("abs", "sign", "sqrt", "exp", "expm1", "log", "log10", "log2", "log1p"),
    *("sin", "cos", "tan", "sinh", "cosh", "tanh", "sum", "prod"),
)
TEMPLATES = {
    **{operator: f"a {operator} b" for operator in "+-*/"},
    "^": "a ** b",
    **{name: f"{name}(a)" for name in _SAME_NAMES},
    **{f"a{name}": f"arc{name}(a)" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")},
    "atan2": "arctan2(a, b)",
}


def compute_list(name: str, *operands: float | Sequence[float]) -> list[float]:
    """Evaluate a template on one or two operands, at least one of them a list.

    Lists have the same length; a number stands for a list of equal numbers. IEEE double arithmetic, element by element
    and as in functions.py, never an error. A sum or product is a list of one.
    """
    evaluate = load()
    import numpy

    variables = {key: numpy.array(operand, dtype=float) for key, operand in zip("ab", operands, strict=False)}
    value = evaluate(TEMPLATES[name], local_dict=variables, global_dict={}, sanitize=True)
    numbers: list[float] = numpy.atleast_1d(value).tolist()
    return numbers
