"""Opened LLMs: which one is asked, how often a request is tried, and how many run at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Self, TypeVar
from weakref import WeakKeyDictionary

import attrs

from ..config.model import LLMEntry
from ..domain import ChatOptions, Embeddings, ModelInfo, Usage
from ..domain.prices import Cost, ModelPrice
from ..endpoints import CIRCUIT_OPEN, CircuitOpen, Endpoint, WatchedCall
from ..errors import MAX_RETRY_AFTER_S, ProviderError, ProviderOverloadedError, UnknownLLMError
from ..plugin.call import current_info, current_turn
from ..plugin.contracts import ChatProvider, ProviderType
from ..plugin.foreign import run_in_thread
from ..plugin.hooks import Hooks, ServiceRequest
from .prices import configured, known_price, takes_long

log = logging.getLogger(__name__)

MAX_WAIT_S = 8.0
MAX_ACCEPTED_DELAY_S = 60.0  # if a service asks for more, do not wait: the caller gets the error at once

T = TypeVar("T")


@attrs.frozen(eq=False, kw_only=True)
class LLM:
    """One entry of llms, opened.

    Use ``provider`` for what a provider may have in addition (``embed``, ``combines_tools_and_format``, …).

    Attributes:
        name: Its name in the config.
        provider: Talks to the service; called directly, it retries nothing.
        default_model: Used if no model is named.
        endpoint: Breaker and retry budget, shared by all services at one server. None for a provider given in code:
            its calls are not watched, and nothing is retried.
        retries: Maximum number of retries of a request.
        delay_s: Maximum seconds of the first wait; each further one may last twice as long.
        max_parallel: Requests it gets at a time; None for any number.
        slots: What keeps to that: hold one during a request. None if nothing has to.
        streams: Whether the provider can answer piece by piece.
        prices: Prices that the config sets, by model; "*" for all others.
        hooks: The hooks around its requests for embeddings; those of an answer are its turn's.
    """

    name: str
    provider: ChatProvider
    default_model: str | None = None
    endpoint: Endpoint | None = None
    retries: int = 2
    delay_s: float = 0.5
    max_parallel: int | None = None
    prices: Mapping[str, ModelPrice] = attrs.field(factory=dict)
    slots: Slots | None = attrs.field(init=False)
    streams: bool = attrs.field(init=False)
    hooks: Hooks = attrs.field(init=False, factory=Hooks)
    _known_prices: dict[tuple[str, str | None], ModelPrice | None] = attrs.field(init=False, factory=dict)

    @slots.default
    def _slots(self) -> Slots | None:
        return None if self.max_parallel is None else Slots(self.max_parallel)

    @streams.default
    def _can_stream(self) -> bool:
        return hasattr(self.provider, "stream_chat")

    def use_hooks(self, hooks: Hooks) -> None:
        """Set the hooks, which are made after the services."""
        object.__setattr__(self, "hooks", hooks)

    def attempts(self, timeout_s: float | None, model: str | None = None) -> Attempts:
        """Start a request, which may take several attempts; see Attempts."""
        return Attempts(self, timeout_s, model)

    def price_of(self, model: str, answered: str | None = None) -> ModelPrice | None:
        """Return a model's price at this service; None if unknown.

        The config comes first, then the table of the provider's package, then genai-prices if it is installed.

        Args:
            model: As asked for.
            answered: The model that answered, as the service calls it.
        """
        try:
            return self._known_prices[model, answered]
        except KeyError:
            price = known_price(self.provider, self.prices, model, answered)
            self._known_prices[model, answered] = price
            return price

    async def find_price(self, model: str, answered: str | None = None) -> ModelPrice | None:
        """Look up a price as price_of does, with genai-prices imported and searched in a thread."""
        if (model, answered) in self._known_prices:
            return self._known_prices[model, answered]
        if takes_long(self.provider, self.prices, model, answered):
            await run_in_thread(self.price_of, model, answered)
        return self.price_of(model, answered)

    def cost_of_reading(self, model: str, tokens: int) -> Cost:
        """Return the cost of that many input tokens, at the price of a short request of which nothing is cached."""
        known = self.price_of(model)
        price = None if known is None else known.price
        if price is None:
            return Cost(unpriced=(f"no price is known for {model or 'the model'} of {self.name}",))
        return Cost(amount=price.amount(Usage(input_tokens=tokens, output_tokens=0)))

    async def embed(
        self,
        texts: Sequence[str],
        model: str,
        *,
        purpose: Literal["query", "document"] | None = None,
        dimensions: int | None = None,
        timeout_s: float | None = None,
    ) -> Embeddings:
        """Return one vector for each text, retrying if that helps; see EmbeddingProvider."""
        provider: Any = self.provider
        current = current_turn.get()
        info = current_info()
        root = info if current is None else current.root
        request = ServiceRequest(info=info, root=root, llm=self, model=model, texts=texts)

        def send(attempts: Attempts) -> Awaitable[Embeddings]:
            return self.hooks.send_around(
                request,
                lambda: provider.embed(texts, model, purpose=purpose, dimensions=dimensions, timeout_s=attempts.left_s),
            )

        return await _repeated(self.attempts(timeout_s, model), send)

    async def list_models(self) -> Sequence[ModelInfo]:
        """Return the service's models, retrying if that helps; see ChatProvider."""
        return await _repeated(self.attempts(None), lambda attempts: self.provider.list_models())


