"""How the models of this package are told of tools."""

from flexchat.plugin import Implementation, ToolDefinition
from flexchat_mock.rehearsal import encode_tools


def test_tools_are_told_in_the_common_shape():
    """TC-33: type, function, name, description, parameters; the schema unchanged."""
    tool = ToolDefinition(
        name="echo", description="Echo", parameters={"type": "object"}, implementation=Implementation(type="mock")
    )

    assert encode_tools([tool]) == [
        {"type": "function", "function": {"name": "echo", "description": "Echo", "parameters": {"type": "object"}}}
    ]
