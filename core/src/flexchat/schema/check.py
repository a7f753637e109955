"""Checking a call's arguments against the tool's schema: usable arguments, or sentences for the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from ..domain.text import counted, scrub
from .fast import Check, compile_fast
from .limits import UncheckedError
from .size import has_whole_floats, is_small, not_finite, size_problems
from .wording import Finding, finding, with_type

MAX_SENTENCES = 20

# JSON text inside JSON text inside …: each round reads one level.
_ROUNDS = 4


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
        fast = self._fast
        if fast is None:
            fast = self._fast = compile_fast(self._schema)
        if is_small(params):
            return CheckedArguments(params=params) if fast(params) else self._ask(params)
        problems = size_problems(params)
        if problems:
            return CheckedArguments(params=params, findings=_plain(problems))
        checked = CheckedArguments(params=params) if fast(params) else self._ask(params)
        if (
            checked is not None and not checked.findings and (strange := not_finite(params))
        ):  # if the schema does not give the type
            return CheckedArguments(params=params, findings=_plain(strange))
        return checked

    def _ask(self, params: Mapping[str, Any]) -> CheckedArguments | None:
        if not _loaded:
            return None
        from .engine import limited_work

        try:
            with limited_work():
                return self._check_with_engine(params)
        except UncheckedError as error:
            problem = f"the arguments hold {error}; send less at once"
            return CheckedArguments(params=params, findings=(Finding(problem),))

    def _check_with_engine(self, params: Mapping[str, Any]) -> CheckedArguments:
        from .coerce import changes, mended
        from .engine import SchemaEngine, limited_work

        if self._engine is None:
            self._engine = SchemaEngine(self._schema)
        engine: SchemaEngine = self._engine
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
        problems = size_problems(current) or not_finite(current)
        if problems:
            return CheckedArguments(params=params, findings=_plain(problems))
        return CheckedArguments(params=current, notes=_few_notes([*changes(plain, current)]))


def _findings(errors: list[Any], params: Mapping[str, Any]) -> tuple[Finding, ...]:
    order = {name: index for index, name in enumerate(params)}
    # Only a missing parameter has no place in the call.
    ordered = sorted(errors, key=lambda e: order.get(e.absolute_path[0], -1) if e.absolute_path else _rank(e))
    distinct = [*dict.fromkeys(finding(error) for error in ordered[: 2 * MAX_SENTENCES])]
    more = max(len(distinct), len(errors)) - MAX_SENTENCES
    first = tuple(each.scrubbed() for each in distinct[:MAX_SENTENCES])
    return (*first, Finding(f"and {counted(more, 'more problem')}")) if more > 0 else first


def _rank(error: Any) -> int:
    return -1 if error.validator == "required" else 1 << 30


def _plain(problems: tuple[str, ...]) -> tuple[Finding, ...]:
    return tuple(Finding(scrub(problem)) for problem in problems)


def _few_notes(texts: list[str]) -> tuple[str, ...]:
    more = len(texts) - MAX_SENTENCES
    notes = tuple(scrub(text) for text in texts[:MAX_SENTENCES])
    return (*notes, f"and {counted(more, 'more text')}") if more > 0 else notes