class Attempts:
    """One request to a service: how often it is tried, and how its attempts go.

    The caller sends the request itself, in a loop::

        attempts = llm.attempts(timeout_s, model)
        while True:
            try:
                with attempts.watched():
                    return await llm.provider.generate_chat(messages, model, attempts.within(options))
            except ProviderError as error:
                if not await attempts.wait_for_retry(error):
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

    @property
    def count(self) -> int:
        """How many attempts there have been, the current one included."""
        return self._repeated + 1

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

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        call = self._call
        if call is not None:
            call.answered = self.began
            call.__exit__(kind, error, trace)

    def within(self, options: ChatOptions) -> ChatOptions:
        """Return the options for the next attempt: unchanged, unless less time is left."""
        return options if options.timeout_s == self.left_s else attrs.evolve(options, timeout_s=self.left_s)

    async def wait_for_retry(self, error: ProviderError) -> bool:
        """Wait for the next attempt and return True; False if there is to be none and the caller must raise."""
        llm, endpoint = self._llm, self._llm.endpoint
        if endpoint is None or self.delivered or not error.retryable or self._repeated >= llm.retries:
            return False
        requested_s = error.retry_after_s
        if requested_s is not None and requested_s > MAX_ACCEPTED_DELAY_S:
            delay_text = f"{requested_s:.0f} s" if requested_s < MAX_RETRY_AFTER_S else "a year or longer"
            error.args = (f"{error} (it asks to wait {delay_text})",)
            return False
        wait_s = (
            random.uniform(0, min(llm.delay_s * 2**self._repeated, MAX_WAIT_S)) if requested_s is None else requested_s
        )
        # A retry that starts after the deadline could only replace this error by a timeout.
        if self._deadline is not None and endpoint.clock() + wait_s >= self._deadline:
            return False
        # The attempt that has just failed may have opened it, and the next one would be refused.
        if endpoint.breaker.is_open:
            return False
        # Taken last: a retry that one of the checks above rules out costs the others none of the budget.
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


class Slots:
    """``most`` slots for requests in each event loop; a request without a free one waits, in the order of arrival."""

    def __init__(self, most: int) -> None:
        self._most = most
        # A semaphore belongs to the loop it is first waited for in, and a program may run several, one after the other.
        self._of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    def here(self) -> asyncio.Semaphore:
        """Return the slots of the running event loop: enter them as a context manager around a request."""
        return self._of_loops.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(self._most))


class Llms(Mapping[str, LLM]):
    """The services of a config, by name; ``resolve`` decides which of them is asked, and for which model."""

    def __init__(self, llms: Iterable[LLM] = ()) -> None:
        self._llms = {llm.name: llm for llm in llms}

    @classmethod
    def from_providers(
        cls, providers: Mapping[str, ChatProvider], entries: Mapping[str, LLMEntry] | None = None
    ) -> Self:
        """Return providers made in code as services, without retries.

        Args:
            entries: The config's entries, for their default models, max_parallel and prices; None for none.
        """
        settings = {name: settings_of(entry) for name, entry in (entries or {}).items()}
        return cls(LLM(name=name, provider=each, **settings.get(name, {})) for name, each in providers.items())

    def resolve(
        self, llm: str, model: str | None = None, *, beside: Mapping[str, LLM] | None = None
    ) -> tuple[LLM, str]:
        """Return the service with a name, and the model to ask: the given one, or its default_model, or "".

        Args:
            beside: More services to look in, by name: models on this machine.

        Raises:
            UnknownLLMError: There is none with that name.
        """
        entry = self._llms.get(llm)
        if entry is None:
            if beside is None or llm not in beside:
                raise UnknownLLMError(llm, known=(*self._llms, *(beside or ())))
            entry = beside[llm]
        return entry, model or entry.default_model or ""

    def __getitem__(self, name: str) -> LLM:
        return self._llms[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._llms)

    def __len__(self) -> int:
        return len(self._llms)


class LocalModels(Mapping[str, LLM]):
    """Providers with an embedding model of their own, by name and in its order, usable without an entry in llms.

    Each is opened once, on first access.
    """

    def __init__(self, types: Iterable[ProviderType] = ()) -> None:
        self._types = {each.name: each for each in sorted(types, key=lambda each: each.name) if each.local_embeddings}
        self._opened: dict[str, LLM] = {}

    def __getitem__(self, name: str) -> LLM:
        if name not in self._opened:
            type_ = self._types[name]
            provider = type_.create(type_.config_class())
            self._opened[name] = LLM(name=name, provider=provider, default_model=type_.local_embeddings)
        return self._opened[name]

    def __contains__(self, name: object) -> bool:
        return name in self._types

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)

    async def aclose(self) -> None:
        """Close all opened ones, even if one of them raises."""
        async with contextlib.AsyncExitStack() as closing:
            while self._opened:
                closing.push_async_callback(self._opened.popitem()[1].provider.aclose)


def settings_of(entry: LLMEntry) -> dict[str, Any]:
    """Return the attributes of an LLM that its entry in the config sets, apart from its retries."""
    prices = configured(entry.prices)
    return {"default_model": entry.default_model, "max_parallel": entry.max_parallel, "prices": prices}


async def _repeated(attempts: Attempts, ask: Callable[[Attempts], Awaitable[T]]) -> T:
    while True:
        try:
            with attempts.watched():
                return await ask(attempts)
        except ProviderError as error:
            if not await attempts.wait_for_retry(error):
                raise
