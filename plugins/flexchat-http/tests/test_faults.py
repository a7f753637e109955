"""Services that misbehave on purpose: each fault ends in a result a model can act on, in time, and writes happen once.

FLEXCHAT_WRITE_FAULTS=1 writes the table in docs/http-tools.md from a run.
"""

import asyncio
import gzip
import json
import os
import socket
import time
from pathlib import Path

import pytest
from flexchat import FlexChat

from .conftest import entry, reply

PAGE = Path(__file__).resolve().parents[3] / "docs" / "http-tools.md"
BEGIN, END = "<!-- faults: begin -->\n", "<!-- faults: end -->"
LIMIT_MS = 1200
OK = b'{"ok": true}'
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
KEY_IN_USE = b'{"type": "about:blank", "detail": "A request with this Idempotency-Key is in progress"}'
KEY_REUSED = b'{"detail": "Idempotency-Key is already used"}'


def raw(*pieces, end="close", pause=0.0):
    """Send bytes, then close, reset or hold the connection."""

    async def answer(service, request, writer):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)
        if end == "reset":
            writer.transport.abort()
        elif end == "hold":
            await asyncio.sleep(60)
        return end == "keep"

    return answer


def endless(piece, pause=0.0, first=HEAD + b"\r\n"):
    """Send the same bytes for ever."""

    async def answer(service, request, writer):
        writer.write(first)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(pause)

    return answer


def then_well(first):
    """Answer in a bad way once, and well from then on."""

    async def answer(service, request, writer):
        return await (first if len(service.got) == 1 else reply(OK))(service, request, writer)

    return answer


async def late(service, request, writer):
    await asyncio.sleep(2 * LIMIT_MS / 1000)
    await reply(OK)(service, request, writer)


async def only_once(service, request, writer):
    """Answer on each connection once, and close it when the next request comes."""
    if len(service.got) > service.connections:
        service.got.pop()
        return False
    await reply(OK)(service, request, writer)
    return True


