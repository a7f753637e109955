"""Every way to call a tool goes through the one list of steps, and a way past it fails here."""

import ast
import asyncio
import contextlib
import json
from pathlib import Path
from typing import get_args

import httpx
import pytest
from flexchat import FlexChat, SyncFlexChat, ToolResult, tool
from flexchat.plugin import ToolContext, hookimpl
from flexchat.plugin.call import STAGES, Call, Origin, PluginStep
from flexchat.plugin.host import PluginHost
from flexchat_cli.main import main
from flexchat_langchain.client import LangChainClient
from flexchat_langchain.model import FlexChatModel
from flexchat_langchain.tools import langchain_tools
from flexchat_mcp.serve.server import McpServer
from flexchat_mcp.serve.settings import McpServerConfig
from flexchat_testing import ScriptedProvider, calls, says
from flexchat_validation.attempting import attempt_case
from flexchat_validation.attempts import ModelKey
from flexchat_validation.cases import Case, ExpectedCall, ValidationTable
from flexchat_web.app import create_app
from flexchat_web.serving import Settings
from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage
from mcp import Client

ROOT = Path(__file__).resolve().parents[2]
SOURCES = [path for folder in ("core", "plugins/*", "flexchat-*") for path in ROOT.glob(f"{folder}/src/**/*.py")]
TABLES = {
    "llms": {"bot": {"provider": "rehearsal"}},
    "tools": {"registry": [{"name": "calculator"}]},
    "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
}
QUESTION = "What is 12.5 * 8?"
EXPRESSION = {"expression": "12.5 * 8"}


class Standing:
    """A step that notes who comes by, and refuses where it is told to."""

    def __init__(self, stage, seen):
        self.name, self.stage, self.seen, self.refuses = f"standing at {stage}", stage, seen, False

    async def __call__(self, call, rest):
        self.seen.append((self.stage, call.origin, call.name))
        return ToolResult.failed(call.name, "refused in a test") if self.refuses else await rest()


class Watchmen:
    """A plugin with such a step at every stage that plugins have."""

    def __init__(self):
        self.seen = []
        self.steps = {stage: Standing(stage, self.seen) for stage in STAGES if stage != "run"}

    @hookimpl
    def flexchat_register_steps(self):
        yield from self.steps.values()


@pytest.fixture(scope="module")
def watched():
    """The watchmen, and the installed plugins with them; loaded once."""
    host, watchmen = PluginHost(), Watchmen()
    host.load_installed()
    assert host.register(watchmen, "watchmen").status == "active"
    return watchmen, host


def chat_of(host, *replies, tools=()):
    providers = {"bot": ScriptedProvider(replies)} if replies else {}
    return FlexChat.from_config(TABLES, plugins=host, providers=providers, tools=tools)


def scripted(host):
    return chat_of(host, calls(("calculator", EXPRESSION)), says("Done."))


async def a_model(host):
    await scripted(host).respond("x")


async def a_model_streamed(host):
    async for _ in scripted(host).stream("x"):
        pass


async def the_page(host):
    await post(host, "/chat/api", {"prompt": QUESTION})


async def v1(host):
    await post(host, "/v1/chat/completions", {"model": "bot/m", "messages": [{"role": "user", "content": QUESTION}]})


async def validation(host):
    case = Case(name="sum", message=QUESTION, calls=(ExpectedCall(tool="calculator"),))
    await attempt_case(chat_of(host), "bot/m", case, ValidationTable(), key=ModelKey(model_id="bot/m"))


async def a_chat_model_for_langchain(host):
    await FlexChatModel(chat=scripted(host)).ainvoke("x")


async def a_program(host):
    await chat_of(host).call_tool("calculator", EXPRESSION)


async def a_program_without_a_loop(host):
    def run():
        with SyncFlexChat(chat_of(host)) as chat:
            chat.call_tool("calculator", EXPRESSION)

    await asyncio.to_thread(run)


async def the_executor(host):
    await chat_of(host).tools.get_executor().execute("calculator", EXPRESSION)


async def another_tool(host):
    @tool
    async def outer(context: ToolContext) -> str:
        """Call the calculator."""
        await context.call_tool("calculator", EXPRESSION)
        return "x"

    chat = chat_of(host, tools=[outer])
    context = ToolContext(tool=chat.tools.get_registry().get("outer"), made_for=under_way(chat))
    await outer.function(context)


def under_way(chat):
    call = Call(name="outer", arguments={}, origin="program")
    call.runner = chat.tools.calls
    return call


