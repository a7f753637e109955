"""Tasks of a turn, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel tasks, and wait until all have ended. If the wait is cancelled, that is passed on to them.

    Raises:
        asyncio.CancelledError: The wait was cancelled; the tasks have ended nevertheless.
    """
    was_cancelled = False
    for task in tasks:
        task.cancel()
    while running := [task for task in tasks if not task.done()]:
        try:
            await asyncio.wait(running)
        except asyncio.CancelledError:
            # Passed on: a task that ignored the first cancellation gets another. The wait goes on, since a task left
            # behind would act unseen.
            was_cancelled = True
            for task in running:
                task.cancel()
    if was_cancelled:
        raise asyncio.CancelledError
