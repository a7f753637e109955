"""flexchat validate: test models with cases, and report which can be trusted with tools."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
import flexchat_cli as cli
from flexchat import ChatRequestError, ConfigError, FlexChat
from flexchat.host import refuse_other
from flexchat.store import located
from flexchat_cli import CommandContext, UsageError

if TYPE_CHECKING:
    from flexchat.host import ReadConfig

    from ..cases import Case, ValidationTable  # making these classes takes a while
    from ..reading import Cases
    from ..running import ValidationRun
    from ..store import Run, ValidationStore
    from .validate_report import Report

FAIL_ON = ("undecided", "not-validated", "failure")

NO_CASES = """there is no case to try. A case is a message and the calls a model should make:

  [[validation.cases]]
  name = "weather in Paris"
  message = "What is the weather in Paris?"
  calls = [{ tool = "get_weather", arguments = { location = "Paris" } }]

It goes into the configuration, or into a file named in validation.files. flexchat record makes one from a
conversation"""


store_option = click.option(
    "--store", metavar="FILE", type=cli.FILE_NAME, help="database of the results; default: validation.store"
)
"""The option of every command that works with results."""


@attrs.frozen(kw_only=True)
class Wanted:
    """What is tried how often, and what the results are for: the options of the command line.

    Attributes:
        resume: The start of a run's id; empty for the last one; None to begin a new one.
    """

    model: Sequence[str] = ()
    runs: int | None = None
    cases: Sequence[str] = ()
    tag: Sequence[str] = ()
    resume: str | None = None
    run_tools: bool = False
    concurrency: int | None = None
    junit: str | None = None
    store: str | None = None
    fail_on: str = "undecided"


@click.command
@click.option(
    "--model",
    metavar="LLM/MODEL",
    multiple=True,
    help="a model to try; repeatable; default: validation.models, else those the rules name",
)
@click.option("--runs", metavar="N", type=int, help="how often each case is tried; default: validation.runs")
@click.option(
    "--cases",
    metavar="FILE|NAME",
    type=cli.FILE_NAME,
    multiple=True,
    help="a file of cases, instead of the configuration's; or the name of one case; repeatable",
)
@click.option("--tag", metavar="TAG", multiple=True, help="only cases with one of these tags")
@click.option(
    "--resume",
    metavar="[RUN]",
    is_flag=False,
    flag_value="",
    help="continue an unfinished run: the last, or the one whose id starts with this",
)
@click.option("--run-tools", is_flag=True, help="really run tools that change something; else they only report success")
@click.option("--concurrency", metavar="N", type=int, help="simultaneous attempts per service")
@click.option("--junit", metavar="FILE", type=cli.FILE_NAME, help="write the attempts as JUnit XML")
@store_option
@click.option(
    "--fail-on",
    type=click.Choice(FAIL_ON),
    default="undecided",
    help="when the exit status is 1: unless every model is validated (undecided, the default), if one is not "
    "validated, or if any attempt failed",
)
@click.pass_obj
def validate(context: CommandContext, /, **options: Any) -> int:
    """Test models with cases, and report which can be trusted with tools.

    The exit status is 0 if --fail-on finds nothing, else 1; 130 if interrupted.
    """
    parsed = Wanted(**options)
    _check(parsed)
    with contextlib.nullcontext() if context.terminal.verbose else cli.limit_retry_notes():
        return asyncio.run(_validate(context, parsed))


def store_path(option: str | None, table: ValidationTable, file: Path | None) -> Path | None:
    """Return where results are kept: --store, else validation.store, from the configuration's folder; else None."""
    if option is not None:
        return located(option)
    if table.store is None:
        return None
    return located(table.store, file.parent if file else None)


async def _validate(context: CommandContext, options: Wanted) -> int:
    from ..store import ValidationStore
    from .validate_report import print_report, report_of, watch, write_junit

    terminal = context.terminal
    read = context.read_config()
    file = read.path if read else None
    _end_like_ctrl_c(signal.SIGTERM)
    async with context.open_chat() as chat:
        table = _table(chat, options)
        store = ValidationStore(store_path(options.store, table, file))
        async with contextlib.aclosing(store):
            try:
                run, known_cases = await _planned(chat, table, store, read, options)
            except ChatRequestError as error:
                raise UsageError(str(error)) from None
            if not context.json:
                cli.report_notes(chat, context)
            interrupted = False
            try:
                await watch(run, terminal)
            except asyncio.CancelledError:  # Ctrl-C
                interrupted = True
            report = await report_of(run, store, known_cases=known_cases)
            print_report(report, terminal, as_json=context.json)
            if not report.complete:
                terminal.say(_how_to_go_on(report, context.config, options.store))
            if options.junit:
                write_junit(Path(options.junit), report)
            return cli.INTERRUPTED if interrupted else _status(report, options.fail_on)


def _end_like_ctrl_c(number: int) -> None:
    """Let a signal interrupt the run: what is done is kept, and the report is printed."""
    task = asyncio.current_task()
    if task is not None:
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or another thread
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def _check(options: Wanted) -> None:
    for option in ("runs", "concurrency"):
        number = getattr(options, option)
        if number is not None and number < 1:
            raise UsageError(f"--{option} is at least 1, not {number}")
    if options.junit:
        _check_output(Path(options.junit))
    if options.resume is not None:
        conflicts = [name for name in ("model", "runs", "cases", "tag") if getattr(options, name)]
        if conflicts:
            raise UsageError(f"--resume continues a run as it was planned: leave out --{conflicts[0]}")


