"""Checking JSON data against a schema: a call's arguments, and values from elsewhere.

Arguments are first held to limits, so that checking them cannot become an attack; the numbers come from the safety
design. Then they are usable, or the result has sentences for the model.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from ..domain.text import counted, scrub
from .fast import Check, compile_fast
from .limits import MAX_DIGITS, UncheckedError, schema_problems
from .wording import Finding, Path, finding, label, quoted, sentence, with_type

MAX_BYTES = 64 * 1024
MAX_DEPTH = 32
MAX_ITEMS = 10_000
MAX_SENTENCES = 20

_LONG = 10**300  # more than any float, and far fewer digits than MAX_DIGITS
_TOO_LONG = 10**MAX_DIGITS
_ROUNDS = 4  # of reading JSON text inside JSON text inside …, one level each


@attrs.frozen(kw_only=True)
class CheckedArguments:
    """The result of checking one call's arguments.

    Attributes:
        params: The arguments to use: the object that was checked, or a copy if texts were read as numbers.
        findings: The faults: missing parameters in schema order, then other problems in the order of the call. Empty
            if the call may proceed.
        notes: Values that were read differently: ``days: "2" read as 2``.
    """

    params: Mapping[str, Any]
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """The faults, one sentence each, with their hints."""
        return tuple(map(str, self.findings))


_loaded: list[bool] = []


def load() -> None:
    """Import the modules for the check of an unusual call; on an event loop, call it in a thread."""
    from . import coerce, engine  # noqa: F401

    _loaded.append(True)


class ArgumentChecker:
    """A checker for the calls of one tool.

    Costs nothing until the first call; a valid call of a simple schema then costs a microsecond or two, and any other
    needs jsonschema, which takes 0.1 s to import.

    Args:
        schema: The tool's parameters, accepted by schema.limits.schema_problems.
    """

    __slots__ = ("_engine", "_fast", "_schema")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._fast: Check | None = None
        self._engine: Any = None

    @property
    def fast(self) -> Check:
        """Return true only for values that are certainly valid; see fast.py."""
        if self._fast is None:
            self._fast = compile_fast(self._schema)
        return self._fast

    @property
    def engine(self) -> Any:
        """The SchemaEngine, which decides about all others; using it imports jsonschema."""
        if self._engine is None:
            from .engine import SchemaEngine

            self._engine = SchemaEngine(self._schema)
        return self._engine

    def check(self, params: Mapping[str, Any]) -> CheckedArguments:
        """Return the usable arguments and their problems. Never raises, for any params, and never changes them."""
        checked = self.check_if_loaded(params)
        if checked is None:
            load()
            checked = self.check_if_loaded(params)
            assert checked is not None
        return checked

    def check_if_loaded(self, params: Mapping[str, Any]) -> CheckedArguments | None:
        """Return the same; None if something has to be imported for it: see load."""
        if type(params) is not dict and not isinstance(params, Mapping):
            wrong = Finding("the arguments must be an object", f"got {with_type(params)}")
            return CheckedArguments(params={}, findings=(wrong.scrubbed(),))
        fast = self._fast or self.fast
        small = is_small(params)
        if not small and (problems := size_problems(params)):
            return _refused(params, problems)
        checked = CheckedArguments(params=params) if fast(params) else self._ask(params)
        if small or checked is None or checked.findings:
            return checked
        strange = not_finite(params)  # found here if the schema does not give the type
        return _refused(params, strange) if strange else checked

    def _ask(self, params: Mapping[str, Any]) -> CheckedArguments | None:
        if not _loaded:
            return None
        from .engine import limited_work

        try:
            with limited_work():
                return self._check_with_engine(params)
        except UncheckedError as error:
            return _refused(params, (f"the arguments hold {error}; send less at once",))

    def _check_with_engine(self, params: Mapping[str, Any]) -> CheckedArguments:
        from .coerce import changes, mended
        from .engine import limited_work

        engine = self.engine
        plain = params if isinstance(params, dict) else dict(params)
        current, errors = plain, engine.errors(plain)
        for _ in range(_ROUNDS):
            better = mended(current, errors, engine) if errors else current
            if better is current:
                break
            current, errors = better, engine.errors(better)
        if not errors and has_whole_floats(current):
            with limited_work():
                current = mended(current, engine.errors(current, whole=True), engine)
        if errors:
            return CheckedArguments(params=params, findings=_findings(errors, current))
        if current is plain:
            return CheckedArguments(params=params)
        if problems := size_problems(current) or not_finite(current):
            return _refused(params, problems)
        return CheckedArguments(params=current, notes=_few_notes([*changes(plain, current)]))


def _findings(errors: list[Any], params: Mapping[str, Any]) -> tuple[Finding, ...]:
    order = {name: index for index, name in enumerate(params)}

    def rank(error: Any) -> int:
        if error.absolute_path:
            return order.get(error.absolute_path[0], -1)
        return -1 if error.validator == "required" else 1 << 30  # only a missing parameter has no place in the call

    ordered = sorted(errors, key=rank)
    distinct = [*dict.fromkeys(finding(error) for error in ordered[: 2 * MAX_SENTENCES])]
    more = max(len(distinct), len(errors)) - MAX_SENTENCES
    first = tuple(each.scrubbed() for each in distinct[:MAX_SENTENCES])
    return (*first, Finding(f"and {counted(more, 'more problem')}")) if more > 0 else first


def _refused(params: Mapping[str, Any], problems: tuple[str, ...]) -> CheckedArguments:
    return CheckedArguments(params=params, findings=tuple(Finding(scrub(problem)) for problem in problems))


def _few_notes(texts: list[str]) -> tuple[str, ...]:
    more = len(texts) - MAX_SENTENCES
    notes = tuple(scrub(text) for text in texts[:MAX_SENTENCES])
    return (*notes, f"and {counted(more, 'more text')}") if more > 0 else notes


def is_small(params: Mapping[str, Any]) -> bool:
    """Return True if the arguments are certainly within the limits and contain no NaN or Infinity.

    Cheap, and made for a few short scalars: for anything else it returns False, and size_problems decides.
    """
    # 16 values of 512 characters with names of 256, at most 4 bytes per character, stay below 64 KiB.
    if len(params) > 16:
        return False
    for name, value in params.items():
        if type(name) is not str or len(name) > 256:
            return False
        kind = type(value)
        if kind is str:
            if len(value) > 512:
                return False
        elif kind is float:
            if value - value != 0.0:
                return False
        elif kind is int:
            if not -_LONG < value < _LONG:
                return False
        elif kind is not bool and value is not None:
            return False
    return True


def size_problems(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the problems that make the arguments too large or invalid JSON; empty if they may be checked further."""
    at_least = 0
    strange: list[str] = []
    for path, value in _walk(params):
        at_least += len(value) + 2 if isinstance(value, str) else 2
        if at_least > MAX_BYTES:
            return (_too_long(),)
        if len(path) > MAX_DEPTH:
            return (f"{label(path[:3])} is nested too deeply (at most {MAX_DEPTH} levels); send a flatter value",)
        if isinstance(value, list):
            if len(value) > MAX_ITEMS:
                return (f"{label(path)} must have at most {MAX_ITEMS} items (got {len(value)}); send fewer",)
        elif isinstance(value, dict):
            if not all(isinstance(key, str) for key in value):
                strange.append(f"{label(path)} has a name that is not a string")
        elif value is not None and not isinstance(value, (str, int, float)):
            strange.append(f"{label(path)} is not JSON data (got {type(value).__name__})")
        elif isinstance(value, int) and not -_TOO_LONG < value < _TOO_LONG:
            strange.append(f"{label(path)} must be an integer of at most {MAX_DIGITS:,} digits")
    if strange:
        return tuple(strange[:-21:-1])  # the walk goes backwards
    # ASCII, with escapes, is never shorter than UTF-8: the exact length is needed only in doubt.
    text = json.dumps(dict(params))
    if len(text) > MAX_BYTES:
        text = json.dumps(dict(params), ensure_ascii=False)
    return (_too_long(),) if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES else ()


