"""Tools of plugins that a configuration switches on."""

import pytest
from flexchat import tool
from flexchat.calls.calls import ToolParts
from flexchat.calls.manager import ToolManager
from flexchat.config.model import ToolEntry, ToolsTable
from flexchat.domain import Implementation, ToolDefinition
from flexchat.host import installed_plugins

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
    entry = ToolEntry(name="poll", exclusive=said, repeatable=said)
    manager = ToolManager(ToolsTable(registry=(entry,)), ToolParts(offered={"poll": OFFERED}))
    manager.load_tools()

    known = manager.get_registry().get("poll")

    assert (known.exclusive, known.repeatable) == (holds, holds)


async def test_a_manager_stands_by_itself():
    """Without a chat and a config: tools of plugins and functions, told in a provider's words, and run."""

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    manager = ToolManager.from_plugins(installed_plugins())
    manager.add(["calculator", add])

    told = manager.get_registry().to_provider_format("openai")
    assert [entry["function"]["name"] for entry in told] == ["calculator", "add"]
    assert (await manager.get_executor().execute("add", {"a": 2, "b": 3})).result == 5
    assert (await manager.get_executor().execute("calculator", {"expression": "2*3"})).result == {"result": 6}
