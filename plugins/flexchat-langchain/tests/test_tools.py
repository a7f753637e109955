"""FlexChat's tools in LangChain, and LangChain's in FlexChat."""

import asyncio
import base64
import json
import logging
import threading
from typing import Annotated

import pytest
from flexchat import ChatClosedError, ConfigError, FlexChat, SyncFlexChat, ToolDefinition, ToolResult, tool
from flexchat.assembly import installed_plugins
from flexchat.host import ToolDefinitionError, UnknownNameError
from flexchat.plugin import Implementation, hookimpl
from flexchat_langchain.tools import flexchat_tool, langchain_tools
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, Tool, ToolException
from langchain_core.tools import tool as lc_tool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.types import Command
from pydantic import BaseModel, Field

CONFIG = {
    "llms": {"it": {"provider": "rehearsal", "default_model": "m"}},
    "responses": [{"llm": "it"}],
    "tools": {"max_result_chars": 200},
}
SAYS = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


@tool
def add(a: int, b: int) -> dict:
    """Add two numbers."""
    return {"sum": a + b}


@tool
def fail(text: str) -> str:
    """Fail with a text."""
    raise ValueError(text)


@tool(timeout_ms=20)
async def hang() -> str:
    """Take too long."""
    await asyncio.sleep(20)
    return "never"


@tool
def long() -> str:
    """Say much."""
    return "x" * 1000


def call(name, args, id="c1"):
    return {"type": "tool_call", "id": id, "name": name, "args": args}


@pytest.fixture(scope="module")
def plugins():
    return installed_plugins()


@pytest.fixture
def chat_of(plugins):
    """Put together a chat with these tools; it is closed with the test."""
    made = []

    def put_together(*tools, config=CONFIG, plugins=plugins):
        made.append(SyncFlexChat.from_config(config, tools=tools, plugins=plugins))
        return made[-1]

    yield put_together
    for chat in made:
        chat.close()


@pytest.fixture
def exported(chat_of):
    def put_together(*tools, **rest):
        return {t.name: t for t in langchain_tools(chat_of(*tools, **rest))}

    return put_together


def test_a_tool_is_told_as_it_is_defined(exported):
    """Name, description and the whole schema."""
    schema = convert_to_openai_tool(exported(add)["add"])["function"]
    assert (schema["name"], schema["description"]) == ("add", "Add two numbers.")
    assert schema["parameters"] == {**add.definition.parameters}


def test_a_call_returns_text_and_the_whole_result(exported):
    """Objects become JSON text; the artifact is the executor's result (LC-5, LC-9)."""
    message = exported(add)["add"].invoke(call("add", {"a": 1, "b": 2}))
    assert (message.content, message.status, message.tool_call_id) == ('{"sum": 3}', "success", "c1")
    assert message.artifact["result"] == {"sum": 3}
    assert message.artifact["success"] is True


def test_of_an_mcp_pair_the_model_reads_the_text(exported):
    """And the artifact is the pair's own (LC-8)."""

    @tool
    def pair() -> list:
        """Return text and artifacts."""
        return ["Rome", [{"type": "image", "data": "aGk="}]]

    message = exported(pair)["pair"].invoke(call("pair", {}))
    assert (message.content, message.artifact) == ("Rome", [{"type": "image", "data": "aGk="}])


def test_without_a_call_the_content_alone_comes_back(exported):
    assert exported(add)["add"].invoke({"a": 1, "b": 2}) == '{"sum": 3}'


@pytest.mark.parametrize(
    ("args", "problem"),
    [({"a": 1}, "b"), ({"a": "one", "b": 2}, "a"), ({}, "a"), ({"a": 1, "b": None}, "b")],
)
def test_arguments_are_checked_against_the_schema(exported, args, problem):
    """LangChain does not check them where a schema is JSON: FlexChat does, in its words."""
    message = exported(add)["add"].invoke(call("add", args))
    assert message.status == "error"
    assert message.content.startswith("Error: Invalid parameters: ")
    assert problem in message.content


async def test_a_tool_has_its_time(exported):
    message = await exported(hang)["hang"].ainvoke(call("hang", {}))
    assert message.status == "error"
    assert message.content.startswith("Error: Tool execution timed out after 20ms (it is unknown whether 'hang' took")


def test_what_a_tool_raises_is_an_error_without_secrets(exported):
    """The message is "Error: MESSAGE", with the id of the call (LC-14, C18)."""
    message = exported(fail)["fail"].invoke(call("fail", {"text": "no: password=hunter2hunter2"}))
    assert (message.content, message.status, message.tool_call_id) == ("Error: no: password=***", "error", "c1")


