"""Servers that others wrote, in environments of their own: listed, called, questioned, cancelled, killed."""

import asyncio
import json
from pathlib import Path

import pytest
from flexchat import FlexChat, Reply
from flexchat_cli.main import main
from flexchat_testing.scripted import ScriptedProvider, calls, says
from mcp_real import SERVERS, filled, table_of

from .conftest import gone, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture
def folder(tmp_path):
    """A folder with a Git repository and what else the servers look at."""
    return filled(tmp_path / "work")


@pytest.fixture
async def page():
    """The address of a page on this machine."""
    body = b"<!doctype html><title>x</title><main><p>Hello from a page of this machine.</p></main>"

    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


@pytest.fixture
def table(installed, folder):
    """Return the table of a server."""
    return lambda name: table_of(installed, folder, name)


def written(path: Path, table: dict) -> Path:
    """Write a configuration with one server."""
    rule = {"llm": "r", "model": "any", "tools": {"allowed_tools": [f"{table['name']}/*"]}}
    config = {"llms": {"r": {"provider": "rehearsal"}}, "responses": [rule], "tools": {"mcp": [table]}}
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_is_listed_called_refused_and_killed(table, folder, page, tmp_path, name):
    real = SERVERS[name]

    def full(arguments):
        return json.loads(json.dumps(arguments).replace("{folder}", str(folder)).replace("{page}", page))

    async with FlexChat.from_config(written(tmp_path / "chat.json", table(name))) as chat:
        good = await chat.call_tool(real.good[0], full(real.good[1]))
        wrong = await chat.call_tool(real.wrong[0], full(real.wrong[1]))
        server = chat.tools.sources.by_name[name]._source.server
        first = server._connection.process.process
        first.kill()
        again = await chat.call_tool(real.good[0], full(real.good[1]))
        second = server._connection.process.process

    assert good.success, good.error
    assert real.good[2] in json.dumps(good.result)
    assert not wrong.success
    assert real.wrong[2] in wrong.error
    assert len(chat.tools.sources.state(name).tools) == real.tools
    assert again.success, again.error
    assert gone([first.pid, second.pid])


@pytest.mark.parametrize("name", SERVERS)
async def test_a_call_is_cancelled_as_soon_as_it_is_sent(table, folder, page, tmp_path, name):
    tool, arguments, word = SERVERS[name].good
    arguments = json.loads(json.dumps(arguments).replace("{folder}", str(folder)).replace("{page}", page))
    async with FlexChat.from_config(written(tmp_path / "chat.json", table(name))) as chat:
        await chat.call_tool(tool, arguments)
        server = chat.tools.sources.by_name[name]._source.server
        for _ in range(5):
            call = asyncio.create_task(chat.call_tool(tool, arguments))
            while not server._connection.busy:  # noqa: ASYNC110  the very next step: some answer in a millisecond
                await asyncio.sleep(0)
            call.cancel()
            await asyncio.wait([call])
            assert call.cancelled()
        after = await chat.call_tool(tool, arguments)
        state = server.state

    assert word in json.dumps(after.result)
    assert (state.ends, state.status) == (0, "running")


async def test_an_image_of_a_real_server_is_shown_to_the_model(table, tmp_path):
    """From the server through a turn to the request; everything's picture is a PNG."""

    class Seeing(ScriptedProvider):
        def takes_in_results(self, model, part):
            return part.mime_type == "image/png"

    model = Seeing([calls(("get-tiny-image", {})), says("A logo.")])
    async with FlexChat.from_config(
        written(tmp_path / "chat.json", table("everything")), providers={"r": model}
    ) as chat:
        turn = await chat.respond("Show me the picture")

    (record,) = turn.response.tool_calls
    assert record.result.success, record.result.error
    (part,) = record.result.media
    shown = [message for message in model.requests[1].messages if message.role == "tool"]
    assert shown[0].media == (part,)
    assert (part.mime_type, part.data[:8]) == ("image/png", b"\x89PNG\r\n\x1a\n")
    assert turn.response.content == "A logo."


