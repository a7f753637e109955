"""A service repeats the key it was sent in a good answer: nothing that is shown or kept has it."""

import base64
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from flexchat import FlexChat
from flexchat.host import DEFAULT_TENANT
from flexchat_testing import ScriptedProvider, calls, says

KEY = 'p@ss/w"or\\\\d+&1xyz'


@pytest.fixture
def service():
    class Echo(BaseHTTPRequestHandler):
        def do_GET(self):
            told = {
                "header": self.headers["X-Custom"],
                "json": json.dumps(json.dumps(KEY)),
                "url": self.path,
                "basic": base64.b64encode(f"ada:{KEY}".encode()).decode(),
                "plain": f"you sent {KEY}",
            }
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


def written(config, folder):
    """The config as a file: variables are read there."""
    (folder / "chat").mkdir()
    path = folder / "chat" / "flexchat.json"
    path.write_text(json.dumps(config))
    return path


def texts_in(folder):
    return "".join(part.read_bytes().decode("utf-8", "replace") for part in folder.glob("chats.db*"))


async def test_a_repeated_secret_reaches_neither_the_model_nor_what_is_kept(service, tmp_path, monkeypatch):
    monkeypatch.setenv("SHOP_VALUE", KEY)
    file = tmp_path / "chats.db"
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "network": {"allow": ["127.0.0.1"]},
        "conversations": {"provider": "sqlite", "path": str(file)},
        "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}],
        "tools": {
            "registry": [
                {
                    "name": "look",
                    "description": "Look.",
                    "parameters": {"type": "object", "properties": {}},
                    "implementation": {
                        "type": "http",
                        "url": service,
                        "method": "GET",
                        "headers": {"X-Custom": "${SHOP_VALUE}"},
                        "auth": {"type": "api_key", "place": "query", "name": "key", "api_key": "${SHOP_VALUE}"},
                    },
                }
            ]
        },
    }
    model = ScriptedProvider([calls(("look", {})), says("Done.")])
    async with FlexChat.from_config(written(config, tmp_path), providers={"bot": model}) as chat:
        turn = await chat.respond("look", conversation="c")
        _, steps = await chat.turn(turn.id)
        kept = await chat.conversations.of(DEFAULT_TENANT).turns("c")

    (record,) = turn.response.tool_calls
    assert record.result.success
    shown = [turn.to_dict(), [step.data for step in steps], [message.content for message in model.requests[1].messages]]
    seen = json.dumps(shown, default=repr) + repr(kept) + texts_in(tmp_path)
    assert "***" in seen
    for piece in ("p@ss", "p%40ss", "1xyz", base64.b64encode(KEY.encode()).decode()[:12]):
        assert piece not in seen
