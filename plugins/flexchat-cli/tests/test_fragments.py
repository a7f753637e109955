"""ask -f FILE|URL."""

import http.server
import threading

import pytest
from flexchat_testing.scripted import ScriptedProvider


@pytest.fixture
def sent(run, script, monkeypatch):
    """Ask, and return what was sent, or the command's outcome if nothing was."""
    script('{ text = "ok" }')
    seen = []
    original = ScriptedProvider.stream_chat

    def watched(self, messages, model, options):
        seen.append(messages[-1].content)
        return original(self, messages, model, options)

    monkeypatch.setattr(ScriptedProvider, "stream_chat", watched)

    def call(*words, **more):
        ran = run("ask", *words, **more)
        return seen.pop() if seen else ran

    return call


def test_fragments_stand_before_the_message_in_their_order(sent, tmp_path):
    (tmp_path / "a.txt").write_text("first\n")
    (tmp_path / "b.txt").write_bytes("zweitens: ü".encode("utf-16"))

    assert sent("-f", "a.txt", "-f", "b.txt", "and now?") == "first\n\nzweitens: ü\n\nand now?"
    assert sent("-f", "a.txt") == "first"
    assert sent("-f", "-", "and now?", stdin=b"piped") == "piped\n\nand now?"


def test_what_is_no_text_is_refused(sent, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")

    assert "-f a.bin is not text: it contains binary data" in sent("-f", "a.bin", "x").err
    assert "-f none.txt: there is no such file" in sent("-f", "none.txt", "x").err
    assert sent("-f", "none.txt", "x").status == 2


@pytest.mark.slow
def test_an_address_is_read_if_it_was_typed_and_not_if_it_is_redirected_to(sent):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            status = {"/gone": 404, "/away": 302}.get(self.path, 200)
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"http://127.0.0.2:{self.server.server_port}/page")
            self.end_headers()
            self.wfile.write(b"of the server")

        def log_message(self, *args):
            """Write nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        assert sent("-f", f"{url}/page", "x") == "of the server\n\nx"
        assert "status 404" in sent("-f", f"{url}/gone", "x").err
        assert sent("-f", f"{url}/away", "x").status == 1
    finally:
        server.shutdown()
        server.server_close()
