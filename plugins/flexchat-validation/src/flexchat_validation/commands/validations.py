"""flexchat validations …: shows, exports and imports what tests have shown about models."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from flexchat import ConfigError
from flexchat.host import counted, did_you_mean
from flexchat.store import open_file
from flexchat_cli import FILE_NAME, CommandContext, Terminal, UsageError, argument, one_line

from .validate import store_option, store_path

if TYPE_CHECKING:
    from ..attempts import ModelKey
    from ..summary import ValidationRecord
    from ..tracker import ModelValidationTracker

_TESTS_SHOWN = 20


@click.command
@store_option
@click.pass_obj
def list_(context: CommandContext, store: str | None) -> None:
    """List the models that were tested, with their verdicts."""
    terminal = context.terminal
    with _tracker(context, store, judges=True) as tracker:
        records = tracker.get_all_validations()
        if context.json:
            terminal.json([record.status() for record in records])
            return
        for record in records:
            terminal.out(record.model_id, "bold")
            _print_verdict(record, terminal)
        if not records:
            terminal.say("no model has been tested: run flexchat validate", "dim")


@click.command
@argument("model", metavar="LLM/MODEL", help="the model")
@store_option
@click.pass_obj
def show(context: CommandContext, model: str, store: str | None) -> None:
    """Print what is known about a model, and its last tests."""
    with _tracker(context, store, judges=True) as tracker:
        record = tracker.get_status(model)
        if not record.tested:
            ids = [ids.model_id for ids in tracker.get_all_validations()]
            there = ", ".join(ids) or "none"
            raise UsageError(f"'{model}' has not been tested{did_you_mean(model, ids)}; tested are: {there}")
        if context.json:
            context.terminal.json(record.to_dict())
        else:
            _print_tests(record, context.terminal)


@click.command
@argument("file", metavar="FILE", type=FILE_NAME, help="a JSON file; - is standard output")
@store_option
@click.pass_obj
def export(context: CommandContext, file: str, store: str | None) -> None:
    """Write all results to a JSON file."""
    with _tracker(context, store) as tracker:
        if file == "-":
            context.terminal.json(tracker.export())
            return
        records = tracker.get_all_validations()
        asyncio.run(tracker.save(file))
        data: dict[str, object] = {"exported": len(records), "file": file}
        _report(context, data, f"results of {counted(len(records), 'model')} in {file}")


@click.command("import")
@argument("file", metavar="FILE", type=FILE_NAME, help="a JSON file")
@store_option
@click.pass_obj
def import_(context: CommandContext, file: str, store: str | None) -> None:
    """Add the results in a JSON file, including the Node original's."""
    with _tracker(context, store) as tracker:
        try:
            open_file(file).close()  # the tracker treats a missing one as a first start
        except OSError as error:
            raise UsageError(f"'{file}' cannot be read: {error.strerror}") from None
        new = asyncio.run(tracker.load(file))
        _report(context, {"imported": new}, f"{new:,} {'result is' if new == 1 else 'results are'} new")


def _print_tests(record: ValidationRecord, terminal: Terminal) -> None:
    terminal.out(record.model_id, "bold")
    _print_verdict(record, terminal)
    terminal.out()
    for test in record.test_history[-_TESTS_SHOWN:]:
        details = test.get("details") or {}
        case = details.get("case") if isinstance(details, dict) else None
        text = ": ".join(str(part) for part in (case, test.get("error")) if part)
        when = str(test["timestamp"])[:16].replace("T", " ")
        line = f"  {when}  {'passed' if test['success'] else 'failed'}  {one_line(text, 500)}".rstrip()
        terminal.out(line if len(line) <= terminal.width else f"{line[: terminal.width - 2]} …")
    if record.test_count > _TESTS_SHOWN:
        terminal.out(f"  the last {_TESTS_SHOWN} of {record.test_count:,}; flexchat validations export writes all")


def _print_verdict(record: ValidationRecord, terminal: Terminal) -> None:
    status = "stale" if record.stale else record.verdict.replace("_", " ")
    last = f"; last tested {record.last_tested[:16].replace('T', ' ')}" if record.last_tested else ""
    terminal.paragraph(f"{status}: {record.reason}{last}", indent="  ")
    for reason in record.stale_reasons:
        terminal.paragraph(reason, indent="  ")


def _report(context: CommandContext, data: dict[str, object], text: str) -> None:
    if context.json:
        context.terminal.json(data)
    else:
        context.terminal.say(text, "dim")


@contextlib.contextmanager
def _tracker(context: CommandContext, store: str | None, *, judges: bool = False) -> Iterator[ModelValidationTracker]:
    from flexchat.store import data_folder

    from ..store import FILE_NAME as STORE_NAME
    from ..tracker import ModelValidationTracker

    path = _path(context, store) or data_folder() / STORE_NAME
    tracker = ModelValidationTracker(path, current=_valid_now(context) if judges else None)
    try:
        yield tracker
    finally:
        tracker.close()


def _valid_now(context: CommandContext) -> Callable[[str], ModelKey] | None:
    """Return the function that computes a model's current key from this configuration, without using the network.

    None without a usable configuration: no result then counts as stale.
    """
    from ..fingerprint import Keys

    if context.config_file() is None:
        return None
    try:
        chat = context.open_chat()
    except ConfigError:
        text = "note: the configuration cannot be used (flexchat check shows why), so nothing is shown as stale"
        context.terminal.say(text, "dim")
        return None
    keys = Keys(chat)
    asyncio.run(chat.aclose())
    return keys


def _path(context: CommandContext, store: str | None) -> Path | None:
    """Return the path of --store, or of the configuration's table, whose other errors are ignored."""
    from flexchat.host import read_config

    from ..cases import ValidationTable

    if store is not None:
        return store_path(store, ValidationTable(), None)
    read = context.read_config()
    table: ValidationTable | None = None
    if read is not None and "validation" in read.document.data:
        config = read_config(read)
        table = config.settings(("validation",), (), ValidationTable)
        if table is None:
            raise ConfigError([problem for problem in config.problems if problem.path.startswith("validation")])
    return store_path(None, table or ValidationTable(), read.path if read else None)
