"""Running a chat for LangChain, which calls it from any thread, and its tools concurrently."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import attrs
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
                # Closed, or finalized by the collector in the loop's own thread, which cannot wait for itself.
                with contextlib.suppress(ChatClosedError, RuntimeError):
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
    # The generator is still finishing if the task that awaited its next event was cancelled.
    with contextlib.suppress(RuntimeError):
        await events.aclose()


@attrs.define
class _Lane:
    """Running and waiting calls of one event loop."""

    changed: asyncio.Condition = attrs.field(factory=asyncio.Condition)
    running: int = 0
    alone: bool = False


class SideBySide:
    """Runs calls concurrently, except those of exclusive tools, which wait for and block all others."""

    def __init__(self) -> None:
        self._lanes: WeakKeyDictionary[asyncio.AbstractEventLoop, _Lane] = WeakKeyDictionary()

    @contextlib.asynccontextmanager
    async def place(self, *, exclusive: bool) -> AsyncIterator[None]:
        """Wait until the call may run, and hold its slot."""
        lane = self._lanes.setdefault(asyncio.get_running_loop(), _Lane())
        async with lane.changed:
            await lane.changed.wait_for(lambda: not lane.alone and not (exclusive and lane.running))
            lane.running, lane.alone = lane.running + 1, exclusive
        try:
            yield
        finally:
            # Before the await: a call that is cancelled while it waits for the lock has still given up its slot.
            lane.running, lane.alone = lane.running - 1, False
            async with lane.changed:
                lane.changed.notify_all()
