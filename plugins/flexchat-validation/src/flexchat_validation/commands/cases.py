"""flexchat cases …: lists and checks validation cases, and imports those of other programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
from flexchat import ConfigError, Problem
from flexchat.host import counted
from flexchat_cli import FILE_NAME, OK, UNUSABLE, CommandContext, UsageError, argument, one_line

if TYPE_CHECKING:
    from ..reading import Cases, Imported


def words_of(texts: Sequence[str]) -> tuple[str, ...]:
    """Return words separated by spaces or commas."""
    return tuple(dict.fromkeys(word.strip() for words in texts for word in words.split(",") if word.strip()))


def tags_option(help: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add the option for tags; the command gets them as ``tags``, also those separated by commas."""
    return click.option(
        "--tags", "--tag", metavar="TAG", multiple=True, callback=lambda _, __, words: words_of(words), help=help
    )


def put_out(result: Imported, context: CommandContext, out: str | None) -> None:
    """Print cases, or add them to a file.

    Raises:
        ConfigError: They cannot be added to the file.
    """
    from ..case_files import add_cases, case_data, toml_of

    terminal = context.terminal
    if out is not None:
        add_cases(Path(out), result.cases)
    if context.json:
        data: dict[str, Any] = {"cases": [case_data(case) for case in result.cases], "notes": list(result.notes)}
        terminal.json({"file": out, **data} if out else data)
    elif out is None:
        terminal.write(toml_of(result.cases))
    else:
        terminal.out(f"{counted(len(result.cases), 'case')} added to {out}", "bold")


def _case_options(command: Callable[..., Any]) -> Callable[..., Any]:
    text = "case files in addition to the configuration's"
    files = argument("files", metavar="FILE", nargs=-1, type=FILE_NAME, help=text)
    return files(tags_option("only cases with one of these tags; repeatable")(command))


@click.command
@_case_options
@click.pass_obj
def list_(context: CommandContext, files: tuple[str, ...], tags: tuple[str, ...]) -> None:
    """List validation cases.

    A line for each: its name, what it expects, its tags.
    """
    from ..reading import case_info, expects

    terminal = context.terminal
    usable, problems = _checked(context, files)
    if problems:
        raise ConfigError(problems)
    cases = usable.chosen(tags=tags)
    if context.json:
        terminal.json([case_info(case) for case in cases])
        return
    width = min(max([len(case.name) for case in cases], default=0), 40)
    for case in cases:
        about = f"  [{', '.join(case.tags)}]" if case.tags else ""
        start = f"{one_line(case.name, width):{width}}  "
        terminal.out(start + one_line(f"{expects(case)}{about}", max(terminal.width - len(start), 20)))
    if not cases:
        terminal.say("there are no cases: write [[validation.cases]], or make one with flexchat record", "dim")


@click.command
@_case_options
@click.pass_obj
def check(context: CommandContext, files: tuple[str, ...], tags: tuple[str, ...]) -> int:
    """Check validation cases.

    Prints everything that is wrong with them; the exit status is 2 if anything is.
    """
    terminal = context.terminal
    usable, problems = _checked(context, files)
    cases = () if problems else usable.chosen(tags=tags)
    if context.json:
        terminal.json({"cases": len(cases), "problems": [attrs.asdict(problem) for problem in problems]})
    elif problems:
        for problem in problems:
            terminal.out(str(problem))
        terminal.out(f"{counted(len(problems), 'problem')}; {counted(len(usable.cases), 'case')} can be used", "red")
    else:
        terminal.out(
            f"{counted(len(cases), 'case')}: nothing is wrong with {'it' if len(cases) == 1 else 'them'}", "bold"
        )
    return UNUSABLE if problems else OK


@click.command("import")
@argument("file", metavar="FILE", type=FILE_NAME, help="questions of the Berkeley leaderboard, or promptfoo's tests")
@click.option(
    "--answers", metavar="FILE", type=FILE_NAME, help="the leaderboard's ground truth; default: the one next to it"
)
@click.option("--from", "origin", type=click.Choice(["bfcl", "promptfoo"]), help="default: guessed from the file")
@click.option("--limit", metavar="N", type=int, help="maximum number of cases")
@click.option("--out", metavar="FILE", type=FILE_NAME, help=".json or .toml file to add them to; default: print TOML")
@click.pass_obj
def import_(
    context: CommandContext, file: str, answers: str | None, origin: str | None, limit: int | None, out: str | None
) -> None:
    """Import tests of the Berkeley leaderboard or of promptfoo.

    They are printed as cases, or added to a file; tests that cannot be imported are reported.
    """
    if limit is not None and limit < 1:
        raise UsageError(f"--limit is at least 1, not {limit}")
    result = _imported(Path(file), answers, origin, limit)
    for note in result.notes:
        context.terminal.say(f"note: {note}", "dim")
    if not result.cases:
        raise UsageError(f"{file}: nothing in it can be imported as a case")
    put_out(result, context, out)


def _checked(context: CommandContext, files: Sequence[str]) -> tuple[Cases, Sequence[Problem]]:
    """Return the usable cases, and everything that is wrong with the others."""
    from ..reading import cases_and_problems, in_order, tool_names, usable_cases

    config, paths = context.read_config(), [Path(name) for name in files]
    if config is None:
        try:
            chat = context.open_chat()  # the one that flexchat validate uses
        except UsageError:
            chat = context.open_tools()[0]
        return usable_cases(chat.config, None, files=paths, tools=tool_names(chat))
    problems: Sequence[Problem] = ()
    tools: Sequence[str] = ()
    try:
        tools = tool_names(context.open_tools()[0])
    except ConfigError as error:
        problems = error.problems
    cases, more = cases_and_problems(config, files=paths, tools=tools)
    return cases, in_order([*problems, *more])


def _imported(file: Path, answers: str | None, origin: str | None, limit: int | None) -> Imported:
    from ..importers.bfcl import read_bfcl
    from ..importers.promptfoo import read_promptfoo

    promptfoo = file.suffix.lower() in (".yaml", ".yml") or "promptfoo" in file.name
    if origin == "promptfoo" or (origin is None and promptfoo):
        if answers is not None:
            raise UsageError("--answers is for the leaderboard's questions; promptfoo's tests contain theirs")
        return read_promptfoo(file, limit=limit)
    try:
        return read_bfcl(file, Path(answers) if answers else None, limit=limit)
    except ConfigError as error:
        if origin is not None or answers is not None or len(error.problems) == 1:
            raise
    try:
        return read_promptfoo(file, limit=limit)
    except ConfigError:
        raise UsageError(
            f"{file} has neither the leaderboard's questions (a JSON object on each line) nor promptfoo's tests; "
            "--from bfcl and --from promptfoo report what is wrong with it"
        ) from None
