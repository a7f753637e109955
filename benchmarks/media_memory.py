"""Memory of a server with a large image, on Linux: python benchmarks/media_memory.py

flexchat serve, in a process of its own for each entrance, reads a message with an image, stores it and sends it to a
service on loopback, which keeps nothing. After some turns with a small image, its resident memory is the base; the
peak of each turn is what the kernel recorded (VmHWM, reset before by clear_refs). Both are of the whole process, pages
that the allocator keeps included. The image counts as its bytes, whether it is sent as bytes or as Base64.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

START = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x0a\0\0\0\x0a"
ANSWER = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Seen."}, "finish_reason": "stop"}]})
CONFIG = """
[conversations]
path = "kept.db"
[llms.m]
provider = "openai"
api = "chat"
api_key = "no-key-at-all"
base_url = "{address}"
[[responses]]
llm = "m"
model = "gpt-4o"
"""
SIZES = {"form": 5_000_000, "json": 3_000_000, "v1": 5_000_000}
"""Of the image at each entrance, in bytes; a message in JSON may have 4 MiB."""


def measure(entrance: str, size: int, turns: int) -> tuple[float, list[float], float]:
    """Return an entrance's base, the peak of each turn, and what is resident afterwards: MB."""
    with run_service() as address, tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "flexchat.toml").write_text(CONFIG.format(address=address))
        command = [sys.executable, "-m", "flexchat", "serve", "--port", "0", "--log-level", "warning"]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            url = re.search(r"http://\S+/", server.stdout.readline())
            assert url is not None
            with httpx.Client(base_url=url[0], timeout=120) as client:
                for number in range(10):
                    ask(client, entrance, START.ljust(2_000), f"small-{number}")
                base, peaks = read_mb(server.pid, "VmRSS"), []
                for number in range(turns):
                    Path(f"/proc/{server.pid}/clear_refs").write_text("5")
                    # No two are the same, or the store would have it.
                    ask(client, entrance, START.ljust(size, bytes([number])), f"large-{number}")
                    peaks.append(read_mb(server.pid, "VmHWM"))
                return base, peaks, read_mb(server.pid, "VmRSS")
        finally:
            server.terminate()
            server.wait()


def ask(client: httpx.Client, entrance: str, image: bytes, conversation: str) -> None:
    """Send a message with an image."""
    text, data = "What is this?", base64.b64encode(image).decode()
    if entrance == "form":
        files = {"file": ("photo.png", image, "image/png")}
        answer = client.post("/chat/api", data={"prompt": text, "conversation": conversation}, files=files)
    elif entrance == "json":
        body: dict[str, Any] = {"prompt": text, "conversation": conversation, "attachments": [{"data": data}]}
        answer = client.post("/chat/api", json=body)
    else:
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
        message = {"role": "user", "content": [{"type": "text", "text": text}, part]}
        answer = client.post("/v1/chat/completions", json={"model": "flexchat", "messages": [message]})
    if answer.status_code != 200:
        raise SystemExit(f"{entrance}: {answer.status_code} {answer.text[:500]}")


def read_mb(process: int, field: str) -> float:
    """Return a field of a process's status in MB (10^6 bytes)."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024 / 1e6


class Service(BaseHTTPRequestHandler):
    """Answers every request, and keeps none."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Read a request in pieces, and answer it."""
        left = int(self.headers["content-length"])
        while left:
            left -= len(self.rfile.read(min(left, 65_536)))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER.encode())

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing."""


@contextlib.contextmanager
def run_service() -> Iterator[str]:
    """Run the service in this process; yields its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def main() -> None:
    """Print a line for each entrance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("entrances", nargs="*", default=[*SIZES], metavar="ENTRANCE", help=", ".join(SIZES))
    options = parser.parse_args()
    for entrance in options.entrances:
        size = SIZES[entrance]
        base, peaks, after = measure(entrance, size, options.turns)
        copies = [(peak - base) * 1e6 / size for peak in peaks]
        shown = ", ".join(f"{each:.2f}" for each in copies)
        print(f"{entrance}, an image of {size / 1e6:g} MB: base {base:.1f} MB, afterwards {after:.1f} MB", flush=True)
        print(f"    peaks in images above the base: {shown}", flush=True)


if __name__ == "__main__":
    main()
