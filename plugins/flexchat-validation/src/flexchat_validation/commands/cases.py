"""flexchat cases …: lists and checks validation cases, and imports those of other programs."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from flexchat import ConfigError, Problem
from flexchat.host import OK, UNUSABLE, Terminal, UsageError, one_line, open_chat, open_tools, the_config

from .case_problems import cases_and_problems, in_order

if TYPE_CHECKING:
    from flexchat import FlexChat

    from ..cases import Case
    from ..reading import Cases, Imported


def words_of(given: Sequence[str]) -> tuple[str, ...]:
    """Return words separated by spaces or commas."""
    return tuple(dict.fromkeys(word.strip() for words in given for word in words.split(",") if word.strip()))


def put_out(found: Imported, args: argparse.Namespace) -> None:
    """Print cases, or add them to the file that --out names.

    Raises:
        ConfigError: They cannot be added to the file.
    """
    from ..writing import add_cases, case_data, toml_of

    terminal: Terminal = args.terminal
    if args.out is not None:
        add_cases(Path(args.out), found.cases)
    if args.json:
        data: dict[str, Any] = {"cases": [case_data(case) for case in found.cases], "notes": list(found.notes)}
        terminal.json({"file": args.out, **data} if args.out else data)
    elif args.out is None:
        terminal.write(toml_of(found.cases))
    else:
        terminal.out(f"{_count(len(found.cases))} added to {args.out}", "bold")


def _files_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="*", metavar="FILE", help="case files in addition to the configuration's")
    parser.add_argument("--tags", metavar="TAG", nargs="+", default=[], help="only cases with one of these tags")


def _cases(args: argparse.Namespace) -> Cases:
    from ..reading import read_cases

    config = the_config(args)
    chat = open_tools(args)[0] if config else _sample_chat(args)
    files = [Path(name) for name in args.files]
    folder = config.document.folder if config else None
    return read_cases(chat.config, folder, files=files, tools=chat.tools.get_registry().names())


def _sample_chat(args: argparse.Namespace) -> FlexChat:
    """Return what flexchat validate uses without a configuration; without a model to try, only its tools."""
    try:
        return open_chat(args)
    except UsageError:
        return open_tools(args)[0]


def _checked(args: argparse.Namespace) -> tuple[Cases, Sequence[Problem]]:
    """Return the usable cases, and everything that is wrong with the others."""
    from ..reading import Cases

    problems: tuple[Problem, ...] = ()
    tools: Sequence[str] = ()
    config = the_config(args)
    try:
        tools = (open_tools(args)[0] if config else _sample_chat(args)).tools.get_registry().names()
        if config is None:
            return _cases(args), ()
    except ConfigError as error:
        problems = error.problems
    if config is None:
        return Cases(), problems
    cases, more = cases_and_problems(config, files=[Path(name) for name in args.files], tools=tools)
    return cases, in_order([*problems, *more])


def _list(args: argparse.Namespace) -> int:
    """Print a line for each case: its name, what it expects, its tags."""
    from ..reading import expects

    terminal: Terminal = args.terminal
    cases = _cases(args).chosen(tags=words_of(args.tags))
    if args.json:
        terminal.json([_as_data(case) for case in cases])
        return OK
    width = min(max([len(case.name) for case in cases], default=0), 40)
    for case in cases:
        tags = f"  [{', '.join(case.tags)}]" if case.tags else ""
        start = f"{one_line(case.name, width):{width}}  "
        terminal.out(start + one_line(f"{expects(case)}{tags}", max(terminal.width - len(start), 20)))
    if not cases:
        terminal.say("there are no cases: write [[validation.cases]], or make one with flexchat record", "dim")
    return OK


def _as_data(case: Case) -> dict[str, Any]:
    from ..reading import aspects_of, expects

    first = case.message if case.message is not None else case.turns[0].message
    return {
        "name": case.name,
        "tags": list(case.tags),
        "message": first,
        "turns": len(case.turns) or 1,
        "expects": expects(case),
        "aspects": list(aspects_of(case)),
        "judge": case.judge,
    }


def _check(args: argparse.Namespace) -> int:
    """Print everything that is wrong with the cases; the exit status is 2 if anything is."""
    terminal: Terminal = args.terminal
    found, problems = _checked(args)
    cases = () if problems else found.chosen(tags=words_of(args.tags))
    if args.json:
        terminal.json({"cases": len(cases), "problems": [attrs.asdict(problem) for problem in problems]})
    elif problems:
        for problem in problems:
            terminal.out(str(problem))
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        terminal.out(f"{count}; {_count(len(found.cases))} can be used", "red")
    else:
        terminal.out(f"{_count(len(cases))}: nothing is wrong with {'it' if len(cases) == 1 else 'them'}", "bold")
    return UNUSABLE if problems else OK


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="questions of the Berkeley leaderboard, or promptfoo's tests")
    parser.add_argument("--answers", metavar="FILE", help="the leaderboard's ground truth; default: the one next to it")
    parser.add_argument("--from", dest="origin", choices=("bfcl", "promptfoo"), help="default: guessed from the file")
    parser.add_argument("--limit", metavar="N", type=int, help="maximum number of cases")
    parser.add_argument("--out", metavar="FILE", help=".json or .toml file to add them to; default: print TOML")


def _import(args: argparse.Namespace) -> int:
    """Print another program's tests as cases, or add them to a file, and say what could not be imported."""
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit is at least 1, not {args.limit}")
    found = _imported(args)
    for note in found.notes:
        args.terminal.say(f"note: {note}", "dim")
    if not found.cases:
        raise UsageError(f"{args.file}: nothing in it can be imported as a case")
    put_out(found, args)
    return OK


def _imported(args: argparse.Namespace) -> Imported:
    from ..importers.bfcl import read_bfcl
    from ..importers.promptfoo import read_promptfoo

    file = Path(args.file)
    promptfoo = file.suffix.lower() in (".yaml", ".yml") or "promptfoo" in file.name
    if args.origin == "promptfoo" or (args.origin is None and promptfoo):
        if args.answers is not None:
            raise UsageError("--answers is for the leaderboard's questions; promptfoo's tests contain theirs")
        return read_promptfoo(file, limit=args.limit)
    answers = Path(args.answers) if args.answers else None
    try:
        return read_bfcl(file, answers, limit=args.limit)
    except ConfigError as error:
        if args.origin is not None or args.answers is not None or len(error.problems) == 1:
            raise
    try:
        return read_promptfoo(file, limit=args.limit)
    except ConfigError:
        raise UsageError(
            f"{file} has neither the leaderboard's questions (a JSON object on each line) nor promptfoo's tests; "
            "--from bfcl and --from promptfoo say what is wrong with it"
        ) from None


def _count(cases: int) -> str:
    return f"{cases} case{'' if cases == 1 else 's'}"


COMMANDS = {
    "cases list": (_files_argument, _list),
    "cases check": (_files_argument, _check),
    "cases import": (_import_arguments, _import),
}
"""What each command takes, and what it does, by its name; plugin.py says what they are."""
