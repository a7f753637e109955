"""The validation cases that the configuration names, read anew for each request: their files may have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from flexchat import ConfigError, FlexChat, Problem
from flexchat.validation.fingerprint import case_hashes

from ..problems import ApiError

if TYPE_CHECKING:
    from flexchat.config.cases import Case, ValidationTable
    from flexchat.validation.reading import Cases

    from ..serving import Serving


async def read(serving: Serving, chat: FlexChat) -> Cases:
    """Return the cases.

    Raises:
        ConfigError: Everything that is wrong with them.
    """
    from flexchat.validation.reading import read_cases

    return await asyncio.to_thread(read_cases, chat.config, serving.folder)


async def readable(serving: Serving, chat: FlexChat) -> tuple[Cases, tuple[Problem, ...]]:
    """Return the cases, or none and what is wrong with them."""
    from flexchat.validation.reading import Cases

    try:
        return await read(serving, chat), ()
    except ConfigError as error:
        return Cases(), error.problems


async def hashes(serving: Serving, chat: FlexChat, table: ValidationTable) -> dict[str, str] | None:
    """Return the hashes of the cases, whose results count; None if there are no cases: then those of any do."""
    found, _ = await readable(serving, chat)
    tools = chat.tools.get_registry().list()
    return await asyncio.to_thread(case_hashes, found.cases, tools, table) or None


def chosen(cases: Cases, *, names: Iterable[str] = (), tags: Iterable[str] = ()) -> tuple[Case, ...]:
    """Return those with one of these names and one of these tags; none given: all.

    Raises:
        ApiError: 404: there is no case of that name, or none with that tag.
    """
    try:
        return cases.chosen(names, tags)
    except ConfigError as error:
        raise ApiError(404, "; ".join(problem.text for problem in error.problems), kind="unknown-case") from None


def told(problems: Iterable[Problem], serving: Serving) -> list[dict[str, Any]]:
    """Return problems as JSON data."""
    return [
        {"path": ": ".join(filter(None, (p.source, p.path))), "text": serving.mask(p.text), "line": p.line}
        for p in problems
    ]
