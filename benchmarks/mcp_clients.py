# ruff: noqa: E501
"""Let MCP clients that others wrote use flexchat serve, killed in the middle of each call. Print a table.

    python benchmarks/mcp_clients.py                        all clients, SQLite
    python benchmarks/mcp_clients.py --store postgresql
    python benchmarks/mcp_clients.py --environments FOLDER  where the clients are installed, kept for the next time

The clients: the MCP SDK for Python, FastMCP (with fastmcp-tasks), the client for TypeScript, another FlexChat, and the
Inspector's command line. Each makes its call alone, and once more with the server killed (SIGKILL) while its tool runs
and started again on the same port and file; the client then does what a client does: it calls again with its key, polls
its task, asks for the list. A payment is a line in a file. Of a call with a key that was killed, "once" is one payment,
and "unknown" one at most, with an error that says so; twice is a broken promise, as is none without an error.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests" / "servers"))


CLIENTS = {
    "MCP SDK (Python)": "mcp==2.3.0",
    "FastMCP": "fastmcp==4.2.3",
    "TypeScript client": "@modelcontextprotocol/client@2.4.0",
    "FlexChat": "",
}
WAYS = ("list", "call", "question", "approval", "task", "cancel")
TOOLS = """
import asyncio
from pathlib import Path
from flexchat.plugin import ToolContext

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

async def call(run: str) -> str:
    "Pay at once."
    return await paid(run)

async def question(run: str, context: ToolContext) -> str:
    "Pay for the one who is named."
    reply = await context.ask("What is your name?", NAME)
    return await paid(run) + f" for {reply.content['name']}"

async def approval(run: str) -> str:
    "Pay after an approval."
    return await paid(run)

async def task(run: str) -> str:
    "Pay in a task."
    return await paid(run)

async def cancel(run: str) -> str:
    "Pay late."
    Path(f"{run}.began").touch()
    await asyncio.sleep(20)
    return await paid(run)

async def paid(run: str) -> str:
    Path(f"{run}.began").touch()
    await asyncio.sleep(0.3)
    with open("paid.txt", "a") as file:
        file.write(f"{run}\\n")
    await asyncio.sleep(0.3)
    return f"paid {run}"
"""
CONFIG = """
[llms.bot]
provider = "rehearsal"
[[responses]]
llm = "bot"
model = "m"
tools = { enabled = true }
[tools.effects]
lease_s = 2
[conversations]
%s
[mcp_server]
tasks = { task = "optional" }
secret = "a-secret-of-the-benchmark-of-mcp-clients"
"""
TOOL = """
[[tools.registry]]
name = "%(name)s"
description = "Pay."
implementation = { type = "python", function = "bank:%(name)s" }
parameters = { type = "object", required = ["run"], properties = { run = { type = "string" } } }
%(more)s
"""
MORE = {"approval": "approve = true", "question": "asks_first = true"}
PYTHON = """
import asyncio, sys
url, way, run = sys.argv[1:]
meta = {"flexchat.dev/idempotency-key": run}
def name(message): return {"name": "Ann"} if "name" in message else {}
async def again(act):
    for tries in range(60):
        try: return await asyncio.wait_for(act(), 30)
        except Exception as error:
            if tries == 59 or not is_lost(error): raise
            await asyncio.sleep(0.2)
def is_lost(error):
    if isinstance(error, BaseExceptionGroup): return all(map(is_lost, error.exceptions))
    text = f"{type(error).__name__} {error}".lower()
    return any(word in text for word in ("connect", "closed", "protocol", "timeout", "terminated", "request_timeout", "disconnected", "stream ended", "sse", "without a response"))
"""
SDK = (
    PYTHON
    + """
