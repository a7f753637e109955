"""Asking a provider again, where that may help, and not asking one that fails."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

import attrs

from ..domain import ChatEvent, ChatOptions, ChatResult, Embeddings, Message, ModelInfo
from ..errors import ProviderError
from ..http.retry_after import LONGEST_S
from ..plugin.contracts import ChatProvider
from .endpoints import Endpoint, Endpoints

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 8.0
LONGEST_RETRY_AFTER_S = 60.0  # a service that asks for more is not waited for: the caller hears it at once

T = TypeVar("T")


class RetryingProvider:
    """A provider that repeats what may be repeated: errors that say so, before anything has reached the caller.

    The wait is random between 0 and delay_s, which doubles each time up to 8 s; a service's own wish
    (``retry_after_s``) wins, up to 60 s, and never beyond the caller's timeout_s. It offers what the given provider
    can do and no more.

    Args:
        endpoint: Breaker and budget, shared by all services at one server; absent: one of its own.
        service: What the configuration calls it, for the log; absent: the provider's name.

    Raises, beside what the provider raises:
        ProviderOverloadedError: The endpoint's breaker is open; code "circuit_open".

    Source: docs/reliability.md.
    """

    def __init__(
        self,
        provider: ChatProvider,
        endpoint: Endpoint | None = None,
        *,
        retries: int = 2,
        delay_s: float = 0.5,
        service: str | None = None,
    ) -> None:
        self._provider: Any = provider  # it may have any of the optional methods
        self._health = endpoint or Endpoints().of(provider)
        self._retries = retries
        self._delay_s = delay_s
        self.name = provider.name
        self._service = service or provider.name
        self.tool_format = provider.tool_format
        self.aclose = provider.aclose
        if hasattr(provider, "stream_chat"):
            self.stream_chat = self._stream_chat
        if hasattr(provider, "embed"):
            self.embed = self._embed
        for name in ("endpoint", "combines_tools_and_format", "follows_instructions"):
            if hasattr(provider, name):
                setattr(self, name, getattr(provider, name))

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange; see ChatProvider."""

        def ask(left_s: float | None) -> Awaitable[ChatResult]:
            asked: Awaitable[ChatResult] = self._provider.generate_chat(messages, model, _within(options, left_s))
            return asked

        return await self._repeat(ask, model, options.timeout_s)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the service's models; see ChatProvider."""

        def ask(left_s: float | None) -> Awaitable[Sequence[ModelInfo]]:
            asked: Awaitable[Sequence[ModelInfo]] = self._provider.list_models()
            return asked

        return await self._repeat(ask, None, None)

    async def _embed(
        self,
        texts: Sequence[str],
        model: str,
        *,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        def ask(left_s: float | None) -> Awaitable[Embeddings]:
            asked: Awaitable[Embeddings] = self._provider.embed(
                texts, model, purpose=purpose, dimensions=dimensions, timeout_s=left_s
            )
            return asked

        return await self._repeat(ask, model, timeout_s)

    async def _stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        deadline = self._begin(options.timeout_s)
        attempt, left_s = 0, options.timeout_s
        while True:
            call = self._health.breaker.call(self.name, model)
            try:
                with call:
                    asked = self._provider.stream_chat(messages, model, _within(options, left_s))
                    async with contextlib.aclosing(asked) as events:
                        async for event in events:
                            call.answered = True
                            yield event
                    return
            except ProviderError as error:
                if call.answered:
                    raise
                attempt += 1
                left_s = await self._wait(error, attempt, deadline)

    async def _repeat(
        self, ask: Callable[[float | None], Awaitable[T]], model: str | None, timeout_s: float | None
    ) -> T:
        """Ask, given the seconds that are left, until there is an answer or no more repeating."""
        deadline = self._begin(timeout_s)
        attempt, left_s = 0, timeout_s
        while True:
            call = self._health.breaker.call(self.name, model)
            try:
                with call:
                    return await ask(left_s)
            except ProviderError as error:
                attempt += 1
                left_s = await self._wait(error, attempt, deadline)

    def _begin(self, timeout_s: float | None) -> float | None:
        """Count a request, and return when its time is over."""
        self._health.budget.request()
        return None if timeout_s is None else self._health.clock() + timeout_s

    async def _wait(self, error: ProviderError, attempt: int, deadline: float | None) -> float | None:
        """Wait for the next attempt and return the seconds left for it, or raise the error if there is to be none."""
        if not error.retryable or attempt > self._retries:
            raise error
        wish_s = error.retry_after_s
        if wish_s is not None and wish_s > LONGEST_RETRY_AFTER_S:
            asked = f"{wish_s:.0f} s" if wish_s < LONGEST_S else "a year or longer"
            error.args = (f"{error} (it asks to wait {asked})",)
            raise error
        wait_s = (
            random.uniform(0, min(self._delay_s * 2 ** (attempt - 1), LONGEST_WAIT_S)) if wish_s is None else wish_s
        )
        if deadline is not None and self._health.clock() + wait_s >= deadline:
            raise error
        if self._health.breaker.is_open:
            raise error
        if not self._health.budget.take():
            log.warning("%s: %s (not tried again: too many requests have been repeated already)", self._service, error)
            raise error
        when = "at once" if wait_s < 0.05 else f"in {wait_s:.1f} s"
        log.warning("%s: %s (trying again %s)", self._service, error, when)
        await asyncio.sleep(wait_s)
        return None if deadline is None else deadline - self._health.clock()


def _within(options: ChatOptions, left_s: float | None) -> ChatOptions:
    return options if left_s == options.timeout_s else attrs.evolve(options, timeout_s=left_s)
