"""Where a chat runs that LangChain calls: from any thread, with and without an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from flexchat import ChatClosedError, FlexChat, SyncFlexChat

T = TypeVar("T")

Source = FlexChat | SyncFlexChat | str | Path | Mapping[str, Any]
"""A chat, or what one is made from: a configuration's file, or the same as a mapping."""


class Running:
    """Runs a chat for plain and for async callers.

    A SyncFlexChat has an event loop in a thread of its own: there it runs, whoever calls. The same goes for a chat that
    is made here, from a configuration; it is closed when the program ends. A FlexChat runs on the loop of its async
    callers, and for plain ones on a loop of its own: for both kinds of callers at once, hand over a SyncFlexChat.

    Attributes:
        chat: The chat.
    """

    def __init__(self, source: Source) -> None:
        self._sync = source if isinstance(source, SyncFlexChat) else None
        self._is_given = self._sync is not None
        self._is_callers = isinstance(source, FlexChat)
        self._lock = threading.Lock()
        if isinstance(source, SyncFlexChat):
            self.chat = source.chat
        else:
            self.chat = source if isinstance(source, FlexChat) else FlexChat.from_config(source)
        self._loop = self._sync.run(_running_loop) if self._sync is not None else None

    def run(self, work: Callable[[FlexChat], Coroutine[Any, Any, T]]) -> T:
        """Run work and wait for it; also in a thread whose own event loop is running."""
        return self._thread().run(work)

    async def arun(self, work: Callable[[FlexChat], Coroutine[Any, Any, T]]) -> T:
        """Run work; cancelling the caller cancels it."""
        if self._is_callers:
            return await work(self.chat)
        self._thread()
        assert self._loop is not None
        if self._loop is asyncio.get_running_loop():
            return await work(self.chat)
        begun = work(self.chat)
        try:
            future = asyncio.run_coroutine_threadsafe(begun, self._loop)
        except RuntimeError:
            begun.close()
            raise ChatClosedError("this SyncFlexChat is closed: make a new one") from None
        return await asyncio.wrap_future(future)

    def iterate(self, begin: Callable[[FlexChat], AsyncGenerator[T, None]]) -> Generator[T, None, None]:
        """Yield what an async generator yields. Closing this one closes that one."""
        events = begin(self.chat)
        try:
            while (event := self.run(lambda _: _next(events))) is not None:
                yield event
        finally:
            if not sys.is_finalizing():  # else the loop's thread runs no more
                with contextlib.suppress(
                    ChatClosedError, RuntimeError
                ):  # it is closed, or the garbage collector came by in its thread
                    self.run(lambda _: _close(events))

    async def aiterate(self, begin: Callable[[FlexChat], AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
        """Yield what an async generator yields. Closing this one closes that one."""
        events = begin(self.chat)
        try:
            while (event := await self.arun(lambda _: _next(events))) is not None:
                yield event
        finally:
            await self.arun(lambda _: _close(events))

    def close(self) -> None:
        """End the loop that was made here, if one was, and close the chat that ran on it."""
        with self._lock:
            if self._sync is not None and not self._is_given:
                self._sync.close()

    def _thread(self) -> SyncFlexChat:
        with self._lock:
            if self._sync is None:
                self._sync = SyncFlexChat(self.chat)
                self._loop = self._sync.run(_running_loop)
            return self._sync


async def _running_loop(_: FlexChat) -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


async def _next(events: AsyncGenerator[T, None]) -> T | None:
    return await anext(events, None)


async def _close(events: AsyncGenerator[Any, None]) -> None:
    with contextlib.suppress(RuntimeError):  # it still ends, as whoever waited for its next event was cancelled
        await events.aclose()