def _check_output(path: Path) -> None:
    """Check now, and not after an hour, whether a file can be written.

    Raises:
        UsageError: It cannot.
    """
    if not os.path.isdir(path.parent):
        raise UsageError(f"--junit: there is no folder '{path.parent}'")
    try:
        refuse_other(path)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise UsageError(f"--junit: '{path}' cannot be written: {error.strerror or error}") from None


def _table(chat: FlexChat, options: Wanted) -> ValidationTable:
    from ..cases import table_of

    table = table_of(chat.config)
    return attrs.evolve(
        table,
        run_tools=table.run_tools or options.run_tools,
        concurrency=options.concurrency or table.concurrency,
        runs=options.runs or table.runs,
    )


async def _planned(
    chat: FlexChat, table: ValidationTable, store: ValidationStore, read: ReadConfig | None, options: Wanted
) -> tuple[ValidationRun, int]:
    """Return the run, and how many cases there were to choose from."""
    from ..fingerprint import open_tools
    from ..running import Plan, ValidationRun

    await open_tools(chat)  # the cases are checked against their names
    file = read.path if read else None
    config = _whole_path(file)
    if options.resume is not None:
        earlier = await _unfinished(store, options.resume, config)
        settings = earlier.settings
        table = attrs.evolve(table, run_tools=table.run_tools or bool(settings.get("run_tools")))
        all_cases = _cases(chat, file, settings.get("files") or ()).cases
        return await ValidationRun.resume(chat, earlier.id, all_cases, store, table=table), len(all_cases)
    files, names = _files_and_names(options.cases)
    cases = _cases(chat, file, files)
    plan = Plan(
        models=tuple(dict.fromkeys(options.model)) or _models(chat, table, read),
        cases=_chosen(cases, names, options.tag),
        runs=table.runs,
    )
    settings = {"config": config, "files": [str(path) for path in files], "run_tools": table.run_tools}
    return await ValidationRun.begin(chat, plan, store, table=table, settings=settings), len(cases.cases)


def _whole_path(file: Path | None) -> str | None:
    return os.path.realpath(file) if file else None


async def _unfinished(store: ValidationStore, prefix: str, config: str | None) -> Run:
    runs = await store.runs(1000)
    if prefix:
        matches = [run for run in runs if run.id.startswith(prefix)]
        if len(matches) != 1:
            raise UsageError(
                f"--resume {prefix}: {f'{len(matches)} runs start with this' if matches else 'there is no such run'}"
            )
        return matches[0]
    mine = [run for run in runs if run.settings.get("config") == config]
    open_ = [run for run in mine if run.state not in ("finished", "running")]
    if not open_:
        raise UsageError(f"--resume: no run of {config or 'the demo'} is unfinished")
    return open_[0]


def _cases(chat: FlexChat, file: Path | None, files: Sequence[str | Path]) -> Cases:
    from ..cases import table_of
    from ..reading import read_cases, tool_names

    config = chat.config
    table = table_of(config)
    if files:  # in place of the configuration's
        table = attrs.evolve(table, cases=(), files=())
    config = attrs.evolve(config, tables={**config.tables, "validation": table})
    folder = file.parent if file else None
    return read_cases(config, folder, files=[Path(path) for path in files], tools=tool_names(chat))


def _files_and_names(words: Sequence[str]) -> tuple[list[Path], list[str]]:
    files = [word for word in words if Path(word).suffix in (".toml", ".json", ".jsonl") or os.path.isfile(word)]
    return [Path(os.path.realpath(word)) for word in files], [word for word in words if word not in files]


def _chosen(cases: Cases, names: Sequence[str], tags: Sequence[str]) -> tuple[Case, ...]:
    if not cases.cases:
        raise UsageError(NO_CASES)
    chosen = cases.chosen(names, tags)
    if not chosen:
        raise UsageError("none of the cases named has one of the tags")
    return chosen


def _models(chat: FlexChat, table: ValidationTable, read: ReadConfig | None) -> tuple[str, ...]:
    from ..reading import wrong_models

    if table.models:
        problems = wrong_models(chat.config, read.document if read else None)
        if problems:
            raise ConfigError(problems)
        return tuple(dict.fromkeys(table.models))
    resolved = [chat.llms.resolve(rule.llm, rule.model) for rule in chat.config.responses if rule.llm in chat.llms]
    models = tuple(dict.fromkeys(f"{llm.name}/{model}" for llm, model in resolved if model))
    if not models:
        raise UsageError("no rule names a model: choose one with --model LLM/MODEL, or in validation.models")
    return models


def _how_to_go_on(report: Report, config: str | None, store: str | None) -> str:
    options = "".join(f" --{name} {value}" for name, value in (("config", config), ("store", store)) if value)
    number = report.progress.passed + report.progress.failed
    return (
        f"{number} of {report.progress.planned} attempts are kept; flexchat validate --resume{options} makes the others"
    )


def _status(report: Report, fail_on: str) -> int:
    if fail_on == "failure":
        fine = all(a.outcome == "passed" for a in report.attempts)
    elif fail_on == "not-validated":
        fine = not any(m.verdict.status == "not_validated" for m in report.models)
    else:
        fine = all(m.validated for m in report.models)
    return cli.OK if fine and report.complete else cli.FAILED
