"""The package enters by doors, and a configuration with its table starts without it."""

import importlib.metadata

from flexchat import FlexChat
from flexchat.assembly import installed_plugins
from flexchat.installing import how_to_install
from flexchat_cli import check_config, config_schema
from flexchat_validation import cases, plugin
from flexchat_validation.cases import table_of

CONFIG = {
    "llms": {"bot": {"provider": "rehearsal"}},
    "responses": [{"llm": "bot", "model": "m"}],
    "validation": {"runs": 2},
}


def test_the_table_is_read_and_in_the_schema():
    host = installed_plugins()
    chat = FlexChat.from_config(CONFIG, plugins=host)

    assert chat.config.tables["validation"] == cases.ValidationTable(runs=2)
    assert table_of(chat.config).runs == 2
    found = config_schema(host)["properties"]["validation"]
    assert found == {"$ref": "#/$defs/ValidationTable", "description": "Which models are tried with which cases."}


def test_a_configuration_with_its_table_starts_without_it():
    """With a note that says why nobody reads the table."""
    host = installed_plugins({"validation": "a test"})

    assert FlexChat.from_config(CONFIG, plugins=host).config.tables == {}
    problems, (note,) = check_config(CONFIG, host)
    assert problems == []
    assert note.path == "validation"
    assert note.text == "this table is not read: plugin 'validation' blocked: by a test"


def test_where_it_is_not_installed_the_note_says_what_to_install(monkeypatch):
    every = importlib.metadata.entry_points
    monkeypatch.setattr(
        importlib.metadata,
        "entry_points",
        lambda: importlib.metadata.EntryPoints(entry for entry in every().select() if entry.name != "validation"),
    )

    _, (note,) = check_config(CONFIG, installed_plugins())

    get_it = how_to_install("flexchat-validation")
    assert note.text == f"this table is not read: it comes with the package flexchat-validation: {get_it}"


def test_its_commands_are_hinted_at_where_it_is_missing():
    from flexchat.installing import package_with

    own = [entry.name for entry in importlib.metadata.distribution("flexchat-validation").entry_points]
    hinted = {name for name in own if package_with("command", name.split()[0]) == "flexchat-validation"}
    assert hinted == {*own} - {"validation"}  # the plugin itself
    assert "cases import" in hinted


def test_the_demo_has_the_cases_that_its_tools_can_show():
    """Without a configuration there is something to try."""
    from flexchat_validation.plugin import sample_table

    (table,) = plugin.flexchat_register_config_tables()
    assert {case["name"] for case in table.demo([])["cases"]} == {"nothing to call for", "no tool knows this"}
    assert "a sum" in {case["name"] for case in sample_table(["calculator"])["cases"]}
