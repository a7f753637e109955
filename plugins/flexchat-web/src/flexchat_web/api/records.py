"""The results of validation, for operations: the store and the tracker over it, and what results are valid for now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import attrs
from flexchat import FlexChat, ModelInfo, ProviderError
from flexchat.errors import UnknownNameError, did_you_mean
from flexchat.files import located
from flexchat_validation.cases import table_of
from flexchat_validation.fingerprint import Keys
from flexchat_validation.store import ValidationStore
from flexchat_validation.tracker import ModelValidationTracker

from ..apart import Apart
from ..operations import Written
from ..sending import encoded
from . import cases as case_files

if TYPE_CHECKING:
    from ..serving import Serving

LIST_S = 5.0
"""Seconds a service has to list its models."""

FRESH_S = 60.0
"""Seconds for which a list of models is not asked for again."""

Lists = Mapping[str, tuple[ModelInfo, ...] | ProviderError]


QUICK = 300
"""Attempts that are told of in this process."""


@attrs.frozen
class Results:
    """What work on all results is given; see Records.told.

    Attributes:
        keys: What the results of a model are valid for now.
        cases: The cases that count now; see ModelValidationTracker.
    """

    store: ValidationStore
    keys: Keys
    cases: Mapping[str, str] | None

    def tracker(self) -> ModelValidationTracker:
        """Return a tracker over the store."""
        return ModelValidationTracker(self.store, current=self.keys, cases=lambda: self.cases)


class Records:
    """What requests share of the results: one store, as long as the configuration names the same file.

    A configuration that names another file is given another store; the one before stays open for runs under way.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._stores: dict[Path | None, ValidationStore] = {}
        self._lists: WeakKeyDictionary[FlexChat, tuple[float, Lists]] = WeakKeyDictionary()
        self._listing = asyncio.Lock()

    @classmethod
    def of(cls, serving: Serving) -> Records:
        """Return the one of a server."""
        return serving.kept(cls, lambda: cls(serving))

    def store(self, chat: FlexChat) -> ValidationStore:
        """Return the store the configuration names."""
        named = table_of(chat.config).store
        path = located(named, self._serving.folder) if named else None
        if path not in self._stores:
            self._stores[path] = ValidationStore(path)
        return self._stores[path]

    async def tracker(self, chat: FlexChat) -> ModelValidationTracker:
        """Return a tracker over the store, whose results go stale with the models, tools and cases of this chat."""
        keys, cases = await self.keys(chat), await case_files.hashes(self._serving, chat, table_of(chat.config))
        return ModelValidationTracker(self.store(chat), current=keys, cases=lambda: cases)

    async def told(self, chat: FlexChat, work: Callable[..., Any], *args: Any) -> Written:
        """Return as an answer what a function of a module says of all results: in another process if they are many.

        Args:
            work: Takes the Results and the args, and returns JSON data.
        """
        store, keys = self.store(chat), await self.keys(chat)
        cases = await case_files.hashes(self._serving, chat, table_of(chat.config))
        if await store.count() <= QUICK:
            return Written(await asyncio.to_thread(_told, Results(store, keys, cases), work, args))
        run = Apart.of(self._serving).run
        return Written(await run(_told_elsewhere, store.path, keys, cases, work, args))

    async def lists(self, chat: FlexChat, *, refresh: bool = False) -> Lists:
        """Return the models of each service, or why it does not list them; a minute old at most."""
        async with self._listing:
            known = self._lists.get(chat)
            if refresh or known is None or time.monotonic() - known[0] > FRESH_S:
                known = self._lists[chat] = time.monotonic(), await chat.list_models(timeout_s=LIST_S)
            return known[1]

    async def keys(self, chat: FlexChat) -> Keys:
        """Return what says of a model what its results are valid for now."""
        return Keys(chat, await self.lists(chat))

    async def aclose(self) -> None:
        """Close the stores."""
        while self._stores:
            await self._stores.popitem()[1].aclose()


def _told(results: Results, work: Callable[..., Any], args: tuple[Any, ...]) -> bytes:
    return encoded(work(results, *args))


def _told_elsewhere(
    path: Path, keys: Keys, cases: Mapping[str, str] | None, work: Callable[..., Any], args: tuple[Any, ...]
) -> bytes:
    with closing(ValidationStore(path)) as store:
        return _told(Results(store, keys, cases), work, args)


def chosen_model(chat: FlexChat, named: str) -> tuple[str, str]:
    """Return service and model of "SERVICE/MODEL" or "SERVICE:MODEL", split at the first sign behind a service (C14).

    A model without a service belongs to the only one there is.

    Raises:
        UnknownNameError: No configured service is meant.
    """
    services = chat.llms
    for service in sorted(services, key=len, reverse=True):
        rest = named.removeprefix(service)
        if rest != named and rest[:1] in ("/", ":") and rest[1:]:
            return service, rest[1:]
    if named in services and services[named].default_model:
        return named, services.resolve(named)[1]
    if len(services) == 1 and named:
        return next(iter(services)), named
    start = named.replace(":", "/").partition("/")[0]
    raise UnknownNameError(
        f"no service of the configuration is meant by the model '{named[:200]}'{did_you_mean(start, services)}; write "
        f"SERVICE/MODEL (services: {', '.join(services) or 'none'})"
    )


def named_models(chat: FlexChat) -> dict[str, tuple[str, str]]:
    """Return the models that rules, services and the validation table name: service and model by "SERVICE/MODEL"."""
    found: dict[str, tuple[str, str]] = {}

    def add(service: str, model: str | None) -> None:
        if service in chat.llms:
            model = chat.llms.resolve(service, model)[1]
            if model:
                found.setdefault(f"{service}/{model}", (service, model))

    for rule in chat.config.responses:
        add(rule.llm, rule.model)
    for service in chat.config.llms:
        add(service, None)
    for model_id in table_of(chat.config).models:
        add(*model_id.partition("/")[::2])
    return found


def shown_status(record: Any) -> dict[str, Any]:
    """Return a tracker's record without its history."""
    return {key: value for key, value in record.to_dict().items() if key != "test_history"}
