"""The registry keeps what it was given."""

import pytest
from flexchat import FlexChat
from flexchat.domain import Implementation, ToolDefinition
from flexchat.errors import ProviderRequestError, ToolDefinitionError
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


def _with_settings(settings, **rest):
    implementation = Implementation(type="mock", settings=settings)
    return ToolDefinition(
        name="t", description="T", parameters={"type": "object"}, implementation=implementation, **rest
    )


def test_a_timeout_in_the_implementation_counts_as_the_tools():
    """Where the specification writes it; the tool's own goes before, and the type never sees it."""
    settings = {"timeout_ms": 50, "mock_response": 1}

    assert (_with_settings(settings).timeout_ms, _with_settings(settings, timeout_ms=7).timeout_ms) == (50, 7)
    assert _with_settings(settings).implementation.settings == {"mock_response": 1}
    assert settings == {"timeout_ms": 50, "mock_response": 1}


@pytest.mark.parametrize("wrong", ["50", 0, -1, 1.5, True, []])
def test_a_timeout_that_is_no_time_is_refused(wrong):
    """In the implementation, and in the tool."""
    with pytest.raises(ToolDefinitionError, match="timeout_ms must be a whole number"):
        _with_settings({"timeout_ms": wrong})
    with pytest.raises(ToolDefinitionError, match="timeout_ms must be a whole number"):
        _with_settings({}, timeout_ms=wrong)


async def test_a_tool_made_in_code_ends_at_its_implementations_timeout():
    tool = _with_settings({"timeout_ms": 20, "delay_ms": 60_000, "mock_response": 1})
    async with FlexChat.from_model("scripted/m", tools=[tool]) as chat:
        assert (await chat.call_tool("t", {})).error == "Tool execution timed out after 20ms"


def test_a_tool_that_cannot_be_encoded_costs_no_other_tool(caplog):
    """Every request with it would fail: it is left out, with the reason."""

    def encode(tools):
        if any(each.name == "odd" for each in tools):
            raise ProviderRequestError("tool odd cannot be sent to acme: it is odd", kind="invalid_schema")
        return [{"name": each.name} for each in tools if each.name != "mute"]

    registry = ToolRegistry({"acme": encode})
    for name in ("a", "odd", "mute", "b"):
        registry.register(
            ToolDefinition(
                name=name, description="D.", parameters={"type": "object"}, implementation=Implementation(type="mock")
            )
        )

    names = ("a", "odd", "mute", "b")
    assert registry.wire_tools("acme", names) == ({"name": "a"}, {"name": "b"})
    assert registry.dropped_by("acme", names) == {
        "odd": "tool odd cannot be sent to acme: it is odd",
        "mute": "its provider cannot send it",
    }
    assert registry.to_provider_format("acme", ["odd"]) == []
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"][:1] == [
        "tool odd is left out: tool odd cannot be sent to acme: it is odd"
    ]
