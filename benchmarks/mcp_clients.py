# ruff: noqa: E501
"""Let MCP clients that others wrote use FlexChat's server, with one side killed in the middle of a call. Print a table.

    python benchmarks/mcp_clients.py                        all clients over HTTP, SQLite
    python benchmarks/mcp_clients.py --store postgresql
    python benchmarks/mcp_clients.py --transport stdio      each client starts flexchat mcp serve
    python benchmarks/mcp_clients.py --processes 20         a call that three processes serve one after the other
    python benchmarks/mcp_clients.py --only FlexChat --ways question --repeat 30
    python benchmarks/mcp_clients.py --only Inspector
    python benchmarks/mcp_clients.py --environments FOLDER  where the clients are installed, kept for the next time

The clients: the MCP SDK for Python, FastMCP (tasks: fastmcp-tasks with the FastMCP that it needs), the client for
TypeScript (tasks: ext-tasks), another FlexChat, and the Inspector's command line. Each makes its call undisturbed, once
with the server killed (SIGKILL) while its tool runs, and once with the client killed. A killed HTTP server is started
again on its port and store; the client does what a client does: it calls again with its key, polls its task, asks for
the list. A killed client is started again, with the same call and key.

A payment is a row in the target's database. Tools pay without a key, but "key" and "approval", which pass FlexChat's key on:
the target then pays once for it. Such a call must end with "once". One without a key that was killed may be "unknown":
one payment at most, and an error that reports it. Twice is a broken promise, as is none without an error.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

TOP = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP / "tests" / "servers"))

if TYPE_CHECKING:
    from installed import Installed

CLIENTS = {
    "MCP SDK (Python)": "mcp==2.3.0",
    "FastMCP": "fastmcp==4.2.3",
    "TypeScript client": "@modelcontextprotocol/client@2.4.0 @modelcontextprotocol/ext-tasks@0.2.2",
    "FlexChat": "",
}
FASTMCP_TASKS = "fastmcp-tasks==4.1.4 fastmcp==4.1.4"  # there is none for 4.2
WAYS = ("list", "call", "key", "question", "approval", "task", "cancel")
MODES = ("undisturbed", "server killed", "client killed")
TOOLS = """
import asyncio, os, sqlite3
from pathlib import Path
from flexchat.plugin import ToolContext

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}

async def call(run: str) -> str:
    "Pay at once."
    return await paid(run)

async def key(run: str, context: ToolContext) -> str:
    "Pay at a target that takes a key."
    return await paid(run, context.key)

async def question(run: str, context: ToolContext) -> str:
    "Pay for the one who is named."
    reply = await context.ask("What is your name?", NAME)
    return await paid(run) + f" for {reply.content['name']}"

async def approval(run: str, context: ToolContext) -> str:
    "Pay after an approval, at a target that takes a key."
    return await paid(run, context.key)

async def task(run: str) -> str:
    "Pay in a task."
    return await paid(run)

async def cancel(run: str) -> str:
    "Pay late."
    begin(run)
    await asyncio.sleep(20)
    return await paid(run)

def begin(run):
    Path(f"{run}.new").write_text(str(os.getpid()))
    os.replace(f"{run}.new", f"{run}.began")

async def paid(run, key=None):
    begin(run)
    await asyncio.sleep(0.3)
    with sqlite3.connect("bank.db", timeout=30) as bank:
        bank.execute("INSERT OR IGNORE INTO paid VALUES (?, ?)", (key or os.urandom(8).hex(), run))
    bank.close()
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
tasks = { task = "required" }
secret = "a-secret-of-the-benchmark-of-mcp-clients"
prompts = [{ name = "review", text = "Review {{what}}.", arguments = [{ name = "what", required = true }] }]
resources = [{ uri = "memo://rules", name = "rules", text = "Be kind." }]
"""
TOOL = """
[[tools.registry]]
name = "%(name)s"
description = "Pay."
implementation = { type = "python", function = "bank:%(name)s" }
parameters = { type = "object", required = ["run"], properties = { run = { type = "string" } } }
%(more)s
"""
MORE = {
    "key": "honours_key = true",
    "approval": "approve = true\nhonours_key = true",
    "question": "asks_first = true",
}
PYTHON = """
import asyncio, json, sys
target, way, run = sys.argv[1:]
is_command = not target.startswith("http")
meta = {"flexchat.dev/idempotency-key": run}
def name(message): return {"name": "Ann"} if "name" in message else {}
async def again(act):
    for tries in range(60):
        try: return await asyncio.wait_for(act(), 30)
        except Exception as error:
            if tries == 59 or not is_lost(error): raise
            print(f"again: {error!r}"[:200], file=sys.stderr)
            await asyncio.sleep(0.2)
