"""The validation cases that the configuration names, read again for each request: their files may have changed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ConfigError, FlexChat, Problem

from ..fingerprint import case_hashes

if TYPE_CHECKING:
    from flexchat_web.typing import Call, Serving

    from ..cases import Case, ValidationTable
    from ..reading import Cases


async def readable(serving: Serving, chat: FlexChat) -> tuple[Cases, tuple[Problem, ...]]:
    """Return the usable cases, and what is wrong with the others."""
    from ..reading import usable_cases

    cases, problems = await asyncio.to_thread(usable_cases, chat.config, serving.folder)
    return cases, tuple(_from_the_folder(problem, f"{serving.folder}{os.sep}") for problem in problems)


async def select(
    call: Call, chat: FlexChat, *, names: Collection[str] = (), tags: Collection[str] = ()
) -> tuple[Case, ...]:
    """Return the cases with one of these names and one of these tags; default: all.

    Raises:
        ConfigError: There are problems with cases that may be among the selected ones.
        ApiError: 404: there is no case with that name, or none with that tag.
    """
    found, problems = await readable(call.serving, chat)
    if problems and not (names and {case.name for case in found.cases} >= {*names}):
        raise ConfigError(problems)
    try:
        return found.chosen(names, tags)
    except ConfigError as error:
        raise call.web.ApiError(
            404, "; ".join(problem.text for problem in error.problems), kind="unknown-case"
        ) from None


async def hashes(serving: Serving, chat: FlexChat, table: ValidationTable) -> dict[str, str] | None:
    """Return the hashes of the cases whose results count; None if there are no cases: then all results do."""
    found, _ = await readable(serving, chat)
    tools = chat.tools.get_registry().list()
    return await asyncio.to_thread(case_hashes, found.cases, tools, table) or None


def problems_as_data(problems: Iterable[Problem], serving: Serving) -> list[dict[str, Any]]:
    """Convert problems to JSON data, without secrets."""
    return [
        {"path": ": ".join(filter(None, (p.source, p.path))), "text": serving.mask(p.text), "line": p.line}
        for p in problems
    ]


def _from_the_folder(problem: Problem, folder: str) -> Problem:
    """Return a problem without the configuration's folder, which is none of a client's business."""
    return attrs.evolve(problem, source=problem.source.replace(folder, ""), text=problem.text.replace(folder, ""))