async def post(host, path, body):
    app = create_app(TABLES, plugins=host, settings=Settings(), watch=False)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        answer = await client.post(path, json=body)
    await app.aclose()
    assert answer.status_code == 200, answer.text


async def the_api(host):
    await post(host, "/api/tools/call", {"name": "calculator", "arguments": EXPRESSION})


async def a_tool_for_langchain(host):
    [exported] = langchain_tools(chat_of(host), ["calculator"])
    await exported.ainvoke({"type": "tool_call", "id": "1", "name": "calculator", "args": EXPRESSION})


class Model(FakeMessagesListChatModel):
    """A chat model of LangChain's that takes tools."""

    def bind_tools(self, tools, **rest):
        return self


async def a_client_of_langchain(host):
    asked = AIMessage("", tool_calls=[{"name": "calculator", "args": EXPRESSION, "id": "1"}])
    await LangChainClient(chat_of(host), Model(responses=[asked, AIMessage("Done.")])).send("x")


async def an_mcp_client(host):
    chat = chat_of(host)
    served = McpServer(lambda: contextlib.nullcontext(chat), McpServerConfig())
    async with Client(served.server) as client:
        await client.call_tool("calculator", EXPRESSION)


async def the_command_line(host):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flexchat.assembly.installed_plugins", lambda *_: host)
        await asyncio.to_thread(main, ["tools", "call", "calculator", json.dumps(EXPRESSION)])


WAYS = {
    a_model: "model",
    a_model_streamed: "model",
    the_page: "model",
    v1: "model",
    validation: "model",
    a_chat_model_for_langchain: "model",
    a_program: "program",
    a_program_without_a_loop: "program",
    the_executor: "program",
    another_tool: "tool",
    the_api: "api",
    a_tool_for_langchain: "langchain",
    a_client_of_langchain: "langchain",
    an_mcp_client: "mcp",
    the_command_line: "command line",
}
"""Every way to call a tool, and the origin its calls have. A new way is a new line."""


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_every_way_meets_every_step(way, watched, capsys):
    """A step sees all calls, whoever makes them, and a refusal at any stage ends them there."""
    watchmen, host = watched
    stages = [*watchmen.steps]
    for count, stage in enumerate(stages, 1):
        watchmen.seen.clear()
        watchmen.steps[stage].refuses = True
        try:
            await way(host)
        finally:
            watchmen.steps[stage].refuses = False

        assert list(dict.fromkeys(seen[0] for seen in watchmen.seen)) == stages[:count]
        assert {seen[1:] for seen in watchmen.seen} == {(WAYS[way], "calculator")}


@pytest.fixture(scope="module")
def calls_in_the_code():
    """Each call of a function in all sources, with its file; those that could not matter are not parsed."""
    texts = {path: path.read_text() for path in SOURCES}
    trees = {path: ast.parse(text) for path, text in texts.items() if "origin=" in text or ".run(" in text}
    return [(path, node) for path, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]


def test_every_origin_has_a_way(calls_in_the_code):
    """What the code calls itself where it calls a tool is one of the ways above."""
    used = {
        keyword.value.value
        for _, node in calls_in_the_code
        for keyword in node.keywords
        if keyword.arg == "origin" and isinstance(keyword.value, ast.Constant) and node_makes_a_call(node)
    }
    assert used <= {*WAYS.values()}
    assert {*get_args(Origin)} == {*WAYS.values()}


def node_makes_a_call(node):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return name in ("Call", "call_tool", "ToolLoop")


def test_a_tool_is_run_in_one_place(calls_in_the_code):
    """An ImplementationType's run(settings, params, context) is awaited by the innermost step alone."""
    found = [
        str(path.relative_to(ROOT))
        for path, node in calls_in_the_code
        if "flexchat_testing/laws" not in str(path)  # the kit tries a type by itself
        if isinstance(node.func, ast.Attribute) and node.func.attr == "run"
        if "implementation" in ast.unparse(node.func) or ast.unparse(node).endswith("context)")
    ]
    assert found == ["core/src/flexchat/calls/steps.py"]


def test_the_list_is_in_order(watched):
    """The steps of core and of plugins stand in the order of the stages; each stage has one at least."""
    _, host = watched
    chat = chat_of(host, says("ok"))
    steps = [step.step if isinstance(step, PluginStep) else step for step in chat.tools.calls.steps]
    stages = [step.stage for step in steps]
    assert stages == sorted(stages, key=STAGES.index)
    assert set(stages) == set(STAGES)
