"""A tool that a provider's encoder leaves out is named in the turn's warnings."""

from flexchat import FlexChat, tool
from flexchat.assembly import installed_plugins
from flexchat.plugin import hookimpl
from flexchat_sdk import ProviderRequestError, ProviderType
from flexchat_testing import ScriptedProvider, says


class Forgetful(ScriptedProvider):
    """A provider that sends only tools with short names."""

    def tool_format(self, model):
        return "forgetful"


class Plugin:
    @hookimpl
    def flexchat_register_providers(self):
        yield ProviderType(
            name="forgetful",
            config_class=type("Config", (), {}),
            create=lambda config: Forgetful([]),
            tool_formats={"forgetful": encode},
        )


def encode(tools):
    if any(each.name == "odd" for each in tools):
        raise ProviderRequestError("tool odd cannot be sent to forgetful: it is odd", kind="invalid_schema")
    return [{"name": each.name} for each in tools if len(each.name) < 5]


async def test_dropped_tools_are_warned_about():
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    @tool
    def investigate() -> str:
        """Look closely."""
        return "seen"

    host = installed_plugins()
    host.register(Plugin(), "forgetful")
    config = {"responses": [{"llm": "main", "tools": {"enabled": True}}]}
    model = Forgetful([says("Hi"), says("Hi")])
    async with FlexChat.from_config(config, tools=[look, investigate], providers={"main": model}, plugins=host) as chat:
        first, second = await chat.respond("Hi"), await chat.respond("Hi")

    wanted = ("'main' was not offered investigate: its provider cannot send it",)
    assert first.response.warnings == second.response.warnings == wanted


async def test_a_tool_that_the_service_would_refuse_costs_only_itself():
    """The request goes out with the others, and the warning has the reason."""

    @tool
    def look() -> str:
        """Look."""
        return "seen"

    @tool
    def odd() -> str:
        """Look oddly."""
        return "seen"

    host = installed_plugins()
    host.register(Plugin(), "forgetful")
    config = {"responses": [{"llm": "main", "tools": {"enabled": True}}]}
    model = Forgetful([says("Hi")])
    async with FlexChat.from_config(config, tools=[look, odd], providers={"main": model}, plugins=host) as chat:
        turn = await chat.respond("Hi")

    assert [sent["name"] for sent in model.requests[0].options.tools] == ["look"]
    assert turn.response.warnings == ("'main' was not offered odd: tool odd cannot be sent to forgetful: it is odd",)
