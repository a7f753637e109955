"""flexchat validations …: shows, exports and imports what tests have shown about models."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from flexchat import ConfigError
from flexchat.host import OK, Terminal, UsageError, config_file, did_you_mean, one_line, open_chat, the_config
from flexchat.store import open_file

from .validate import store_path

if TYPE_CHECKING:
    from ..attempts import ModelKey
    from ..tracker import ModelValidationTracker, ValidationRecord

_TESTS_SHOWN = 20


def add_store_argument(parser: argparse.ArgumentParser) -> None:
    """Say what all of them take."""
    parser.add_argument("--store", metavar="FILE", help="database of the results; default: validation.store")


def _model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="LLM/MODEL", help="the model")
    add_store_argument(parser)


def _import_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a JSON file")
    add_store_argument(parser)


def _export_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="a JSON file; - is standard output")
    add_store_argument(parser)


def _list(tracker: ModelValidationTracker, args: argparse.Namespace) -> None:
    terminal: Terminal = args.terminal
    records = tracker.get_all_validations()
    if args.json:
        terminal.json([_without_history(record) for record in records])
        return
    for record in records:
        terminal.out(record.model_id, "bold")
        _print_verdict(record, terminal)
    if not records:
        terminal.say("no model has been tested: run flexchat validate", "dim")


def _show(tracker: ModelValidationTracker, args: argparse.Namespace) -> None:
    terminal: Terminal = args.terminal
    record = tracker.get_status(args.model)
    if not record.tested:
        known = [known.model_id for known in tracker.get_all_validations()]
        there = ", ".join(known) or "none"
        raise UsageError(f"'{args.model}' has not been tested{did_you_mean(args.model, known)}; tested are: {there}")
    if args.json:
        terminal.json(record.to_dict())
        return
    terminal.out(record.model_id, "bold")
    _print_verdict(record, terminal)
    terminal.out()
    for test in record.test_history[-_TESTS_SHOWN:]:
        details = test.get("details") or {}
        case = details.get("case") if isinstance(details, dict) else None
        said = ": ".join(str(part) for part in (case, test.get("error")) if part)
        when = str(test["timestamp"])[:16].replace("T", " ")
        line = f"  {when}  {'passed' if test['success'] else 'failed'}  {one_line(said, 500)}".rstrip()
        terminal.out(line if len(line) <= terminal.width else f"{line[: terminal.width - 2]} …")
    if record.test_count > _TESTS_SHOWN:
        terminal.out(f"  the last {_TESTS_SHOWN} of {record.test_count:,}; flexchat validations export writes all")


def _export(tracker: ModelValidationTracker, args: argparse.Namespace) -> None:
    if args.file == "-":
        args.terminal.json(tracker.export())
        return
    records = tracker.get_all_validations()
    asyncio.run(tracker.save(args.file))
    _say(args, {"exported": len(records), "file": args.file}, f"results of {_models(len(records))} in {args.file}")


def _import(tracker: ModelValidationTracker, args: argparse.Namespace) -> None:
    try:
        open_file(args.file).close()  # the tracker treats a missing one as a first start
    except OSError as error:
        raise UsageError(f"'{args.file}' cannot be read: {error.strerror}") from None
    new = asyncio.run(tracker.load(args.file))
    _say(args, {"imported": new}, f"{new:,} {'result is' if new == 1 else 'results are'} new")


def _print_verdict(record: ValidationRecord, terminal: Terminal) -> None:
    status = "stale" if record.stale else record.verdict.replace("_", " ")
    last = f"; last tested {record.last_tested[:16].replace('T', ' ')}" if record.last_tested else ""
    terminal.paragraph(f"{status}: {record.reason}{last}", indent="  ")
    for reason in record.stale_reasons:
        terminal.paragraph(reason, indent="  ")


def _without_history(record: ValidationRecord) -> dict[str, object]:
    return {name: value for name, value in record.to_dict().items() if name != "test_history"}


def _say(args: argparse.Namespace, data: dict[str, object], text: str) -> None:
    if args.json:
        args.terminal.json(data)
    else:
        args.terminal.say(text, "dim")


def _models(number: int) -> str:
    return f"{number:,} model{'' if number == 1 else 's'}"


def _with_tracker(
    work: Callable[[ModelValidationTracker, argparse.Namespace], None], *, judges: bool = False
) -> Callable[[argparse.Namespace], int]:
    def run(args: argparse.Namespace) -> int:
        from flexchat.store import data_folder

        from ..store import FILE_NAME
        from ..tracker import ModelValidationTracker

        path = _path(args) or data_folder() / FILE_NAME
        tracker = ModelValidationTracker(path, current=_valid_now(args) if judges else None)
        try:
            work(tracker, args)
        finally:
            tracker.close()
        return OK

    return run


def _valid_now(args: argparse.Namespace) -> Callable[[str], ModelKey] | None:
    """Return a function that says what a model's results are valid for with this configuration; asks no service.

    None without a usable configuration: nothing is then known to be stale.
    """
    from ..fingerprint import Keys

    if config_file(args) is None:
        return None
    try:
        chat = open_chat(args)
    except ConfigError:
        text = "note: the configuration cannot be used (flexchat check says why), so nothing is shown as stale"
        args.terminal.say(text, "dim")
        return None
    keys = Keys(chat)
    asyncio.run(chat.aclose())
    return keys


def _path(args: argparse.Namespace) -> Path | None:
    """Return --store, or what the configuration's table says; the rest of the configuration does not matter."""
    from flexchat.host import read_config

    from ..cases import ValidationTable

    if args.store is not None:
        return store_path(args.store, ValidationTable(), None)
    known = the_config(args)
    table: ValidationTable | None = None
    if known is not None and "validation" in known.document.data:
        config = read_config(known)
        table = config.settings(("validation",), (), ValidationTable)
        if table is None:
            raise ConfigError([problem for problem in config.problems if problem.path.startswith("validation")])
    return store_path(None, table or ValidationTable(), known.path if known else None)


COMMANDS = {
    "validations list": (add_store_argument, _with_tracker(_list, judges=True)),
    "validations show": (_model_arguments, _with_tracker(_show, judges=True)),
    "validations export": (_export_arguments, _with_tracker(_export)),
    "validations import": (_import_arguments, _with_tracker(_import)),
}
"""What each command takes, and what it does, by its name; plugin.py says what they are."""
