"""What this package provides: the config table ``validation``, its checks, and what the web shows.

Light: whatever a command or check needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flexchat.plugin import CheckedConfig, ConfigCheck, ConfigTable, hookimpl

if TYPE_CHECKING:
    from flexchat.store import StoreDatabase
    from flexchat_web.typing import ModelFact, Operation, Page, Web

    from .cases import ValidationTable


def sample_table(tools: Collection[str]) -> dict[str, Any]:
    """Return the demo's table ``validation``: the cases of sample_cases.toml that the available tools allow."""
    from flexchat.host import read_document

    cases = read_document(Path(__file__).with_name("sample_cases.toml")).data["cases"]
    return {"cases": [case for case in cases if {call["tool"] for call in case.get("calls", ())} <= {*tools}]}


def _table() -> type:
    from .cases import ValidationTable  # its many classes are only made when needed

    return ValidationTable


def _database(table: ValidationTable | None, folder: Path | None) -> StoreDatabase | None:
    from flexchat.store import located

    from .store import ValidationStore

    store = ValidationStore(None if table is None or table.store is None else located(table.store, folder))
    return store.database if table is not None or store.path.exists() else None


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
    from .reading import cases_and_problems

    if "validation" in read.document.data:
        for problem in cases_and_problems(read)[1]:
            read.add(problem)


@hookimpl
def flexchat_register_config_tables() -> Iterable[ConfigTable]:
    """Register the table that selects models and their cases."""
    yield ConfigTable(
        name="validation",
        load=_table,
        summary="Which models are tried with which cases.",
        demo=sample_table,
        database=_database,
    )


@hookimpl
def flexchat_register_checks() -> Iterable[ConfigCheck]:
    """Offer checks of the database's name and of every case."""
    yield ConfigCheck(name="validation.store", run=_check_store, at_start=True)
    yield ConfigCheck(name="validation cases", run=_check_cases)


@hookimpl(optionalhook=True)
def flexchat_web_operations(web: Web) -> Iterable[Operation]:
    """Offer runs, records, cases, the matrix and model tests over HTTP."""
    from .web import OPERATIONS

    return OPERATIONS


@hookimpl(optionalhook=True)
def flexchat_web_pages(web: Web) -> Iterable[Page]:
    """Offer the pages that test a model and show what is known about all."""
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
def flexchat_web_model_facts(web: Web) -> Iterable[ModelFact]:
    """Register the validation record of each model as a fact."""
    from .cases import table_of
    from .web.records import STATUS, records_of

    yield web.ModelFact(
        name="validation", schema=STATUS, values=records_of, models=lambda chat: table_of(chat.config).models
    )
