"""flexchat check: everything that is wrong with a configuration, and what is only remarkable."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from ..assembly import check_config
from ..domain import Profile
from ..errors import ConfigError, Problem, did_you_mean
from ..plugin.contracts import Command
from ..plugin.host import PluginHost
from .case_problems import cases_and_problems, in_order
from .opening import config_file, prepare
from .terminal import Terminal
from .usage import OK, UNUSABLE, UsageError

if TYPE_CHECKING:
    from ..config.model import ToolsTable

_VARIABLES = (*(field.name for field in attrs.fields(Profile)), "rag_context")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Say what check takes."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="the configuration; absent: the one that would be used")


def run(args: argparse.Namespace) -> int:
    """Print problems and notes, a line each, with file and line; the exit status is 2 if there are problems."""
    terminal: Terminal = args.terminal
    args.config = args.file or args.config
    file = config_file(args)
    if file is None:
        raise UsageError("there is nothing to check: no flexchat.toml or flexchat.json here; flexchat init writes one")
    problems, notes = _check(file, args)
    if args.json:
        found = {"problems": [_as_data(p) for p in problems], "notes": [_as_data(n) for n in notes]}
        terminal.json({"file": str(file), "usable": not problems, **found})
        return UNUSABLE if problems else OK
    for note in notes:
        terminal.out(f"note: {note}", "dim")
    for problem in problems:
        terminal.out(str(problem))
    if problems:
        terminal.out(f"{file} cannot be used: {_count(len(problems), 'problem')}", "red")
        return UNUSABLE
    terminal.out(f"{file} is fine: {_contents(file, notes)}", "bold")
    return OK


def _check(file: Path, args: argparse.Namespace) -> tuple[list[Problem], list[Problem]]:
    try:
        host = prepare(args, file)
    except ConfigError as error:  # not even its plugins.block can be read
        return [*error.problems], []
    problems, notes = check_config(file, host)
    _, of_cases = cases_and_problems(file)
    problems = in_order([*problems, *of_cases])
    return problems, notes if problems else [*notes, *_notes(file, host)]


def _notes(file: Path, host: PluginHost) -> Iterator[Problem]:
    """Yield what a configuration that can be used does not do, though it looks as if it did."""
    from ..config.load import read_config
    from ..phases.needs import needs_of
    from ..phases.template import variables_of

    draft = read_config(file)
    config = draft.config
    if config is None:
        return
    for index, rule in enumerate(config.responses):
        for name in variables_of(rule.prompt):
            if name not in _VARIABLES:
                text = f"no variable is called '{name}'{did_you_mean(name, _VARIABLES)}; it stays in the text"
                yield draft.document.problem(("responses", index, "prompt"), text)
    if not needs_of(config, config.rag_services).documents and not _has_search(config.tools, host):
        for service in config.rag_services:
            text = "no rule asks for its documents: {{rag_context}} in a prompt shows them to the model"
            yield draft.document.problem(("rag_services", service), text)


def _has_search(table: ToolsTable, host: PluginHost) -> bool:
    """Return whether a tool may look into document stores."""
    offered = host.tools.by_name
    kinds = [
        entry.implementation.type if entry.implementation else offered[entry.name].implementation.type
        for entry in table.registry
        if entry.implementation or entry.name in offered
    ]
    return table.enabled is not False and any(kind not in ("builtin", "mock") for kind in kinds)


def _contents(file: Path, notes: list[Problem]) -> str:
    from ..config.load import load_config

    config = load_config(file)
    parts = [
        _count(len(config.llms), "llm"),
        _tools(config.tools, notes),
        _count(len(config.responses), "rule"),
        *([_count(len(config.rag_services), "document store")] if config.rag_services else ()),
        *(["conversations are kept"] if config.conversations is not None else ()),
    ]
    return ", ".join(parts)


def _tools(table: ToolsTable, notes: list[Problem]) -> str:
    entries = len(table.registry)
    if entries and table.enabled is False:
        return f"0 tools ({entries} switched off)"
    left_out = sum(note.path.startswith("tools.registry[") and note.text.startswith("left out: ") for note in notes)
    return _count(entries - left_out, "tool") + (f" ({left_out} left out)" if left_out else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _as_data(problem: Problem) -> dict[str, Any]:
    return {"source": problem.source, "line": problem.line, "path": problem.path, "text": problem.text}


COMMANDS = (Command(name="check", summary="check a configuration", add_arguments=add_arguments, run=run),)