def test_errors_can_be_had_as_exceptions(exported):
    lc = exported(fail)["fail"]
    lc.handle_tool_error = False
    with pytest.raises(ToolException, match="Error: gone"):
        lc.invoke({"text": "gone"})


def test_a_long_result_is_cut_for_the_model_alone(exported):
    message = exported(long)["long"].invoke(call("long", {}))
    assert len(message.content) < 300
    assert "800 of 1,000 characters left out" in message.content
    assert message.artifact["result"] == "x" * 1000


def test_plugins_are_asked_and_told_with_the_id_of_the_call(exported):
    """A call goes through the executor's hooks; LangChain's id is the call's."""
    heard = []

    class Watching:
        @hookimpl
        def flexchat_before_tool_call(self, call_id, tool, params):
            heard.append(("before", call_id, dict(params)))
            return ToolResult.failed(tool.name, "a person must do this") if params["a"] == 13 else None

        @hookimpl
        def flexchat_tool_finished(self, record):
            heard.append(("after", record.call_id, record.result.success))

    host = installed_plugins()
    host.register(Watching(), "watching")
    lc = exported(add, plugins=host)["add"]
    lc.invoke(call("add", {"a": 1, "b": 2}, "call-7"))
    assert heard == [("before", "call-7", {"a": 1, "b": 2}), ("after", "call-7", True)]
    assert lc.invoke(call("add", {"a": 13, "b": 2})).content == "Error: a person must do this"


async def test_a_plain_call_inside_a_running_loop_works(exported):
    assert exported(add)["add"].invoke({"a": 1, "b": 2}) == '{"sum": 3}'


async def test_a_flexchat_runs_on_the_loop_of_its_async_callers(plugins):
    """And for plain callers on one of its own."""

    @tool
    async def where() -> bool:
        """Say whether this is the caller's loop."""
        return asyncio.get_running_loop() is here

    here = asyncio.get_running_loop()
    async with FlexChat.from_config(CONFIG, tools=[where], plugins=plugins) as chat:
        (lc,) = langchain_tools(chat)
        assert (await lc.ainvoke({}), lc.invoke({})) == ("true", "false")


async def test_calls_run_side_by_side(exported):
    """Two that wait for each other come to an end."""
    meeting = threading.Barrier(2, timeout=5)

    @tool
    def meet(who: str) -> str:
        """Wait for the other one."""
        meeting.wait()
        return who

    lc = exported(meet)["meet"]
    assert await asyncio.gather(*(lc.ainvoke({"who": who}) for who in "ab")) == ["a", "b"]
    assert lc.batch([{"who": "c"}, {"who": "d"}]) == ["c", "d"]


async def test_an_exclusive_tool_runs_alone(exported):
    running, most = 0, 0

    async def body():
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return most

    @tool(exclusive=True)
    async def alone() -> int:
        """Run alone."""
        return await body()

    @tool
    async def shared() -> int:
        """Run beside others."""
        return await body()

    tools = exported(alone, shared)
    await asyncio.gather(*(tools["alone"].ainvoke({}) for _ in range(5)), tools["shared"].ainvoke({}))
    assert most == 1
    await asyncio.gather(*(tools["shared"].ainvoke({}) for _ in range(3)))
    assert most == 3


async def test_a_cancelled_call_ends_and_leaves_its_place(exported):
    ended = threading.Event()

    @tool(exclusive=True)
    async def wait(long: bool) -> str:
        """Wait until cancelled."""
        try:
            await asyncio.sleep(20 if long else 0)
        finally:
            ended.set()
        return "done"

    lc = exported(wait)["wait"]
    task = asyncio.create_task(lc.ainvoke({"long": True}))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(ended.wait, 5)
    assert await lc.ainvoke({"long": False}) == "done"


@pytest.mark.parametrize("name", ["self", "config", "run_manager", "params", "call_id", "callbacks", "tool_input"])
def test_a_parameter_may_have_any_name(exported, name):
    schema = {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}
    echo = ToolDefinition(
        name="echo",
        description="Echo.",
        parameters=schema,
        implementation=Implementation(type="mock", settings={"mock_response": "heard"}),
    )
    lc = exported(echo)["echo"]
    assert lc.invoke(call("echo", {name: 1})).content == "heard"
    assert lc.invoke(call("echo", {name: "x"})).status == "error"


def test_a_text_is_no_input(exported):
    with pytest.raises(ValueError, match="String tool inputs are not allowed"):
        exported(add)["add"].invoke("1 + 2")


