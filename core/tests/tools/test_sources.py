"""Tool sources where no plugin loads them: the chat works without, and each table names the package to install."""

import pytest
from flexchat import ConfigError, FlexChat
from flexchat.errors import UnknownToolSourceError
from flexchat.plugin import ToolSourceType
from flexchat.plugin.hookspecs import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat.tools.sources import ToolSources
from flexchat_testing import ScriptedProvider, says

pytestmark = pytest.mark.anyio


@pytest.fixture
def host():
    made = PluginHost(block=dict.fromkeys(("sdk", "mcp", "http"), "this test"))
    made.load_installed()
    return made


def chat_of(host, tools, allowed=(), **given):
    rule = {"llm": "bot", "model": "m", "tools": {"allowed_tools": [*allowed]} if allowed else {"enabled": True}}
    config = {"llms": {"bot": {"provider": "scripted"}}, "tools": tools, "responses": [rule]}
    model = {"bot": ScriptedProvider([says("Hello.")])}
    return FlexChat.from_config(config, plugins=host, providers=model, **given)


@pytest.mark.parametrize(
    ("tools", "place", "texts"),
    [
        ({"listed": [{"file": "a.json"}]}, "tools.listed", ["no plugin loads tool sources", "sdk"]),
        ({"mcp": [{"command": ["x"]}]}, "tools.mcp", ["no tool source is called 'mcp'"]),
        ({"efects": {"store": "memory"}}, "tools.efects", ["did you mean 'effects'?"]),
    ],
    ids=["a type that is installed", "one that is not", "a misspelt key"],
)
def test_a_table_without_a_loader_is_an_error_with_the_remedy(host, tools, place, texts):
    with pytest.raises(ConfigError) as raised:
        chat_of(host, tools)

    (problem,) = raised.value.problems
    assert problem.path == place
    assert all(text in problem.text for text in texts)


def test_core_alone_names_the_package():
    """Nothing is installed: neither the types of sources nor what loads them."""
    host = PluginHost()

    class Types:
        @hookimpl
        def flexchat_register_tool_sources(self):
            """Offer one."""

            async def open_it(config, context):
                raise AssertionError

            yield ToolSourceType(name="own", config_class=int, open=open_it)

    host.register(Types(), "types")
    tables = {"own": [{}], "mcp": [{}], "openapi": [{}]}
    with pytest.raises(ConfigError) as raised:
        chat_of(host, tables)

    texts = {problem.path: problem.text for problem in raised.value.problems if problem.path.startswith("tools.")}
    packages = {"tools.own": "flexchat-sdk", "tools.mcp": "flexchat-mcp", "tools.openapi": "flexchat-http"}
    assert {
        path: package for path, package in packages.items() if f"it comes with the package {package}:" in texts[path]
    } == packages


def test_sources_given_in_code_need_a_loader(host):
    async def open_it(context):
        raise AssertionError

    with pytest.raises(ConfigError, match="no plugin loads tool sources"):
        chat_of(host, {}, ["own/*"], sources={"own": open_it})


def test_a_rule_that_names_a_source_is_an_error_without_a_loader(host):
    with pytest.raises(ConfigError, match="no tool source is called 'shop'"):
        chat_of(host, {}, ["shop/*"])


async def test_a_chat_without_sources_needs_no_loader(host):
    async with chat_of(host, {}) as chat:
        assert (await chat.respond("Hi")).content == "Hello."
        assert not (await chat.call_tool("find", {})).success


async def test_no_sources_have_no_states():
    none = ToolSources()

    assert (none.states(), none.missing(), [*none.notes()], none.trouble) == ([], [], [], "")
    assert await none.find("x") is None
    for use in (none.look, none.restart, none.review, none.accept):
        with pytest.raises(UnknownToolSourceError, match="configured: none"):
            await use("shop")
    for use in (none.state, none.others):
        with pytest.raises(UnknownToolSourceError, match="configured: none"):
            use("shop")
