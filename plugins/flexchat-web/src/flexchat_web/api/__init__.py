"""The server's operations, except those on the configuration, by subject."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..operations import Operation
from ..serving import left_out
from . import (
    chat,
    conversations,
    effects,
    journal,
    models,
    openai,
    questions,
    ready,
    server,
    session,
    tool_sources,
    tools,
    turns,
)
from .errors import convert_errors

if TYPE_CHECKING:
    from ..serving import Serving

_HOOK = "flexchat_web_operations"


def operations(serving: Serving, *others: Operation) -> Iterator[Operation]:
    """Yield our operations and, between them, those of plugins; the rest of ours are yielded elsewhere."""
    of_chats = (chat, conversations, journal, turns, questions, effects, tools, tool_sources)
    first = [operation for module in of_chats for operation in module.OPERATIONS]
    first += models.operations(serving.model_facts)
    last = [operation for module in (openai, ready, server, session) for operation in module.OPERATIONS]
    taken = {(operation.method, operation.path): "FlexChat's own" for operation in (*first, *last, *others)}
    yield from map(convert_errors, first)
    for plugin, operation in serving.offered(_HOOK, Operation):
        place = (operation.method, operation.path)
        if place in taken:
            left_out(plugin, _HOOK, f"{' '.join(place)} is {taken[place]}")
            continue
        taken[place] = f"an operation of {plugin}"
        yield convert_errors(operation)
    yield from map(convert_errors, last)