from typing import Any, Literal
import mcp_types as types
from mcp import Client
from mcp.client.extension import ClientExtension, ResultClaim
async def answer(context, params): return types.ElicitResult(action="accept", content=name(params.message))
class Task(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str = ""
    status: str = ""
class Tasks(ClientExtension):
    identifier = "io.modelcontextprotocol/tasks"
    def claims(self): return [ResultClaim(result_type="task", model=Task, resolve=self.resolve)]
    async def resolve(self, task, context):
        async def poll():
            async with client() as c: return await get(c.session, task.task_id)
        while True:
            state = await again(poll)
            if state["status"] == "completed": return types.CallToolResult.model_validate(state["result"])
            if state["status"] in ("failed", "cancelled"):
                text = str(state.get("error", state["status"]))
                return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
            await asyncio.sleep(0.2)
class TaskParams(types.RequestParams):
    task_id: str
class GetTask(types.Request[TaskParams, Literal["tasks/get"]]):
    method: Literal["tasks/get"] = "tasks/get"
    params: TaskParams
    name_param = "taskId"
class AnyResult(types.Result):
    model_config = {"extra": "allow"}
async def get(session, id):
    return (await session.send_request(GetTask(params=TaskParams(task_id=id)), AnyResult)).model_dump(by_alias=True)
def client(): return Client(url, elicitation_callback=answer, extensions=[Tasks()])
async def act():
    async with client() as c:
        if way == "list": return ",".join(tool.name for tool in (await c.list_tools()).tools)
        pending = c.call_tool(way, {"run": run}, meta=meta)
        if way == "cancel":
            try: return (await asyncio.wait_for(pending, 1.5)).content[0].text
            except TimeoutError: return "cancelled"
        return (await pending).content[0].text
print(asyncio.run(again(act)))
"""
)
FASTMCP = (
    PYTHON
    + """
from fastmcp import Client
async def answer(message, response_type, params, context): return name(message)
async def act():
    async with Client(url, elicitation_handler=answer) as c:
        if way == "list": return ",".join(tool.name for tool in await c.list_tools())
        pending = c.call_tool(way, {"run": run}, meta=meta, raise_on_error=False)
        if way == "cancel":
            try: return (await asyncio.wait_for(pending, 1.5)).content[0].text
            except TimeoutError: return "cancelled"
        return (await pending).content[0].text
print(asyncio.run(again(act)))
"""
)
TYPESCRIPT = """
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
const [url, way, run] = process.argv.slice(2), _meta = { "flexchat.dev/idempotency-key": run };
async function act() {
  const c = new Client({ name: "ts", version: "1" }, { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: "auto" } });
  c.setRequestHandler("elicitation/create", async (r) => ({ action: "accept", content: r.params.message.includes("name") ? { name: "Ann" } : {} }));
  await c.connect(new StreamableHTTPClientTransport(new URL(url)));
  try {
    if (way === "list") return (await c.listTools()).tools.map((tool) => tool.name).join();
    const ending = new AbortController();
    if (way === "cancel") setTimeout(() => ending.abort(), 1500);
    try { return (await c.callTool({ name: way, arguments: { run }, _meta }, { signal: ending.signal })).content[0].text; }
    catch (error) { if (ending.signal.aborted) return "cancelled"; throw error; }
  } finally { await c.close().catch(() => {}); }
}
for (let tries = 0; ; tries++) {
  try { console.log(await act()); process.exit(0); }
  catch (error) { if (tries === 59) { console.log("FAILED " + error); process.exit(1); } await new Promise((go) => setTimeout(go, 200)); }
}
"""
FLEXCHAT = (
    PYTHON
    + """
from flexchat import FlexChat
from flexchat.plugin import Reply
async def answer(question): return Reply(action="accept", content=name(question.message))
async def act():
    server = {"name": "far", "url": url, "idempotency_meta": "flexchat.dev/idempotency-key", "call_timeout_ms": 60_000}
    config = {"llms": {"bot": {"provider": "rehearsal"}}, "tools": {"mcp": [server]}, "network": {"allow": ["127.0.0.1"]},
              "responses": [{"llm": "bot", "model": "m", "tools": {"enabled": True}}]}
    async with FlexChat.from_config(config) as chat:
        if way == "list":
            rule = chat.config.responses[0]
            await chat.tools.ready_for(rule)
            return ",".join(tool.name for tool in chat.tools.offer_to(rule).list())
        pending = chat.call_tool(way, {"run": run}, on_question=answer, idempotency_key=run)
        if way == "cancel":
            try: return (await asyncio.wait_for(pending, 1.5)).explained()
            except TimeoutError: return "cancelled"
        result = await pending
        if not result.success and any(word in result.explained() for word in ("connect", "lost", "ended", "unreachable", "closed")) and "unknown" not in result.explained():
            raise ConnectionError(result.explained())
        return str(result.result) if result.success else result.explained()
print(asyncio.run(again(act)))
"""
)


class Served:
    """flexchat serve on one port, which can be killed and started again."""

    def __init__(self, folder: Path, store: str) -> None:
        self.folder, self.kills = folder, 0
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/mcp"
        tools = "".join(TOOL % {"name": name, "more": MORE.get(name, "")} for name in WAYS if name != "list")
        (folder / "flexchat.toml").write_text(CONFIG % store + tools)
        (folder / "bank.py").write_text(TOOLS)
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "flexchat", "serve", "--port", str(self.port)]
        environment = {**os.environ, "XDG_DATA_HOME": str(self.folder / "data")}
        log = (self.folder / "serve.log").open("ab")
        self.process = subprocess.Popen(command, cwd=self.folder, env=environment, stdout=log, stderr=log)
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/health"):
                return
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "serve.log").read_text()[-2_000:])

    def kill(self) -> None:
        """Kill it, and start it again."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1
        self.start()


def kill_amid(served: Served, way: str, run: str, client: subprocess.Popen[str]) -> None:
    """Kill the server once the tool of a run has begun; of a list, at once."""
    until = time.monotonic() + 40
    began = served.folder / f"{run}.began"
    while way != "list" and not began.exists() and client.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    time.sleep(0.05 if way != "list" else 0.4)
    served.kill()


