"""What a dialect does to keywords: one function for each action, in ACTIONS; below, what concerns several keywords."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from flexchat.schema.wording import cut, quoted

from .merge import distinct
from .shape import ANNOTATIONS, kinds_of, listed, meant_types, one_type_each, or_null
from .work import Draft, Severity, Work

_MAX_MENTION = 300  # most characters of a value added to a description
_BOUND = {"exclusiveMinimum": ("minimum", 1, max), "exclusiveMaximum": ("maximum", -1, min)}

ActionOn = Callable[[Work, Draft, str, list[str]], None]
"""(the work, the schema being made, the keyword, additions to its description)"""


def drop(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Leave it out."""
    del draft[keyword]
    work.note("info", keyword, f"{keyword} is left out")


def leave_out(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Leave it out and mention it in the description."""
    value = draft.pop(keyword)
    if value is False and keyword in ("uniqueItems", "deprecated", "readOnly", "writeOnly"):
        work.note("info", keyword, f"{keyword} is left out")
        return
    mention = mention_of(keyword, value)
    if mention and not work.is_mute:
        mentions.append(mention)
        _note_mentioned(work, keyword, f"the service does not accept {keyword}: it is mentioned in the description")
    else:
        why = "here" if work.is_mute else "and it is too long for the description"
        severity: Severity = "info" if keyword in ANNOTATIONS else "warning"
        work.note(severity, keyword, f"the service does not accept {keyword} {why}: it is left out")


def _note_mentioned(work: Work, keyword: str, text: str) -> None:
    """Note that a keyword is mentioned instead of sent: a loss if the service would have enforced it."""
    work.note("warning" if work.dialect.enforces and keyword not in ANNOTATIONS else "info", keyword, text)


def refuse(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Refuse the schema."""
    del draft[keyword]
    work.note("error", keyword, f"the service does not accept {keyword}; remove it, and put it into the description")


def const_as_enum(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Send a constant as an enum of one value, with its type."""
    value = draft.pop(keyword)
    draft["enum"] = [value]
    draft.setdefault("type", kinds_of([value])[0])
    work.note("info", keyword, "const is sent as an enum of one value")


def one_of_as_any_of(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Allow any form where exactly one is required."""
    forms = draft.pop(keyword)
    if "anyOf" in draft:
        work.note("warning", keyword, "oneOf next to anyOf cannot be expressed: it is left out")
        return
    draft["anyOf"] = forms
    work.note("info", keyword, "oneOf is sent as anyOf")


def prefix_as_items(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Allow each item any of the forms, with the same number of items."""
    forms = draft.pop(keyword)
    rest = draft.pop("items", None)
    if type(rest) is dict or rest is True:
        forms = [*forms, rest]
    else:
        draft.setdefault("minItems", len(forms))
        draft.setdefault("maxItems", len(forms))
    different = distinct(forms)
    draft["items"] = different[0] if len(different) == 1 else {"anyOf": different}
    if len(different) == 1:
        work.note("info", keyword, "prefixItems of one form are sent as items")
        return
    if mention := mention_of("items in this order", [_kind(form) for form in forms]):
        mentions.append(mention)
    work.note("warning", keyword, "prefixItems are sent as items of any of their forms: their order is only mentioned")


def loosen_bound(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Send an exclusive bound as an inclusive one: exact for integers, otherwise as close as possible."""
    value = draft.pop(keyword)
    inclusive, step, tighter = _BOUND[keyword]
    if listed(draft.get("type")) in (["integer"], ["integer", "null"]) and math.isfinite(value):
        value = (math.floor(value) if step > 0 else math.ceil(value)) + step
        work.note("info", keyword, f"{keyword} is sent as {inclusive}")
    else:
        mentions.append(f"{keyword}: {value}")
        text = f"the service does not accept {keyword}: {inclusive} is sent, the rest mentioned"
        _note_mentioned(work, keyword, text)
    draft[inclusive] = tighter(draft[inclusive], value) if inclusive in draft else value


def keep_strings(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Send an enum of strings that are not empty; for any other, mention the values and keep their types."""
    values = draft[keyword]
    rest = [value for value in values if value is not None]
    if len(rest) < len(values) and rest:
        draft["nullable"] = True
        work.note("info", keyword, "null among the values is sent as nullable")
        if all(type(value) is str for value in rest):
            draft["type"] = "string"
    if rest and all(type(value) is str and value for value in rest):
        draft[keyword] = rest
        kinds = [kind for kind in listed(draft.get("type")) if kind in ("string", "null")]
        if kinds and "type" in draft:
            draft["type"] = kinds[0] if len(kinds) == 1 else kinds
        return
    del draft[keyword]
    if not rest:
        draft["type"] = "null"
        return
    if "type" not in draft:
        kinds = kinds_of(values)
        draft["type"] = kinds[0] if len(kinds) == 1 else kinds
    if mention := mention_of("allowed values", rest):
        mentions.append(mention)
        text = "the service accepts only enums of non-empty strings: the values are listed in the description"
        _note_mentioned(work, keyword, text)
    else:
        text = "the service accepts only enums of non-empty strings, and these are too many to list"
        work.note("warning", keyword, text)


def keep_listed_format(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Send a format the service knows for this type; mention any other."""
    formats = work.dialect.formats
    kinds = listed(draft.get("type")) or ["string"]
    if not all(draft[keyword] in formats[kind] for kind in kinds if kind in formats):
        leave_out(work, draft, keyword, mentions)


def keep_plain_pattern(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Send a pattern without look-around; mention any other."""
    if re.search(r"\(\?<?[=!]", draft[keyword]):
        leave_out(work, draft, keyword, mentions)


def open_object(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Leave out further properties, but mention their form."""
    if (value := draft.pop(keyword)) is False:
        work.note("info", keyword, f"{keyword} is left out")
        return
    words = "further properties" if keyword == "additionalProperties" else keyword
    mention = mention_of(words, value) if value is not True and value != {} else ""
    if mention:
        mentions.append(mention)
    if not draft.get("properties"):
        text = "a map is sent as an object and mentioned in the description; a list of {key, value} is safer"
        work.note("warning", keyword, text)
    elif mention:
        _note_mentioned(work, keyword, f"{keyword} is mentioned in the description")


def close_object(work: Work, draft: Draft, keyword: str, mentions: list[str]) -> None:
    """Leave it to treat_object for an object; elsewhere it has no meaning."""
    if "object" not in listed(draft.get("type")) and "properties" not in draft:
        drop(work, draft, keyword, mentions)


ACTIONS: Mapping[str, ActionOn] = {
    "drop": drop,
    "note": leave_out,
    "refuse": refuse,
    "as enum": const_as_enum,
    "as anyOf": one_of_as_any_of,
    "as items": prefix_as_items,
    "as bound": loosen_bound,
    "strings": keep_strings,
    "listed": keep_listed_format,
    "plain": keep_plain_pattern,
    "open": open_object,
    "close": close_object,
}

# Those that are not in it concern more than one keyword, and are other steps of the rewriting.
FIRST = frozenset(("as enum", "as anyOf", "as items", "as bound"))
"""Actions that produce other keywords, which may have actions of their own."""


def mention_of(keyword: str, value: Any) -> str:
    """Return a keyword as a description mentions it: "minimum: 1"; empty if that is too long."""
    if isinstance(value, list) and all(not isinstance(each, (list, dict)) for each in value):
        text = ", ".join(map(_text, value))
    else:
        text = _text(value)
    return f"{keyword}: {text}" if 0 < len(text) <= _MAX_MENTION else ""


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except ValueError:  # an integer of more than 4,300 digits
        return ""


def _kind(form: Any) -> str:
    if type(form) is not dict:
        return "any"
    return str(form.get("title") or " or ".join(map(str, listed(form.get("type")))) or "any")


def give_root_type(work: Work, draft: Draft) -> None:
    """Make the root an object, because a tool's arguments are one."""
    kind = draft.get("type")
    if kind == "object":
        return
    if kind is None or "object" in listed(kind):
        draft["type"] = "object"
        work.note("info", "type", 'the root is sent with type "object"')
    else:
        work.note("error", "type", 'the type of the root must be "object"; put other values into a property')


def with_single_type(work: Work, draft: Draft) -> Draft:
    """Return a schema with several types as nullable, or as an anyOf of single types."""
    kinds = [kind for kind in draft["type"] if kind != "null"]
    work.note("info", "type", "several types are sent as nullable or anyOf")
    if len(kinds) < len(draft["type"]) and kinds:
        draft["nullable"] = True
    if len(kinds) > 1:
        return one_type_each({**draft, "type": kinds})
    draft["type"] = kinds[0] if kinds else "null"
    return draft


def give_type(work: Work, draft: Draft) -> None:
    """Add the implied type if a dialect requires one."""
    if kinds := meant_types(draft):
        draft["type"] = kinds[0] if len(kinds) == 1 else kinds
        work.note("info", "type", f"type {quoted(draft['type'])} is added")
    elif work.dialect.untyped == "string":
        draft["type"] = "string"
        work.note("warning", "type", "a value of any type cannot be expressed: a string is requested; give it a type")
    else:
        work.note("error", "type", 'a value of any type cannot be expressed; give it a type: ["string", "number"]')


def give_items(work: Work, draft: Draft) -> None:
    """Describe the items of an array that does not."""
    how = work.dialect.bare_array
    if how == "any":
        draft["items"] = {}
        work.note("info", "items", "items: {} is added")
    elif how == "string":
        draft["items"] = {"type": "string"}
        work.note("warning", "items", "items of any type cannot be expressed: strings are requested; add items")
    elif how == "refuse":
        work.note("error", "items", 'an array must say what it contains; add items: {"type": "string"} or another')


def treat_object(work: Work, draft: Draft, visit: Callable[[Any], Any], *, at_root: bool) -> None:
    """Visit the properties of an object, and decide which are required."""
    dialect = work.dialect
    if dialect.keywords.get("additionalProperties") == "close":
        _close(work, draft, at_root=at_root)
    if (originals := draft.get("properties")) is None:
        if not (at_root and dialect.empty_properties == "add"):
            return
        originals = {}
        work.note("info", "properties", "an empty table of properties is added")
    required = draft.get("required", [])
    must = [name for name in required if name in originals] if dialect.known_required else [*required]
    if len(must) < len(required):
        work.note("warning", "required", "a required name that no property has is left out")
    if dialect.recursion == "optional":
        for name in [*must]:
            if type(originals.get(name)) is dict and work.references.must_lead_back(originals[name]):
                must.remove(name)
                text = f"property {quoted(name)} leads back to itself and cannot be required: sent as optional"
                work.note("warning", "required", text)
    properties = _visit_properties(work, originals, must, visit)
    legal = work.names if _checks_names(work) else {}
    must = [legal.get(name, name) for name in must]
    must = [name for name in must if name in properties or name not in originals]
    if must != required:
        draft["required"] = must
    if legal and isinstance(order := draft.get("propertyOrdering"), list):
        draft["propertyOrdering"] = [legal.get(name, name) if isinstance(name, str) else name for name in order]
    if dialect.all_required:
        if "required" not in draft and not properties:
            work.note("info", "required", "an empty list of required names is added")
        draft["required"] = [*properties]
    if properties or dialect.empty_properties != "drop":
        draft["properties"] = properties
    else:
        del draft["properties"]


def _visit_properties(
    work: Work, properties: Mapping[str, Any], required: list[str], visit: Callable[[Any], Any]
) -> dict[str, Any]:
    dialect = work.dialect
    work.level += 1
    if dialect.max_depth is not None and work.level > dialect.max_depth:
        work.note("error", "properties", f"objects are nested more than {dialect.max_depth} deep; flatten them")
    work.properties += len(properties)
    visited = {}
    for name, inner in properties.items():
        work.text += len(name)
        sent = _name_property(work, name, inner)
        if inner is False and not dialect.boolean_schemas:
            work.note("info", "properties", f"property {quoted(name)}, which may not be given, is left out")
            continue
        count = len(work.notes)
        visited[sent] = visit(inner)
        if inner is True:  # has no identity to note a place by
            step = name.replace("~", "~0").replace("/", "~1")
            work.notes[count:] = [attrs.evolve(n, pointer=f"{n.pointer}/properties/{step}") for n in work.notes[count:]]
        if dialect.all_required and name not in required:
            visited[sent] = or_null(visited[sent])
            work.note("info", "required", "is sent as required; null means leaving it out", at=inner)
    work.level -= 1
    return visited


def _checks_names(work: Work) -> bool:
    """Return whether the names of the current object's properties matter to the service."""
    return work.dialect.property_name is not None and (len(work.trail) == 1 or not work.dialect.root_names_only)


def _name_property(work: Work, name: str, schema: Any) -> str:
    """Return the name a property is sent under."""
    if not _checks_names(work):
        return name
    sent = work.dialect.legal_name(name)
    if sent == name:
        return name
    if not work.renames:
        text = f"the name {cut(quoted(name))} must fit {work.dialect.property_name}; rename it"
        work.note("error", "properties", text, at=schema)
        return name
    work.names[name] = sent
    work.note("info", "properties", f"the name {cut(quoted(name))} is sent as {sent}", at=schema)
    return sent


def _close(work: Work, draft: Draft, *, at_root: bool) -> None:
    """Forbid further properties."""
    further = draft.get("additionalProperties")
    patterns = draft.pop("patternProperties", None)
    is_empty = not draft.get("properties")
    # Only the root may omit properties: a tool without parameters.
    is_map = is_empty and further is not False and not (at_root and further is None)
    if patterns or (further and further is not True) or is_map:
        text = "an object with properties of any name cannot be expressed; name them, or take a list of {key, value}"
        work.note("error", "additionalProperties", text)
    elif further is None:
        work.note("info", "additionalProperties", "additionalProperties: false is added")
    elif further is not False:
        work.note("warning", "additionalProperties", "further properties cannot be given")
    if "properties" not in draft:
        draft["properties"] = {}
        work.note("info", "properties", "an empty table of properties is added")
    draft["additionalProperties"] = False
