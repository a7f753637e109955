"""Names and patterns in [mcp_server] that fit no tool."""

import pytest
from flexchat.host import installed_plugins
from flexchat_cli import check_config

BASE = """
[llms.bot]
provider = "rehearsal"
[[responses]]
llm = "bot"
model = "rehearsal"
[[tools.registry]]
name = "calculator"
[[tools.registry]]
name = "get_current_datetime"
{sources}
[mcp_server]
{table}
"""
UNREAD = '[[tools.mcp]]\nname = "time"\ncommand = ["time-server"]'
NAMES = "(names of tools, or SOURCE/* for all of a source)"


@pytest.fixture
def noted(tmp_path):
    """Return a function that checks the table, and returns path and text of the notes about it, which have lines."""

    def check(table, sources=""):
        path = tmp_path / "flexchat.toml"
        path.write_text(BASE.format(table=table, sources=sources))
        problems, notes = check_config(path, installed_plugins())
        assert problems == []
        noted = [note for note in notes if note.path.startswith("mcp_server")]
        assert all(note.line for note in noted)
        return [(note.path, note.text) for note in noted]

    return check


def test_what_fits_no_tool_is_noted_with_the_nearest_name(noted):
    assert noted('tools = ["calculater", "calculator", "get_*", "tim/*"]\ntasks = { "calculatr" = "optional" }') == [
        ("mcp_server.tools[0]", "no tool is called 'calculater' (did you mean 'calculator'?)"),
        ("mcp_server.tools[2]", f"no tool is called 'get_*' {NAMES}"),
        ("mcp_server.tools[3]", f"no tool is called 'tim/*' {NAMES}"),
        ("mcp_server.tasks.calculatr", "no tool fits 'calculatr' (did you mean 'calculator'?)"),
    ]


@pytest.mark.parametrize(
    "table",
    [
        "chat = true",
        'tools = ["calculator", "get_current_datetime"]',
        'tasks = { "get_*" = "optional", ask = "required", calculator = "required" }',
    ],
)
def test_what_fits_a_tool_is_not_noted(noted, table):
    assert noted(table) == []


def test_a_source_that_was_never_opened_may_have_any_tool(noted):
    """Its own name is known: a pattern for another source fits nothing."""
    table = 'tools = ["time/*", "now", "tima/*"]\ntasks = { "now_*" = "optional" }'

    assert noted(table.partition("\n")[0], UNREAD) == [
        ("mcp_server.tools[2]", "no tool is called 'tima/*' (did you mean 'time/*'?)")
    ]
    assert noted(table.partition("\n")[2], UNREAD) == []
