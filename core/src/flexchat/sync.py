"""SyncFlexChat: the same for callers without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine, Generator, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from .app import FlexChat
from .domain import ChatRequest, Message, ModelInfo, StreamEvent, ToolResult, Turn
from .errors import ProviderError

T = TypeVar("T")


class SyncFlexChat:
    """FlexChat for plain functions: one event loop in a thread of its own, so that connections are kept.

    Many threads may call it at once. Use it in a ``with`` statement, or call ``close``.
    """

    def __init__(self, chat: FlexChat) -> None:
        self.chat = chat
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="flexchat loop", daemon=True)
        self._thread.start()

    @classmethod
    def from_config(cls, source: str | Path | Mapping[str, Any], **rest: Any) -> Self:
        """Put together what a configuration describes; see FlexChat.from_config."""
        return cls(FlexChat.from_config(source, **rest))

    @classmethod
    def from_model(cls, provider: str, model: str, **rest: Any) -> Self:
        """Put together one model and some tools; see FlexChat.from_model."""
        return cls(FlexChat.from_model(provider, model, **rest))

    def respond(
        self,
        message: str | ChatRequest,
        *,
        history: Iterable[Message | Mapping[str, Any]] = (),
        topic: str | None = None,
    ) -> Turn:
        """Answer a message; see FlexChat.respond."""
        return self._run(self.chat.respond(message, history=history, topic=topic))

    def stream(
        self,
        message: str | ChatRequest,
        *,
        history: Iterable[Message | Mapping[str, Any]] = (),
        topic: str | None = None,
    ) -> Generator[StreamEvent, None, None]:
        """Answer a message piece by piece; see FlexChat.stream. Closing the generator ends the turn."""
        events = self.chat.stream(message, history=history, topic=topic)
        return self._stream(events)

    def _stream(self, events: Any) -> Generator[StreamEvent, None, None]:
        try:
            while (event := self._run(anext(events, None))) is not None:
                yield event
        finally:
            self._run(events.aclose())

    def call_tool(self, name: str, params: Mapping[str, Any]) -> ToolResult:
        """Run one tool; see FlexChat.call_tool."""
        return self._run(self.chat.call_tool(name, params))

    def list_models(self) -> dict[str, tuple[ModelInfo, ...] | ProviderError]:
        """Ask every service for its models; see FlexChat.list_models."""
        return self._run(self.chat.list_models())

    def close(self) -> None:
        """Close connections and stores, and end the thread."""
        if self._loop.is_closed():
            return
        self._run(self.chat.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work on the loop; if the waiting is interrupted (Ctrl-C), the work is cancelled."""
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("this SyncFlexChat is closed")
        future = asyncio.run_coroutine_threadsafe(_as_coroutine(work), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


async def _as_coroutine(work: Awaitable[T]) -> T:
    return await work
