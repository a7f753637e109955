"""What tools cost."""

from flexchat import Implementation, ToolDefinition
from flexchat.errors import ProviderRequestError
from flexchat.tools.registry import ToolRegistry
from flexchat_cli.tool_costs import cost_of, tokens_of

MOCK = Implementation(type="mock")


def encode(tools):
    if any(tool.name == "walk" for tool in tools):
        raise ProviderRequestError("walk cannot be told", provider="odd", kind="invalid_schema")
    return [{"name": tool.name, "parameters": tool.parameters} for tool in tools]


def registry(*names):
    made = ToolRegistry(formats={"odd": encode})
    for name in names:
        made.register(
            ToolDefinition(name=name, description="A tool.", parameters={"type": "object"}, implementation=MOCK)
        )
    return made


def test_the_dearest_tool_comes_first_and_all_are_added_up():
    cost = cost_of(registry("a", "a_much_longer_name"), ("a", "a_much_longer_name"), "odd")

    assert [*cost.by_tool] == ["a_much_longer_name", "a"]
    assert max(cost.by_tool.values()) < cost.tokens <= sum(cost.by_tool.values())
    assert cost.unsendable == ()


def test_a_tool_that_cannot_be_sent_is_named_and_not_counted():
    cost = cost_of(registry("a", "walk"), ("a", "walk"), "odd")

    assert (cost.unsendable, [*cost.by_tool]) == (("walk",), ["a"])
    assert cost.tokens == cost.by_tool["a"]


def test_without_tools_nothing_is_paid():
    assert cost_of(registry(), (), "odd").tokens == 0


def test_tokens_are_bytes_of_json_not_characters():
    assert tokens_of([{"a": "€" * 100}]) > tokens_of([{"a": "e" * 100}])