packed = gzip.compress(b" " * 30_000_000)
FAULTS = [
    ("does not speak TLS, but its address says https", "tls"),
    ("has a name that cannot be resolved", "name"),
    ("does not listen", "nobody"),
    ("closes the connection instead of answering", raw()),
    ("resets the connection instead of answering", raw(end="reset")),
    ("closes the connection, then answers well", then_well(raw())),
    ("accepts the request and sends nothing", raw(end="hold")),
    ("acts, and answers after the client has stopped waiting", late),
    ("stops in the middle of its headers", raw(HEAD, end="hold")),
    ("sends headers and nothing else", raw(HEAD + b"content-length: 9\r\n\r\n", end="hold")),
    ("stops in the middle of the answer", raw(HEAD + b'content-length: 99\r\n\r\n{"a', end="hold")),
    ("closes the connection in the middle of the answer", raw(HEAD + b'content-length: 99\r\n\r\n{"a')),
    ("resets the connection in the middle of the answer", raw(HEAD + b'content-length: 99\r\n\r\n{"a', end="reset")),
    ("sends a byte now and then, for ever", endless(b" ", 0.05)),
    ("sends bytes without end", endless(b" " * 65_536)),
    ("sends 30 KB that unpack to 30 MB", raw(HEAD + b"content-encoding: gzip\r\n\r\n" + packed)),
    ("sends damaged compressed data", raw(HEAD + b"content-encoding: gzip\r\n\r\n" + b"x" * 50)),
    ("compresses in a way that was not asked for", raw(HEAD + b"content-encoding: br\r\n\r\n" + b"x" * 50)),
    ("sends a chunk whose length is not a number", raw(HEAD + b"transfer-encoding: chunked\r\n\r\nzz\r\n\r\n")),
    ("answers in SSH", raw(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")),
    ("sends headers without end", endless(b"x-a: b\r\n", 0, b"HTTP/1.1 200 OK\r\n")),
    ("sends a header of a megabyte", raw(HEAD + b"x-a: " + b"b" * 2**20 + b"\r\n\r\n")),
    (
        "sends 100 and 103 before the answer",
        raw(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n", HEAD + b"content-length: 12\r\n\r\n" + OK
        ),
    ),
    ("answers twice", raw(2 * (HEAD + b"content-length: 12\r\n\r\n" + OK), end="keep")),
    ("has closed the connection that was kept", only_once),
    ("sends half of a JSON text, as if that were all", reply(b'{"ok": ')),
    ("sends JSON that is not UTF-8", reply(b'{"ok": "\xff"}')),
    ("sends a hundred thousand opening brackets", reply(b"[" * 100_000)),
    ("sends bytes that are not text", reply(b"\x89PNG\x00", kind="image/png")),
    ("answers 200 with nothing", reply(b"")),
    ("answers 200 with a web page", reply(b"<html>Sign in</html>", kind="text/html")),
    ("answers 204", raw(b"HTTP/1.1 204 No Content\r\n\r\n")),
    ("answers 303, to its result", reply(b"", 303, location="/result/7")),
    ("answers 302, in a circle", reply(b"", 302, location="/")),
    ("answers 307, to a private address", reply(b"", 307, location="http://169.254.169.254/")),
    ("answers 400 and says why", reply(b'{"detail": "no such city"}', 400, "application/problem+json")),
    ("answers 401 with a web page", reply(b"<html>", 401, "text/html")),
    ("answers 404", reply(b"", 404)),
    ("answers 409, for a conflict", reply(b'{"detail": "version 3 is newer"}', 409)),
    ("answers 409, because the key is in use, then well", then_well(reply(KEY_IN_USE, 409))),
    ("answers 422, because the key was used for something else", reply(KEY_REUSED, 422)),
    ("answers 429 with Retry-After: 0, then well", then_well(reply(b"", 429, retry_after=0))),
    ("answers 429 with Retry-After: 99999", reply(b"", 429, retry_after=99999)),
    ("answers 500 with a web page", reply(b"<html>", 500, "text/html")),
    ("answers 502 and breaks off in the middle of the error", raw(b"HTTP/1.1 502 x\r\ncontent-length: 99\r\n\r\nwhy")),
    ("answers 503, then well", then_well(reply(b"", 503))),
]
KINDS = {
    "read": {},
    "write": {"method": "POST"},
    "write with a key": {"method": "POST", "idempotency_header": "Idempotency-Key"},
}


async def run_faults(folder, serve):
    """Meet every fault with every kind of tool, all at once; return outcomes and services by fault and kind."""
    entries, services = [], {}
    for number, (_, answer) in enumerate(FAULTS):
        for kind, settings in KINDS.items():
            service = services[number, kind] = await serve(answer if callable(answer) else reply(OK))
            url = service.url.replace("http:", "https:") if answer == "tls" else service.url
            if answer == "nobody":
                url = "http://127.0.0.1:1/"
            elif answer == "name":
                url = "http://nowhere.example/"
            retry = {"max_attempts": 2, "backoff_ms": 1}
            tool = {"name": f"t{number}_{list(KINDS).index(kind)}"}
            entries.append(entry(url, timeout_ms=LIMIT_MS, retry=retry, max_bytes=1_000_000, tool=tool, **settings))
    config = {
        "llms": {"r": {"provider": "rehearsal"}},
        "responses": [{"llm": "r", "model": "any"}],
        "tools": {"registry": entries},
        "network": {"allow": ["127.0.0.1"]},
    }
    path = folder / "chat.json"
    path.write_text(json.dumps(config))
    outcomes = {}
    async with FlexChat.from_config(path) as chat:
        await chat.call_tool("t29_0", {})  # loads what is loaded late

        async def meet(number, kind):
            name = f"t{number}_{list(KINDS).index(kind)}"
            if FAULTS[number][1] is only_once:
                await chat.call_tool(name, {})
            started = time.perf_counter()
            result = await chat.call_tool(name, {}, idempotency_key=f"{number} {kind}")
            outcomes[number, kind] = (result, time.perf_counter() - started)

        for kind in KINDS:
            await asyncio.gather(*(meet(number, kind) for number in range(len(FAULTS))))
        states = {effect.tool: effect.state for effect in await chat.effects(limit=1000)}
    return outcomes, services, states


def word(number, kind, outcomes, states):
    result, _ = outcomes[number, kind]
    if result.success:
        return "answer"
    state = states.get(f"t{number}_{list(KINDS).index(kind)}")
    return "unknown" if state == "unknown" else "fails"


def table(outcomes, states):
    lines = ["| the service … | read | write | write with a key |", "|---|---|---|---|"]
    for number, (fault, _) in enumerate(FAULTS):
        words = " | ".join(word(number, kind, outcomes, states) for kind in KINDS)
        lines.append(f"| {fault} | {words} |")
    return "\n".join(lines) + "\n"


@pytest.fixture
def no_names(monkeypatch):
    async def getaddrinfo(loop, host, *rest, **more):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


@pytest.mark.slow
async def test_every_fault_ends_in_a_result_in_time_and_writes_happen_once(tmp_path, serve, no_names):
    outcomes, services, states = await run_faults(tmp_path, serve)

    for (number, kind), (result, took_s) in outcomes.items():
        fault = f"{FAULTS[number][0]}, {kind}"
        assert took_s < 2 * LIMIT_MS / 1000 + 1.5, fault
        assert result.success or (result.error and len(result.explained()) < 1_000), fault
        assert "Traceback" not in str(result)
        got = services[number, kind].got
        is_twice = FAULTS[number][1] is only_once  # which is called twice
        if kind == "write":
            assert len(got) <= 1 + is_twice, fault
        if kind == "write with a key":
            assert is_twice or len({request.headers["idempotency-key"] for request in got}) <= 1, fault
    before, _, rest = PAGE.read_text().partition(BEGIN)
    shown, _, after = rest.partition(END)
    if "FLEXCHAT_WRITE_FAULTS" in os.environ:
        PAGE.write_text(before + BEGIN + table(outcomes, states) + END + after)
    else:
        assert shown == table(outcomes, states)
