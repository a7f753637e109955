"""What the server can do beside the configuration: operations, by what they are about."""

from __future__ import annotations

from ..operations import Operation
from . import attempts, chat, conversations, models, openai, runs, server, session, tools, trials, turns, validation
from .errors import told

OPERATIONS: tuple[Operation, ...] = tuple(
    told(operation)
    for module in (
        chat,
        turns,
        conversations,
        tools,
        models,
        trials,
        validation,
        runs,
        attempts,
        openai,
        server,
        session,
    )
    for operation in module.OPERATIONS
)
