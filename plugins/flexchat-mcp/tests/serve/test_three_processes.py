"""One call over three processes of flexchat serve: started at one, approved over another, ended by a third."""

import time

import httpx
import pytest
from mcp_fixtures import ELICITATION, META, MODERN, accept
from web_server import WebServer

pytestmark = pytest.mark.slow

CONFIG = """
[llms.bot]
provider = "rehearsal"
[[responses]]
llm = "bot"
model = "m"
tools = { enabled = true }
[tools.effects]
lease_s = 2
[[tools.registry]]
name = "pay"
description = "Pay."
implementation = { type = "python", function = "bank:pay" }
parameters = { type = "object", properties = {} }
approve = true
honours_key = true
[conversations]
path = "kept.db"
[mcp_server]
"""
BANK = """
import asyncio
from pathlib import Path
from flexchat.plugin import ToolContext

async def pay(context: ToolContext) -> str:
    with open("keys", "a") as file:
        file.write(context.key + "\\n")
    if not Path("answers").exists():
        await asyncio.sleep(600)
    return "paid"
"""


@pytest.fixture
def start(tmp_path):
    """Return what starts a process of flexchat serve on the test's store."""
    (tmp_path / "bank.py").write_text(BANK)
    servers = []

    def start():
        servers.append(WebServer(tmp_path, CONFIG))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def call(server, **more):
    """Call the tool over /mcp; return the result."""
    facts = {f"{META}/protocolVersion": MODERN, f"{META}/clientCapabilities": ELICITATION}
    params = {"name": "pay", "arguments": {}, **more, "_meta": {**facts, "flexchat.dev/idempotency-key": "order 17"}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": MODERN,
        "mcp-method": "tools/call",
        "mcp-name": "pay",
    }
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    return httpx.post(f"{server.url}mcp", json=body, headers=headers, timeout=60).json()["result"]


def keys_at_bank(folder, least):
    """Wait until the bank has got so many requests; return their keys."""
    file, until = folder / "keys", time.monotonic() + 60
    while not file.exists() or len(file.read_text().splitlines()) < least:
        assert time.monotonic() < until
        time.sleep(0.01)
    return file.read_text().splitlines()


def test_a_call_is_started_at_one_process_approved_over_another_and_ended_by_a_third(tmp_path, start):
    first, second = start(), start()
    required = call(first)
    first.kill()

    (question,) = httpx.get(f"{second.url}api/questions").json()["questions"]
    reply = httpx.post(f"{second.url}api/questions/{question['id']}/reply", json=accept())
    assert (reply.status_code, len(keys_at_bank(tmp_path, 1))) == (200, 1)
    second.kill()  # the bank has its request, and FlexChat no answer

    (tmp_path / "answers").touch()
    third = start()
    (name,) = required["inputRequests"]
    answers = {"requestState": required["requestState"], "inputResponses": {name: accept()}}
    results = [call(third, **answers), call(third)]

    assert [result["content"][0]["text"] for result in results] == ["paid", "paid"]
    keys = keys_at_bank(tmp_path, 2)
    assert (len(keys), len(set(keys))) == (2, 1)
