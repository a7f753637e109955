"""Types, arrays and objects as a dialect wants them: anything that concerns more than one keyword of a schema."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs
from flexchat.schema.wording import cut, quoted

from .keywords import Draft
from .types import listed, meant_types, one_type_each, or_null

if TYPE_CHECKING:
    from .rewrite import Rewriting


def give_root_type(work: Rewriting, draft: Draft) -> None:
    """Make the root an object, because a tool's arguments are one."""
    kind = draft.get("type")
    if kind == "object":
        return
    if kind is None or "object" in listed(kind):
        draft["type"] = "object"
        work.note("info", "type", 'the root is sent with type "object"')
    else:
        work.note("error", "type", 'the type of the root must be "object"; put other values into a property')


def with_single_type(work: Rewriting, draft: Draft) -> Draft:
    """Return a schema with several types as nullable, or as an anyOf of single types."""
    kinds = [kind for kind in draft["type"] if kind != "null"]
    work.note("info", "type", "several types are sent as nullable or anyOf")
    if len(kinds) < len(draft["type"]) and kinds:
        draft["nullable"] = True
    if len(kinds) > 1:
        return one_type_each({**draft, "type": kinds})
    draft["type"] = kinds[0] if kinds else "null"
    return draft


def give_type(work: Rewriting, draft: Draft) -> None:
    """Add the implied type if a dialect requires one."""
    kinds = meant_types(draft)
    if kinds:
        draft["type"] = kinds[0] if len(kinds) == 1 else kinds
        work.note("info", "type", f"type {quoted(draft['type'])} is added")
    elif work.dialect.untyped == "string":
        draft["type"] = "string"
        work.note("warning", "type", "a value of any type cannot be expressed: a string is requested; give it a type")
    else:
        work.note("error", "type", 'a value of any type cannot be expressed; give it a type: ["string", "number"]')


def give_items(work: Rewriting, draft: Draft) -> None:
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


def treat_object(work: Rewriting, draft: Draft, *, at_root: bool) -> None:
    """Visit the properties of an object, and decide which are required."""
    dialect = work.dialect
    if dialect.keywords.get("additionalProperties") == "close":
        _close(work, draft, at_root=at_root)
    given = draft.get("properties")
    if given is None:
        if not (at_root and dialect.empty_properties == "add"):
            return
        given = {}
        work.note("info", "properties", "an empty table of properties is added")
    required = draft.get("required", [])
    must = [name for name in required if name in given] if dialect.known_required else [*required]
    if len(must) < len(required):
        work.note("warning", "required", "a required name that no property has is left out")
    if dialect.recursion == "optional":
        for name in [*must]:
            if type(given.get(name)) is dict and work.references.must_lead_back(given[name]):
                must.remove(name)
                text = f"property {quoted(name)} leads back to itself and cannot be required: sent as optional"
                work.note("warning", "required", text)
    properties = _visited(work, given, must)
    must = [name for name in must if name in properties or name not in given]
    if must != required:
        draft["required"] = must
    if dialect.all_required:
        if "required" not in draft and not properties:
            work.note("info", "required", "an empty list of required names is added")
        draft["required"] = [*properties]
    if properties or dialect.empty_properties != "drop":
        draft["properties"] = properties
    else:
        del draft["properties"]


def _visited(work: Rewriting, given: Mapping[str, Any], required: list[str]) -> dict[str, Any]:
    dialect, size = work.dialect, work.size
    size.level += 1
    if dialect.max_depth is not None and size.level > dialect.max_depth:
        work.note("error", "properties", f"objects are nested more than {dialect.max_depth} deep; flatten them")
    size.properties += len(given)
    made = {}
    for name, inner in given.items():
        size.text += len(name)
        if dialect.property_name is not None and not re.fullmatch(dialect.property_name, name):
            text = f"the name {cut(quoted(name))} must be 1 to 64 of A-Z a-z 0-9 _, first no digit; rename it"
            work.note("error", "properties", text, at=inner)
        if inner is False and not dialect.boolean_schemas:
            work.note("info", "properties", f"property {quoted(name)}, which may not be given, is left out")
            continue
        known = len(work.notes)
        made[name] = work.visit(inner)
        if inner is True:  # has no identity to note a place by
            step = name.replace("~", "~0").replace("/", "~1")
            work.notes[known:] = [attrs.evolve(n, pointer=f"{n.pointer}/properties/{step}") for n in work.notes[known:]]
        if dialect.all_required and name not in required:
            made[name] = or_null(made[name])
            work.note("info", "required", "is sent as required; null means leaving it out", at=inner)
    size.level -= 1
    return made


def _close(work: Rewriting, draft: Draft, *, at_root: bool) -> None:
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
