"""Providers with their own embedding model: usable by name, without an entry in llms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping

from ..plugin.contracts import ProviderType
from .llm import LLM


class LocalModels(Mapping[str, LLM]):
    """Such providers, in order of their names; each is opened once, on first access."""

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
