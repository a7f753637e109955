"""Two servers on one database behind a proxy that alternates, one killed every 5 s: nothing is lost or doubled.

    python benchmarks/web_processes.py --turns 1000 [--store postgresql] [--kill-every 5] [--together 12]
    python benchmarks/web_processes.py --stream 10          one turn begun in a first, approved in a second, finished in
                                                            a third process; its stream is cut 50 times
    python benchmarks/web_processes.py --delays 40          how late the words of turns are that another process runs

Each turn is one of KINDS: its tool pays at once, after an approval, or after a question; one is rejected; one waits,
and is stopped; one waits for an approval, and is cancelled. Every connection reaches the other server than the one
before it, so that most replies, Stops and requests to cancel reach a server that does not run the turn. Clients send
each message with a key, and again if there is no answer; replies and cancellations until they are acknowledged.
Payments are lines in a file that the servers append to. At the end each turn must have ended, have paid as often as its
kind does, and hold every acknowledged reply; an effect may be unknown if its server was killed, and is counted.
"""

import argparse
import asyncio
import collections
import contextlib
import json
import random
import re
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "servers"))

from web_server import WebServer

KINDS = {"pay": 1, "approved": 1, "booked": 1, "told": 1, "rejected": 0, "stopped": 0, "withdrawn": 0}
"""How often a turn pays."""
ENDED = ("done", "failed", "cancelled")
YES, NO = {"action": "accept"}, {"action": "decline", "reason": "too much"}

CONFIG = """
[llms.main]
provider = "openai"
base_url = "{url}"
api_key = "not-a-real-key"

[[responses]]
llm = "main"
model = "m-1"
tools = {{ enabled = true }}

[tools.effects]
lease_s = 2

[limits]
question_timeout_ms = 500

{tools}
"""
TOOL = """
[[tools.registry]]
name = "{name}"
description = "Do it: {name}."
parameters = {{ type = "object", properties = {{}} }}
effect = "{effect}"
implementation = {{ type = "python", function = "bank:{name}" }}
{more}
"""
TOOLS = "".join(
    TOOL.format(name=name, effect=effect, more=more)
    for name, effect, more in (
        ("pay", "write", ""),
        ("approved", "write", "approve = true"),
        ("rejected", "write", "approve = true"),
        ("withdrawn", "write", "approve = true"),
        ("booked", "write", "asks_first = true"),
        ("told", "read", ""),
        ("stopped", "read", ""),
    )
)
BANK = """
import asyncio

from flexchat import ToolContext


def append(context, what):
    with open("paid.txt", "a") as file:
        file.write(f"{context.conversation} {what}\\n")
    return what


async def pay(context: ToolContext) -> str:
    return append(context, "paid")


approved = rejected = withdrawn = pay


async def booked(context: ToolContext) -> str:
    reply = await context.ask("Which seat?", {"type": "object", "properties": {"seat": {"type": "string"}}})
    return append(context, "paid") + f" {reply.action} {dict(reply.content)}"


async def told(context: ToolContext) -> str:
    reply = await context.ask("Which word?", {"type": "object", "properties": {"seat": {"type": "string"}}})
    return f"{reply.action} {dict(reply.content)}"


async def stopped(context: ToolContext) -> str:
    await asyncio.sleep(60)
    return "nobody has stopped it"
"""


