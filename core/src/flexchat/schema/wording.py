"""Sentences for jsonschema's findings that a model can act on.

The text is the specification's if it has one (requirements TC-37 to TC-40, C1); the hint gives the value received and
a likely correction. Neither grows with the value: values are cut to 80 characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs

from ..domain.text import scrub
from ..errors import closest, with_hint
from .patterns import NOT_BLANK

Path = tuple[str | int, ...]

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_ARTICLES = {"string": "a", "number": "a", "boolean": "a", "integer": "an", "array": "an", "object": "an"}
_BOUNDS = {
    "minimum": "at least ",
    "maximum": "at most ",
    "exclusiveMinimum": "greater than ",
    "exclusiveMaximum": "less than ",
    "multipleOf": "a multiple of ",
    "const": "",
}
_COUNTS = {
    "minLength": ("at least", "character"),
    "maxLength": ("at most", "character"),
    "minItems": ("at least", "item"),
    "maxItems": ("at most", "item"),
    "minProperties": ("at least", "entry"),
    "maxProperties": ("at most", "entry"),
}


@attrs.frozen
class Finding:
    """A fault of one value.

    Attributes:
        text: In the specification's words, if it has any.
        hint: The value received, a likely correction, the allowed values; may be empty.
        name: The value the hint is about.
    """

    text: str
    hint: str = ""
    name: str = ""

    def __str__(self) -> str:
        return with_hint(self.text, self.hint)

    def scrubbed(self) -> Finding:
        """Return the same with halves of surrogate pairs replaced; see scrub."""
        return Finding(scrub(self.text), scrub(self.hint), scrub(self.name))


def label(path: Sequence[str | int]) -> str:
    """Return the name of a value: ``address.street``, ``items[2].qty``."""
    if not path:
        return "the arguments"
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif not text:
            text = step
        else:
            text += f".{step}" if _PLAIN_NAME.fullmatch(step) else f"[{quoted(step)}]"
    return cut(text, 120)


def quoted(value: Any) -> str:
    """Return a value as JSON text, cut to 80 characters."""
    try:
        return cut(json.dumps(value, ensure_ascii=False))
    except (TypeError, ValueError):  # not JSON data, or an integer too long to write
        return f"a value of type {type(value).__name__}"


def cut(text: str, most: int = 80) -> str:
    """Return the text, or its beginning and an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


def sentence(error: Any) -> str:
    """Return a jsonschema.ValidationError as one sentence, with the hint in parentheses."""
    return str(finding(error))


def finding(error: Any) -> Finding:
    """Return a jsonschema.ValidationError as a Finding."""
    keyword, expected, value = error.validator, error.validator_value, error.instance
    path = tuple(error.absolute_path)
    name = label(path)
    if "propertyNames" in error.absolute_schema_path and isinstance(value, str):
        name = f"the name {quoted(value)} in {name}"
    if keyword == "type":
        return Finding(f"{name} must be {_any_of_types(expected)}", f"got {with_type(value)}", name)
    if keyword == "required":
        missing, place = cut(error.message), f" in {name}" if path else ""
        return Finding(f"missing '{missing}'{place}", _sent_instead(error.message, value, error.schema), missing)
    if keyword in ("anyOf", "oneOf"):
        return _union(error, name, value)
    if keyword == "additionalProperties":
        return _unknown(error.message, path, error.schema)
    if keyword == "enum":
        hint = f"got {quoted(value)}{_nearest(value, expected)}"
        return Finding(f"{name} must be one of: {_join_options(expected)}", hint, name)
    actual = f"{len(value)}" if keyword in _COUNTS else quoted(value)
    return Finding(_demand(error, name), f"got {actual}", name)


def _demand(error: Any, name: str) -> str:
    keyword, expected = error.validator, error.validator_value
    if keyword in _BOUNDS:
        return f"{name} must be {_BOUNDS[keyword]}{quoted(expected)}"
    if keyword in _COUNTS:
        bound, unit = _COUNTS[keyword]
        plural = "" if expected == 1 else "s"
        unit = "entrie" if unit == "entry" and plural else unit
        return f"{name} must have {bound} {quoted(expected)} {unit}{plural}"
    if keyword == "pattern":
        if expected == NOT_BLANK:
            return f"{name} must not be blank"
        return f"{name} must match the pattern {cut(expected)}"
    if keyword == "uniqueItems":
        return f"{name} must not have the same item twice"
    if keyword in ("contains", "minContains", "maxContains"):
        form = quoted(error.schema.get("contains"))
        least, most = error.schema.get("minContains", 1), error.schema.get("maxContains")
        bounds = f"at least {least}" if most is None else f"{least} to {most}"
        return f"{name} must have {bounds} of its items of the form {form}"
    if keyword == "not":
        return f"{name} must not be of the form {quoted(expected)}"
    if keyword is None:
        return f"{name} is not allowed here"
    return f"{name} does not fit {keyword}: {quoted(expected)}"


