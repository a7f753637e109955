"""MCP servers that others wrote: what they are, the folder they work in, and a config's table for one."""

from __future__ import annotations

import subprocess
from pathlib import Path

import attrs
from installed import Installed, with_path


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
        tools=15,
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


def filled(folder: Path) -> Path:
    """Make a folder with a Git repository and what else the servers look at."""
    folder.mkdir()
    (folder / "note.txt").write_text("A note.\n")
    (folder / "fast.py").write_text(FAST)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "add", "note.txt"], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "The first commit"], check=True)
    return folder


def table_of(installed: Installed, folder: Path, name: str) -> dict:
    """Return the table of a server, which is installed now if it was not."""
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
