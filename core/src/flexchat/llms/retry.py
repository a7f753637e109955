"""Retrying a request if that may help, and not asking a provider that keeps failing."""

from __future__ import annotations

import asyncio
import logging
import random
from types import TracebackType
from typing import TYPE_CHECKING

import attrs

from ..domain import ChatOptions
from ..errors import ProviderError, ProviderOverloadedError
from ..services.breaker import CIRCUIT_OPEN, CircuitOpen, WatchedCall

if TYPE_CHECKING:
    from .llm import LLM

log = logging.getLogger(__name__)

LONGEST_WAIT_S = 8.0
YEAR_S = 365 * 86_400.0
LONGEST_RETRY_AFTER_S = 60.0  # if a service asks for more, do not wait: the caller gets the error at once


class Attempts:
    """One request to a service: how often it is tried, and how its attempts go.

    The caller sends the request itself, in a loop::

        attempts = llm.attempts(timeout_s, model)
        while True:
            try:
                with attempts.watched():
                    return await llm.provider.generate_chat(messages, model, attempts.within(options))
            except ProviderError as error:
                if not await attempts.again(error):
                    raise

    A request is retried after a ``retryable`` error, if nothing of its answer has been delivered to the caller. The
    wait is random between 0 and the service's ``delay_s``, which doubles each time up to 8 s; a service's own wish
    (``retry_after_s``) wins, up to 60 s, and never beyond timeout_s. Each retry takes from the endpoint's retry budget,
    to which this request adds.

    Attributes:
        left_s: Seconds the next attempt may take; None for no limit.
        began: Set this once something has arrived: then the service counts as alive.
        delivered: Set this once part of an answer has been delivered to the caller: then nothing is retried.

    Source: docs/reliability.md.
    """

    __slots__ = ("_call", "_deadline", "_llm", "_model", "_repeated", "began", "delivered", "left_s")

    def __init__(self, llm: LLM, timeout_s: float | None, model: str | None) -> None:
        self._llm, self._model = llm, model
        self._call: WatchedCall | None = None
        self._deadline: float | None = None
        self._repeated = 0
        self.left_s = timeout_s
        self.began = self.delivered = False
        if llm.endpoint is not None:
            llm.endpoint.budget.request()
            if timeout_s is not None:
                self._deadline = llm.endpoint.clock() + timeout_s

    def watched(self) -> Attempts:
        """Start an attempt: returns a context manager to enter around it, which reports to the breaker how it went.

        Raises:
            ProviderOverloadedError: The endpoint's breaker is open; code "circuit_open".
        """
        llm = self._llm
        if llm.endpoint is not None:
            try:
                self._call = llm.endpoint.breaker.call()
            except CircuitOpen as error:
                raise ProviderOverloadedError(
                    str(error),
                    provider=llm.provider.name,
                    model=self._model,
                    code=CIRCUIT_OPEN,
                    retry_after_s=error.retry_after_s,
                ) from None
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        call = self._call
        if call is not None:
            call.answered = self.began
            call.__exit__(kind, error, trace)

    def within(self, options: ChatOptions) -> ChatOptions:
        """Return the options for the next attempt: unchanged, unless less time is left."""
        return options if options.timeout_s == self.left_s else attrs.evolve(options, timeout_s=self.left_s)

    async def again(self, error: ProviderError) -> bool:
        """Wait for the next attempt and return True; False if there is to be none and the caller must raise."""
        llm, endpoint = self._llm, self._llm.endpoint
        if endpoint is None or self.delivered or not error.retryable or self._repeated >= llm.retries:
            return False
        wish_s = error.retry_after_s
        if wish_s is not None and wish_s > LONGEST_RETRY_AFTER_S:
            asked = f"{wish_s:.0f} s" if wish_s < YEAR_S else "a year or longer"
            error.args = (f"{error} (it asks to wait {asked})",)
            return False
        wait_s = random.uniform(0, min(llm.delay_s * 2**self._repeated, LONGEST_WAIT_S)) if wish_s is None else wish_s
        if self._deadline is not None and endpoint.clock() + wait_s >= self._deadline:
            return False
        if endpoint.breaker.is_open:
            return False
        if not endpoint.budget.take():
            log.warning("%s: %s (not retried: too many requests have been retried already)", llm.name, error)
            return False
        when = "at once" if wait_s < 0.05 else f"in {wait_s:.1f} s"
        log.warning("%s: %s (retrying %s)", llm.name, error, when)
        self._repeated += 1
        await asyncio.sleep(wait_s)
        if self._deadline is not None:
            self.left_s = self._deadline - endpoint.clock()
        return True