class Model:
    """Asks for the tool that the message names; after "told", for "pay"; then answers, each word with its time."""

    def __init__(self, words=5, word_s=0.0):
        class Handler(BaseHTTPRequestHandler):
            disable_nagle_algorithm = True

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                messages = body["messages"]
                last = max(n for n, message in enumerate(messages) if message["role"] == "user")
                kind, made = messages[last]["content"], sum(m["role"] == "assistant" for m in messages[last:])
                names = ["told", "pay"] if kind == "told" else [kind]
                call = None
                if made < len(names):
                    call = {"id": f"c{made}", "type": "function", "function": {"name": names[made], "arguments": "{}"}}
                texts = [] if call else [f"word{number}@" for number in range(words)]
                self.send_response(200)
                streams = body.get("stream")
                self.send_header("content-type", "text/event-stream" if streams else "application/json")
                if not streams:
                    message = {"role": "assistant", "content": " ".join(texts) or None}
                    message |= {"tool_calls": [call]} if call else {}
                    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if call else "stop"}
                    data = json.dumps({"id": "c", "object": "chat.completion", "model": "m-1", "choices": [choice]})
                    self.send_header("content-length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data.encode())
                    return
                self.end_headers()
                if call:
                    self.chunk({"role": "assistant", "tool_calls": [{"index": 0, **call}]})
                for text in texts:
                    time.sleep(word_s)
                    self.chunk({"content": f"{text}{time.perf_counter():.4f} "})
                self.chunk({}, "tool_calls" if call else "stop")
                self.wfile.write(b"data: [DONE]\n\n")

            def chunk(self, delta, reason=None):
                chunk = {"id": "c", "object": "chat.completion.chunk", "model": "m-1"}
                chunk["choices"] = [{"index": 0, "delta": delta, "finish_reason": reason}]
                self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
                self.wfile.flush()

            def log_message(self, *args):
                pass

        class Server(ThreadingHTTPServer):
            request_queue_size = 256

            def handle_error(self, request, client_address):
                """Readers that were killed are no errors."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self):
        self._server.shutdown()
        self._server.server_close()


class Servers:
    """Servers on one database, and the address at which they answer in turn."""

    def __init__(self, folder, store, model, count=2):
        self.folder = folder
        self.database = None
        if store == "postgresql":
            import postgres_server

            debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
            self.database = postgres_server.Server(debian[-1] if debian else postgres_server.binaries(), fsync=False)
            kept = f'[conversations]\nprovider = "postgresql"\ndsn = "{self.database.dsn()}"\n'
        else:
            kept = '[conversations]\npath = "kept.db"\n'
        (folder / "bank.py").write_text(BANK)
        self.config = CONFIG.format(url=model.url, tools=TOOLS) + kept
        self.running = [self.start(), *(self.start() for _ in range(count - 1))]
        self.kills, self._next = 0, 0

    def start(self):
        return WebServer(self.folder, self.config)

    def kill(self, number):
        """Kill a server, and start another one in its place."""
        self.running[number].kill()
        self.kills += 1
        self.running[number] = self.start()

    async def proxy(self):
        """Serve on a port; each connection goes to the next server, or to another one if that does not answer."""

        async def copy(reader, writer):
            with contextlib.suppress(OSError):
                while data := await reader.read(65_536):
                    writer.write(data)
                    await writer.drain()
            writer.close()

        async def connect(reader, writer):
            for _ in range(len(self.running)):
                self._next = (self._next + 1) % len(self.running)
                with contextlib.suppress(OSError, asyncio.CancelledError):  # it is cancelled at the end
                    up = await asyncio.open_connection("127.0.0.1", httpx.URL(self.running[self._next].url).port)
                    await asyncio.gather(copy(reader, up[1]), copy(up[0], writer))
                    return
            writer.close()

        server = await asyncio.start_server(connect, "127.0.0.1", 0, backlog=256)
        return server, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    def close(self):
        for server in self.running:
            server.close()
        if self.database is not None:
            self.database.remove()


class Turn:
    """One turn, as its client sees it."""

    def __init__(self, client, kind, conversation):
        self.client, self.kind, self.conversation = client, kind, conversation
        self.id, self.state, self.steps, self.acknowledged, self.tries = "", "", [], {}, 0

    async def send(self, method, path, **rest):
        """Send a request until it is answered by a server that runs; return its status and its data."""
        until = time.monotonic() + 120
        while True:
            self.tries += 1
            with contextlib.suppress(httpx.TransportError):
                answer = await self.client.request(method, path, **rest)
                if answer.status_code < 500:
                    return answer.status_code, answer.json() if answer.content else {}
            if time.monotonic() > until:
                raise TimeoutError(f"{method} {path} of {self.conversation} is not answered")
            await asyncio.sleep(0.1)

    async def run(self):
        streams = self.kind == "stopped"
        body = {"prompt": self.kind, "conversation": self.conversation, "questions": random.random() < 0.5}
        headers = {"idempotency-key": self.conversation}
        asking = asyncio.create_task(self.reply()) if self.kind in ("approved", "rejected", "booked", "told") else None
        if streams:
            await self.begin({**body, "stream": True}, headers)
        else:
            status, turn = await self.send("POST", "/chat/api", json=body, headers=headers)
            if status not in (200, 409):
                raise RuntimeError(f"{status} {turn}")
            self.id = turn.get("id", "")
        if not self.id:
            _, found = await self.send("GET", f"/api/turns?conversation={self.conversation}")
            self.id = found["turns"][0]["id"]
        if self.kind in ("stopped", "withdrawn"):
            status, answer = await self.send("POST", f"/api/turns/{self.id}/cancel")
            if status != 200 or answer["turn"]["status"] not in ENDED:
                raise RuntimeError(f"not cancelled: {status} {answer}")
        until = time.monotonic() + 120
        while self.state not in ENDED:
            _, turn = await self.send("GET", f"/api/turns/{self.id}")
            self.state, self.steps = turn.get("state", ""), turn.get("steps", [])
            if time.monotonic() > until:
                break
            await asyncio.sleep(0.1)
        if asking is not None:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def begin(self, body, headers):
        """Begin a turn that streams, and leave once it has an id."""
        while not self.id:
            self.tries += 1
            with contextlib.suppress(httpx.TransportError):
                async with self.client.stream("POST", "/chat/api", json=body, headers=headers) as answer:
                    async for line in answer.aiter_lines():
                        if line.startswith("data: ") and "id" in (data := json.loads(line[6:])):
                            self.id = data["id"]
                            return
            await asyncio.sleep(0.1)

    async def reply(self):
        """Reply to each question of the conversation, once it is asked."""
        while True:
            _, found = await self.send("GET", f"/api/questions?conversation={self.conversation}")
            for asked in found.get("questions", ()):
                reply = NO if self.kind == "rejected" else YES
                if self.kind in ("booked", "told"):
                    reply = {**YES, "content": {"seat": self.conversation}}
                status, answer = await self.send("POST", f"/api/questions/{asked['id']}/reply", json=reply)
                if status == 200:
                    self.acknowledged[asked["id"]] = reply["action"]
                elif status != 404:
                    raise RuntimeError(f"a reply was refused: {status} {answer}")
            await asyncio.sleep(0.15)

    def faults(self, paid):
        """Yield what is wrong with it."""
        about = f"{self.conversation} ({self.kind}, {self.state})"
        text = json.dumps(self.steps)
        is_unknown = "It is unknown whether" in text or "what it did is unknown" in text
        if self.state not in ENDED:
            yield f"{about} has not ended"
        if paid > 1:
            yield f"{about} has paid {paid} times"
        if paid < KINDS[self.kind] and not is_unknown:
            yield f"{about} has not paid: {text[-600:]}"
        if paid > KINDS[self.kind]:
            yield f"{about} has paid"
        noted = {step["data"]["id"]: step["data"]["reply"]["action"] for step in self.steps if step["kind"] == "reply"}
        for id, action in self.acknowledged.items():
            if noted.get(id) != action:
                yield f"{about}: the reply {action} to {id} is lost, the turn has {noted}"


async def drive(args, servers):
    """Run the turns while servers are killed; print the counts."""
    proxy, url = await servers.proxy()
    chance, began = random.Random(args.seed), time.monotonic()
    limits = httpx.Limits(max_keepalive_connections=0)
    async with httpx.AsyncClient(base_url=url, timeout=30, limits=limits) as client:
        turns = [Turn(client, chance.choice([*KINDS]), f"c{number}") for number in range(args.turns)]
        waiting = iter(turns)
        errors = []

        async def work():
            for turn in waiting:
                try:
                    await turn.run()
                except Exception as error:
                    errors.append(f"{turn.conversation} ({turn.kind}): {type(error).__name__}: {error}")

        async def kill():
            while True:
                await asyncio.sleep(args.kill_every)
                await asyncio.to_thread(servers.kill, servers.kills % len(servers.running))

        killing = asyncio.create_task(kill()) if args.kill_every else None
        await asyncio.gather(*(work() for _ in range(args.together)))
        if killing is not None:
            killing.cancel()
            await asyncio.gather(killing, return_exceptions=True)
    proxy.close()
    lines = (servers.folder / "paid.txt").read_text().splitlines()
    paid = collections.Counter(line.split()[0] for line in lines)
    faults = [*errors, *(fault for turn in turns for fault in turn.faults(paid[turn.conversation]))]
    kinds = collections.Counter(turn.kind for turn in turns)
    states = collections.Counter(turn.state for turn in turns)
    unknown = sum("It is unknown whether" in json.dumps(turn.steps) for turn in turns)
    replies = sum(len(turn.acknowledged) for turn in turns)
    resumed = sum(any(step["kind"] == "resumed" for step in turn.steps) for turn in turns)
    print(f"{args.store}: {len(turns)} turns ({dict(kinds)}), {time.monotonic() - began:.0f} s, {servers.kills} kills")
    print(f"{dict(states)}; {sum(paid.values())} payments, {unknown} unknown, {replies} replies acknowledged")
    print(f"{sum(turn.tries for turn in turns)} requests, {resumed} turns resumed")
    for fault in faults[:20]:
        print(fault)
    print(f"{len(faults)} broken promises", flush=True)
    return 1 if faults else 0


async def heard(response, most=None):
    """Return the events of a stream that have a number, until it ends or so many have come, and when they came."""
    found, event = [], {}
    async for line in response.aiter_lines():
        if line.startswith(":"):
            continue
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        elif event:
            if "id" in event:
                found.append((int(event["id"]), event["event"], json.loads(event["data"])))
            event = {}
            if len(found) == most:
                break
    return found


async def follow(client, id, after=0, most=None):
    async with client.stream("GET", f"/api/turns/{id}/events", headers={"last-event-id": str(after)}) as answer:
        return await heard(answer, most) if answer.status_code == 200 else []


async def stream_once(servers, chance):
    """Begin a turn in the first server, approve it in the second, which is killed, and finish it in the third."""
    clients = [httpx.AsyncClient(base_url=server.url, timeout=60) for server in servers.running]
    first, second, third = clients
    conversation = f"s{chance.random()}"
    body = {"prompt": "approved", "conversation": conversation, "stream": True}
    async with first.stream("POST", "/chat/api", json=body) as answer:
        found = await heard(answer)
    assert found[-1][1] == "suspended", found[-1]
    id, asked = found[0][2]["id"], found[-1][2]["pending"][0]["id"]
    servers.running[0].kill()
    whole = asyncio.create_task(follow(third, id))
    late = [*await follow(third, id, 0, 3)]
    assert (await second.post(f"/api/questions/{asked}/reply", json=YES)).status_code == 200
    await follow(second, id, len(found), 4)
    servers.running[1].kill()
    cuts = 0
    while cuts < 50:
        more = await follow(third, id, late[-1][0], chance.randint(1, 5))
        late += more
        cuts += 1
        if not more:
            break
    late += await follow(third, id, late[-1][0])
    uncut = await whole
    for client in clients:
        await client.aclose()
    lines = servers.folder / "paid.txt"
    paid = lines.read_text().count(conversation) if lines.exists() else 0
    if "It is unknown whether" in json.dumps(uncut):  # killed between its claim and its payment, or after that
        paid = max(paid, 1)
    names = [name for _, name, _ in uncut]
    assert late == uncut, "the stream that was cut differs from the uncut one"
    assert [number for number, _, _ in uncut] == [*range(1, len(uncut) + 1)]
    assert (names[-1], uncut[-1][2]["status"], paid) == ("turn", "done", 1), (names, paid)
    servers.running = [*(servers.start() for _ in range(2)), servers.running[2]]
    return cuts, len(uncut), names.count("turn_resumed")


async def streams(args, servers):
    chance = random.Random(args.seed)
    for number in range(args.stream):
        cuts, events, resumed = await stream_once(servers, chance)
        print(f"{number + 1}: {events} events, cut {cuts} times, resumed {resumed} times: equal, paid once", flush=True)
    return 0


async def delays(args, servers):
    """Begin turns in the first server, follow them in the second, and print how late their words are there."""
    found = []
    conversations = iter(range(args.delays))
    first, second = [httpx.AsyncClient(base_url=server.url, timeout=60) for server in servers.running]

    async def work():
        for number in conversations:
            body = {"prompt": "pay", "conversation": f"d{number}", "stream": True}
            async with first.stream("POST", "/chat/api", json=body) as answer:
                [(_, _, begun)] = await heard(answer, 1)  # and leaves: as when its connection breaks
            async with second.stream("GET", f"/api/turns/{begun['id']}/events") as elsewhere:
                event = ""
                async for line in elsewhere.aiter_lines():
                    event = line[7:] if line.startswith("event: ") else event
                    if event == "text" and line.startswith("data: "):
                        now = time.perf_counter()
                        found.extend(now - float(at) for at in re.findall(r"@([0-9.]+)", line))

    await asyncio.gather(*(work() for _ in range(args.together)))
    for client in (first, second):
        await client.aclose()
    found.sort()
    p50, p95, p99 = (found[int(len(found) * part)] * 1e3 for part in (0.5, 0.95, 0.99))
    print(f"{args.store}: {len(found)} words of {args.delays} turns, {args.together} at once, seen in another process")
    print(f"after {p50:.0f} ms (p50), {p95:.0f} ms (p95), {p99:.0f} ms (p99), {found[-1] * 1e3:.0f} ms at most")
    return 0 if found else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--together", type=int, default=12, help="clients at once")
    parser.add_argument("--kill-every", type=float, default=5.0, help="seconds; 0 for never")
    parser.add_argument("--store", choices=("sqlite", "postgresql"), default="sqlite")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--stream", type=int, default=0, help="so many turns that three processes share, instead")
    parser.add_argument("--delays", type=int, default=0, help="so many turns that another process reads, instead")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        model = Model(words=150, word_s=0.01) if args.stream else Model(50, 0.05) if args.delays else Model()
        servers = Servers(Path(name), args.store, model, count=3 if args.stream else 2)
        try:
            work = streams if args.stream else delays if args.delays else drive
            return asyncio.run(work(args, servers))
        finally:
            servers.close()
            model.close()


if __name__ == "__main__":
    sys.exit(main())
