"""The MCP side of effects.py: a server over stdio that counts what it did, and answers as servers do on a bad day.

It acts when a tool is called, and then answers: in time, too late, half of it, not at all, with an error; or it dies
before or after it acted. With a key in _meta it acts once for each. Its process knows nothing of FlexChat.
"""

import sys

from flexchat_mcp.server import Server

TURNS = ("mcp_pay", "mcp_pay_with_key")
"""Tools that change something: without a key, and with one."""

TIMEOUT_MS = 250
MOODS = ("well", "well", "well", "late", "never", "half", "error", "dead", "lost")
"""How a call is answered."""
KEY = "example.com/idempotency-key"
SERVER = f"""
import json, os, random, sqlite3, sys, time

path, run, moods = sys.argv[1], sys.argv[2], {MOODS!r}
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


for line in sys.stdin:
    asked = json.loads(line)
    method, params = asked.get("method"), asked.get("params") or {{}}
    if method == "initialize":
        about = {{"name": "bank", "version": "1"}}
        send(asked, {{"protocolVersion": "2025-11-25", "capabilities": {{"tools": {{}}}}, "serverInfo": about}})
    elif method == "tools/list":
        send(asked, {{"tools": [{{"name": name, **TOOL}} for name in {TURNS!r}]}})
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


def tables_of(folder, database, run, kind):
    """Return the tables of the server of a run, as a config has them."""
    program = folder / "bank.py"
    if not program.exists():
        program.write_text(SERVER)
    with_key = {"idempotency_meta": KEY} if "with_key" in kind else {}
    name = "bank_with_key" if with_key else "bank"
    return [
        {
            "name": name,
            "command": [sys.executable, "-S", str(program), str(database), run],
            "protocol": "handshake",
            "include": [kind.partition(",")[0]],
            "call_timeout_ms": TIMEOUT_MS,
            "restarts": 1000,
            **with_key,
        }
    ]


def watch_calls(kill):
    """Have each request pass the points at which this process may end."""
    ask = Server.ask

    async def watched(self, *args, **rest):
        kill("tool before")
        answer = await ask(self, *args, **rest)
        kill("tool after")
        return answer

    Server.ask = watched
