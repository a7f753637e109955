"""A real server process with faults, and chats whose tools it has."""

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import attrs
import pytest
from flexchat import FlexChat
from flexchat.plugin import ToolSourceContext
from flexchat_mcp.settings import McpConfig
from flexchat_mcp.source import McpSource
from installed import installed

__all__ = ["installed"]
HERE = Path(__file__).resolve().parent
SERVER = Path(__file__).resolve().parents[3] / "tests" / "servers" / "mcp_program.py"
ERAS = ("modern", "handshake")
MODERN_FIRST = ("modern", pytest.param("handshake", marks=pytest.mark.slow))
"""Both eras, the old one only with the slow tests: what starts servers costs most of these tests' time."""


@attrs.frozen
class Folder:
    """The folder of one server: what it is to do, and what it has done."""

    path: Path

    def command(self, era="both", *faults):
        return [
            sys.executable,
            "-S",
            str(SERVER),
            str(self.path),
            "--era",
            era,
            *(f"--fault={each}" for each in faults),
        ]

    def fault(self, fault):
        (self.path / "fault").write_text(fault)

    def tools(self, *tools):
        (self.path / "tools.json").write_text(json.dumps(tools))

    def lines(self, name):
        path = self.path / name
        return path.read_text().splitlines() if path.exists() else []

    def pids(self, name="starts"):
        return [int(line) for line in self.lines(name)]


def start_flexchat(folder, table, *words, program=("-m", "flexchat"), **more):
    """Start the command line in the server's folder, as a process that can be killed; the server is ``fake``.

    Args:
        program: What Python runs in place of the command line.
        more: Further tables of the configuration.
    """
    config = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["fake/*"]}}],
        "tools": {"mcp": [table], "effects": {"lease_s": 1, "store": "sqlite"}},
        "conversations": {"path": "kept.db"},
        "network": {"allow": ["127.0.0.1"]},
        **more,
    }
    (folder.path / "flexchat.json").write_text(json.dumps(config))
    environment = {**os.environ, "FLEXCHAT_CONFIG": str(folder.path / "flexchat.json")}
    environment |= {"XDG_DATA_HOME": str(folder.path / "data"), "HOME": str(folder.path)}
    command = [sys.executable, *program, *words]
    return subprocess.Popen(
        command, cwd=folder.path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def output_of(process):
    """Return what a process that succeeds writes to standard output."""
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    return out


def lives(pid):
    """Whether a process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


async def until(condition, within_s=60.0):
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.01)


def gone(pids, within_s=30.0):
    """Whether all these processes are gone in time."""
    until = time.monotonic() + within_s
    while any(map(lives, pids)):
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


@pytest.hookimpl(tryfirst=True)  # before slow tests are left out
def pytest_collection_modifyitems(items):
    """Mark tests that start a server as slow, except for the few marked quick."""
    for item in items:
        starts_server = {"folder", "guarded"} & set(getattr(item, "fixturenames", ()))
        if starts_server and item.path.is_relative_to(HERE) and not item.get_closest_marker("quick"):
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def folder(tmp_path):
    """The server's folder; no process of it is left afterwards."""
    made = Folder(tmp_path)
    yield made
    left = [pid for pid in [*made.pids(), *made.pids("children")] if not gone([pid])]
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, 9)
    assert left == []


@pytest.fixture
async def source_of(folder):
    """Open the server as a source, without a chat."""
    sources, told = [], []

    def make(era="both", *faults, **rest):
        config = McpConfig(**{"command": tuple(folder.command(era, *faults)), **rest})
        context = ToolSourceContext(name="fake", folder=folder.path, changed=lambda: told.append(1))
        sources.append(McpSource(config, context))
        sources[-1].told = told
        return sources[-1]

    yield make
    for source in sources:
        await source.aclose()


@pytest.fixture
async def chat_of(folder):
    """Open a chat with the server's tools, from a file."""
    chats = []

    def make(era="both", *faults, others=(), more=None, **rest):
        table = {"name": "fake", "command": folder.command(era, *faults), **rest}
        config = {
            "llms": {"r": {"provider": "rehearsal"}},
            "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["fake/*"]}}],
            "tools": {"mcp": [table, *others], **(more or {})},
        }
        path = folder.path / "chat.json"
        path.write_text(json.dumps(config))
        chats.append(FlexChat.from_config(path))
        return chats[-1]

    yield make
    for chat in chats:
        await chat.aclose()
