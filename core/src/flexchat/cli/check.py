"""flexchat check: everything that is wrong with a configuration, and what is only remarkable."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..assembly import check_config
from ..errors import ConfigError, Problem
from ..plugin.contracts import Command
from .opening import config_file, prepare
from .terminal import Terminal
from .usage import OK, UNUSABLE, UsageError

if TYPE_CHECKING:
    from ..config.model import ToolsTable


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
    return check_config(file, host)


def _contents(file: Path, notes: list[Problem]) -> str:
    from ..config.load import load_config

    config = load_config(file)
    parts = [
        _count(len(config.llms), "llm"),
        _tools(config.tools, notes),
        _count(len(config.responses), "rule"),
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
