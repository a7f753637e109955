"""The HTTP side of effects.py: a service that counts what it did, and answers as services do on a bad day.

It acts when it gets a request, and then answers: in time, too late, twice, half of it, not at all; or it refuses, says
that it is broken though it acted, or closes the connection before or after it acted. With a key it acts once for each,
and sometimes only when nobody waits for the answer any more. Its processes know nothing of FlexChat.
"""

import asyncio
import json
import os
import random
import signal
import socket

from flexchat_sdk.http.fetcher import GuardedFetcher

TURNS = ("http_pay", "http_pay_with_key", "http_pay_and_ask")
"""Tools that change something: without a key, with one, and one whose service can be asked."""

TIMEOUT_MS = 150
MOODS = ("well", "well", "well", "late", "never", "twice", "half", "refused", "busy", "broken", "closed", "lost")
"""How a request is answered."""


class HttpService:
    """Counts what HTTP tools did; a process with a socket of its own.

    Attributes:
        url: Where it listens.
    """

    def __init__(self, service):
        self._service, self._chance, self._held = service, random.Random(), []
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listening.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        self._process = os.fork()
        if not self._process:
            try:
                asyncio.run(self._serve(listening))
            finally:
                os._exit(1)
        listening.close()

    def close(self):
        os.kill(self._process, signal.SIGKILL)
        os.waitpid(self._process, 0)

    async def _serve(self, listening):
        server = await asyncio.start_server(self._talk, sock=listening)
        await server.serve_forever()

    async def _talk(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode().split("\r\n")
                headers = {
                    name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])
                }
                await reader.readexactly(int(headers.get("content-length", 0)))
                _, run, name = lines[0].split()[1].split("/")
                asked = lines[0].startswith("GET")
                await self._answer(writer, run, name, headers.get("idempotency-key"), asked=asked)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client is gone
        finally:
            writer.close()

    async def _answer(self, writer, run, name, key, *, asked):
        mood = self._chance.choice(MOODS)
        if asked:
            data = {"done": self._service.did(run, name) > 0, "result": f"{name} done"}
        else:
            if mood in ("refused", "busy", "closed"):
                data = {"error": mood}
            else:
                if key is not None and mood == "late" and self._chance.random() < 0.5:
                    await asyncio.sleep(0.2)  # it acts for somebody who has given up
                self._service.do(run, name, key)
                data = {"paid": name}
        if mood in ("closed", "lost"):
            raise ConnectionError
        if mood == "never":
            self._held.append(asyncio.current_task())  # the loop itself would let go of it
            await asyncio.Event().wait()
        if mood == "late":
            await asyncio.sleep(0.2)
        status = {"refused": "422 No", "busy": "503 Busy", "broken": "500 Broken"}.get(mood, "200 OK")
        body = json.dumps(data).encode()
        answer = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n".encode()
        answer += body
        writer.write(answer[: len(answer) - 5] if mood == "half" else answer * 2 if mood == "twice" else answer)
        await writer.drain()
        if mood == "half":
            raise ConnectionError


def tools_of(url, run, changed="", change=None):
    """Return the HTTP tools of a run, as a config has them; one of them with the changes of a later declaration."""
    parameters = {"type": "object", "properties": {"amount": {"type": "integer"}, "note": {"type": "string"}}}

    def entry(name, implementation, **rest):
        made = {"type": "http", "url": f"{url}/{run}/{name}", "timeout_ms": TIMEOUT_MS, **implementation}
        return {"name": name, "description": "Pay.", "parameters": parameters, "implementation": made, **rest}

    asking = entry("http_was_paid", {"url": f"{url}/{run}/http_pay_and_ask", "method": "GET"})
    asking["parameters"] = {"type": "object", "properties": {}}
    with_key = {
        "method": "POST",
        "idempotency_header": "Idempotency-Key",
        "retry": {"max_attempts": 3, "backoff_ms": 5},
    }
    entries = [
        entry("http_pay", {"method": "POST"}),
        entry("http_pay_with_key", with_key),
        entry("http_pay_and_ask", {"method": "POST"}, verify="http_was_paid"),
        asking,
    ]
    return [declared for each in entries if (declared := _changed(each, change or {}, each["name"] == changed))]


def _changed(entry, change, is_changed):
    """Return an entry as a later configuration declares it; None if that gives the tool in code."""
    if not is_changed or not change:
        return entry
    if "in_code" in change:
        return None
    entry.pop("verify", None)  # it would be asked, and be right
    entry["implementation"].pop("idempotency_header" if change.get("header") == "" else "", None)
    if change.get("header"):
        entry["implementation"]["idempotency_header"] = change["header"]
    return {**entry, **change.get("entry", {})}


def watch_requests(kill):
    """Have each request pass the points at which this process may end."""
    fetch = GuardedFetcher.fetch

    async def watched(self, *args, **rest):
        kill("tool before")
        answer = await fetch(self, *args, **rest)
        kill("tool after")
        return answer

    GuardedFetcher.fetch = watched
