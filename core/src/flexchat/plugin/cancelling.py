"""Telling a cancelled turn from code that was cancelled, or cancelled itself, on its own."""

from __future__ import annotations

import asyncio


def is_being_cancelled() -> bool:
    """Return whether somebody wants the running task to end; asked where a CancelledError was caught.

    A tool or a plugin that awaits a cancelled task of its own gets a CancelledError that nobody meant for the turn:
    that is its trouble and must not end the turn.
    """
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0
