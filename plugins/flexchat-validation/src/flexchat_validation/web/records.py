"""The data of operations: cases, the store of results, and the tracker over it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ConfigError, FlexChat, Problem
from flexchat.store import located
from flexchat_web.shapes import schema_of
from flexchat_web.typing import Call, Serving, Written

from ..cases import table_of
from ..fingerprint import Keys, case_hashes
from ..store import ValidationStore
from ..summary import ValidationRecord
from ..tracker import ModelValidationTracker

if TYPE_CHECKING:
    from ..cases import Case
    from ..reading import Cases

STATUS = schema_of(ValidationRecord, "test_history", "reason")
"""The record of a model in a list, without its history."""

QUICK = 300
"""Maximum number of attempts that are summarised in this process."""


@attrs.frozen
class Results:
    """The input for work on all results; see encode.

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


class Stores:
    """The stores of results that requests share: one for each file that the configuration names, or has named.

    Runs in progress go on writing to an earlier one.
    """

    def __init__(self, serving: Serving) -> None:
        self._serving = serving
        self._stores: dict[Path | None, ValidationStore] = {}

    def of(self, chat: FlexChat) -> ValidationStore:
        """Return the store that the configuration names, opening it on first use."""
        name = table_of(chat.config).store
        path = located(name, self._serving.folder) if name else None
        if path not in self._stores:
            self._stores[path] = ValidationStore(path)
        return self._stores[path]

    async def aclose(self) -> None:
        """Close the stores."""
        while self._stores:
            await self._stores.popitem()[1].aclose()


def store_of(call: Call, chat: FlexChat) -> ValidationStore:
    """Return the store that a chat's configuration names."""
    return call.serving.shared(Stores).of(chat)


async def results_of(call: Call, chat: FlexChat) -> Results:
    """Return all results, which go stale with the models, tools and cases of this chat."""
    keys = Keys(chat, await call.web.listed_models(call.serving, chat))
    cases = (await readable(call.serving, chat))[0].cases
    hashes = await asyncio.to_thread(case_hashes, cases, chat.tools.get_registry().list(), table_of(chat.config))
    return Results(store_of(call, chat), keys, hashes or None)  # without cases, all results count


async def encode(call: Call, chat: FlexChat, work: Callable[..., Any], *args: Any) -> Written:
    """Apply a function to all results and encode its result; in another process if there are many.

    Args:
        work: A function of a module that takes the Results and the args, and returns JSON data.
    """
    results, encoded = await results_of(call, chat), call.web.encoded
    if await results.store.count() <= QUICK:
        return call.web.Written(await asyncio.to_thread(_encode, results, encoded, work, args))
    run = call.web.Apart.of(call.serving).run
    path, keys, cases = results.store.path, results.keys, results.cases
    return call.web.Written(await run(_encode_from_path, path, keys, cases, encoded, work, args))


def _encode(
    results: Results, encoded: Callable[[Any], bytes], work: Callable[..., Any], args: tuple[Any, ...]
) -> bytes:
    return encoded(work(results, *args))


def _encode_from_path(path: Path, keys: Keys, cases: Mapping[str, str] | None, *task: Any) -> bytes:
    with closing(ValidationStore(path)) as store:
        return _encode(Results(store, keys, cases), *task)


async def readable(serving: Serving, chat: FlexChat) -> tuple[Cases, tuple[Problem, ...]]:
    """Return the usable cases, and the problems of the others. They are read again: their files may have changed."""
    from ..reading import tool_names, usable_cases

    cases, problems = await asyncio.to_thread(usable_cases, chat.config, serving.folder, tools=tool_names(chat))
    folder = f"{serving.folder}{os.sep}"  # not shown to clients
    return cases, tuple(
        attrs.evolve(each, source=each.source.replace(folder, ""), text=each.text.replace(folder, ""))
        for each in problems
    )


async def select(
    call: Call, chat: FlexChat, *, names: Collection[str] = (), tags: Collection[str] = ()
) -> tuple[Case, ...]:
    """Return the cases with one of these names and one of these tags; default: all.

    Raises:
        ConfigError: There are problems with cases that may be among the selected ones.
        ApiError: 404: there is no case with that name, or none with that tag.
    """
    cases, problems = await readable(call.serving, chat)
    if problems and not (names and {case.name for case in cases.cases} >= {*names}):
        raise ConfigError(problems)
    try:
        return cases.chosen(names, tags)
    except ConfigError as error:
        raise call.web.ApiError(
            404, "; ".join(problem.text for problem in error.problems), kind="unknown-case"
        ) from None


def problems_as_data(problems: Iterable[Problem], serving: Serving) -> list[dict[str, Any]]:
    """Convert problems to JSON data, without secrets."""
    return [
        {"path": ": ".join(filter(None, (p.source, p.path))), "text": serving.mask(p.text), "line": p.line}
        for p in problems
    ]


async def records_of(call: Call, chat: FlexChat, ids: Sequence[str]) -> Mapping[str, Any]:
    """Return the validation records of models, by id."""
    tracker = (await results_of(call, chat)).tracker()
    records = {record.model_id: record for record in await asyncio.to_thread(tracker.get_all_validations)}
    return {id: (records.get(id) or ValidationRecord(model_id=id)).status() for id in ids}
