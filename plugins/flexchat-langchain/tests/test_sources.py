"""Two tool sources with a tool of the same name: a tool's identity is its source and its name."""

import pytest
from flexchat import FlexChat, ToolClashError
from flexchat.errors import UnknownNameError
from flexchat.plugin import hookimpl
from flexchat.plugin.host import PluginHost
from flexchat_langchain.client import LangChainClient
from flexchat_langchain.model import FlexChatModel
from flexchat_langchain.tools import langchain_tools
from flexchat_testing import ScriptedProvider, ScriptedSource, calls, says, sourced
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage

TWO = """
[llms.bot]
provider = "scripted"

[[tools.scripted]]
name = "one"

[[tools.scripted]]
name = "two"

[[responses]]
llm = "bot"
model = "m"
match = { topic = "one" }
tools = { allowed_tools = ["one/*"] }

[[responses]]
llm = "bot"
model = "m"
tools = { allowed_tools = ["two/*"] }
"""


class Gate:
    """Records the sources of the tools that run."""

    def __init__(self):
        self.ran = []

    @hookimpl
    def flexchat_before_tool_call(self, tool):
        self.ran.append(tool.source)


@pytest.fixture
def gate():
    return Gate()


def reply(messages, options):
    """Answer the topic's request without tools, and call ``act`` where it is offered."""
    return says("done") if messages[-1].role == "tool" or not options.tools else calls(("act", {}))


@pytest.fixture
async def two(tmp_path, gate):
    """A chat with two open sources that both have a tool ``act``."""
    plugins = PluginHost()
    plugins.load_installed()
    assert plugins.register(ScriptedSource([sourced("act")]), "source").status == "active"
    path = tmp_path / "flexchat.toml"
    path.write_text(TWO)
    model = ScriptedProvider([reply], repeat=True)
    async with FlexChat.from_config(path, plugins=plugins, providers={"bot": model}, hooks=[gate]) as chat:
        for rule in chat.config.responses:
            await chat.tools.ready_for(rule)
        yield chat


class Calling(GenericFakeChatModel):
    """Calls ``act`` once."""

    def bind_tools(self, tools, **kwargs):
        assert [tool["function"]["name"] for tool in tools] == ["act"]
        return self


def calling():
    call = {"type": "tool_call", "id": "c1", "name": "act", "args": {}}
    return Calling(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("done")]))


@pytest.mark.parametrize("source", ["one", "two"])
async def test_an_exported_tool_is_that_of_its_source(two, gate, source):
    (exported,) = langchain_tools(two, [f"{source}/*"])

    await exported.ainvoke({})

    assert gate.ran == [source]


@pytest.mark.parametrize("source", ["one", "two"])
async def test_a_client_runs_the_tool_it_offered(two, gate, source):
    answer = await LangChainClient(two, calling()).send("Act.", tools=[f"{source}/*"])

    assert gate.ran == [source]
    assert [record.result.success for record in answer.tool_calls] == [True]


async def test_two_tools_of_one_name_are_never_offered_together(two):
    for names in (None, ["one/*", "two/*"], ["act"]):
        with pytest.raises(ToolClashError, match="prefix"):
            langchain_tools(two, names)
        with pytest.raises(ToolClashError, match="prefix"):
            await LangChainClient(two, calling()).send("Act.", tools=names)


async def test_an_unknown_source_is_named(two):
    with pytest.raises(UnknownNameError, match="no tool is called 'three/"):
        langchain_tools(two, ["three/*"])


async def test_a_model_with_bound_tools_keeps_those_of_its_rule(two, gate):
    """The caller's tools are added to the rule's offer, not to all tools."""
    bound = {"name": "ask", "description": "Ask.", "parameters": {"type": "object", "properties": {}}}

    answer = await FlexChatModel(chat=two).bind_tools([bound]).ainvoke([HumanMessage("Act.")])

    assert answer.text == "done"
    assert gate.ran == ["two"]


@pytest.mark.parametrize(("bound", "ran"), [("act", []), ("ask", ["two"])])
async def test_a_call_is_the_callers_only_for_a_tool_of_the_caller(two, gate, bound, ran):
    """Two sources have a tool ``act``, and the caller may have one: it takes the place of the rule's."""
    own = {"name": bound, "description": "Of the caller.", "parameters": {"type": "object", "properties": {}}}

    answer = await FlexChatModel(chat=two).bind_tools([own]).ainvoke([HumanMessage("Act.")])

    assert gate.ran == ran
    assert [call["name"] for call in answer.tool_calls] == ([] if ran else ["act"])
