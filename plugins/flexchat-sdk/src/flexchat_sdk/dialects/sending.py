"""The parameters of a tool as a request has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flexchat.domain import ToolDefinition
from flexchat.errors import ProviderRequestError

from .argument_names import remember_names
from .schema_dialect import SchemaDialect


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
    parameters = sent_parameters(tool.name, tool.parameters, dialect)
    if parameters is not None:
        return parameters
    from .rewrite import rewrite

    errors = [note.message for note in rewrite(tool.parameters, dialect).notes if note.severity == "error"]
    provider, reasons = dialect.name.partition(".")[0], "; ".join(dict.fromkeys(errors))
    text = f"tool {tool.name} cannot be sent to {dialect.name}: {reasons}"
    raise ProviderRequestError(text, provider=provider, kind="invalid_schema")
