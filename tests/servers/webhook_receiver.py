"""A webhook on loopback, which verifies messages by the specification of Standard Webhooks alone."""

import asyncio
import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime

KEY = b"k" * 32
SECRET = "whsec_" + base64.b64encode(KEY).decode()


class Receiver:
    """A webhook on loopback. ``statuses``: what it answers, one after the other; the last one stays."""

    def __init__(self):
        self.statuses: list = [200]
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.extra = ""
        self.open = asyncio.Event()  # while it is cleared, answers wait
        self.open.set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        self.place = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self.url = f"http://{self.place}/hook"
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _answer(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        lines = [line.partition(": ") for line in head.split("\r\n")[1:] if line]
        headers = {name.lower(): value for name, _, value in lines}
        self.headers.append({**headers, ":request": head.split("\r\n")[0]})
        self.bodies.append(await reader.readexactly(int(headers["content-length"])))
        await self.open.wait()
        status = self.statuses.pop(0) if len(self.statuses) > 1 else self.statuses[0]
        if status is not None:
            writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n{self.extra}\r\n".encode())
            await writer.drain()
        writer.close()


def verified(headers, body):
    """Verify a message as its receiver does, by the specification alone; return its data."""
    signed = b".".join([headers["webhook-id"].encode(), headers["webhook-timestamp"].encode(), body])
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert f"v1,{expected}" in headers["webhook-signature"].split(" ")
    assert abs(int(headers["webhook-timestamp"]) - datetime.now(UTC).timestamp()) < 300
    return json.loads(body)