def is_lost(error):
    if isinstance(error, BaseExceptionGroup): return all(map(is_lost, error.exceptions))
    text = f"{type(error).__name__} {error}".lower()
    return any(word in text for word in ("connect", "closed", "readerror", "writeerror", "protocol", "timeout", "terminated", "request_timeout", "disconnected", "stream ended", "sse", "without a response"))
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
def client():
    from mcp.client.stdio import StdioServerParameters
    place = StdioServerParameters(command="/bin/sh", args=["-c", target]) if is_command else target
    return Client(place, elicitation_callback=answer, extensions=[Tasks()])
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
from fastmcp.client.transports import StdioTransport
async def answer(message, response_type, params, context): return name(message)
def client():
    place = StdioTransport(command="/bin/sh", args=["-c", target], keep_alive=False) if is_command else target
    return Client(place, elicitation_handler=answer)
task = None
async def in_task(c):
    global task
    from fastmcp_tasks import ToolTask, call_tool_task
    if task is None: task = (await call_tool_task(c, way, {"run": run}, meta=meta)).create_result
    result = await ToolTask(c, way, task, raise_on_error=False).result()
    return result.content[0].text
async def act():
    async with client() as c:
        if way == "list": return ",".join(tool.name for tool in await c.list_tools())
        if way == "task": return await in_task(c)
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
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { createTaskSessionFromClient } from "@modelcontextprotocol/ext-tasks/client";
const [target, way, run] = process.argv.slice(2), _meta = { "flexchat.dev/idempotency-key": run };
const clientInfo = { name: "ts", version: "1" }, clientCapabilities = { elicitation: { form: {} } };
let reference, count = 0;
// ext-tasks leaves it to the program to send the requests about tasks, which the SDK's client does not know.
function rawDispatch(transport) {
  const open = new Map(), receive = transport.onmessage, end = transport.onclose;
  transport.onmessage = (message, more) => {
    if (!open.has(message.id)) return receive?.(message, more);
    open.get(message.id).resolve(message.error ? { kind: "error", error: message.error } : { kind: "result", result: message.result });
    open.delete(message.id);
  };
  transport.onclose = () => { for (const each of open.values()) each.reject(new Error("closed")); end?.(); };
  return (request) => new Promise((resolve, reject) => {
    const id = `raw-${count++}`;
    open.set(id, { resolve, reject });
    const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": request.method, "mcp-name": request.params.name ?? request.params.taskId };
    transport.send({ jsonrpc: "2.0", id, ...request }, { headers }).catch(reject);
  });
}
async function inTask(c, transport) {
  const v2RequestFraming = { protocolVersion: "2026-07-28", clientInfo, clientCapabilities };
  const session = createTaskSessionFromClient(c, { endpointId: "flexchat", rawDispatch: rawDispatch(transport), v2RequestFraming });
  const execution = reference ? await session.resumeTask(reference) : await session.callTool(way, { run }, { metadata: _meta });
  if (execution.kind !== "task") throw new Error("it is no task");
  reference = execution.serializeReference();
  const { outcome } = await execution.settle();
  if (/^MCP client (request failed|connection closed)$/.test(outcome.error?.message)) throw outcome.error;  // resumed
  return outcome.status === "completed" ? outcome.result.content[0].text : String(outcome.error?.message ?? outcome.status);
}
async function act() {
  const c = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: "auto" } });
  c.setRequestHandler("elicitation/create", async (r) => ({ action: "accept", content: r.params.message.includes("name") ? { name: "Ann" } : {} }));
  const transport = target.startsWith("http") ? new StreamableHTTPClientTransport(new URL(target)) : new StdioClientTransport({ command: "/bin/sh", args: ["-c", target] });
  await c.connect(transport);
  try {
    if (way === "list") return (await c.listTools()).tools.map((tool) => tool.name).join();
    if (way === "task") return await inTask(c, transport);
    const ending = new AbortController();
    if (way === "cancel") setTimeout(() => ending.abort(), 1500);
    try { return (await c.callTool({ name: way, arguments: { run }, _meta }, { signal: ending.signal })).content[0].text; }
    catch (error) { if (ending.signal.aborted) return "cancelled"; throw error; }
  } finally { await c.close().catch(() => {}); }
}
for (let tries = 0; ; tries++) {
  try { console.log(await act()); process.exit(0); }
  catch (error) {
    console.error("again: " + error + " " + (error.cause ?? "") + JSON.stringify(error.cause?.issues ?? error.cause?.cause?.issues ?? ""));
    if (tries === 59) { console.log("FAILED " + error); process.exit(1); }
    await new Promise((go) => setTimeout(go, 200));
  }
}
"""
FLEXCHAT = (
    PYTHON
    + """
