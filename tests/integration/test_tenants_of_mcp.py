"""Over HTTP: a token of the server is a tenant, and each tenant's calls go to an MCP server of its own."""

import json
import sys
from pathlib import Path

import httpx
import pytest
from flexchat_web.app import create_app
from flexchat_web.serving import Settings

pytestmark = pytest.mark.anyio

SERVER = Path(__file__).resolve().parents[1] / "servers" / "mcp_program.py"
TOKENS = {"red-token-0123456789": "vermilion", "blue-token-0123456789": "cobalt"}
WHOSE = {"name": "whose", "description": "Say whose it is.", "inputSchema": {"type": "object"}}
WAYS = {
    "call": ("/api/tools/call", {"name": "whose", "arguments": {}}),
    "turn": ("/chat/api", {"prompt": "Say whose it is."}),
    "/v1": (
        "/v1/chat/completions",
        {"model": "flexchat", "messages": [{"role": "user", "content": "Say whose it is."}]},
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
async def test_a_tenants_call_goes_to_its_own_server(tmp_path, way):
    (tmp_path / "tools.json").write_text(json.dumps([WHOSE]))
    server = {"name": "fake", "command": [sys.executable, "-S", str(SERVER), str(tmp_path)], "per_tenant": True}
    rule = {"llm": "r", "model": "rehearsal", "tools": {"allowed_tools": ["fake/*"]}}
    config = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [rule],
        "tools": {"mcp": [{**server, "effects": {"*": "read"}}]},
    }
    (tmp_path / "chat.json").write_text(json.dumps(config))
    path, body = WAYS[way]
    app = create_app(tmp_path / "chat.json", settings=Settings(tokens=TOKENS))
    told = {}
    try:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://127.0.0.1:8000"
        ) as client:
            for token, tenant in [*TOKENS.items()] * 2:
                answer = await client.post(path, json=body, headers={"authorization": f"Bearer {token}"})
                told.setdefault(tenant, []).append(answer.text)
    finally:
        await app.aclose()

    for tenant, answers in told.items():
        other = ({*told} - {tenant}).pop()
        assert all(f'tenant\\": \\"{tenant}' in answer.replace("\\\\", "\\") for answer in answers), answers
        assert not any(other in answer for answer in answers)
    assert len((tmp_path / "starts").read_text().splitlines()) == 3, "and the default tenant's, whose list is accepted"