def branches(error: Any) -> list[list[Any]]:
    """Return the errors below an anyOf or oneOf, one list for each alternative."""
    by_branch: dict[Any, list[Any]] = {}
    for inner in error.context or ():
        # jsonschema gives no path for an alternative that is just false.
        alternative = inner.relative_schema_path[0] if inner.relative_schema_path else id(inner)
        by_branch.setdefault(alternative, []).append(inner)
    return [*by_branch.values()]


def _union(error: Any, name: str, value: Any) -> Finding:
    alternatives, actual = branches(error), f"got {quoted(value)}"
    if not alternatives:
        return Finding(f"{name} fits more than one of the {len(error.validator_value)} forms it may have", actual, name)
    of_type = [branch for branch in alternatives if not any(_is_about_whole(e, "type", None) for e in branch)]
    if not of_type:
        wrong = [e for branch in alternatives for e in branch if e.validator == "type"]
        types = [name for e in wrong for name in _listed(e.validator_value)]
        if types:
            return Finding(f"{name} must be {_any_of_types(types)}", f"got {with_type(value)}", name)
        return Finding(f"{name} is not allowed here", actual, name)
    if all(_is_about_whole(branch[0], "const", "enum") for branch in of_type):
        firsts = [(branch[0].validator, branch[0].validator_value) for branch in of_type]
        values = [value for keyword, options in firsts for value in (options if keyword == "enum" else [options])]
        return Finding(f"{name} must be one of: {_join_options(values)}", f"{actual}{_nearest(value, values)}", name)
    # Alternatives distinguished by a constant, {"kind": "circle", …}: report the one that was meant.
    likely = [branch for branch in of_type if not any(e.validator in ("const", "enum") for e in branch)]
    chosen = of_type if len(of_type) == 1 else likely
    if len(chosen) == 1:
        return joined([finding(e) for e in chosen[0][:3]])
    reasons = cut(" / ".join(finding(branch[0]).text for branch in of_type[:4]), 400)
    return Finding(f"{name} fits none of the {len(error.validator_value)} forms it may have: {reasons}")


def joined(findings: Sequence[Finding]) -> Finding:
    """Return several findings as one, whose hint covers each value."""
    if len(findings) == 1:
        return findings[0]
    hints = [f"{each.name}: {each.hint}" if each.name else each.hint for each in findings if each.hint]
    return Finding(", ".join(each.text for each in findings), "; ".join(hints))


def _is_about_whole(error: Any, *keywords: str | None) -> bool:
    return error.validator in keywords and not error.relative_path


def _listed(types: str | Iterable[str]) -> Iterable[str]:
    return (types,) if isinstance(types, str) else types


def _any_of_types(types: str | Iterable[str]) -> str:
    words = [f"{_ARTICLES.get(name, '')} {name}".lstrip() for name in dict.fromkeys(_listed(types))]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def with_type(value: Any) -> str:
    """Return a value with the name of its type, if that is not obvious."""
    for kind, words in ((str, "the string "), (list, "the array "), (dict, "the object ")):
        if isinstance(value, kind):
            return words + quoted(value)
    return quoted(value)


def _join_options(values: Sequence[Any]) -> str:
    """Return the values as the specification lists them: texts unquoted, joined by commas; a long list is cut."""
    words = [v if isinstance(v, str) else quoted(v) for v in values]
    text = ", ".join(words)
    return text if len(text) <= 2_000 else f"{text[:2_000].rpartition(', ')[0]} … ({len(words)} in all)"


def _nearest(value: Any, options: Sequence[Any]) -> str:
    similar = _closest(value, [o for o in options if isinstance(o, str)]) if isinstance(value, str) else None
    return f'; did you mean "{cut(similar)}"?' if similar else ""


def _sent_instead(missing: str, sent: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    unknown = [name for name in sent if name not in schema.get("properties", ())]
    similar = _closest(missing, unknown)
    return f"you sent '{similar}'" if similar else ""


def _unknown(name: str, path: Path, schema: Mapping[str, Any]) -> Finding:
    names = [*schema.get("properties", ())]
    similar = _closest(name, names)
    what = f"unknown property '{cut(name)}' in {label(path)}" if path else f"unknown parameter '{cut(name)}'"
    if similar:
        return Finding(what, f"did you mean '{similar}'?", cut(name))
    return Finding(what, f"allowed: {cut(', '.join(names), 400)}" if names else "none is allowed", cut(name))


def _closest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name most similar to this one, ignoring case, ``_`` and ``-``."""
    folded = {_folded(each): each for each in known[:100] if len(each) <= 100}
    matches = closest(_folded(name), folded, cutoff=0.7) if len(name) <= 100 else []
    return folded[matches[0]] if matches else None


def _folded(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")