def test_a_tool_has_the_name_that_models_services_take(exported):
    """It still runs under its own."""
    how = Implementation(type="mock", settings={"mock_response": "heard"})
    dotted = ToolDefinition(name="math/add.two", description="Add.", parameters=SAYS, implementation=how)
    (lc,) = exported(dotted).values()
    assert (lc.name, lc.metadata["flexchat_tool"]) == ("math_add_two", "math/add.two")
    assert lc.invoke(call(lc.name, {"text": "x"})).artifact["tool_name"] == "math/add.two"


def test_tools_can_be_chosen_by_name(chat_of):
    chat = chat_of(add, long)
    assert [t.name for t in langchain_tools(chat, ["long"])] == ["long"]
    with pytest.raises(UnknownNameError, match=r"no tool is called 'ad' \(did you mean 'add'\?\)"):
        langchain_tools(chat, ["ad"])


def test_a_configuration_alone_is_enough():
    """It is closed when the program ends."""
    (lc,) = langchain_tools({**CONFIG, "tools": {"registry": [{"name": "calculator"}]}})
    assert json.loads(lc.invoke({"expression": "2 + 3"}))["result"] == 5
    lc._running.close()


async def test_a_closed_chat_says_so(exported, chat_of):
    chat = chat_of(add)
    (lc,) = langchain_tools(chat)
    chat.close()
    with pytest.raises(ChatClosedError, match="is closed"):
        lc.invoke({"a": 1, "b": 2})
    with pytest.raises(ChatClosedError, match="is closed"):
        await lc.ainvoke({"a": 1, "b": 2})


# LangChain's tools in FlexChat


def run(chat, name, params):
    return chat.call_tool(name, params)


def test_a_langchain_tool_is_told_by_its_tool_call_schema(chat_of):
    """Injected arguments are not shown, and the schema is checked by FlexChat."""

    @lc_tool
    def book(
        nights: Annotated[int, Field(ge=1, description="How many.")],
        id: Annotated[str, InjectedToolCallId],
        user: Annotated[str, InjectedToolArg],
    ) -> str:
        """Book a room."""
        return f"{nights} nights for {user}, booked by {id}"

    definition = flexchat_tool(book, injected={"user": "u1"}, effect="idempotent", timeout_ms=500)
    assert (definition.name, definition.description) == ("book", "Book a room.")
    assert (definition.effect, definition.timeout_ms) == ("idempotent", 500)
    assert [*definition.parameters["properties"]] == ["nights"]
    chat = chat_of(definition)
    assert run(chat, "book", {"nights": 0}).error.startswith("Invalid parameters: ")
    assert run(chat, "book", {"nights": 2}).result.startswith("2 nights for u1, booked by call")


def test_a_tool_call_id_is_the_calls_own(exported):
    """FlexChat's id of a call reaches InjectedToolCallId, here on the way through both directions."""

    @lc_tool
    def whose(id: Annotated[str, InjectedToolCallId]) -> str:
        """Say the id."""
        return id

    assert exported(flexchat_tool(whose))["whose"].invoke(call("whose", {}, "c-42")).content == "c-42"


def test_a_langchain_tools_failures_are_failures(chat_of):
    @lc_tool
    def refuse() -> str:
        """Refuse."""
        raise ToolException("not today")

    @lc_tool
    def crash() -> str:
        """Crash."""
        raise OSError("disk gone, token=abcdef123456")

    handled = StructuredTool.from_function(refuse.func, name="handled", description="H.", handle_tool_error=True)
    chat = chat_of(*map(flexchat_tool, (refuse, crash, handled)))
    assert [run(chat, name, {}).error for name in ("refuse", "crash", "handled")] == [
        "not today",
        "disk gone, token=***",
        "not today",
    ]


def test_a_blocking_tool_runs_in_a_thread_and_has_its_time(chat_of):
    freed = threading.Event()

    @lc_tool
    def block() -> str:
        """Block."""
        freed.wait(60)
        return "late"

    result = run(chat_of(flexchat_tool(block, timeout_ms=20)), "block", {})
    freed.set()
    assert result.error == "Tool execution timed out after 20ms"
    assert result.hint.startswith("it may still be running; it is unknown whether 'block' took effect")


async def test_an_async_tool_runs_on_the_loop(plugins):
    threads = []

    async def where() -> str:
        threads.append(threading.current_thread())
        return "here"

    class Mine(BaseTool):
        name: str = "mine"
        description: str = "Mine."

        def _run(self):
            raise AssertionError("it has a coroutine")

        async def _arun(self):
            return await where()

    wrapped = StructuredTool.from_function(coroutine=where, name="wrapped", description="W.")
    async with FlexChat.from_config(
        CONFIG, tools=[flexchat_tool(wrapped), flexchat_tool(Mine())], plugins=plugins
    ) as chat:
        assert [(await chat.call_tool(n, {})).result for n in ("wrapped", "mine")] == ["here", "here"]
    assert set(threads) == {threading.current_thread()}


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("text", "text"),
        ({"a": [1]}, '{"a": [1]}'),
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ([{"type": "image", "url": "x"}], [{"type": "image", "url": "x"}]),
        ([{"type": "image", "base64": "?", "mime_type": "x"}], [{"type": "image", "base64": "?", "mime_type": "x"}]),
        (None, "null"),
        (3, "3"),
    ],
)
def test_what_a_langchain_tool_returns_is_what_its_message_says(chat_of, returned, expected):
    """LC-7 to LC-9: results are normalised to text."""
    lc = StructuredTool.from_function(lambda: returned, name="give", description="Give.")
    assert run(chat_of(flexchat_tool(lc)), "give", {}).result == expected


