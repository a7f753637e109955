"""resources = true: two tools that list and read what a server has."""

import json

import pytest
from flexchat import FlexChat, Reply
from flexchat.plugin import ToolSourceError
from flexchat_cli.main import main
from flexchat_mcp.resources import LIST, MAX_LISTED, READ, resource_tools
from flexchat_mcp.settings import McpConfig
from flexchat_testing import ScriptedProvider, calls, says

from .conftest import MODERN_FIRST

pytestmark = pytest.mark.anyio


@pytest.fixture
def readable(chat_of):
    """Open a chat with the tools of a server that has resources."""
    return lambda era="both", *faults, **rest: chat_of(era, "readable", *faults, resources=True, **rest)


def tools_of(chat):
    return {tool.name: tool.effect for tool in chat.tools.sources.state("fake").tools}


@pytest.mark.quick
@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_what_a_server_has_is_listed_and_read(readable, era):
    chat = readable(era, prefix="f_")

    listed = await chat.call_tool("f_list_resources", {})
    read = await chat.call_tool("f_read_resource", {"uri": "note:///7"})

    assert listed.result == {
        "resources": [
            {"uri": "note:///0", "name": "note 0", "mimeType": "text/plain"},
            {"uri": "note:///1", "name": "note 1", "mimeType": "text/plain"},
        ],
        "templates": [{"uriTemplate": "note:///{n}", "name": "a note"}],
        "total": 3,
    }
    assert read.result == "a note\n\x1b[31mred"
    assert tools_of(chat) == {
        "f_add": "write",
        "f_count": "write",
        "f_list_resources": "read",
        "f_read_resource": "read",
    }


@pytest.mark.parametrize(
    ("uri", "result", "left_out"),
    [
        ("note:///picture", "", ("note:///picture (image/png, 5 bytes): left out, its data are not image/png",)),
        (
            "note:///both",
            "note:///both/1:\none\nnote:///both/2:",
            ("note:///both/2 (image/png, 5 bytes): left out, its data are not image/png",),
        ),
        ("note:///empty", "[note:///empty: it is empty]", ()),
    ],
)
async def test_several_contents_and_bytes_are_told_apart(readable, uri, result, left_out):
    """Bytes are media, checked as any tool's: these are not an image."""
    read = await readable().call_tool(READ, {"uri": uri})

    assert (read.result, read.media, read.left_out) == (result, (), left_out)


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_what_the_server_does_not_know_is_said_with_the_nearest_it_listed(readable, era):
    chat = readable(era)
    unlisted = await chat.call_tool(READ, {"uri": "missing:///x"})
    await chat.call_tool(LIST, {})
    found = await chat.call_tool(READ, {"uri": "missing note:///1"})

    code = {"modern": -32602, "handshake": -32002}[era]
    assert unlisted.error == f"the MCP server 'fake' cannot read it: Resource not found: missing:///x ({code})"
    assert found.error.endswith("(did you mean 'note:///1'?)")


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_other_refusals_and_lost_answers_are_those_of_every_call(readable, folder, era):
    """Reading is asked again, once."""
    chat = readable(era)
    folder.fault("refuse")
    refused = await chat.call_tool(READ, {"uri": "note:///1"})
    folder.fault("die")
    again = await chat.call_tool(READ, {"uri": "note:///1"})
    folder.fault("always die")
    lost = await chat.call_tool(READ, {"uri": "note:///1"})

    assert refused.error == "the MCP server 'fake' refused the call: the disk is gone (-32603)"
    assert again.success
    assert "did not answer: it ended with exit code 7" in lost.error
    assert lost.hint is None
    assert len(folder.lines("reads")) == 5


async def test_a_person_answers_what_a_server_asks_before_it_gives_something(readable, folder):
    chat = readable("modern")
    folder.fault("ask")

    def on_question(question):
        return Reply(action="accept", content={"seat": "aisle"})

    found = await chat.call_tool(READ, {"uri": "note:///1"}, on_question=on_question)

    assert found.result == '{"seat": "aisle"}'


@pytest.mark.parametrize("params", [{}, {"uri": ""}, {"uri": 7}, {"uri": "x" * 5000}])
async def test_what_is_no_uri_does_not_get_to_the_server(readable, folder, params):
    chat = readable()

    assert "Invalid parameters" in (await chat.call_tool(READ, params)).error
    assert folder.lines("reads") == []


async def test_a_long_list_comes_in_parts_and_can_be_searched(readable, folder):
    """Without what is for users only, and without characters that nobody sees."""
    many = [{"uri": f"a:///{n}", "name": f"n{n}", "description": f"d\u200b{n} " * 200} for n in range(120)]
    many[7]["annotations"] = {"audience": ["user"]}
    many[8]["annotations"] = {"audience": ["assistant"]}
    (folder.path / "resources.json").write_text(json.dumps(many))
    chat, uris, start = readable(), [], 0
    while start is not None:
        part = (await chat.call_tool(LIST, {"start": start})).result
        assert len(part["resources"]) + len(part["templates"]) <= MAX_LISTED
        uris += [one["uri"] for one in part["resources"]]
        start = part.get("next_start")
    found = (await chat.call_tool(LIST, {"find": "N11"})).result

    assert uris == [f"a:///{n}" for n in range(120) if n != 7]
    assert part["templates"] == [{"uriTemplate": "note:///{n}", "name": "a note"}]
    assert [one["uri"] for one in found["resources"]] == ["a:///11", *(f"a:///{n}" for n in range(110, 120))]
    assert (found["total"], found["resources"][0]["description"][:8], len(found["resources"][0]["description"])) == (
        11,
        "d11 d11 ",
        200,
    )
    assert (await chat.call_tool(LIST, {"start": 5_000})).result == {"resources": [], "templates": [], "total": 120}


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_a_list_without_end_ends(readable, era):
    found = (await readable(era, "endless resources").call_tool(LIST, {})).result

    assert found["total"] == 201
    assert found["next_start"] == MAX_LISTED


