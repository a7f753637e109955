"""The hooks of this package."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from flexchat.plugin import hookspec

if TYPE_CHECKING:
    from flexchat import FlexChat, TurnHandle


@hookspec
def flexchat_worker_turn(chat: FlexChat, handle: TurnHandle) -> Awaitable[None]:  # type: ignore[empty-body]
    """A worker runs a turn: do something until it has ended, such as keeping its events for listeners elsewhere.

    The worker waits for it before it removes the turn from the queue. An exception is logged.
    """