async def test_a_long_call_that_is_cancelled_leaves_the_server_working(table, tmp_path):
    path = written(tmp_path / "chat.json", table("everything"))
    async with FlexChat.from_config(path) as chat:
        await chat.call_tool("echo", {"message": "warm"})
        long = asyncio.create_task(chat.call_tool("trigger-long-running-operation", {"duration": 60, "steps": 60}))
        server = chat.tools.sources.by_name["everything"]._source.server
        await until(lambda: server._connection.busy)
        long.cancel()
        await asyncio.wait([long])
        after = await chat.call_tool("echo", {"message": "still here"})
        state = server.state

    assert long.cancelled()
    assert "still here" in json.dumps(after.result)
    assert state.ends == 0


async def test_a_long_call_is_polled_as_a_task(table, tmp_path):
    """Its tool refuses calls without; what it says of itself is shown, and what it asks is answered."""
    told = []

    def reply(question):
        told.append(question.message)
        return Reply(action="accept", content={"interpretation": "snake"})

    path = written(tmp_path / "chat.json", {**table("everything"), "effects": {}})
    async with FlexChat.from_config(path) as chat:
        plain = await chat.call_tool("simulate-research-query", {"topic": "MCP"}, idempotency_key="k")
        asked = await chat.call_tool(
            "simulate-research-query", {"topic": "python", "ambiguous": True}, on_question=reply
        )
        effects = await chat.effects()
        state = chat.tools.sources.by_name["everything"]._source.server.state

    assert "Research Report: MCP" in plain.result
    assert "snake" in asked.result
    assert "could have multiple interpretations" in told[0]
    assert [(effect.state, list(json.loads(effect.handle))) for effect in effects] == [("done", ["task"])] * 2
    assert state.ends == 0


async def test_a_long_call_that_is_cancelled_is_cancelled_at_the_server(table, tmp_path):
    path = written(tmp_path / "chat.json", {**table("everything"), "effects": {}})
    async with FlexChat.from_config(path) as chat:
        long = asyncio.create_task(chat.call_tool("simulate-research-query", {"topic": "MCP"}, idempotency_key="k"))
        while not (effects := await chat.effects()) or effects[0].handle is None:  # noqa: ASYNC110  it says nothing
            await asyncio.sleep(0.02)
        long.cancel()
        await asyncio.wait([long])
        again = await chat.call_tool("simulate-research-query", {"topic": "MCP"}, idempotency_key="k")

    assert "it says that the task was cancelled" in again.error


def test_a_question_of_a_real_server_is_answered(table, tmp_path, capfd):
    path = written(tmp_path / "chat.json", table("everything"))
    words = ["mcp", "call", "everything", "trigger-elicitation-request", "--config", str(path)]
    status = main([*words, "--answer", "name=Ada", "--answer", "check=true"])
    out, _ = capfd.readouterr()

    assert status == 0
    assert "- Name: Ada" in out
    assert main(words) == 0
    assert "declined: --answer" in capfd.readouterr().err


async def test_resources_of_a_real_server_are_listed_and_read(table, tmp_path):
    """One that is listed, and one that a template makes."""
    path = written(tmp_path / "chat.json", {**table("everything"), "resources": True})
    async with FlexChat.from_config(path) as chat:
        listed = (await chat.call_tool("list_resources", {"find": "demo://"})).result
        read = await chat.call_tool("read_resource", {"uri": listed["resources"][0]["uri"]})
        made = await chat.call_tool("read_resource", {"uri": "demo://resource/dynamic/text/7"})
        wrong = await chat.call_tool("read_resource", {"uri": "demo://nothing/there"})
        names = [tool.name for tool in chat.tools.sources.state("everything").tools]

    assert {"list_resources", "read_resource"} < {*names}
    assert "demo://resource/dynamic/text/{resourceId}" in [one["uriTemplate"] for one in listed["templates"]]
    assert len(read.result) > 100
    assert "Resource 7" in made.result
    assert "demo://nothing/there" in wrong.error
