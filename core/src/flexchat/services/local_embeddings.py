"""Providers that bring an embedding model of their own: usable by their name, without an entry in llms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from ..plugin.contracts import ChatProvider, ProviderType


class LocalEmbeddings:
    """Opens such providers, each at its first use and once.

    Attributes:
        models: The model of each, by the provider's name, in the order of the names.
    """

    def __init__(self, types: Iterable[ProviderType] = ()) -> None:
        self._types = {each.name: each for each in types if each.local_embeddings}
        self.models = {name: self._types[name].local_embeddings or "" for name in sorted(self._types)}
        self._opened: dict[str, ChatProvider] = {}

    def provider(self, name: str) -> ChatProvider:
        """Return the provider of this name, which must be one of them."""
        if name not in self._opened:
            type_ = self._types[name]
            self._opened[name] = type_.create(type_.config_class())
        return self._opened[name]

    async def aclose(self) -> None:
        """Close those that were opened: all, whatever one of them raises."""
        async with contextlib.AsyncExitStack() as closing:
            while self._opened:
                closing.push_async_callback(self._opened.popitem()[1].aclose)
