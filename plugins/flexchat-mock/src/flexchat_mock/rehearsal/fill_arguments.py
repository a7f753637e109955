"""Arguments for a tool, taken from a clause by the tool's schema."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import attrs

from .candidates import candidates_of
from .clause import Clause
from .fits import fits
from .meant import MENTIONED, Candidate
from .parameters import Parameter, parameters_of
from .text_values import FREE_KINDS, text_candidates

_MAX_DEPTH = 3


@attrs.frozen
class Filled:
    """What a clause gives a tool.

    Attributes:
        arguments: They keep the schema, where nothing is missing.
        missing: Names of the required parameters the clause says nothing of.
        evidence: How much the values found speak for the tool.
        used: The stretches of text that were used up, by parameter.
        guessed: Parameters that took a value only because they are required.
    """

    arguments: Mapping[str, Any]
    missing: tuple[str, ...]
    evidence: float
    used: Mapping[str, tuple[int, int]]
    guessed: frozenset[str] = frozenset()


def fill_arguments(
    schema: Mapping[str, Any],
    clause: Clause,
    tool_words: frozenset[str],
    *,
    only: Collection[str] | None = None,
    order: Sequence[str] = (),
    free_text: bool = True,
    root: Mapping[str, Any] | None = None,
    depth: int = 0,
) -> Filled:
    """Return the arguments a clause gives.

    Args:
        only: Parameters to fill; None for all.
        order: Parameters that come first where a value would do for several.
        free_text: Whether a parameter may take whatever words are left.
        root: The whole schema, where this is a part of it.
    """
    root = schema if root is None else root
    parameters = [p for p in parameters_of(schema, root) if only is None or p.name in only]
    parameters.sort(key=lambda p: order.index(p.name) if p.name in order else len(order))
    chosen: dict[str, Candidate] = {}
    found = [c for p in parameters for c in candidates_of(p, clause, tool_words)]
    # What is said of a parameter outright comes first; guesses wait until free text had its turn.
    _assign([c for c in found if c.score >= MENTIONED], parameters, chosen, root)
    if free_text:
        _assign_texts(parameters, clause, tool_words, chosen, root, MENTIONED)
    _assign([c for c in found if c.parameter.required], parameters, chosen, root)
    if free_text:
        _assign_texts(parameters, clause, tool_words, chosen, root, 0.0)
    arguments = {p.name: chosen[p.name].value for p in parameters if p.name in chosen}
    evidence = sum(c.evidence for c in chosen.values())
    for parameter in parameters:
        if parameter.name not in arguments:
            evidence += _without_words(parameter, clause, tool_words, arguments, root, depth)
    required = schema.get("required")
    wanted = required if isinstance(required, list | tuple) else ()
    missing = [str(n) for n in wanted if n not in arguments and (only is None or n in only)]
    if not missing and only is None and not fits(schema, arguments, root):
        arguments = {name: value for name, value in arguments.items() if name in wanted}
        if not fits(schema, arguments, root):
            missing = ["arguments that keep its schema"]
    return Filled(
        arguments=arguments,
        missing=tuple(missing),
        evidence=evidence,
        used={name: (c.start, c.end) for name, c in chosen.items()},
        guessed=frozenset(name for name, c in chosen.items() if c.score < MENTIONED),
    )


def _is_free(parameter: Parameter) -> bool:
    return "string" in parameter.types and not parameter.options and parameter.kind in FREE_KINDS


def _assign(
    found: Sequence[Candidate],
    parameters: Sequence[Parameter],
    chosen: dict[str, Candidate],
    root: Any,
    most: int | None = None,
) -> None:
    """Give each parameter its best candidate, or only the most sure ones theirs; no stretch of text is used twice."""
    given = 0
    ranks = {p.name: i for i, p in enumerate(parameters)}
    for candidate in sorted(found, key=lambda c: (-c.score, ranks[c.parameter.name], c.start, c.end)):
        name = candidate.parameter.name
        if name in chosen or any(candidate.start < c.end and c.start < candidate.end for c in chosen.values()):
            continue
        shaped = _shaped(candidate, root)
        if shaped is not None:
            chosen[name] = shaped
            given += 1
            if given == most:
                return


def _assign_texts(
    parameters: Sequence[Parameter],
    clause: Clause,
    tool_words: frozenset[str],
    chosen: dict[str, Candidate],
    root: Any,
    least: float,
) -> None:
    """Give parameters free text, the surest first: where one text ends depends on those that are taken."""
    for _ in parameters:
        taken = [(c.start, c.end) for c in chosen.values()]
        open_ = [p for p in parameters if p.name not in chosen and _is_free(p) and (p.required or least)]
        found = [
            c
            for p in open_
            for c in text_candidates(p, [o for o in parameters if o is not p], clause, taken, tool_words)
            if c.score >= least
        ]
        if not found:
            return
        before = len(chosen)
        _assign(found, parameters, chosen, root, most=1)
        if len(chosen) == before:
            return


def _shaped(candidate: Candidate, root: Any) -> Candidate | None:
    """The candidate in a form that keeps the parameter's schema; None if there is none."""
    for value in _forms(candidate.value):
        if fits(candidate.parameter.schema, value, root):
            return attrs.evolve(candidate, value=value)
    return None


def _forms(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, str):
        yield from (form for form in (value.upper(), value.lower(), value.capitalize()) if form != value)


def _without_words(
    parameter: Parameter, clause: Clause, tool_words: frozenset[str], arguments: dict[str, Any], root: Any, depth: int
) -> float:
    """Fill what has a default or parts of its own; return the evidence in that."""
    schema = parameter.schema
    if "object" in parameter.types and isinstance(schema.get("properties"), Mapping) and depth < _MAX_DEPTH:
        inner = fill_arguments(schema, clause, tool_words, free_text=parameter.required, root=root, depth=depth + 1)
        if not inner.missing and (inner.arguments or parameter.required) and fits(schema, dict(inner.arguments), root):
            arguments[parameter.name] = dict(inner.arguments)
            return inner.evidence
    if parameter.required:
        for value in (*([schema["default"]] if "default" in schema else []), *parameter.options[:1]):
            is_only = len(parameter.options) <= 1 or "default" in schema
            if is_only and fits(schema, value, root):
                arguments[parameter.name] = value
                break
    return 0.0
