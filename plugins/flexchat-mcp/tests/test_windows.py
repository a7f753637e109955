"""The transport for Windows, on this system: that it works as others do. Its job objects cannot be tried here."""

import asyncio

import pytest
from flexchat.plugin import ToolSourceError
from flexchat_mcp import connection
from flexchat_mcp.errors import AnswerLostError
from flexchat_mcp.tool_call import call_tool

from .conftest import MODERN_FIRST, gone

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch):
    monkeypatch.setattr(connection, "IS_POSIX", False)


async def added(source, **arguments):
    result = await source.server.ask(lambda client: call_tool(client, "add", arguments))
    return result["content"][0]["text"]


@pytest.mark.parametrize("era", MODERN_FIRST)
async def test_a_server_is_listed_called_and_ended(source_of, folder, era):
    source = source_of(era, "print first")

    assert [tool.name for tool in await source.tools()] == ["add", "count"]
    assert await added(source, a=1, b=2) == "3"
    await source.aclose()
    assert await asyncio.to_thread(gone, folder.pids())


async def test_a_server_that_dies_is_noticed_and_started_again(source_of, folder):
    source = source_of()
    assert await added(source, a=1) == "1"
    folder.fault("die")
    with pytest.raises(AnswerLostError):
        await added(source, a=2)

    assert await added(source, a=3) == "3"
    assert len(folder.pids()) == 2


@pytest.mark.parametrize("table", [{"command": ("no-such-program",)}, {"cwd": "no/such/folder"}])
async def test_what_cannot_be_started_is_said(source_of, table):
    with pytest.raises(ToolSourceError, match="cannot be started"):
        await source_of(**table).tools()