from flexchat import FlexChat
from flexchat.plugin import Reply
async def answer(question): return Reply(action="accept", content=name(question.message))
async def act():
    place = {"command": ["/bin/sh", "-c", target]} if is_command else {"url": target}
    server = {"name": "far", **place, "idempotency_meta": "flexchat.dev/idempotency-key", "call_timeout_ms": 60_000}
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
        text = result.explained()
        is_away = any(word in text for word in ("connect", "lost", "ended", "unreachable", "closed")) and "unknown" not in text
        if not result.success and (is_away or "cannot be used" in text):
            raise ConnectionError(text)
        (effect,) = await chat.effects(limit=1)
        if effect.state != ("done" if result.success else "unknown"): return f"the ledger has {effect.state}: {text}"
        return str(result.result) if result.success else text
print(asyncio.run(again(act)))
"""
)
# One exchange of a call by the SDK's session: what is required is printed, and comes back in the next process.
EXCHANGE = (
    PYTHON
    + """
import mcp_types as types
from mcp import Client
async def answer(context, params): return types.ElicitResult(action="accept", content={})
async def act():
    async with Client(target, elicitation_callback=answer) as c:
        more = {"request_state": state["state"], "input_responses": state["responses"]} if (state := json.loads(sys.stdin.read() or "null")) else {}
        result = await c.session.call_tool(way, {"run": run}, meta=meta, allow_input_required=True, **more)
        if isinstance(result, types.InputRequiredResult):
            return json.dumps({"state": result.request_state, "responses": {each: {"action": "accept", "content": {}} for each in result.input_requests}})
        return result.content[0].text
