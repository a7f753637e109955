"""Merges several schemas into one: the conjunction of allOf, the union of objects. Pure, and shallow: anything to be
merged further down is left there as an allOf."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .shape import ANNOTATIONS, kinds_of, listed

_TIGHTER: dict[str, Callable[[Any, Any], Any]] = {
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties", "minContains"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties", "maxContains"), min),
    "uniqueItems": operator.or_,
    "nullable": operator.and_,
}
_TABLES = ("properties", "patternProperties", "dependentSchemas")
_SCHEMAS = ("items", "additionalProperties", "propertyNames", "unevaluatedItems", "unevaluatedProperties")


def merged(one: Mapping[str, Any], other: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return a schema that allows what both allow, and the keywords of which only the second remains.

    For annotations, the first counts.
    """
    both, lost = dict(one), []
    for keyword, theirs in other.items():
        if keyword not in both or (keyword in ANNOTATIONS and keyword != "format"):
            both.setdefault(keyword, theirs)
            continue
        ours = both[keyword]
        if keyword != "enum" and ours == theirs and type(ours) is type(theirs):
            continue
        if (together := _both(keyword, ours, theirs)) is None:
            lost.append(keyword)
        both[keyword] = theirs if together is None else together
    return both, lost


def _both(keyword: str, ours: Any, theirs: Any) -> Any:
    """Return the value that combines both; None if there is none."""
    kinds = type(ours), type(theirs)
    if keyword in _TIGHTER and not {*kinds} - {int, float, bool}:
        return _TIGHTER[keyword](ours, theirs)
    if keyword in _TABLES and kinds == (dict, dict):
        return ours | {k: {"allOf": [ours[k], v]} if k in ours and ours[k] != v else v for k, v in theirs.items()}
    if keyword in _SCHEMAS and not {*kinds} - {dict, bool}:
        return False if ours is False or theirs is False else {"allOf": [ours, theirs]}
    if keyword == "required" and kinds == (list, list):
        return [*ours, *(name for name in theirs if name not in ours)]
    if keyword == "enum" and kinds == (list, list):
        return [value for value in ours if _among(value, theirs)] or None
    if keyword == "type":
        return _common_types(listed(ours), listed(theirs))
    return {"anyOf": [ours, theirs]} if keyword == "not" and kinds == (dict, dict) else None


def distinct(forms: Sequence[Any]) -> list[Any]:
    """Return the distinct forms. Python's == would treat 1 and true as equal."""
    return [*{repr(form): form for form in reversed(forms)}.values()][::-1]


def _among(value: Any, values: Sequence[Any]) -> bool:
    return any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in values)


def _common_types(ours: list[str], theirs: list[str]) -> Any:
    common = [kind for kind in ours if kind in theirs or (kind == "integer" and "number" in theirs)]
    common += [kind for kind in theirs if kind == "integer" and "number" in ours and kind not in common]
    return (common[0] if len(common) == 1 else common) or None


def one_object(base: Mapping[str, Any], branches: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], str]:
    """Merge branches into one object with the properties of all, and a text that lists the combinations.

    Weaker than the union: only what all branches require is required.
    """
    forms: dict[str, list[Any]] = {}
    for branch in branches:
        for name, form in branch.get("properties", {}).items():
            forms.setdefault(name, []).append(form)
    ours = base.get("properties", {})
    properties = dict(ours)
    for name, several in forms.items():
        unique = distinct(several)
        form = unique[0] if len(unique) == 1 else (one_enum(unique) or ({"anyOf": unique}, []))[0]
        properties[name] = form if name not in ours or ours[name] == form else {"allOf": [ours[name], form]}
    required = [*base.get("required", ())]
    for name in branches[0].get("required", ()):
        if name not in required and all(name in branch.get("required", ()) for branch in branches):
            required.append(name)
    one = {**base, "properties": properties}
    if required:
        one["required"] = required
    if all(branch.get("additionalProperties") is False for branch in branches):
        one["additionalProperties"] = False
    groups = [*dict.fromkeys(", ".join(branch.get("required") or branch.get("properties", ())) for branch in branches)]
    return one, "give one of: " + "; ".join(group or "nothing" for group in groups) if len(groups) > 1 else ""


def beside(schema: Mapping[str, Any], keyword: str) -> dict[str, Any] | None:
    """Return a union with the constraints next to it moved into its branches; None if there are none."""
    rest = {k: v for k, v in schema.items() if k != keyword and k not in ANNOTATIONS and k not in ("nullable", "$defs")}
    rest.pop("definitions", None)
    if not rest:
        return None
    about = {k: v for k, v in schema.items() if k not in rest and k != keyword}
    return {**about, keyword: [{"allOf": [rest, branch]} for branch in schema[keyword]]}


def one_enum(branches: Sequence[Any]) -> tuple[dict[str, Any], list[str]] | None:
    """Return a union of single values as an enum, and each value's description; None if it is not such a union."""
    values: list[Any] = []
    mentions = []
    for branch in branches:
        if type(branch) is not dict or branch.keys() - {"const", "enum", "type", "title", "description"}:
            return None
        these = [branch["const"]] if "const" in branch else branch.get("enum")
        if type(these) is not list or not these:
            return None
        values += [value for value in these if not _among(value, values)]
        about = branch.get("description") or branch.get("title")
        if isinstance(about, str) and len(these) == 1:
            mentions.append(f"{these[0]}: {about}")
    kinds = kinds_of(values)
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}, mentions
