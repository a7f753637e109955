"""Validation results for operations: the store, the tracker over it, and what results are valid for now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import FlexChat
from flexchat.store import located

from ..cases import table_of
from ..fingerprint import Keys
from ..store import ValidationStore
from ..tracker import ModelValidationTracker
from . import cases as case_files

if TYPE_CHECKING:
    from flexchat_web.typing import Call, Serving, Web, Written

QUICK = 300
"""Most attempts that are summarised in this process."""


@attrs.frozen
class Results:
    """The input for work on all results; see Records.encode.

    Attributes:
        keys: Computes the current key of a model.
        cases: The cases that count now; see ModelValidationTracker.
    """

    store: ValidationStore
    keys: Keys
    cases: Mapping[str, str] | None

    def tracker(self) -> ModelValidationTracker:
        """Return a tracker over the store."""
        return ModelValidationTracker(self.store, current=self.keys, cases=lambda: self.cases)


class Records:
    """What requests share: one store, while the configuration names the same file.

    A configuration that names another file gets another store; the previous one stays open for runs in progress.
    """

    def __init__(self, serving: Serving, web: Web) -> None:
        self._serving, self._web = serving, web
        self._stores: dict[Path | None, ValidationStore] = {}

    @classmethod
    def of(cls, call: Call) -> Records:
        """Return the instance of a call's server."""
        return call.serving.shared(cls, lambda: cls(call.serving, call.web))

    def store(self, chat: FlexChat) -> ValidationStore:
        """Return the store that the configuration names, opening it on first use."""
        named = table_of(chat.config).store
        path = located(named, self._serving.folder) if named else None
        if path not in self._stores:
            self._stores[path] = ValidationStore(path)
        return self._stores[path]

    async def tracker(self, chat: FlexChat) -> ModelValidationTracker:
        """Return a tracker over the store, whose results go stale with the models, tools and cases of this chat."""
        keys, cases = await self.keys(chat), await case_files.hashes(self._serving, chat, table_of(chat.config))
        return ModelValidationTracker(self.store(chat), current=keys, cases=lambda: cases)

    async def encode(self, chat: FlexChat, work: Callable[..., Any], *args: Any) -> Written:
        """Apply a function to all results and encode its result; in another process if there are many.

        Args:
            work: A function of a module that takes the Results and the args, and returns JSON data.
        """
        store, keys, encoded = self.store(chat), await self.keys(chat), self._web.encoded
        cases = await case_files.hashes(self._serving, chat, table_of(chat.config))
        if await store.count() <= QUICK:
            return self._web.Written(await asyncio.to_thread(_encode, Results(store, keys, cases), encoded, work, args))
        run = self._web.Apart.of(self._serving).run
        return self._web.Written(await run(_encode_from_path, store.path, keys, cases, encoded, work, args))

    async def keys(self, chat: FlexChat) -> Keys:
        """Return the function that computes the current key of a model."""
        return Keys(chat, await self._web.listed_models(self._serving, chat))

    async def aclose(self) -> None:
        """Close the stores."""
        while self._stores:
            await self._stores.popitem()[1].aclose()


def _encode(
    results: Results, encoded: Callable[[Any], bytes], work: Callable[..., Any], args: tuple[Any, ...]
) -> bytes:
    return encoded(work(results, *args))


def _encode_from_path(
    path: Path,
    keys: Keys,
    cases: Mapping[str, str] | None,
    encoded: Callable[[Any], bytes],
    work: Callable[..., Any],
    args: tuple[Any, ...],
) -> bytes:
    with closing(ValidationStore(path)) as store:
        return _encode(Results(store, keys, cases), encoded, work, args)
