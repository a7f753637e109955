"""Registers the tool find_tools. The ranking is imported with the first search."""

from __future__ import annotations

from collections.abc import Iterable

from flexchat.plugin import ImplementationType, ToolDefinition, hookimpl

from .finder import FIND_TOOLS, FINDER_TYPE

FLEXCHAT_API = (0, 1)


@hookimpl
def flexchat_register_implementation_types() -> Iterable[ImplementationType]:
    """Register how find_tools runs."""
    yield FINDER_TYPE


@hookimpl
def flexchat_register_tools() -> Iterable[ToolDefinition]:
    """Register find_tools, which FlexChat offers where tools are deferred."""
    yield FIND_TOOLS
