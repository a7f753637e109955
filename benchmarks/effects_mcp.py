"""The MCP side of effects.py: a server over stdio that counts what it did, and answers as servers do on a bad day.

It acts when a tool is called, and then answers: in time, too late, half of it, not at all, with an error; or it dies
before or after it acted. With a key in _meta it acts once for each. Its process knows nothing of FlexChat.

A third tool is long: it answers with a task, and acts when somebody asks for the task late enough. Its tasks are in the
service's database, so that they survive the server, which dies while it is asked for them, answers late, or not at all.
"""

import sys

from flexchat_mcp import tasks
from flexchat_mcp.server import Server

TURNS = ("mcp_pay", "mcp_pay_with_key", "mcp_pay_long")
"""Tools that change something: without a key, with one, and with a task."""
LONG = "mcp_pay_long"

TIMEOUT_MS, LONG_TIMEOUT_MS = 250, 5_000
MOODS = ("well", "well", "well", "late", "never", "half", "error", "dead", "lost")
"""How a call is answered."""
POLL_MOODS = ("well", "well", "well", "late", "dead", "error")
"""How a request about a task is answered."""
KEY = "example.com/idempotency-key"
SERVER = f"""
import json, os, random, secrets, sqlite3, sys, time

path, run, moods, poll_moods = sys.argv[1], sys.argv[2], {MOODS!r}, {POLL_MOODS!r}
hints = {{"annotations": {{"readOnlyHint": True}}}} if "hints" in sys.argv else {{}}
TOOL = {{"description": "Pay.", "inputSchema": {{"type": "object", "properties": {{
    "amount": {{"type": "integer"}}, "note": {{"type": "string"}}}}}}}}


def do(name, key):
    database = sqlite3.connect(path, timeout=30, isolation_level=None)
    database.execute("BEGIN IMMEDIATE")
    if key is None or database.execute("INSERT OR IGNORE INTO keys VALUES (?)", (key,)).rowcount:
        database.execute("INSERT INTO effects (run, tool, key) VALUES (?, ?, ?)", (run, name, key))
    database.execute("COMMIT")
    database.close()


def send(asked, result=None, error=None, half=False):
    told = {{"error": {{"code": -32603, "message": error}}}} if error else {{"result": result}}
    line = json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **told}})
    sys.stdout.write(line[: len(line) // 2] if half else line + "\\n")
    sys.stdout.flush()


def database():
    opened = sqlite3.connect(path, timeout=30, isolation_level=None)
    opened.execute("CREATE TABLE IF NOT EXISTS tasks (id TEXT PRIMARY KEY, polls INTEGER, ends INTEGER)")
    return opened


def begin_task():
    id = secrets.token_hex(8)
    database().execute("INSERT INTO tasks VALUES (?, 0, ?)", (id, random.choice((0, 1, 3))))
    return id


def poll_task(id):
    "Count a poll; act, once, when there were enough; return the task as it is then."
    opened = database()
    opened.execute("BEGIN IMMEDIATE")
    found = opened.execute("UPDATE tasks SET polls = polls + 1 WHERE id = ? RETURNING polls, ends", (id,)).fetchone()
    if found is not None and found[0] > found[1]:
        if opened.execute("INSERT OR IGNORE INTO keys VALUES (?)", ("task " + id,)).rowcount:
            opened.execute("INSERT INTO effects (run, tool, key) VALUES (?, ?, ?)", (run, {LONG!r}, id))
    opened.execute("COMMIT")
    return told(id, found[0] > found[1]) if found is not None else None


def told(id, is_over):
    status = "completed" if is_over else "working"
    return {{"taskId": id, "status": status, "createdAt": "", "lastUpdatedAt": "", "ttl": None, "pollInterval": 0}}


for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params") or {{}}
    if method == "initialize":
        about = {{"name": "bank", "version": "1"}}
        send(asked, {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}},
            "tasks": {{"cancel": {{}}, "requests": {{"tools": {{"call": {{}}}}}}}}}}, "serverInfo": about}})
    elif method == "tools/list":
        long = {{"execution": {{"taskSupport": "required"}}}}
        listed = [{{"name": name, **TOOL, **hints}} for name in {TURNS!r}]
        send(asked, {{"tools": [{{**tool, **(long if tool["name"] == {LONG!r} else {{}})}} for tool in listed]}})
    elif method == "tools/call" and params["name"] == {LONG!r}:
        assert "task" in params
        mood = random.choice(moods)
        if mood == "dead":
            os._exit(1)
        id = begin_task() if mood != "error" else ""
        if mood == "lost":
            os._exit(1)
        if mood != "never":
            send(asked, {{"task": told(id, False)}}, mood == "error" and "no")
    elif method in ("tasks/get", "tasks/result"):
        mood = random.choice(poll_moods)
        if mood == "dead" and random.random() < 0.5:
            os._exit(1)
        task = poll_task(params["taskId"])
        if mood == "dead":
            os._exit(1)
        if mood == "late":
            time.sleep(0.05)
        if task is None or (mood == "error" and method == "tasks/get"):
            send(asked, error="no")
        elif method == "tasks/get":
            send(asked, task)
        else:
            send(asked, {{"content": [{{"type": "text", "text": {LONG!r} + " done"}}]}})
    elif method == "tools/call":
        mood, name = random.choice(moods), params["name"]
        if mood == "dead":
            os._exit(1)
        if mood != "error":
            do(name, (params.get("_meta") or {{}}).get({KEY!r}) if name == "mcp_pay_with_key" else None)
        if mood == "lost":
            os._exit(1)
        if mood == "late":
            time.sleep(0.4)
        if mood != "never":
            send(asked, {{"content": [{{"type": "text", "text": name + " done"}}]}}, mood == "error" and "no",
                half=mood == "half")
        if mood == "half":
            os._exit(1)
    elif "id" in asked:
        send(asked, {{}})
"""


