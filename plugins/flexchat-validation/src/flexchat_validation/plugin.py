"""What this package brings: the table ``validation`` of a config, its checks, and the commands. Light: see commands."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from flexchat.plugin import CheckedConfig, Command, ConfigCheck, ConfigTable, hookimpl

from . import commands


def _table() -> type:
    from .cases import ValidationTable  # its many classes are made only where they are needed

    return ValidationTable


def _check_store(read: CheckedConfig) -> None:
    from flexchat import FlexChatError
    from flexchat.store import located

    table = read.config.tables.get("validation")
    if table is not None and table.store:
        try:
            located(table.store)
        except FlexChatError as error:
            read.problem(("validation", "store"), str(error))


def _check_cases(read: Any) -> None:
    from .commands.case_problems import check_cases

    check_cases(read)


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Offer the table that says which models are tried with which cases."""
    yield ConfigTable(name="validation", load=_table, summary="Which models are tried with which cases.")


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer to look at the database's name, and at every case."""
    yield ConfigCheck(name="validation.store", run=_check_store, at_start=True)
    yield ConfigCheck(name="validation cases", run=_check_cases)


@hookimpl(optionalhook=True)
def flexchat_web_operations(web: Any) -> Iterable[Any]:
    """Offer runs, records, cases and the matrix over HTTP, and to test a model."""
    from .web import operations

    return operations(web)


@hookimpl(optionalhook=True)
def flexchat_web_pages(web: Any) -> Iterable[Any]:
    """Offer the pages that test a model, and show what is known of all."""
    folder = Path(__file__).parent / "web" / "static"
    yield web.Page(name="test", label="Test", folder=folder, script="test.js", styles=("test.css",), after="tools")
    yield web.Page(
        name="validation",
        label="Validation",
        folder=folder,
        script="validation.js",
        styles=("test.css", "validation.css"),
        after="test",
    )


@hookimpl(optionalhook=True)
def flexchat_web_model_facts(web: Any) -> Iterable[Any]:
    """Say of each model what is known of it."""
    from .web import models

    yield web.ModelFact(name="validation", schema=models.STATUS, told=models.told, named=models.named)


@hookimpl
def flexchat_register_commands() -> Iterable[Command]:
    """Offer flexchat validate, validations, cases and record."""
    yield from commands.COMMANDS
