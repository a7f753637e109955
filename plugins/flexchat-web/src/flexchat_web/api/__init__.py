"""What the server can do beside the configuration: operations, by what they are about."""

from __future__ import annotations

from ..operations import Operation
from . import chat, conversations, server, tools
from .errors import told

OPERATIONS: tuple[Operation, ...] = tuple(
    told(operation) for module in (chat, conversations, tools, server) for operation in module.OPERATIONS
)
