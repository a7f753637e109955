"""Asking a provider again, where that may help."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import AsyncGenerator, Sequence
from typing import cast

import attrs

from ..domain import ChatEvent, ChatOptions, ChatResult, Message, ModelInfo
from ..errors import ProviderError
from ..plugin.contracts import ChatProvider, StreamingProvider

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 8.0
LONGEST_RETRY_AFTER_S = 60.0  # a service that asks for more is not waited for: the caller hears it at once


class RetryingProvider:
    """A provider that repeats what may be repeated: errors that say so, before anything has reached the caller.

    Waits delay_s, doubled each time up to 8 s, with up to half of it at random; a service's own wish
    (``retry_after_s``) wins, up to 60 s, and never beyond options.timeout_s.

    Source: the retry contract of docs/architecture.md.
    """

    def __init__(self, provider: ChatProvider, *, retries: int = 2, delay_s: float = 0.5) -> None:
        self._provider = provider
        self._retries = retries
        self._delay_s = delay_s
        self.name = provider.name
        self.tool_format = provider.tool_format
        self.aclose = provider.aclose
        if hasattr(provider, "stream_chat"):
            self.stream_chat = self._stream_chat  # only what the provider can do is offered

    async def generate_chat(self, messages: Sequence[Message], model: str, options: ChatOptions) -> ChatResult:
        """Hold one exchange; see ChatProvider."""
        attempt, deadline = 0, _deadline(options)
        while True:
            try:
                return await self._provider.generate_chat(messages, model, options)
            except ProviderError as error:
                attempt += 1
                options = await self._wait_or_raise(error, attempt, options, deadline)

    async def _stream_chat(
        self, messages: Sequence[Message], model: str, options: ChatOptions
    ) -> AsyncGenerator[ChatEvent, None]:
        provider = cast(StreamingProvider, self._provider)
        attempt, deadline = 0, _deadline(options)
        while True:
            begun = False
            try:
                async with contextlib.aclosing(provider.stream_chat(messages, model, options)) as events:
                    async for event in events:
                        begun = True
                        yield event
                return
            except ProviderError as error:
                if begun:
                    raise
                attempt += 1
                options = await self._wait_or_raise(error, attempt, options, deadline)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the service's models; see ChatProvider."""
        return await self._provider.list_models()

    async def _wait_or_raise(
        self, error: ProviderError, attempt: int, options: ChatOptions, deadline: float | None
    ) -> ChatOptions:
        """Wait for the next attempt and return its options, or raise the error if there is to be none."""
        if not error.retryable or attempt > self._retries:
            raise error
        backoff = min(self._delay_s * 2 ** (attempt - 1), LONGEST_WAIT_S)
        wait = error.retry_after_s if error.retry_after_s is not None else backoff * random.uniform(0.5, 1)
        left = None if deadline is None else deadline - time.monotonic()
        if wait > LONGEST_RETRY_AFTER_S or (left is not None and wait >= left):
            raise error
        log.warning("%s: %s; trying again in %.1f s", self.name, error, wait)
        await asyncio.sleep(wait)
        return options if left is None else attrs.evolve(options, timeout_s=left - wait)


def _deadline(options: ChatOptions) -> float | None:
    return None if options.timeout_s is None else time.monotonic() + options.timeout_s
