"""The parameters of a tool, and the arguments of its calls, as a service accepts them.

A tool with an argument ``$top`` or ``filter[id]`` would fail every request, so such arguments are renamed. Renamed ones
end in a checksum of the original, so that the mapping is stable and unambiguous.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from flexchat.domain import ToolCall, ToolDefinition
from flexchat.errors import ProviderRequestError

from .schema_dialect import SchemaDialect

# Of the tools sent so far: by tool, the originals of renamed arguments. Calls are read, and histories encoded, after
# their tools were; a name means the same in every chat, because it contains a checksum.
_originals: dict[str, dict[str, str]] = {}


def remember_names(tool: str, names: Mapping[str, str]) -> None:
    """Keep the renamed arguments of a tool that is being sent.

    Args:
        names: The name each is sent under, by its own.
    """
    if names:
        _originals.setdefault(tool, {}).update((sent, name) for name, sent in names.items())


def sent_arguments(tool: str, arguments: Mapping[str, Any], dialect: SchemaDialect) -> Mapping[str, Any]:
    """Return a call's arguments under the names that a service was sent; the same mapping if it was sent no others."""
    originals = _originals.get(tool)
    if not originals or dialect.property_name is None:
        return arguments
    sent = {name: legal for legal, name in originals.items() if legal == dialect.legal_name(name)}
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


def sent_parameters(tool: str, parameters: Mapping[str, Any], dialect: SchemaDialect) -> Mapping[str, Any] | None:
    """Rewrite the parameters of a tool; None if the dialect cannot express them.

    Arguments with names that the service refuses are renamed. AnswerParts gives them back under their own.

    Args:
        tool: Its name on the wire.
    """
    from .rewrite import rewrite  # every command loads this module; few need that one

    rewritten = rewrite(parameters, dialect, renames=True)
    remember_names(tool, rewritten.names)
    return rewritten.schema


def require_parameters(tool: ToolDefinition, dialect: SchemaDialect) -> Mapping[str, Any]:
    """Rewrite the parameters of a tool.

    Raises:
        ProviderRequestError: The dialect cannot express them; kind "invalid_schema". The tool is then left out of the
            request, and the turn has a warning with the reason.
    """
    if (parameters := sent_parameters(tool.name, tool.parameters, dialect)) is not None:
        return parameters
    from .rewrite import rewrite

    errors = [note.message for note in rewrite(tool.parameters, dialect).notes if note.severity == "error"]
    provider, reasons = dialect.name.partition(".")[0], "; ".join(dict.fromkeys(errors))
    text = f"tool {tool.name} cannot be sent to {dialect.name}: {reasons}"
    raise ProviderRequestError(text, provider=provider, kind="invalid_schema")