def has_whole_floats(params: Mapping[str, Any]) -> bool:
    """Return whether the arguments contain a float that JSON Schema counts as an integer: 3.0."""
    return any(isinstance(value, float) and value.is_integer() for _, value in _walk(params))


def not_finite(params: Mapping[str, Any]) -> tuple[str, ...]:
    """Return a sentence for each NaN and Infinity: Python reads and writes them, but JSON does not have them."""
    numbers = [(path, value) for path, value in _walk(params) if isinstance(value, float) and value - value != 0.0]
    return tuple(f"{label(path)} must be a finite number (got {quoted(value)})" for path, value in numbers[:-21:-1])


def _too_long() -> str:
    return f"the arguments are longer than {MAX_BYTES // 1024} KiB; send less at once"


def _walk(params: Mapping[str, Any]) -> Iterator[tuple[Path, Any]]:
    """Yield every value with its path, outermost first."""
    waiting: list[tuple[Path, Any]] = [((), dict(params))]
    while waiting:
        path, value = waiting.pop()
        yield path, value
        if isinstance(value, dict):
            for key, inner in value.items():
                waiting.append(((*path, key), inner))
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                waiting.append(((*path, index), inner))


def value_problem(value: Any, schema: Mapping[str, Any]) -> str | None:
    """Validate a server's structured result, a person's reply, …; return the first error, or None.

    The first value that is not plainly valid imports jsonschema (0.1 s). Raises UncheckedError if it cannot be checked:
    treat it as invalid, or refuse the schema where it is defined.
    """
    checker = _checker(json.dumps(schema))
    if checker.fast(value):
        return None
    from .engine import limited_work

    with limited_work():
        errors = checker.engine.errors(value)
    if not errors:
        return None
    text = sentence(errors[0]).replace("the arguments", "the value", 1)
    return text.replace("unknown parameter", "unknown property", 1)[:300]


@functools.lru_cache(256)
def _checker(schema: str) -> ArgumentChecker:
    """Return the checker for a tool's schema; compiled once for the tool, not for each of its calls."""
    parsed = json.loads(schema)
    problems = schema_problems(parsed) if isinstance(parsed, dict) else ["a schema is an object"]
    if problems:
        raise UncheckedError(f"a schema that cannot be used: {problems[0]}")
    return ArgumentChecker(parsed)
