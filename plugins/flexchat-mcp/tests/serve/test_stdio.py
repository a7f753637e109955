"""flexchat mcp serve as clients start it: a program that speaks over stdin and stdout."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from flexchat_cli.main import main
from mcp import Client, StdioServerParameters

FLEXCHAT = str(Path(sys.executable).with_name("flexchat"))
CONFIG = """
[llms.bot]
provider = "rehearsal"
[[responses]]
llm = "bot"
model = "m"
tools = { allowed_tools = ["calculator"] }
[tools]
registry = [{ name = "calculator" }]
[mcp_server]
"""
PYTHON = sys.executable


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "flexchat.toml").write_text(CONFIG)
    return tmp_path


def flexchat(folder, *words):
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    return subprocess.run([FLEXCHAT, *words], cwd=folder, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("client", ["claude", "vscode", "cursor"])
def test_the_printed_lines_start_the_server_in_any_folder(folder, tmp_path_factory, client):
    printed = flexchat(folder, "mcp", "serve", "--print-config", client, "--tenant", "acme")

    (servers,) = json.loads(printed.stdout).values()
    entry = servers["flexchat"]
    assert Path(entry["command"]).is_file()
    assert entry["args"] == ["--config", str(folder / "flexchat.toml"), "mcp", "serve", "--tenant", "acme"]
    assert [path.name for path in folder.iterdir()] == ["flexchat.toml"]


@pytest.mark.parametrize(("text", "problem"), [(None, "there is no such file"), ("x =", "this is not TOML")])
def test_no_lines_are_printed_for_a_config_that_cannot_be_read(tmp_path, text, problem):
    if text is not None:
        (tmp_path / "other.toml").write_text(text)
    printed = flexchat(tmp_path, "--config", "other.toml", "mcp", "serve", "--print-config", "claude")

    assert (printed.returncode, printed.stdout, len(printed.stderr.splitlines())) == (2, "", 1)
    assert problem in printed.stderr


def test_without_a_program_of_that_name_the_lines_start_the_module(folder, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert main(["mcp", "serve", "--print-config", "claude"]) == 0

    entry = json.loads(capsys.readouterr().out)["mcpServers"]["flexchat"]
    module = subprocess.run([PYTHON, *entry["args"][:2], "--version"], capture_output=True, text=True)
    assert (entry["command"], entry["args"][0], module.returncode) == (str(tmp_path / "python"), "-m", 0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_a_client_that_uses_the_printed_lines_asks_a_question(folder, tmp_path_factory, mode):
    entry = json.loads(flexchat(folder, "mcp", "serve", "--print-config", "claude").stdout)["mcpServers"]["flexchat"]
    server = StdioServerParameters(
        command=entry["command"],
        args=entry["args"],
        cwd=tmp_path_factory.mktemp("elsewhere"),
        env={"XDG_DATA_HOME": str(folder / "data")},
    )
    async with Client(server, mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("calculator", {"expression": "6 * 7"})
        answer = await client.call_tool("ask", {"message": "What is 6 * 7?"})

    assert names == ["ask", "calculator"]
    assert "42" in result.content[0].text
    assert "42" in answer.structured_content["answer"]


@pytest.mark.slow
def test_stdout_has_messages_only_and_garbage_is_survived(folder):
    ping = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"})
    given = "\n".join(["{", "7", "[" * 5_000, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "nope"}), ping, ""])

    command = [FLEXCHAT, "--verbose", "mcp", "serve"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, cwd=folder, text=True, **pipes) as server:
        server.stdin.write(given)
        server.stdin.flush()
        messages = [json.loads(server.stdout.readline()) for _ in range(2)]
        server.stdin.close()
        rest = server.stdout.read()

    assert {"jsonrpc": "2.0", "id": 7, "result": {}} in messages
    assert [message["error"]["code"] for message in messages if message["id"] == 1] == [-32601]
    assert (rest, server.returncode) == ("", 0)


@pytest.mark.slow
def test_an_endless_line_is_skipped_and_takes_no_memory(folder):
    with (folder / "flexchat.toml").open("a") as config:
        config.write("max_bytes = 10_000\n")
    ping = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"}).encode() + b"\n"
    command, pipes = [FLEXCHAT, "--verbose", "mcp", "serve"], {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, **pipes) as server:
        server.stdin.write(ping)
        server.stdin.flush()
        server.stdout.readline()
        before = peak_kib(server.pid)
        for _ in range(200):
            server.stdin.write(b"x" * 2**20)
        server.stdin.write(b"\n" + ping)
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        after = peak_kib(server.pid)
        server.stdin.close()
        errors = server.stderr.read().decode()

    assert answer == {"jsonrpc": "2.0", "id": 7, "result": {}}
    assert after - before < 20_000
    assert "mcp_server.max_bytes" in errors
    assert server.returncode == 0


def peak_kib(process):
    (line,) = [line for line in Path(f"/proc/{process}/status").read_text().splitlines() if "VmHWM" in line]
    return int(line.split()[1])


WITHOUT_TABLE = """
import asyncio, sys
import httpx
from flexchat_web import create_app

CONFIG = {"llms": {"bot": {"provider": "rehearsal"}}, "responses": [{"llm": "bot", "model": "m"}]}

async def main():
    app = create_app(CONFIG)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        print((await client.post("/mcp", json={})).status_code, (await client.get("/api/tools/list")).status_code)
    await app.aclose()

asyncio.run(main())
print(sorted(name for name in sys.modules if name.split(".")[0] in ("mcp", "mcp_types", "jwt")))
"""


@pytest.mark.slow
def test_flexchat_serve_does_not_import_the_sdk_without_the_table(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_TABLE], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )

    assert ran.stdout.split("\n")[:2] == ["404 200", "[]"], ran.stderr
