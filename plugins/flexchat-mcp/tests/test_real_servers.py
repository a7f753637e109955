"""Servers that others wrote, in environments of their own: listed, called, questioned, cancelled, killed."""

import asyncio
import json
import subprocess
from pathlib import Path

import attrs
import pytest
from flexchat import FlexChat
from flexchat.cli.main import main
from installed import with_path

from .conftest import gone, until

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@attrs.frozen(kw_only=True)
class Real:
    """A server, and what can be seen of it.

    Attributes:
        program: "PACKAGE==VERSION" of Python, or "PACKAGE@VERSION" of npm, and the program's name.
        words: Its arguments; {folder} is a folder with a Git repository.
        good: A call, and a word of its result.
        wrong: A call that fails, and a word of its error.
        tools: How many tools it has.
    """

    program: tuple[str, str]
    words: tuple[str, ...] = ()
    good: tuple[str, dict, str]
    wrong: tuple[str, dict, str]
    tools: int


NPM = "@modelcontextprotocol/server-"
NOON = {"source_timezone": "Europe/Rome", "time": "12:00", "target_timezone": "Asia/Tokyo"}
THOUGHT = {"thought": "One.", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
SERVERS = {
    "time": Real(
        program=("mcp-server-time==2026.10.19", "mcp-server-time"),
        good=("convert_time", NOON, "Asia/Tokyo"),
        wrong=("get_current_time", {"timezone": "Nowhere"}, "Invalid timezone"),
        tools=2,
    ),
    "fetch": Real(
        program=("mcp-server-fetch==2026.10.24", "mcp-server-fetch"),
        words=("--ignore-robots-txt", "--allow-private-ips"),
        good=("fetch", {"url": "{page}"}, "Hello from a page"),
        wrong=("fetch", {"url": "http://127.0.0.1:1/"}, "Failed to fetch"),
        tools=1,
    ),
    "git": Real(
        program=("mcp-server-git==2026.10.19", "mcp-server-git"),
        words=("--repository", "{folder}"),
        good=("git_log", {"repo_path": "{folder}"}, "The first commit"),
        wrong=("git_show", {"repo_path": "{folder}", "revision": "nothing"}, "nothing"),
        tools=12,
    ),
    "everything": Real(
        program=(f"{NPM}everything@2026.8.31", "mcp-server-everything"),
        good=("get-sum", {"a": 2, "b": 3}, "5"),
        wrong=("get-sum", {"a": 2}, "b"),
        tools=13,
    ),
    "filesystem": Real(
        program=(f"{NPM}filesystem@2026.8.31", "mcp-server-filesystem"),
        words=("{folder}",),
        good=("read_text_file", {"path": "{folder}/note.txt"}, "A note"),
        wrong=("read_text_file", {"path": "/etc/passwd"}, "Access denied"),
        tools=14,
    ),
    "memory": Real(
        program=(f"{NPM}memory@2026.8.31", "mcp-server-memory"),
        good=("read_graph", {}, "entities"),
        wrong=("add_observations", {"observations": [{"entityName": "x", "contents": []}]}, "x"),
        tools=9,
    ),
    "sequential-thinking": Real(
        program=(f"{NPM}sequential-thinking@2026.8.31", "mcp-server-sequential-thinking"),
        good=("sequentialthinking", THOUGHT, "thoughtHistoryLength"),
        wrong=("sequentialthinking", {"thought": "One."}, "nextThoughtNeeded"),
        tools=1,
    ),
    "fastmcp": Real(
        program=("fastmcp==4.1.2", "python"),
        words=("{folder}/fast.py",),
        good=("add", {"a": 2, "b": 3}, "5"),
        wrong=("fail", {}, "no town is called Nowhere"),
        tools=3,
    ),
}
FAST = """
import asyncio
from fastmcp import FastMCP
from fastmcp.exceptions import ToolError

mcp = FastMCP("fast")

@mcp.tool
def add(a: int, b: int) -> int:
    "Add."
    return a + b

@mcp.tool
def fail() -> str:
    "Fail."
    raise ToolError("no town is called Nowhere")

@mcp.tool
async def wait(seconds: float) -> str:
    "Wait."
    await asyncio.sleep(seconds)
    return "waited"

mcp.run(show_banner=False)
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a Git repository and what else the servers look at."""
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "note.txt").write_text("A note.\n")
    (folder / "fast.py").write_text(FAST)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "note.txt"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "The first commit"], check=True)
    return folder


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

    def of(name):
        real = SERVERS[name]
        package, program = real.program
        is_npm = package.startswith("@")
        found = (installed.npm if is_npm else installed.python)(package) / program
        return {
            "name": name,
            "command": [str(found), *(word.format(folder=folder) for word in real.words)],
            "env": with_path(installed.node()) if is_npm else {},
            "effects": {"*": "read"},
            "timeout_ms": 60_000,
        }

    return of


def written(path: Path, table: dict) -> Path:
    """Write a configuration with one server."""
    rule = {"llm": "r", "model": "any", "tools": {"allowed_tools": [f"{table['name']}/*"]}}
    config = {"llms": {"r": {"provider": "rehearsal"}}, "responses": [rule], "tools": {"mcp": [table]}}
    path.write_text(json.dumps(config))
    return path


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_is_listed_called_refused_and_killed(table, folder, page, tmp_path, name):
    real = SERVERS[name]

    def filled(arguments):
        return json.loads(json.dumps(arguments).replace("{folder}", str(folder)).replace("{page}", page))

    async with FlexChat.from_config(written(tmp_path / "chat.json", table(name))) as chat:
        good = await chat.call_tool(real.good[0], filled(real.good[1]))
        wrong = await chat.call_tool(real.wrong[0], filled(real.wrong[1]))
        server = chat.tools.sources.by_name[name]._source.server
        state = server.state
        server._connection.process.process.kill()
        again = await chat.call_tool(real.good[0], filled(real.good[1]))
        second = server.state

    assert good.success, good.error
    assert real.good[2] in json.dumps(good.result)
    assert not wrong.success
    assert real.wrong[2] in wrong.error
    assert len(chat.tools.sources.state(name).tools) == real.tools
    assert again.success, again.error
    assert gone([state.pid, second.pid])


async def test_a_call_that_is_cancelled_leaves_the_server_working(table, tmp_path):
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


def test_a_question_of_a_real_server_is_answered(table, tmp_path, capfd):
    path = written(tmp_path / "chat.json", table("everything"))
    words = ["mcp", "call", "everything", "trigger-elicitation-request", "--config", str(path)]
    status = main([*words, "--answer", "name=Ada", "--answer", "check=true"])
    out, _ = capfd.readouterr()

    assert status == 0
    assert "- Name: Ada" in out
    assert main(words) == 0
    assert "declined: --answer" in capfd.readouterr().err
