"""Servers that others wrote, in environments of their own."""

import json
import subprocess
import sys
import venv

import pytest
from flexchat import FlexChat

from .conftest import gone

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install a server; skip if it cannot be."""

    def install(name, version):
        folder = tmp_path_factory.mktemp(name)
        venv.create(folder, with_pip=False)
        python = folder / "bin" / "python"
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--retries", "0"]
        try:
            done = subprocess.run([*command, f"{name}=={version}"], capture_output=True, text=True, timeout=150)
        except subprocess.TimeoutExpired:
            pytest.skip(f"{name} cannot be installed within 150 s")
        if done.returncode:
            pytest.skip(f"{name} cannot be installed: {done.stderr[-200:]}")
        return folder / "bin" / name

    return install


async def test_mcp_server_time(installed, tmp_path):
    """Listed, called, refused, killed and called again."""
    path = tmp_path / "chat.json"
    table = {
        "name": "time",
        "command": str(installed("mcp-server-time", "2026.10.19")),
        "effects": {"readOnlyHint": "read"},
        "timeout_ms": 60_000,
    }
    config = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [{"llm": "r", "model": "any", "tools": {"allowed_tools": ["time/*"]}}],
        "tools": {"mcp": [table]},
    }
    path.write_text(json.dumps(config))
    noon = {"source_timezone": "Europe/Rome", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    async with FlexChat.from_config(path) as chat:
        found = await chat.call_tool("convert_time", noon)
        wrong = await chat.call_tool("get_current_time", {"timezone": "Nowhere"})
        server = chat.tools.sources.by_name["time"]._source.server
        state = server.state
        server._connection.process.process.kill()
        again = await chat.call_tool("convert_time", noon)

    assert found.result["target"]["timezone"] == "Asia/Tokyo"
    assert {tool.effect for tool in chat.tools.sources.state("time").tools} == {"read"}
    assert "Invalid timezone" in wrong.error
    assert (state.status, state.version) == ("running", "2026-07-28")
    assert again.success
    assert gone([state.pid])
