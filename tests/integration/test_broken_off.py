"""A whole answer that broke off has reached nobody: it is asked for again, and then another service is."""

import asyncio
import http.server
import json
import subprocess
import sys
import threading

import pytest
import wire_dialects as wire
from flexchat import ChatOptions, UserMessage
from stream_of import answer_of

ASKED = (UserMessage(content="Hello?"),)


class Server:
    """Breaks the first answers off in the middle, and gives the others whole."""

    def __init__(self, dialect, how, broken):
        self.dialect, self.how, self.broken, self.asked = dialect, how, broken, 0
        self.tasks = set()

    async def connected(self, reader, writer):
        task = asyncio.current_task()
        self.tasks.add(task)
        head = await reader.readuntil(b"\r\n\r\n")
        (length,) = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")]
        await reader.readexactly(int(length))
        self.asked += 1
        body = json.dumps(self.dialect.whole("Hello world")).encode()
        told, sent = len(body), body
        if self.asked <= self.broken:
            sent = body[: len(body) // 2]
        size = f"content-length: {told}\r\n" if self.how == "by its length" else ""
        writer.write(f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{size}connection: close\r\n\r\n".encode())
        writer.write(sent)
        await writer.drain()
        writer.close()
        await writer.wait_closed()
        self.tasks.discard(task)


@pytest.mark.parametrize("how", ["by its length", "in its JSON"])
@pytest.mark.parametrize("dialect", wire.DIALECTS, ids=lambda d: d.name)
async def test_a_whole_answer_that_broke_off_is_asked_for_again(dialect, how):
    """Nothing of it has reached the caller."""
    server = Server(dialect, how, broken=1)
    listening = await asyncio.start_server(server.connected, "127.0.0.1", 0)
    llm = dialect.open(f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}", retries=1)

    result = await answer_of(llm, ASKED, "m-1", ChatOptions())

    await llm.provider.aclose()
    listening.close()
    await asyncio.gather(*server.tasks)
    assert result.content == "Hello world"
    assert server.asked == 2


class Half:
    """Breaks its first streamed answer off after a word, and gives the others whole."""

    def __init__(self):
        self.asked = 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                outer.asked += 1
                self.rfile.read(int(self.headers["content-length"]))
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.end_headers()
                pieces = ["It ", "is clear."] if outer.asked > 1 else ["It "]
                for text in pieces:
                    piece = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
                    self.wfile.write(f"data: {json.dumps(piece)}\n\n".encode())
                if outer.asked > 1:
                    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
                    self.wfile.write(f"data: {json.dumps(end)}\n\ndata: [DONE]\n\n".encode())

            def log_message(self, *given):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.mark.slow
@pytest.mark.parametrize("command", [["ask", "--no-stream", "hi"], ["ask", "-x", "hi"], ["batch", "in.jsonl"]])
def test_the_command_line_asks_again_for_what_it_has_not_shown(command, tmp_path):
    model = Half()
    address = f"http://127.0.0.1:{model.server.server_address[1]}/v1"
    (tmp_path / "flexchat.toml").write_text(
        f'[conversations]\nprovider = "sqlite"\npath = "c.db"\n'
        f'[llms.main]\nprovider = "openai"\nbase_url = "{address}"\ndefault_model = "m"\nretry_delay_ms = 1\n'
        '[[responses]]\nllm = "main"\n'
    )
    (tmp_path / "in.jsonl").write_text('"hi"\n')

    ran = subprocess.run(
        [sys.executable, "-m", "flexchat", *command],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    model.server.shutdown()
    model.server.server_close()

    assert "It is clear." in ran.stdout, ran.stderr
    assert model.asked == 2
