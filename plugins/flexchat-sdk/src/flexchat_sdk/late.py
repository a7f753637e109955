"""Modules that are imported when they are needed, in a thread: a large one would block the event loop noticeably."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any

from flexchat.plugin.foreign import run_in_thread

_modules: dict[str, Any] = {}


async def load_module(name: str) -> Any:
    """Return a module, imported in a thread if it is not loaded yet."""
    # Not from sys.modules: a module is there as soon as its import has begun, which another thread may be at.
    if name not in _modules:
        _modules[name] = await run_in_thread(importlib.import_module, name)
    return _modules[name]


def imported_late(module: str, name: str) -> Callable[..., Awaitable[Any]]:
    """Create a coroutine function that stands for one of a module, which is imported with its first call."""

    async def call(*arguments: Any) -> Any:
        return await getattr(await load_module(module), name)(*arguments)

    return call