def test_a_pair_of_text_and_artifact_is_its_text(chat_of):
    """What an MCP adapter returns is reduced to the text (LC-8)."""
    lc = StructuredTool.from_function(
        lambda: ("text", object()), name="pair", description="P.", response_format="content_and_artifact"
    )
    assert run(chat_of(flexchat_tool(lc)), "pair", {}).result == "text"


def test_what_only_langgraph_can_use_is_an_error(chat_of):
    lc = StructuredTool.from_function(lambda: Command(goto="x"), name="go", description="G.")
    assert run(chat_of(flexchat_tool(lc)), "go", {}).error == (
        "the tool returned a Command, which only LangGraph can use"
    )


def test_a_tool_of_one_text_and_a_json_schema_work_too(chat_of):
    single = Tool(name="upper", description="Upper case.", func=str.upper)
    schema = StructuredTool.from_function(lambda text: text, name="say", description="Say.", args_schema=SAYS)
    chat = chat_of(flexchat_tool(single), flexchat_tool(schema))
    (name,) = chat.chat.tools.get_registry().get("upper").parameters["properties"]
    assert run(chat, "upper", {name: "loud"}).result == "LOUD"
    assert run(chat, "say", {"text": "hi"}).result == "hi"
    assert not run(chat, "say", {}).success


def test_a_class_of_its_own_is_checked_in_full(chat_of):
    class Stay(BaseModel):
        nights: int = 1
        guests: list[str] = Field(min_length=1)

    lc = StructuredTool.from_function(
        lambda nights, guests: f"{nights} {guests}", name="stay", description="Stay.", args_schema=Stay
    )
    chat = chat_of(flexchat_tool(lc))
    assert run(chat, "stay", {"guests": ["a"]}).result == "1 ['a']"
    assert "guests" in run(chat, "stay", {"guests": []}).error


def test_return_direct_is_told(caplog):
    lc = StructuredTool.from_function(lambda: "x", name="direct", description="D.", return_direct=True)
    with caplog.at_level(logging.WARNING):
        flexchat_tool(lc)
    assert "tool direct: return_direct is not kept" in caplog.text


def test_what_is_no_tool_is_refused():
    with pytest.raises(ToolDefinitionError, match="must be a BaseTool, not function"):
        flexchat_tool(lambda: None)
    with pytest.raises(ToolDefinitionError, match="Tool name 'two words' must be"):
        flexchat_tool(StructuredTool.from_function(lambda: 1, name="two words", description="x"))


def test_a_file_cannot_name_a_langchain_tool():
    """Only code can bring one."""
    entry = {
        "name": "x",
        "description": "x",
        "parameters": SAYS,
        "implementation": {"type": "langchain", "tool": "os:x"},
    }
    with pytest.raises(ConfigError, match="given in code"):
        FlexChat.from_config({**CONFIG, "tools": {"registry": [entry]}})


def test_there_and_back_a_tool_does_the_same(chat_of, exported):
    """FlexChat's tool, as LangChain's, as FlexChat's."""
    there = exported(add)["add"]
    back = flexchat_tool(there)
    assert {**back.parameters} == {**add.definition.parameters}
    chat = chat_of(back)
    assert run(chat, "add", {"a": 1, "b": 2}).result == '{"sum": 3}'
    assert run(chat, "add", {"a": 1}).error.startswith("Invalid parameters: ")


PNG = "iVBORw0KGgo="
PICTURE = {"type": "image", "base64": PNG, "mime_type": "image/png"}


def test_an_image_of_a_langchain_tool_is_part_of_its_result(chat_of):
    """Beside what else its message says."""

    def look():
        """Look."""
        return [{"type": "text", "text": "a dot"}, PICTURE]

    found = run(chat_of(flexchat_tool(StructuredTool.from_function(look))), "look", {})

    assert (found.success, found.result, found.left_out) == (True, "a dot", ())
    assert [(part.mime_type, part.data) for part in found.media] == [("image/png", base64.b64decode(PNG))]