def use(served: Served, command: list[str], way: str, run: str, *, kills: bool, cwd: Path) -> str:
    """Let a client do one thing; return what came of it."""
    program = [*command, served.url, way, run]
    with subprocess.Popen(program, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        killing = None
        if kills:
            killing = threading.Thread(target=kill_amid, args=(served, way, run, client))
            killing.start()
        try:
            out, errors = client.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            client.kill()
            out, errors = client.communicate()
            errors = f"no answer within 120 s {errors}"
        if killing is not None:
            killing.join()
    lines = out.strip().splitlines()
    said = lines[-1] if lines else ""
    paid = served.folder / "paid.txt"
    times = paid.read_text().split().count(run) if paid.exists() else 0
    if times > 1:
        return f"BROKEN: paid {times} times"
    if way == "list":
        return "yes" if "approval" in said else f"FAILED: {(said or errors)[-160:]}"
    if way == "cancel":
        if kills and "unknown" in said.lower() and not times:  # the call again, with its key, after the kill
            return "unknown"
        return "yes" if said == "cancelled" and not times else f"FAILED: {(said or errors)[-160:]}"
    if f"paid {run}" in said:
        return "once" if times == 1 else "BROKEN: not paid"
    if "unknown" in said.lower():
        return "unknown"
    if "Unsupported result type 'task'" in said or "tasks" in said:
        return "-"
    return f"FAILED: {times} payments; {(said or errors)[-200:]}"


def main() -> int:
    """Run all clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=None)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    from installed import Installed

    folder = Path(tempfile.mkdtemp())
    installed = Installed(given.environments or folder / "environments")
    store, database = 'path = "kept.db"', None
    if given.store == "postgresql":
        import postgres_server

        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        database = postgres_server.Server(debian[-1] if debian else postgres_server.binaries(), fsync=False)
        store = f'provider = "postgresql"\ndsn = "{database.dsn()}"'
    work = folder / "work"
    work.mkdir()
    served = Served(work, store)
    failed = False
    try:
        programs = {name: command_of(name, installed, folder) for name in CLIENTS if given.only in name}
        print(f"{'client':22}" + "".join(f"  {way:>20}" for way in WAYS) + "   (undisturbed / killed midway)")
        for name, (command, cwd) in programs.items():
            cells = []
            for way in WAYS:
                outcomes = []
                for kills in (False, True):
                    run = f"{name.split()[0]}-{way}-{'killed' if kills else 'plain'}"
                    outcomes.append(use(served, command, way, run, kills=kills, cwd=cwd))
                failed |= any(outcome.startswith(("BROKEN", "FAILED")) for outcome in outcomes)
                cells.append(" / ".join(outcomes))
            print(f"{name:22}" + "".join(f"  {cell:>20}" for cell in cells), flush=True)
        inspect(served, installed, work)
        print(f"{served.kills} kills")
    finally:
        served.process.kill()
        served.process.wait()
        if database is not None:
            database.remove()
    return failed


def command_of(name: str, installed: object, folder: Path) -> tuple[list[str], Path]:
    """Install a client; return its command, and where it runs."""
    texts = {"MCP SDK (Python)": SDK, "FastMCP": FASTMCP, "FlexChat": FLEXCHAT}
    if name == "TypeScript client":
        at = installed.npm(CLIENTS[name]).parents[1]
        (at / "client.mjs").write_text(TYPESCRIPT)
        return [str(installed.node() / "node"), "client.mjs"], at
    at = folder / name.split()[0]
    at.mkdir()
    (at / "client.py").write_text(texts[name])
    python = Path(sys.executable) if name == "FlexChat" else installed.python(CLIENTS[name]) / "python"
    return [str(python), "client.py"], at


def inspect(served: Served, installed: object, work: Path) -> None:
    """Call through the Inspector's command line, over HTTP and stdio."""
    programs = installed.npm("@modelcontextprotocol/inspector@2.12.0")
    node = installed.node() / "node"
    flexchat = [str(Path(sys.executable).with_name("flexchat")), "mcp", "serve"]
    for title, target in (("HTTP", [served.url]), ("stdio", flexchat)):
        command = [str(node), str((programs / "mcp-inspector").resolve()), "--cli", *target]
        for words in (
            ["--method", "tools/list"],
            ["--method", "tools/call", "--tool-name", "call", "--tool-arg", f"run=inspector-{title}"],
        ):
            done = subprocess.run(
                [*command, *words, "--connect-timeout", "60000"], cwd=work, capture_output=True, text=True, timeout=120
            )
            good = ("approval" if words[1] == "tools/list" else f"paid inspector-{title}") in done.stdout
            print(f"Inspector over {title}, {words[1]}: {'yes' if good else (done.stdout + done.stderr)[-300:]}")


if __name__ == "__main__":
    sys.exit(main())
