"""What the server can do beside the configuration: operations, by what they are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..operations import Operation
from . import chat, conversations, models, openai, server, session, tools, turns
from .errors import told

if TYPE_CHECKING:
    from ..serving import Serving


def operations(serving: Serving) -> Iterator[Operation]:
    """Yield our operations and those of plugins."""
    of_plugins: Iterable[Operation] = (
        operation
        for _, theirs in serving.plugins.ask("flexchat_web_operations", web=serving.web)
        for operation in theirs
    )
    first = (chat, turns, conversations, tools)
    last = (openai, server, session)
    yield from map(told, (operation for module in first for operation in module.OPERATIONS))
    yield from map(told, models.operations(serving.model_facts))
    yield from map(told, of_plugins)
    yield from map(told, (operation for module in last for operation in module.OPERATIONS))