print(asyncio.run(act()))
"""
)


class Served:
    """A folder with a configuration and a bank; flexchat serve on a port, which can be killed and started again.

    Attributes:
        target: What a client connects to: a URL, or a shell's command.
    """

    def __init__(self, folder: Path, store: str, transport: str) -> None:
        self.folder, self.kills = folder, 0
        tools = "".join(TOOL % {"name": name, "more": MORE.get(name, "")} for name in WAYS if name != "list")
        (folder / "flexchat.toml").write_text(CONFIG % store + tools)
        (folder / "bank.py").write_text(TOOLS)
        with contextlib.closing(sqlite3.connect(folder / "bank.db")) as bank:
            bank.execute("CREATE TABLE paid (key TEXT PRIMARY KEY, run TEXT)")
        self.process: subprocess.Popen[bytes] | None = None
        if transport == "stdio":
            program = f"{sys.executable} -m flexchat mcp serve 2>>serve.log"
            self.target = f"cd {folder} && XDG_DATA_HOME={folder}/data exec {program}"
            return
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.target = f"http://127.0.0.1:{self.port}/mcp"
        self.start()

    def start(self) -> None:
        """Start it, and wait until it answers."""
        self.process = start_server(self.folder, self.port)

    def kill(self) -> None:
        """Kill it, and start it again."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1
        self.start()

    def kill_amid(self, way: str, run: str, client: subprocess.Popen[str]) -> None:
        """Kill the server once the tool of a run has begun; of a list, at once."""
        pid = self.pid_of(way, run, client)
        time.sleep(0.05 if way != "list" else 0.4)
        if self.process is not None:
            self.kill()
        elif pid is not None:
            os.kill(pid, signal.SIGKILL)
            self.kills += 1

    def pid_of(self, way: str, run: str, client: subprocess.Popen[str]) -> int | None:
        """Wait until the tool of a run has begun; return the process that runs it, or None."""
        until = time.monotonic() + 40
        file = self.folder / f"{run}.began"
        while way != "list" and not file.exists() and client.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        return int(file.read_text()) if file.exists() else None

    def payments(self, run: str) -> int:
        """Count the payments of a run."""
        with contextlib.closing(sqlite3.connect(self.folder / "bank.db")) as bank:
            count: int = bank.execute("SELECT count(*) FROM paid WHERE run = ?", (run,)).fetchone()[0]
        return count

    def close(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()


def start_server(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """Start flexchat serve, and wait until it answers."""
    command = [sys.executable, "-m", "flexchat", "serve", "--port", str(port)]
    with (folder / "serve.log").open("ab") as log:
        environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return process
        time.sleep(0.05)
    raise RuntimeError((folder / "serve.log").read_text()[-2_000:])


def use(served: Served, command: list[str], way: str, run: str, *, mode: str, cwd: Path) -> str:
    """Let a client do one thing; return how that ended."""
    if way == "list" and mode != "undisturbed" and (served.process is None or mode == "client killed"):
        return "-"  # no tool shows that it is under way
    program = [*command, served.target, way, run]
    if mode == "client killed":
        with subprocess.Popen(program, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
            served.pid_of(way, run, client)
            client.kill()
            client.communicate()
    with subprocess.Popen(program, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        killer = threading.Thread(target=served.kill_amid, args=(way, run, client))
        if mode == "server killed":
            killer.start()
        try:
            out, errors = client.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            client.kill()
            out, errors = client.communicate()
            errors = f"no answer within 120 s {errors}"
        if mode == "server killed":
            killer.join()
    lines = out.strip().splitlines()
    answer = lines[-1] if lines else ""
    return outcome_of(way, run, answer or errors, served.payments(run), is_killed=mode != "undisturbed")


def outcome_of(way: str, run: str, answer: str, payments: int, *, is_killed: bool) -> str:
    """Return how a call ended: once, unknown, yes (a list, a cancellation), FAILED, or BROKEN with the reason."""
    if payments > 1:
        return f"BROKEN: paid {payments} times"
    if way == "list":
        return "yes" if "approval" in answer else f"FAILED: {answer[-400:]}"
    if way == "cancel" and answer == "cancelled" and not payments:
        return "yes"
    if f"paid {run}" in answer and way != "cancel":
        return "once" if payments == 1 else "BROKEN: not paid"
    if is_killed and "unknown" in answer.lower() and way not in ("key", "approval"):
        return "unknown"
    if is_killed and "cancelled" in answer.lower() and not payments:
        return "cancelled"
    return f"FAILED: {payments} payments; {answer[-600:]}"


def pass_on(folder: Path, store: str, command: list[str], cwd: Path, number: int) -> str:
    """Call at one process, approve over a second, which is killed, and get the result from a third."""
    ports = []
    for _ in range(3):
        with socket.create_server(("127.0.0.1", 0)) as free:
            ports.append(free.getsockname()[1])
    run, state, answer = f"passed-{number}", "", ""
    for place, port in enumerate(ports):
        process = start_server(folder, port)
        program = [*command, f"http://127.0.0.1:{port}/mcp", "approval", run]
        with subprocess.Popen(
            program, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as client:
            if place == 1:
                assert client.stdin is not None
                client.stdin.write(state)
                client.stdin.close()
                began = folder / f"{run}.began"
                until = time.monotonic() + 40
                while not began.exists() and client.poll() is None and time.monotonic() < until:
                    time.sleep(0.01)
                process.kill()
                client.kill()
                answer = "".join(filter(None, (client.stderr and client.stderr.read(),)))
            else:
                out, errors = client.communicate(state, timeout=120)
                answer = out.strip() or errors
                state = state or answer
        process.kill()
        process.wait()
    with contextlib.closing(sqlite3.connect(folder / "bank.db")) as bank:
        payments = bank.execute("SELECT count(*) FROM paid WHERE run = ?", (run,)).fetchone()[0]
    return outcome_of("approval", run, answer, payments, is_killed=True)


def main() -> int:
    """Run all clients."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--environments", type=Path, default=None)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--transport", choices=["http", "stdio"], default="http")
    parser.add_argument("--only", default="")
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=WAYS)
    parser.add_argument("--modes", nargs="*", choices=MODES, default=MODES)
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--processes", type=int, default=0, metavar="RUNS")
    options = parser.parse_args()
    from installed import Installed

    folder = Path(tempfile.mkdtemp())
    installed = Installed(options.environments or folder / "environments")
    store, database = 'path = "kept.db"', None
    if options.store == "postgresql":
        import postgres_server

        debian = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
        database = postgres_server.Server(debian[-1] if debian else postgres_server.binaries(), fsync=False)
        store = f'provider = "postgresql"\ndsn = "{database.dsn()}"'
    work = folder / "work"
    work.mkdir()
    served = Served(work, store, options.transport)
    try:
        if options.processes:
            (folder / "exchange.py").write_text(EXCHANGE)
            command = [str(installed.python(CLIENTS["MCP SDK (Python)"]) / "python"), str(folder / "exchange.py")]
            ends = collections.Counter(pass_on(work, store, command, folder, n) for n in range(options.processes))
            print(f"called at one process, approved over another, finished by a third: {dict(ends)}")
            return set(ends) != {"once"}
        problems = compare(served, installed, folder, options)
        if options.only in ("", "Inspector"):
            problems += inspect(served, installed, work)
        print(f"{served.kills} kills of the server")
        return problems > 0
    finally:
        served.close()
        if database is not None:
            database.remove()


def compare(served: Served, installed: Installed, folder: Path, options: argparse.Namespace) -> int:
    """Print a row for each client and mode; return how many calls failed."""
    problems: list[str] = []
    print(f"{'client':18}  {'':14}" + "".join(f"  {way:>12}" for way in options.ways))
    for name in CLIENTS:
        if options.only not in name:
            continue
        for mode in options.modes:
            cells = []
            for way in options.ways:
                command, cwd = command_of(name, way, installed, folder)
                ends: collections.Counter[str] = collections.Counter()
                for number in range(options.repeat):
                    run = f"{name.split()[0]}-{way}-{mode.split()[0]}-{number}"
                    end = use(served, command, way, run, mode=mode, cwd=cwd)
                    if end.startswith(("BROKEN", "FAILED")):
                        problems.append(f"{name}, {mode}, {way}: {end}")
                    ends[end.partition(":")[0]] += 1
                cells.append(
                    "; ".join(end if count == options.repeat else f"{count} {end}" for end, count in ends.items())
                )
            print(f"{name:18}  {mode:14}" + "".join(f"  {cell:>12}" for cell in cells), flush=True)
    print("\n".join(problems))
    return len(problems)


def command_of(name: str, way: str, installed: Installed, folder: Path) -> tuple[list[str], Path]:
    """Install a client; return its command, and where it runs."""
    texts = {"MCP SDK (Python)": SDK, "FastMCP": FASTMCP, "FlexChat": FLEXCHAT}
    if name == "TypeScript client":
        at = installed.npm(CLIENTS[name]).parents[1]
        (at / "client.mjs").write_text(TYPESCRIPT)
        return [str(installed.node() / "node"), "client.mjs"], at
    at = folder / name.split()[0]
    at.mkdir(exist_ok=True)
    (at / "client.py").write_text(texts[name])
    package = FASTMCP_TASKS if (name, way) == ("FastMCP", "task") else CLIENTS[name]
    python = Path(sys.executable) if name == "FlexChat" else installed.python(package) / "python"
    return [str(python), "client.py"], at


def inspect(served: Served, installed: Installed, work: Path) -> int:
    """Use the Inspector's command line, over HTTP and stdio; return how many of its answers are wrong."""
    problems = 0
    programs = installed.npm("@modelcontextprotocol/inspector@2.12.0")
    node = installed.node() / "node"
    flexchat = [str(Path(sys.executable).with_name("flexchat")), "mcp", "serve"]
    for title, target in (
        (("stdio", flexchat),) if served.process is None else (("HTTP", [served.target]), ("stdio", flexchat))
    ):
        command = [str(node), str((programs / "mcp-inspector").resolve()), "--cli", *target]
        run = f"inspector-{title}"
        for expected, *words in (
            ("approval", "tools/list"),
            (f"paid {run}", "tools/call", "--tool-name", "call", "--tool-arg", f"run={run}"),
            ("review", "prompts/list"),
            ("Review code.", "prompts/get", "--prompt-name", "review", "--prompt-args", "what=code"),
            ("memo://rules", "resources/list"),
            ("Be kind.", "resources/read", "--uri", "memo://rules"),
            ("resourceTemplates", "resources/templates/list"),
        ):
            done = subprocess.run(
                [*command, "--method", *words, "--connect-timeout", "60000"],
                cwd=work,
                capture_output=True,
                text=True,
                timeout=120,
            )
            is_good = expected in done.stdout and not done.returncode
            print(f"Inspector over {title}, {words[0]}: {'yes' if is_good else (done.stdout + done.stderr)[-300:]}")
            problems += not is_good
    return problems


if __name__ == "__main__":
    sys.exit(main())
