"""SyncFlexChat: FlexChat for callers without an event loop."""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import functools
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Mapping, Set
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, Unpack, overload

from .app import FlexChat, from_a_fork
from .domain import DEFAULT_TENANT, ChatRequest, StreamEvent, Turn
from .domain.prices import Cost
from .errors import ChatClosedError
from .request import CommonRequestOptions, RequestOptions

P = ParamSpec("P")
T = TypeVar("T")

_ENDING_S = 3.0  # how long to wait for cancelled work: a tool that ignores it must not keep a program from ending


def _waiting(
    method: Callable[Concatenate[FlexChat, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[SyncFlexChat, P], T]:
    """Return a method that calls the chat's method of that name and waits for its end."""

    @functools.wraps(method)
    def call(self: SyncFlexChat, /, *args: P.args, **kwargs: P.kwargs) -> T:
        work: Coroutine[Any, Any, T] = getattr(self.chat, method.__name__)(*args, **kwargs)
        return self._wait_for(work)

    return call


class SyncFlexChat:
    """FlexChat for plain functions: one event loop in its own thread, so that connections stay open.

    Its methods are FlexChat's, and return what those do once they are awaited.

    Many threads may call it at once, but not the loop's own (an async tool, an event hook). Use it in a ``with``
    statement, or call ``close``. A process that forks may make it, but only its children may call it, or only itself.

    Raises:
        ChatClosedError: From every method: it is closed, or was closed during the call.
        RuntimeError: From every method: it was called on the chat's own event loop.
    """

    def __init__(self, chat: FlexChat) -> None:
        self.chat = chat
        self._lock = threading.RLock()  # between closing and starting calls
        self._closed = False
        self._calls: dict[asyncio.Task[Any], threading.Event] = {}
        # Loop and thread begin with the first call: a server that loads the program and then forks has workers whose
        # loop is their own.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = 0

    @classmethod
    def from_config(cls, source: str | Path | Mapping[str, Any], **rest: Any) -> Self:
        """Build the chat a configuration describes; see FlexChat.from_config."""
        return cls(FlexChat.from_config(source, **rest))

    @classmethod
    def from_model(cls, model: str, **rest: Any) -> Self:
        """Build a chat from one model and some tools; see FlexChat.from_model."""
        return cls(FlexChat.from_model(model, **rest))

    @overload
    def respond(
        self, message: str | ChatRequest, *, response_format: type[T], **options: Unpack[CommonRequestOptions]
    ) -> Turn[T]: ...
    @overload
    def respond(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> Turn: ...
    def respond(self, message: str | ChatRequest, **options: Unpack[RequestOptions]) -> Turn:
        """Answer a message; see FlexChat.respond."""
        return self._wait_for(self.chat.respond(message, **options))

    def stream(
        self, message: str | ChatRequest, *, is_whole: bool = False, **options: Unpack[RequestOptions]
    ) -> Generator[StreamEvent, None, None]:
        """Answer a message piece by piece; see FlexChat.stream. Closing the generator ends the turn."""
        return self._stream(self.chat.stream(message, is_whole=is_whole, **options))

    explain = _waiting(FlexChat.explain)
    preview = _waiting(FlexChat.preview)
    call_tool = _waiting(FlexChat.call_tool)
    effects = _waiting(FlexChat.effects)
    effect = _waiting(FlexChat.effect)
    settle_effect = _waiting(FlexChat.settle_effect)
    turns = _waiting(FlexChat.turns)
    turn = _waiting(FlexChat.turn)
    resume = _waiting(FlexChat.resume)
    close_turn = _waiting(FlexChat.close_turn)
    cancel_turn = _waiting(FlexChat.cancel_turn)
    submit = _waiting(FlexChat.submit)
    pending = _waiting(FlexChat.pending)
    question = _waiting(FlexChat.question)
    answer = _waiting(FlexChat.answer)
    revoke = _waiting(FlexChat.revoke)
    save_media = _waiting(FlexChat.save_media)
    read_media = _waiting(FlexChat.read_media)
    embed = _waiting(FlexChat.embed)
    list_models = _waiting(FlexChat.list_models)

    def cost(self, *, tenant: str = DEFAULT_TENANT) -> Cost:
        """Add up what models have cost a tenant since this chat was made; see FlexChat.cost."""
        return self.chat.cost(tenant=tenant)

    def run(self, work: Callable[[FlexChat], Coroutine[Any, Any, T]]) -> T:
        """Run anything else FlexChat can do, on its loop: ``chat.run(lambda c: c.stores["docs"].add(…))``."""
        return self._wait_for(work(self.chat))

    def _stream(self, events: AsyncGenerator[StreamEvent, None]) -> Generator[StreamEvent, None, None]:
        try:
            while (event := self._wait_for(_next(events))) is not None:
                yield event
        finally:
            self._end(events)

    def _end(self, events: AsyncGenerator[StreamEvent, None]) -> None:
        """Close a stream; called by a reader, or by the garbage collector: in any thread, at any time."""
        if self._closed or sys.is_finalizing() or self._loop is None or self._is_from_a_fork():
            return  # closing has ended it, or the loop's thread does not run here
        if threading.current_thread() is self._thread:
            self._loop.create_task(_close(events))
        else:
            self._wait_for(_close(events))

    def close(self) -> None:
        """End everything still running, close connections and stores, and end the thread."""
        if threading.current_thread() is self._thread:
            raise RuntimeError("a SyncFlexChat cannot be closed from its own event loop")
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._is_from_a_fork():
            return  # what is open is the parent's
        loop = self._begin()
        atexit.unregister(self.close)
        ending = asyncio.run_coroutine_threadsafe(self._shut_down(loop), loop)
        try:
            ending.result()
        finally:
            loop.call_soon_threadsafe(loop.stop)
            assert self._thread is not None
            self._thread.join()
            loop.close()
            for ended in self._calls.values():
                ended.set()  # releases those waiting for work that would not end

    async def _shut_down(self, loop: asyncio.AbstractEventLoop) -> None:
        await _cancel(set(self._calls))  # first: they cancel their own tasks, and wait for them
        await _cancel(asyncio.all_tasks() - {asyncio.current_task()})
        await loop.shutdown_asyncgens()
        await self.chat.aclose()

    def _begin(self) -> asyncio.AbstractEventLoop:
        """Return the loop; at the first call, start it. The caller holds the lock, or has set _closed under it."""
        if self._loop is None:
            self._loop, self._process = asyncio.new_event_loop(), os.getpid()
            self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="flexchat loop", daemon=True)
            self._thread.start()
            # If it is never closed, its connections are closed when the program ends.
            atexit.register(self.close)
        return self._loop

    def _is_from_a_fork(self) -> bool:
        return self._loop is not None and self._process != os.getpid()

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        while True:
            try:
                loop.run_forever()
                return
            except (KeyboardInterrupt, SystemExit):
                pass  # raised by some async code: its own caller gets it, and the other callers continue

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work on the loop; if the wait is interrupted (Ctrl-C), the work is cancelled and awaited."""
        tasks: list[asyncio.Task[T]] = []
        ended = threading.Event()
        context = contextvars.copy_context()  # the caller's: tools and hooks see its variables

        def begin() -> None:
            task = loop.create_task(work, context=context)
            tasks.append(task)
            self._calls[task] = ended
            task.add_done_callback(lambda task: self._calls.pop(task).set())

        if self._is_from_a_fork():  # before the lock, which a thread of the parent may have held for ever
            work.close()
            raise ChatClosedError(from_a_fork("SyncFlexChat", self._process))
        submitted = False
        try:
            with self._lock:
                refused = "is closed: make a new one" if self._closed else ""
                if threading.current_thread() is self._thread:
                    refused = "cannot be called from its own event loop: use the FlexChat in its attribute chat"
                if not refused:
                    loop = self._begin()
                    submitted = True
                    loop.call_soon_threadsafe(begin)
            if submitted:
                ended.wait()
        except BaseException:  # Ctrl-C, from the moment the work was submitted
            if submitted:
                loop.call_soon_threadsafe(lambda: tasks and tasks[0].cancel())
                # Waited for, since a tool of the cancelled work may run on in the loop's thread until it ends.
                ended.wait(_ENDING_S)
            raise
        if refused:
            work.close()
            text = f"this SyncFlexChat {refused}"
            raise ChatClosedError(text) if self._closed else RuntimeError(text)
        if self._closed and (not tasks[0].done() or tasks[0].cancelled()):
            raise ChatClosedError("this SyncFlexChat was closed while the call ran")
        return tasks[0].result()


async def _next(events: AsyncGenerator[StreamEvent, None]) -> StreamEvent | None:
    return await anext(events, None)


async def _close(events: AsyncGenerator[StreamEvent, None]) -> None:
    await events.aclose()


async def _cancel(tasks: Set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=_ENDING_S)
