"""The configuration of a server is replaced while MCP servers run: they go on if their tables stay."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest
from flexchat import ConfigError
from flexchat.host import installed_plugins
from flexchat_web.serving import Serving, Settings

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

SERVER = Path(__file__).resolve().parents[1] / "servers" / "mcp_program.py"


class Desk:
    """A configuration with an MCP server, and what that server has noted."""

    def __init__(self, folder):
        self.folder, self.file = folder, folder / "flexchat.json"
        command = [sys.executable, "-S", str(SERVER), str(folder)]
        self.config = {
            "llms": {"one": {"provider": "rehearsal", "default_model": "rehearsal"}},
            "tools": {"mcp": [{"name": "desk", "command": command}]},
            "responses": [{"llm": "one", "prompt": "Be kind.", "tools": {"allowed_tools": ["desk/*"]}}],
        }
        self.write()

    def write(self):
        self.file.write_text(json.dumps(self.config))

    @property
    def pids(self):
        return [int(line) for line in (self.folder / "starts").read_text().split()]

    def runs(self, pid):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture
async def serving(desk):
    serving = Serving(desk.file, installed_plugins(), Settings())
    yield serving
    await serving.aclose()


async def add(serving):
    async with serving.chat() as chat:
        return await chat.call_tool("add", {"a": 1, "b": 2})


async def test_a_prompt_that_changes_restarts_no_server(serving, desk):
    assert (await add(serving)).success
    for prompt in ("Be brief.", "Be exact.", "Be off."):
        desk.config["responses"][0]["prompt"] = prompt
        desk.write()
        await serving.reload()
        assert (await add(serving)).success
    assert len(desk.pids) == 1
    await serving.aclose()
    assert not desk.runs(desk.pids[0])


async def test_a_call_under_way_during_a_reload_ends_well(serving, desk):
    await add(serving)
    (desk.folder / "fault").write_text("wait for go")
    running = asyncio.create_task(add(serving))
    async with asyncio.timeout(10):
        while (desk.folder / "fault").exists():  # noqa: ASYNC110  it is taken by the call
            await asyncio.sleep(0.01)
    desk.config["responses"][0]["prompt"] = "Be brief."
    desk.write()
    await serving.reload()
    assert not running.done()
    (desk.folder / "go").write_text("")

    assert (await running).success
    assert (await add(serving)).success
    assert len(desk.pids) == 1


async def test_a_table_that_changes_restarts_its_server_and_no_other(serving, desk):
    other = desk.folder / "other"
    other.mkdir()
    command = [sys.executable, "-S", str(SERVER), str(other)]
    desk.config["tools"]["mcp"].append({"name": "other", "command": command, "prefix": "o_"})
    desk.write()
    await serving.reload()
    await add(serving)
    async with serving.chat() as chat:
        assert (await chat.call_tool("o_add", {"a": 1, "b": 2})).success
    desk.config["tools"]["mcp"][0]["env"] = {"DESK": "oak"}
    desk.write()
    await serving.reload()

    assert (await add(serving)).success
    assert len(desk.pids) == 2
    assert not desk.runs(desk.pids[0])
    assert len((other / "starts").read_text().split()) == 1


async def test_a_table_that_goes_ends_its_server(serving, desk):
    await add(serving)
    desk.config["tools"]["mcp"] = []
    desk.config["responses"][0]["tools"]["enabled"] = False
    del desk.config["responses"][0]["tools"]["allowed_tools"]
    desk.write()
    await serving.reload()
    assert not desk.runs(desk.pids[0])


async def test_a_reload_that_fails_leaves_the_server_running(serving, desk):
    await add(serving)
    desk.file.write_text('{"llms": ')
    with pytest.raises(ConfigError):
        await serving.reload()

    assert (await add(serving)).success
    assert len(desk.pids) == 1
