"""Cached metadata of a server's models."""

from __future__ import annotations

import asyncio
import collections

import attrs
from flexchat_sdk import ProviderConnectionError, ProviderError, ProviderTimeoutError, Service, TimeLeft

from .models import UNKNOWN, ModelFacts, read_show, read_tags

# Questions about models need no model loaded: a server that is there answers at once.
_PATIENCE_S = 10.0
_AT_ONCE = 8
_MAX_NAMED = 5


class Catalogue:
    """The models of one server."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._facts: dict[str, ModelFacts] = {}
        self._asking: dict[str, asyncio.Lock] = collections.defaultdict(asyncio.Lock)

    async def facts_of(self, model: str, time_left: TimeLeft) -> ModelFacts:
        """Return a model's facts, queried once. A failed query gives empty facts.

        Raises:
            ProviderError: There is no connection, so further requests would fail as well.
        """
        facts = self._facts.get(model)
        if facts is not None:
            return facts
        async with self._asking[model]:
            facts = self._facts.get(model)
            if facts is None:
                facts = await self._query(model, time_left)
                if facts is not None:
                    self._facts[model] = facts
        return facts or UNKNOWN

    async def installed(self, time_left: TimeLeft | None = None) -> dict[str, ModelFacts]:
        """Return the facts of the installed models, by name.

        Raises:
            ProviderError: The server does not list its models.
        """
        time_left = time_left or TimeLeft(None)
        models = await self._service.get("/api/tags", read_tags, what="a list of models", timeout_s=time_left())
        limit = asyncio.Semaphore(_AT_ONCE)

        async def complete(name: str, facts: ModelFacts) -> ModelFacts:
            if facts.capabilities is not None and facts.context_length is not None:
                return facts
            async with limit:
                try:
                    details = await self.facts_of(name, time_left)
                except ProviderError:
                    return facts
            return attrs.evolve(
                facts,
                capabilities=details.capabilities if facts.capabilities is None else facts.capabilities,
                context_length=facts.context_length or details.context_length,
            )

        return dict(zip(models, await asyncio.gather(*[complete(*item) for item in models.items()]), strict=True))

    async def able(self, capability: str) -> tuple[str, ...]:
        """Return some installed models with a capability; none if the server does not report capabilities."""
        try:
            installed = await self.installed(TimeLeft(_PATIENCE_S))
        except ProviderError:
            return ()
        able = [name for name, facts in installed.items() if facts.capabilities and capability in facts.capabilities]
        return tuple(able[:_MAX_NAMED])

    async def _query(self, model: str, time_left: TimeLeft) -> ModelFacts | None:
        """Query a model's facts; None after a failure that may be transient."""
        fields, patience_s = {"model": model}, time_left(_PATIENCE_S)
        try:
            return await self._service.post(
                "/api/show", fields, read_show, what="what a model can do", model=model, timeout_s=patience_s
            )
        except ProviderError as error:
            is_gone = isinstance(error, ProviderConnectionError | ProviderTimeoutError) and error.status is None
            if is_gone and error.retryable:
                raise
            return None if error.status == 404 else UNKNOWN  # it may be fetched in a moment
