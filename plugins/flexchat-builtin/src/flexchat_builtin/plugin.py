"""What this package adds to FlexChat. Loads nothing heavy: numexpr and RE2 come with the first use."""

from __future__ import annotations

from collections.abc import Iterator

from flexchat.plugin import ImplementationType, ToolDefinition, ToolHandler, hookimpl

from . import handlers, reading, texts
from .implementation import KIND, BuiltinSettings, check, run
from .ready_tools import ready_tools

_HANDLERS = (
    handlers.math_eval,
    handlers.echo,
    handlers.get_current_datetime,
    handlers.generate_uuid,
    texts.text_length,
    texts.text_case,
    texts.text_replace,
    texts.text_split,
    texts.text_search,
    reading.read_result,
)


@hookimpl
def flexchat_register_implementation_types() -> Iterator[ImplementationType]:
    """Offer the type "builtin"."""
    yield ImplementationType(
        name=KIND,
        settings_class=BuiltinSettings,
        run=run,
        check=check,
        summary="A tool run by a handler: a function that a plugin registers.",
    )


@hookimpl
def flexchat_register_tool_handlers() -> Iterator[ToolHandler]:
    """Offer the handlers, each by its function's name."""
    for handler in _HANDLERS:
        yield ToolHandler(kind=KIND, name=handler.__name__, call=handler)


@hookimpl
def flexchat_register_tools() -> Iterator[ToolDefinition]:
    """Offer the ready-made tools."""
    return ready_tools()
