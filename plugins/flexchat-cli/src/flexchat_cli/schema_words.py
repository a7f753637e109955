"""--schema: the form of an answer, as a JSON Schema, a file of one, or in a few words: name, age int."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from typing import Any

from flexchat.errors import did_you_mean

from .standard_input import read_text_file
from .usage import UsageError

_MAX_BYTES = 1 << 20
_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def read_schema(text: str, folder: str | os.PathLike[str] = "", what: str = "--schema") -> dict[str, Any]:
    """Return the JSON Schema of an object.

    In words, fields are separated by commas or, if the text has several lines, by line ends. A field is its name, then
    its type if it is not a text (int, float, bool, str), then a colon and what it means: "name, age int: in years".
    Every field is required.

    Args:
        text: A JSON object, the name of a file with one, or words.
        folder: Where a relative file is looked for; empty: here.
        what: What errors call it.

    Raises:
        UsageError: It is none of them.
    """
    if not text.strip():
        raise UsageError(f"{what} is empty: name fields, as in 'name, age int', or a file")
    if text.lstrip().startswith("{"):
        return _object(text, what)
    file = os.path.join(folder, text)
    if text.endswith(".json") or os.path.exists(file):
        return _object(read_text_file(file, f"{what} {text}", most=_MAX_BYTES), f"{what} {text}")
    try:
        return _of_words(text)
    except UsageError as error:
        raise UsageError(f"{what}: {error}") from None


def _of_words(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for field in re.split(r"\n" if "\n" in text.strip() else ",", text.strip()):
        if field.strip():
            name, schema = _field(field)
            if name in fields:
                raise UsageError(f"the field '{name}' is given twice")
            fields[name] = schema
    return {"type": "object", "properties": fields, "required": [*fields], "additionalProperties": False}


def schema_of_many(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with any number of these in ``items``: services want an object."""
    of_root = {key: value for key, value in schema.items() if key in ("$schema", "$defs")}  # where references point to
    one = {key: value for key, value in schema.items() if key not in of_root}
    many = {"type": "object", "properties": {"items": {"type": "array", "items": one}}, "required": ["items"]}
    return {**of_root, **many, "additionalProperties": False}


def _field(text: str) -> tuple[str, dict[str, str]]:
    words, _, meaning = text.partition(":")
    name, *kinds = words.split() or [""]
    if not _NAME.fullmatch(name):
        raise UsageError(f"'{name or text.strip()}' cannot name a field: letters, digits, _ and -")
    if len(kinds) > 1 or (kinds and kinds[0] not in _TYPES):
        known = ", ".join(_TYPES)
        raise UsageError(
            f"'{' '.join(kinds)}' is not a type for '{name}'{did_you_mean(kinds[0], _TYPES)}; known: {known}"
        )
    schema = {"type": _TYPES[kinds[0] if kinds else "str"]}
    return name, schema | ({"description": meaning.strip()} if meaning.strip() else {})


def _object(text: str, what: str) -> dict[str, Any]:
    try:
        schema = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{what} is not JSON: {error}") from None
    if not isinstance(schema, dict):
        raise UsageError(f"{what} is not a JSON Schema: it must be an object")
    return schema
