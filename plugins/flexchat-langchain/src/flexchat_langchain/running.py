"""Running a chat for LangChain, which calls it from any thread, with or without an event loop."""

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
    """Runs a chat for synchronous and asynchronous callers.

    A SyncFlexChat always runs on its own event loop, in a thread. So does a chat created from a configuration, which is
    closed when the program ends. A FlexChat runs on the loop of its async callers, and on another loop for sync ones.
    Use a SyncFlexChat to serve both at the same time.

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
        """Run *work* and wait for its result, even in a thread whose event loop is running."""
        return self._thread().run(work)

    async def arun(self, work: Callable[[FlexChat], Coroutine[Any, Any, T]]) -> T:
        """Run *work*; it is cancelled with the caller."""
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
            if not sys.is_finalizing():  # Otherwise the loop's thread has ended.
                with contextlib.suppress(
                    ChatClosedError, RuntimeError
                ):  # Closed, or finalized by the collector in the loop's own thread.
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
        """Stop the loop created by this object, if any, and close the chat that ran on it."""
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
    with contextlib.suppress(
        RuntimeError
    ):  # The generator is still finishing: the task that awaited its next event was cancelled.
        await events.aclose()
