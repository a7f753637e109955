"""The registry keeps what it was given."""

from flexchat.domain import Implementation, ToolDefinition
from flexchat.tools.registry import ToolRegistry


def test_it_does_not_share_parameters_with_who_registers():
    """A schema that is changed afterwards changes nothing."""
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}}
    registry = ToolRegistry()
    registry.register(
        ToolDefinition(name="t", description="T", parameters=parameters, implementation=Implementation(type="mock"))
    )

    parameters["properties"]["a"]["type"] = "number"
    parameters["required"] = ["a"]

    assert registry.get("t").parameters == {"type": "object", "properties": {"a": {"type": "string"}}}
