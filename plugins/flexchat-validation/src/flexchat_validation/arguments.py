"""Compares arguments, answers and calls with the expectations of a case. Pure functions that never raise."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from .cases import AnswerCheck, ArgumentCheck, ExpectedCall

_MAX_SEARCH = 1_000_000


def json_equal(a: Any, b: Any) -> bool:
    """Return whether two values are the same JSON: 5 is 5.0, true is not 1, and key order does not matter."""
    pending = [(a, b)]
    while pending:
        x, y = pending.pop()
        if isinstance(x, Mapping):
            if not isinstance(y, Mapping) or x.keys() != y.keys():
                return False
            pending += [(inner, y[name]) for name, inner in x.items()]
        elif isinstance(x, (list, tuple)):
            if not isinstance(y, (list, tuple)) or len(x) != len(y):
                return False
            pending += zip(x, y, strict=True)
        elif isinstance(x, bool) or isinstance(y, bool):
            if x is not y:
                return False
        elif x != y:
            return False
    return True


def argument_problems(expected: ExpectedCall, params: Mapping[str, Any]) -> list[str]:
    """Compare a call's arguments with the expected ones; return the problems, one sentence each, without the tool."""
    problems = []
    for name, value in expected.arguments.items():
        if name not in params:
            problems.append(f"{name} is missing, expected {shorten(value)}")
        elif not json_equal(params[name], value):
            problems.append(f"{name} is {shorten(params[name])}, expected {shorten(value)}")
    for name, check in expected.check.items():
        if name in params:
            problems += _check_problems(name, params[name], check)
        elif not check.optional:
            problems.append(f"{name} is missing")
    if not expected.other_arguments:
        expected_names = {*expected.arguments, *expected.check}
        problems += [f"{name} was given, and is not expected" for name in params if name not in expected_names]
    return problems


def answer_problems(check: AnswerCheck, content: str) -> list[str]:
    """Check an answer; return the problems, one sentence each."""
    folded = content.casefold()
    problems = [
        f"the answer does not contain {shorten(text)}" for text in check.contains if text.casefold() not in folded
    ]
    if check.regex is not None:
        wrong = _pattern_problem(check.regex, content)
        problems += [f"the answer is {shorten(content)}, {wrong}"] if wrong else []
    return problems


def _check_problems(name: str, value: Any, check: ArgumentCheck) -> list[str]:
    problems = []
    if check.one_of is not None and not any(json_equal(value, option) for option in check.one_of):
        options = ", ".join(shorten(option, 40) for option in check.one_of[:10])
        problems.append(f"{name} is {shorten(value)}, expected one of {options}")
    if check.regex is not None:
        if not isinstance(value, str):
            problems.append(f"{name} is {shorten(value)}, expected a text")
        else:
            wrong = _pattern_problem(check.regex, value)
            problems += [f"{name} is {shorten(value)}, {wrong}"] if wrong else []
    if check.near is not None and not _is_near(value, check.near, check.within):
        most = f" (at most {check.within:g} away)" if check.within > 1e-6 else ""
        problems.append(f"{name} is {shorten(value)}, expected {check.near:g}{most}")
    if check.schema is not None:
        problems += value_problems(name, value, check.schema)
    return problems


def _is_near(value: Any, near: float, within: float) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return abs(value - near) <= within
    except OverflowError:  # a whole number that no float can hold
        return False


def _pattern_problem(pattern: str, text: str) -> str | None:
    from flexchat.host import PatternError, compile_pattern

    try:
        is_match = compile_pattern(pattern).found_in(text[:_MAX_SEARCH])
    except PatternError as error:
        return f"and its pattern cannot be used: {error}"
    if is_match is None:
        return "and searching it for the pattern took too long"
    return None if is_match else f"expected a text with {shorten(pattern)}"


def value_problems(name: str, value: Any, schema: Mapping[str, Any]) -> list[str]:
    """Validate an argument's value against a JSON Schema; return the problems, one sentence each."""
    from flexchat.host import SchemaEngine, UncheckedError, limited_work, not_finite, sentence, size_problems

    try:
        with limited_work():
            problems = size_problems({name: value}) or not_finite({name: value})
            if problems:
                return [*problems]
            errors = SchemaEngine(schema).errors(value)[:5]
        for error in errors:
            error.path.appendleft(name)
        return [sentence(error) for error in errors]
    except UncheckedError as error:
        return [f"{name} holds {error}"]


def assigned(expected: int, calls: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """Return a largest assignment of expected to made calls, each used once, in any order."""
    # Assigning the first call that fits may leave none for another: {a: x or y, b: x} needs a to get y. So calls that
    # are assigned already are assigned anew if that is possible (augmenting paths).
    by_made: dict[int, int] = {}  # made to expected

    def place(i: int, visited: set[int]) -> bool:
        for j in range(calls):
            if j not in visited and fits(i, j):
                visited.add(j)
                if j not in by_made or place(by_made[j], visited):
                    by_made[j] = i
                    return True
        return False

    for i in range(expected):
        place(i, set())
    return {i: j for j, i in sorted(by_made.items(), key=lambda pair: pair[1])}


def in_order(expected: int, calls: int, fits: Callable[[int, int], bool]) -> dict[int, int]:
    """Return an assignment that keeps the order of expected and made calls, as far as possible.

    Each takes the first fitting call after the previous one's: if all can be placed, this places all.
    """
    pairs: dict[int, int] = {}
    start = 0
    for i in range(expected):
        j = next((j for j in range(start, calls) if fits(i, j)), None)
        if j is not None:
            pairs[i] = j
            start = j + 1
    return pairs


def shorten(value: Any, limit: int = 80) -> str:
    """Format a value on one line of at most *limit* characters: texts in single quotes, everything else as JSON."""
    if isinstance(value, str):
        return f"'{_printable(_cut(value, limit))}'"
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, TypeError, RecursionError, OverflowError):
        return f"a {type(value).__name__} that cannot be shown"
    return _printable(_cut(text, limit))


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
