"""The Berkeley Function Calling Leaderboard's rules for comparing calls with its ground truth.

A ground truth names one function for each call, and for each argument a list of accepted values; an empty text in it
means that the argument may be left out. Texts are compared without case, spaces and , . / - _ * ^, and ' counts as ". A
whole number may stand for a float; no other type may stand for another. If a schema gives one type and the ground truth
has values of another (a variable's name), both types are accepted.

Numbers and booleans are compared as Python does (1 is True), because the leaderboard does.

Source: bfcl-eval 2026.3.23, its AST checker; written independently, compared with it by benchmarks/bfcl_agreement.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from flexchat.host import counted

from .arguments import assigned, shorten

_TYPES: Mapping[str, type] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "array": list,
    "object": dict,
}
_IGNORED = re.compile(r"[ ,./\-_*^]")


def matches(
    possible_answers: Sequence[Mapping[str, Any]],
    calls: Sequence[tuple[str, Mapping[str, Any] | None]],
    schemas: Mapping[str, Mapping[str, Any]],
) -> list[str]:
    """Compare calls with the ground truth; return the differences, one sentence each.

    Args:
        possible_answers: One for each call: its function, and for each argument the accepted values.
        calls: Name and arguments of each call of the model; None for arguments that could not be parsed.
        schemas: The parameters of each function, as JSON Schema.
    """
    expected = [next(iter(answer.items())) for answer in possible_answers]
    differences = {
        (i, j): _call_problems(name, accepted, schemas.get(name, {}), *calls[j])
        for i, (name, accepted) in enumerate(expected)
        for j in range(len(calls))
    }
    pairs = assigned(len(expected), len(calls), lambda i, j: not differences[i, j])
    if len(calls) != len(expected):
        names = ", ".join(name for name, _ in calls[:5]) or "none"
        return [
            f"expected {counted(len(expected), 'call')}, {f'got {len(calls)}: {names}' if calls else 'none was made'}"
        ]
    if len(pairs) == len(expected):
        return []
    unmatched = [j for j in range(len(calls)) if j not in pairs.values()]
    problems = []
    for i, (name, _) in enumerate(expected):
        if i not in pairs:
            nearest = min(unmatched, key=lambda j: (calls[j][0] != name, len(differences[i, j])))
            unmatched.remove(nearest)
            problems += differences[i, nearest]
    return problems


def _call_problems(
    name: str, accepted: Mapping[str, Any], schema: Mapping[str, Any], called: str, params: Mapping[str, Any] | None
) -> list[str]:
    if called != name:
        return [f"{name} was not called; {called} was"]
    if params is None:
        return [f"{name}: its arguments are not a JSON object"]
    properties: Mapping[str, Any] = schema.get("properties", {})
    missing = [argument for argument in schema.get("required", ()) if argument not in params]
    missing += [a for a, values in accepted.items() if a not in params and "" not in values and a not in missing]
    problems = [f"{name}: {argument} is missing" for argument in missing]
    for argument, value in params.items():
        if argument not in properties or argument not in accepted:
            problems.append(f"{name}: {argument} was given, and is not expected")
        elif not _fits(value, accepted[argument], properties[argument]):
            values = [shorten(v, 60) for v in accepted[argument] if v != ""]
            options = f"one of {', '.join(values[:6])}" if len(values) > 1 else ", ".join(values) or "nothing"
            problems.append(f"{name}: {argument} is {shorten(value)}, expected {options}")
    return problems


def _fits(value: Any, possible: Sequence[Any], schema: Mapping[str, Any]) -> bool:
    kind = _TYPES.get(str(schema.get("type")), str)
    items = schema.get("items")
    item_kind = _TYPES.get(str(items.get("type")), str) if kind is list and isinstance(items, Mapping) else None
    if kind is float and type(value) is int:
        try:
            value = float(value)
        except OverflowError:
            return False
    option_type = _type_of_first(possible)
    as_declared = type(value) is kind
    if as_declared:
        if item_kind is not None and not any(_items_fit(value, option, item_kind) for option in possible):
            return False
        is_variable = option_type is not None and option_type is not kind
    elif option_type is not None and type(value) is option_type:
        is_variable = True
    else:
        return False
    if is_variable:
        return _in(value, possible)
    if kind is dict:
        return any(_same_object(value, option) for option in possible if option != "")
    if kind is list and item_kind is dict:
        return any(_same_objects(value, option) for option in possible)
    if kind is str:
        return _plain(value) in [_plain(option) for option in possible if type(option) is str]
    if kind is list:
        return _in(_plain_items(value), [_plain_items(option) for option in possible])
    return _in(value, possible)


def _type_of_first(possible: Sequence[Any]) -> type | None:
    """Return the type of an argument's accepted values; None if it may only be left out."""
    return next((type(option) for option in possible if option != ""), None)


def _items_fit(value: list[Any], option: Any, kind: type) -> bool:
    """Return whether a list's items have the type in its schema, or that of the items in the ground truth."""
    if not isinstance(option, list):
        return True
    option_type = _type_of_first(option)
    return all(type(item) is kind or (option_type is not None and type(item) is option_type) for item in value)


def _same_object(value: Mapping[str, Any], option: Any) -> bool:
    """Compare an object with the ground truth's, which has a list of values for each key, one level deep."""
    if not isinstance(value, Mapping) or not isinstance(option, Mapping):
        return False
    if any(key not in value and "" not in values for key, values in option.items()):
        return False
    return all(
        key in option and _in(_plain(inner), [_plain(accepted) for accepted in option[key]])
        for key, inner in value.items()
    )


def _same_objects(value: Sequence[Any], option: Any) -> bool:
    """Compare lists of objects, in order; an empty text in the ground truth is an empty list."""
    if len(value) != len(option):
        return False
    return all(_same_object(inner, accepted) for inner, accepted in zip(value, option, strict=True))


def _in(value: Any, options: Sequence[Any]) -> bool:
    try:
        return value in options
    except RecursionError:  # nested more deeply than Python compares
        return False


def _plain(value: Any) -> Any:
    return _IGNORED.sub("", value).lower().replace("'", '"') if type(value) is str else value


def _plain_items(values: Any) -> list[Any]:
    return [_plain(value) for value in values]
