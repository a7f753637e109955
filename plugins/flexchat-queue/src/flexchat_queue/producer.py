"""Enqueues the turns that a chat accepts."""

from __future__ import annotations

import asyncio
import importlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from flexchat.plugin import hookimpl

from .config import QueueTable
from .turn_queue import QueuedTurn, TurnQueue

if TYPE_CHECKING:
    from flexchat import FlexChat
    from flexchat.plugin import TurnInfo


def open_queue(chat: FlexChat, table: QueueTable) -> TurnQueue | None:
    """Return the queue beside a chat's conversations; None if they are not in PostgreSQL. Connects on first use."""
    connections = getattr(getattr(chat.conversations, "store", None), "connections", None)
    if connections is None:
        return None
    from .procrastinate_queue import ProcrastinateQueue

    # Shorter than that of turns: a row must be free by the time at which its turn counts as interrupted.
    lease_s = chat.tools.effects.lease_s / 2
    return ProcrastinateQueue(connections.config, schema=table.schema, lease_s=lease_s)


class Producer:
    """Hooks of one chat. A turn whose enqueuing fails is enqueued by the next sweep of a worker."""

    def __init__(self, table: QueueTable) -> None:
        self._table = table
        self._chat: FlexChat | None = None
        self._queue: TurnQueue | None = None

    @hookimpl
    def flexchat_app_opened(self, app: Any) -> None:
        """Remember the chat, whose database has the queue."""
        self._chat = app.chat

    @hookimpl
    async def flexchat_turn_accepted(self, info: TurnInfo, due_at: str, priority: int) -> None:
        """Enqueue the turn; one that is not due yet is enqueued by a worker once it is."""
        if self._chat is None or (due_at and datetime.fromisoformat(due_at) > datetime.now(UTC)):
            return
        if self._queue is None:
            await asyncio.to_thread(importlib.import_module, "procrastinate")  # takes most of a second
            self._queue = self._queue or open_queue(self._chat, self._table)
        if self._queue is not None:
            turn = QueuedTurn(id=info.id, tenant=info.tenant, conversation=info.conversation or "", priority=priority)
            await self._queue.enqueue([turn])

    @hookimpl
    async def flexchat_app_closed(self) -> None:
        """Close the queue's connections."""
        if self._queue is not None:
            await self._queue.aclose()