async def test_a_server_that_does_not_know_templates_has_none(readable):
    found = (await readable("both", "no templates").call_tool(LIST, {})).result

    assert (len(found["resources"]), found["templates"]) == (2, [])


async def test_a_server_without_resources_gives_no_such_tools(chat_of, caplog):
    chat = chat_of(resources=True)
    await chat.call_tool("add", {"a": 1})

    assert [*tools_of(chat)] == ["add", "count"]
    assert "tool source 'fake': resources = true has no effect: it has no resources" in caplog.text


async def test_a_server_of_resources_alone_is_a_source(source_of, folder):
    folder.tools()
    source = source_of("both", "readable", resources=True)

    assert [tool.name for tool in await source.tools()] == [LIST, READ]
    with pytest.raises(ToolSourceError, match="it has no tools"):
        await source_of("both", "readable").tools()


async def test_a_tool_of_the_server_with_that_name_goes_before_ours(readable, folder):
    own = {"name": READ, "description": "Read.", "inputSchema": {"type": "object"}}
    folder.tools(own)
    chat = readable()
    found = await chat.call_tool(READ, {})

    state = chat.tools.sources.state("fake")
    assert (found.error, folder.lines("reads")) == ("Unknown tool: read_resource", [])
    assert {tool.name: tool.description for tool in state.tools}[READ] == "Read."
    assert state.left_out == {READ: "the source has another tool of this name"}


async def test_what_is_accepted_does_not_depend_on_what_there_is_to_read(readable, folder):
    """They are kept, and offered without the server; what there is may change."""
    await readable().call_tool(LIST, {})
    lock = next(folder.path.glob("*.lock"))
    accepted = json.loads(lock.read_text())["sources"]["fake"]["tools"]
    (folder.path / "resources.json").write_text(json.dumps([{"uri": "new:///1", "name": "new"}]))
    chat = readable()
    offered = tools_of(chat)
    listed = (await chat.call_tool(LIST, {})).result
    state = await chat.tools.sources.look("fake")

    assert [*offered] == ["add", "count", LIST, READ]
    assert listed["resources"] == [{"uri": "new:///1", "name": "new"}]
    assert state.changes == ()
    assert accepted[READ]["implementation"]["resources"] is True
    assert accepted[READ]["effect"] == "read"


async def test_a_newer_wording_of_ours_is_still_called(source_of):
    """A new FlexChat may describe them otherwise: that is a change to accept, and no reason to stop."""
    source = source_of("both", "readable", resources=True)
    now = {tool.name: tool for tool in await source.tools()}
    (older,) = [tool for tool in resource_tools("other", McpConfig(command="x")) if tool.name == READ]

    assert older.digest != now[READ].digest
    assert source.still_callable(older, now[READ])
    assert not source.still_callable(older, now["add"])
    assert not source.still_callable(older, None)


async def test_a_config_that_no_longer_wants_them_does_not_call_them(readable, chat_of, folder):
    await readable().call_tool(LIST, {})
    chat = chat_of("both", "readable")
    found = await chat.call_tool(READ, {"uri": "note:///1"})
    await chat.tools.sources.look("fake")

    assert found.error == ("the MCP server 'fake' is configured without resources = true")
    assert [*tools_of(chat)] == ["add", "count"]


async def test_a_link_in_a_result_is_followed_and_a_long_text_read_on(folder):
    """In one turn: the link says its URI, and read_result reads what is too long to be shown."""
    text = "".join(f"line {n} é\n" for n in range(4000))
    folder.fault(json.dumps({"content": [{"type": "resource_link", "uri": "note:///large", "name": "the notes"}]}))

    def follow(messages, options):
        told = json.loads(messages[-1].content)["result"]
        return calls((READ, {"uri": told.partition(": ")[2]}))

    def read_on(messages, options):
        shown = json.loads(messages[-1].content)["result"]
        call = messages[-2].tool_calls[0]
        assert f'read_result(result="{call.id}", start=' in shown
        return calls(("read_result", {"result": call.id, "find": "line 2345 "}))

    model = ScriptedProvider([calls(("add", {"a": 1})), follow, read_on, says("done")])
    config = {
        "llms": {"s": {"provider": "scripted"}},
        "responses": [{"llm": "s", "model": "m", "tools": {"allowed_tools": ["fake/*", "read_result"]}}],
        "tools": {
            "registry": [{"name": "read_result"}],
            "mcp": [{"name": "fake", "command": folder.command("both", "readable"), "resources": True}],
            "lock": str(folder.path / "tools.lock"),
        },
    }
    async with FlexChat.from_config(config, providers={"s": model}) as chat:
        turn = await chat.respond("Read the notes.")

    (match,) = turn.tool_calls[-1].result.result["matches"]
    assert turn.tool_calls[1].result.result == text
    assert "line 2345 é\n" in match["text"]
    assert text.startswith(match["text"], match["start"])


def test_doctor_says_that_there_are_no_resources(folder, tmp_path, capfd):
    path = tmp_path / "chat.json"
    table = {"name": "fake", "command": folder.command(), "resources": True}
    rule = {"llm": "r", "model": "any"}
    path.write_text(
        json.dumps({"llms": {"r": {"provider": "rehearsal"}}, "responses": [rule], "tools": {"mcp": [table]}})
    )

    assert main(["mcp", "doctor", "--config", str(path)]) == 0
    assert "resources = true has no effect: it has no resources" in capfd.readouterr().out
