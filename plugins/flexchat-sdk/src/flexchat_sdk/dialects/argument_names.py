"""Names of arguments as a service accepts them: a tool with ``$top`` or ``filter[id]`` would fail every request.

A renamed one ends in a checksum of the original, so that the mapping is stable and unambiguous.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.domain import ToolCall

from .schema_dialect import SchemaDialect

MAX_NAME = 64

# Of the tools sent so far: by tool, the originals of renamed arguments. Calls are read, and histories encoded, after
# their tools were; a name means the same in every chat, because it contains a checksum.
_originals: dict[str, dict[str, str]] = {}


def legal_name(name: str, pattern: str) -> str:
    """Return the name an argument is sent under: its own if it fits the pattern, otherwise letters, digits and _."""
    if re.fullmatch(pattern, name):
        return name
    checksum = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    base = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_")[: MAX_NAME - 10]
    return f"{'' if base[:1].isalpha() else '_'}{base}{'_' if base else ''}{checksum}"


def remember_names(tool: str, names: Mapping[str, str]) -> None:
    """Keep the renamed arguments of a tool that is being sent.

    Args:
        names: The name each is sent under, by its own.
    """
    if names:
        _originals.setdefault(tool, {}).update((sent, name) for name, sent in names.items())


def sent_arguments(tool: str, arguments: Mapping[str, Any], dialect: SchemaDialect) -> Mapping[str, Any]:
    """Return a call's arguments under the names that a service was sent; the same mapping if it was sent no others."""
    originals, pattern = _originals.get(tool), dialect.property_name
    if not originals or pattern is None:
        return arguments
    sent = {name: legal for legal, name in originals.items() if legal == legal_name(name, pattern)}
    renamed: Mapping[str, Any] = _renamed(arguments, sent, is_deep=not dialect.root_names_only)
    return renamed


def with_own_names(call: ToolCall) -> ToolCall:
    """Return a call with its arguments under the tool's own names; the same one if none was renamed."""
    originals = _originals.get(call.name)
    if not originals or call.arguments is None:
        return call
    arguments = _renamed(call.arguments, originals, is_deep=True)
    return call if arguments == call.arguments else attrs.evolve(call, arguments=arguments, raw_arguments=None)


def _renamed(value: Any, names: Mapping[str, str], *, is_deep: bool) -> Any:
    if isinstance(value, Mapping):
        return {
            names.get(key, key): _renamed(inner, names, is_deep=is_deep) if is_deep else inner
            for key, inner in value.items()
        }
    return [_renamed(inner, names, is_deep=is_deep) for inner in value] if isinstance(value, list) else value
