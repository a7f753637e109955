"""Names of arguments as the service accepts them: a tool with ``$top`` or ``filter[id]`` would fail every request.

Only names at the root of a schema matter. A renamed one ends in a checksum of the original, so that the mapping is
stable and unambiguous.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

LONGEST = 64
_LEGAL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_BRANCHES = ("allOf", "anyOf", "oneOf")

_sent: dict[tuple[str, str], str] = {}
_originals: dict[tuple[str, str], str] = {}
"""Of the tools encoded so far: by tool and original name, the changed one; and the reverse."""


def legal_key(key: str) -> str:
    """Return the name an argument is sent under."""
    if _LEGAL.fullmatch(key):
        return key
    checksum = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    base = re.sub(r"[^a-zA-Z0-9_.-]+", "_", key).strip("_")[: LONGEST - 9]
    return f"{base}_{checksum}" if base else f"_{checksum}"


def _noted(tool: str, key: str) -> str:
    sent = legal_key(key)
    if sent != key:
        _sent[tool, key], _originals[tool, sent] = sent, key
    return sent


def with_legal_keys(tool: str, schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema whose root has only names that the service accepts; the same schema if it has no others.

    Changed names are remembered for ``sent_keys`` and ``original_keys``.
    """
    changed: dict[str, Any] = {}
    properties = schema.get("properties")
    if isinstance(properties, Mapping) and any(not _LEGAL.fullmatch(str(key)) for key in properties):
        changed["properties"] = {_noted(tool, str(key)): value for key, value in properties.items()}
    required = schema.get("required")
    if isinstance(required, list | tuple):
        sent = [_noted(tool, key) if isinstance(key, str) else key for key in required]
        if sent != [*required]:
            changed["required"] = sent
    for name in _BRANCHES:
        branches = schema.get(name)
        if isinstance(branches, list | tuple):
            made = [with_legal_keys(tool, each) if isinstance(each, Mapping) else each for each in branches]
            if any(new is not old for new, old in zip(made, branches, strict=True)):
                changed[name] = made
    return {**schema, **changed} if changed else schema


def sent_keys(tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return a call's arguments under the names that the service was sent."""
    return {_sent.get((tool, key), key): value for key, value in arguments.items()}


def original_keys(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a call's arguments under the tool's own names; the same mapping if none was changed."""
    if not any((tool, key) in _originals for key in arguments):
        return arguments
    return {_originals.get((tool, key), key): value for key, value in arguments.items()}