def declarations():
    """Return how the table of the server may declare its tools later, by name."""
    return {
        "table: reads": {"table": {"effects": {"mcp_*": "read"}}},
        "table: is idempotent": {"table": {"effects": {"*": "idempotent"}}},
        "table: another key in _meta": {"key": KEY},
        "table: no key in _meta": {"key": None},
        "table: trusted": {"table": {"trust": True, "effects": {"*": "read"}}},
        "server: says that it reads": {"hints": True, "table": {"effects": {"readOnlyHint": "read"}}},
    }


def moves():
    """Return in which ways another source may offer the tool later, by name."""
    return {
        "server under another name": {"name": "moved", "table": {"effects": {"*": "read"}}},
        "second server, allowed in place of the first": {"second": {"effects": {"*": "read"}}},
        "second server, with a key": {"second": {"idempotency_meta": KEY}},
    }


def tables_of(folder, database, run, kind, change):
    """Return the tables of a run's server, as a config has them, the lock's name, and the source a rule allows."""
    program = folder / "bank.py"
    if not program.exists():
        program.write_text(SERVER)
    key = change.get("key", KEY if "with_key" in kind else None)
    with_key = {"idempotency_meta": key} if key else {}
    name = "bank_with_key" if "with_key" in kind else "bank_long" if kind.startswith(LONG) else "bank"
    name = change.get("name", name)
    table = {
        "name": name,
        "command": [sys.executable, "-S", str(program), str(database), run, *(["hints"] if "hints" in change else [])],
        "protocol": "handshake",
        "include": [kind.partition(",")[0]],
        "call_timeout_ms": LONG_TIMEOUT_MS if kind.startswith(LONG) else TIMEOUT_MS,
        "restarts": 1000,
        **with_key,
        **change.get("table", {}),
    }
    # A definition that has changed is accepted where it is the first one: under another lock.
    lock = f"{name}-{'-'.join(sorted(change))}.lock" if "hints" in change or "name" in change else f"{name}.lock"
    if "second" not in change:
        return [table], lock, name
    return [table, {**table, "name": "second", **change["second"]}], f"{name}-second.lock", "second"


def watch_calls(kill):
    """Have each request pass the points at which this process may end."""
    ask = Server.ask

    async def watched(self, *args, **rest):
        kill("tool before")
        answer = await ask(self, *args, **rest)
        kill("tool after")
        return answer

    Server.ask = watched
    tasks.MIN_PAUSE_S = 0.01
