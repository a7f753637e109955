"""Finds everything that is wrong with a configuration's validation cases and the models it names."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ConfigError, Problem

if TYPE_CHECKING:
    from flexchat.host import ReadConfig

    from ..reading import Cases


def cases_and_problems(
    config: ReadConfig, *, files: Sequence[Path] = (), tools: Collection[str] = ()
) -> tuple[Cases, list[Problem]]:
    """Return the usable cases of a configuration and of further files, and what is wrong, with lines.

    If a configuration's other tables cannot be read, nothing is known about it.

    Args:
        tools: Names of tools that exist in addition to the registry's.
    """
    from flexchat.host import read_config

    from ..cases import ValidationTable
    from ..model_ids import wrong_models
    from ..reading import Cases, usable_cases

    read = read_config(config)
    core = read.config
    if core is None:
        return Cases(), []
    if "validation" in read.document.data:
        table = read.settings(("validation",), (), ValidationTable)
        if table is None:  # the cases are read one by one below, so that the rest of the table is checked as well
            written = read.document.data["validation"]
            table = ValidationTable(files=_texts(written, "files"), models=_texts(written, "models"))
        core = attrs.evolve(core, tables={**core.tables, "validation": table})
    cases, problems = usable_cases(core, read.document.folder, files=files, tools=tools, document=read.document)
    of_the_table = [problem for problem in read.problems if problem.path.startswith("validation")]
    return cases, in_order([*of_the_table, *problems, *wrong_models(core, read.document)])


def check_cases(read: ReadConfig) -> None:
    """Report to a configuration what is wrong with its cases and models."""
    if "validation" in read.document.data:
        for problem in cases_and_problems(read)[1]:
            read.add(problem)


def in_order(problems: Sequence[Problem]) -> list[Problem]:
    """Return problems by file and line, each once."""
    return [*ConfigError([*dict.fromkeys(problems)]).problems]


def _texts(table: Any, key: str) -> tuple[str, ...]:
    items = table.get(key) if isinstance(table, dict) else None
    return tuple(items) if isinstance(items, list) and all(isinstance(item, str) for item in items) else ()
