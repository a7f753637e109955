"""Tools of plugins that a configuration switches on."""

import pytest
from flexchat.calls.manager import ToolManager
from flexchat.config.model import ToolEntry
from flexchat.domain import Implementation, ToolDefinition

OFFERED = ToolDefinition(
    name="poll",
    description="Ask again.",
    parameters={"type": "object"},
    implementation=Implementation(type="python", settings={}),
    exclusive=True,
    repeatable=True,
)


@pytest.mark.parametrize(("said", "holds"), [(None, True), (True, True), (False, False)])
def test_what_a_configuration_says_of_a_ready_made_tool_counts_also_where_it_says_no(said, holds):
    """Only what it does not say is the tool's own."""
    manager = ToolManager.__new__(ToolManager)
    manager._offered = {"poll": OFFERED}

    tool = manager._switched_on(ToolEntry(name="poll", exclusive=said, repeatable=said))

    assert (tool.exclusive, tool.repeatable) == (holds, holds)
