"""Registers the builtin tools and handlers. numexpr and RE2 are imported on first use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from flexchat.plugin import Implementation, ImplementationType, ToolDefinition, ToolHandler, hookimpl

from . import handlers, reading
from .implementation import KIND, BuiltinSettings, check, run

_HANDLERS = (
    handlers.math_eval,
    handlers.echo,
    handlers.get_current_datetime,
    handlers.generate_uuid,
    handlers.text_length,
    handlers.text_case,
    handlers.text_replace,
    handlers.text_split,
    handlers.text_search,
    reading.read_result,
)


@hookimpl
def flexchat_register_implementation_types() -> Iterator[ImplementationType]:
    """Register the implementation type "builtin"."""
    yield ImplementationType(
        name=KIND,
        settings_class=BuiltinSettings,
        run=run,
        check=check,
        summary="A tool run by a handler: a function that a plugin registers.",
    )


@hookimpl
def flexchat_register_tool_handlers() -> Iterator[ToolHandler]:
    """Register the handlers under the names of their functions."""
    for handler in _HANDLERS:
        yield ToolHandler(kind=KIND, name=handler.__name__, call=handler)


@hookimpl
def flexchat_register_tools() -> Iterator[ToolDefinition]:
    """Register the ready-made tools of ready_tools.json. Models read their descriptions."""
    for tool in json.loads(Path(__file__).with_name("ready_tools.json").read_text("utf-8")):
        handler = tool.pop("handler", tool["name"])
        yield ToolDefinition(
            **tool, implementation=Implementation(type=KIND, settings={"handler": handler}), effect="read"
        )
