"""An MCP server over stdio without the SDK, of either era, whose faults a test switches.

``mcp_server.py FOLDER [--era modern|handshake|both] [--fault NAME]…``. FOLDER/tools.json has its tools, read anew for
each list, or FOLDER/tools_of.json those of its tenant, FOLDER/resources.json its resources with their texts;
FOLDER/effects gets a line for each call of a tool that changes something, FOLDER/reads for each resource that is read,
FOLDER/starts for each start. FOLDER/fault holds the fault of the next call; it is removed when it is taken, unless it
begins with "always ".

The fault ``task {…}`` answers with a task, kept in FOLDER/tasks: it survives the server. Its plan says: "until", the
file in FOLDER that ends it, or "after", how many times it is asked for before; "end", its last status; "interval", what
it says of polling; "id"; "result"; "error", its "data"; "ask", whether it asks in between, and "again", whether it does
not stop; "forget", whether it is not kept; "die", at which poll the server dies; "deaf", which it does not answer;
"broken", how many polls end in an error; "stir", whether it tells when it has changed; "more", what else each answer
has.
FOLDER/polls, updates and cancels get a line for each request about a task, FOLDER/replies for each call that goes on
with the replies to its questions; the fault ``hang`` keeps its result back then.
"""

import json
import os
import queue
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

MODERN, HANDSHAKE = "2026-07-28", "2025-11-25"
OUT = threading.Lock()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a"]}
FORM = {"type": "object", "properties": {"seat": {"type": "string", "default": "any"}}}
TASKS, RELATED = "io.modelcontextprotocol/tasks", "io.modelcontextprotocol/related-task"
READABLE = ("resources/list", "resources/templates/list", "resources/read", "prompts/list", "prompts/get")
TOOLS = [
    {"name": "add", "description": "Add two numbers.", "inputSchema": SCHEMA},
    {"name": "count", "description": "Count something, for good.", "inputSchema": {"type": "object"}},
]


class Server:
    def __init__(self, arguments):
        self.folder, self.era, self.faults = Path(arguments.folder), arguments.era, set(arguments.fault)
        self.is_modern = False
        self.cancelled = set()
        self.replies = queue.Queue()

    def note(self, name, text):
        with open(self.folder / name, "a") as file:
            file.write(f"{text}\n")

    def write(self, text):
        with OUT:
            os.write(1, text.encode() if isinstance(text, str) else text)

    def send(self, message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    def result(self, asked, **result):
        more = {"resultType": "complete"} if self.is_modern and "resultType" not in result else {}
        self.send({"id": asked["id"], "result": {**more, **result}})

    def error(self, asked, code, message):
        self.send({"id": asked["id"], "error": {"code": code, "message": message}})

    def tools(self):
        of = self.folder / "tools_of.json"
        own = json.loads(of.read_text()) if of.exists() else {}
        if (tenant := os.environ.get("FLEXCHAT_TENANT")) in own:
            return own[tenant]
        path = self.folder / "tools.json"
        return json.loads(path.read_text()) if path.exists() else TOOLS

    def fault(self):
        path = self.folder / "fault"
        try:
            fault = path.read_text().strip()
        except FileNotFoundError:
            return ""
        if fault.startswith("always "):
            return fault.removeprefix("always ")
        path.unlink()
        return fault

    def serve(self):
        self.note("starts", os.getpid())
        sys.stderr.write("starting, with token=hunter2-secret\n")
        sys.stderr.flush()
        if "leave a child" in self.faults:
            import subprocess  # hundreds of servers are started, this one seldom

            child = subprocess.Popen(["sleep", "600"], start_new_session="daemon" in self.faults)
            self.note("children", child.pid)
        if "never start" in self.faults:
            time.sleep(600)
        if "print first" in self.faults:
            self.write("Welcome to the server!\n")
        if "print without end" in self.faults:
            while True:
                self.write("x" * 1000 + "\n")
        for line in sys.stdin:
            asked = json.loads(line)
            if "id" in asked and "method" in asked:
                self.is_modern = "io.modelcontextprotocol/protocolVersion" in (asked.get("params") or {}).get(
                    "_meta", {}
                )
                if asked["method"] in ("tools/call", "tasks/result"):
                    threading.Thread(target=self.answer, args=(asked,), daemon=True).start()
                else:
                    self.answer(asked)
            elif asked.get("id") == "question":
                self.replies.put(asked)
            elif asked.get("method") == "notifications/cancelled":
                self.note("cancelled", asked["params"]["requestId"])
                self.cancelled.add(asked["params"]["requestId"])
        if "ignore the end" in self.faults:
            time.sleep(600)

    def answer(self, asked):
        method = asked["method"]
        if method == "server/discover" and self.era != "handshake":
            self.result(
                asked,
                supportedVersions=[MODERN],
                capabilities=self.capabilities("tell" in self.faults),
                ttlMs=0,
                cacheScope="private",
            )
        elif f"die of {method.rpartition('/')[2]}" in self.faults:
            os._exit(3)
        elif method == "initialize" and self.era != "modern":
            self.result(
                asked,
                protocolVersion=HANDSHAKE,
                capabilities=self.capabilities(True),
                serverInfo={"name": "fake", "version": "1"},
            )
        elif method == "ping":
            self.result(asked)
        elif method == "tools/list":
            self.list(asked)
        elif method == "tools/call":
            self.call(asked)
        elif method.startswith("tasks/"):
            self.about_task(asked)
        elif method in READABLE and "readable" in self.faults:
            self.read(asked)
        elif method == "subscriptions/listen":
            self.listen(asked)
        else:
            self.error(asked, -32601, "Method not found")

    def capabilities(self, tells):
        tools = {} if "declare no tools" in self.faults else {"tools": {"listChanged": tells}}
        return {**tools, **self.further()}

    def further(self):
        more = {"resources": {}, "prompts": {}} if "readable" in self.faults else {}
        if "tasks" in self.faults:
            if self.is_modern:
                more["extensions"] = {TASKS: {}}
            else:
                more["tasks"] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        return more

    def read(self, asked):
        method, params = asked["method"], asked.get("params") or {}
        lasting = {"ttlMs": 0, "cacheScope": "private"} if self.is_modern else {}
        given = self.folder / "resources.json"
        if method == "resources/list" and given.exists():
            self.result(asked, resources=json.loads(given.read_text()), **lasting)
        elif method == "resources/list":
            page = int(params.get("cursor") or 0)
            more = {"nextCursor": str(page + 1)} if page < 1 or "endless resources" in self.faults else {}
            one = {"uri": f"note:///{page}", "name": f"note {page}", "mimeType": "text/plain"}
            self.result(asked, resources=[one], **more, **lasting)
        elif method == "resources/templates/list" and "no templates" in self.faults:
            self.error(asked, -32601, "Method not found")
        elif method == "resources/templates/list":
            self.result(asked, resourceTemplates=[{"uriTemplate": "note:///{n}", "name": "a note"}], **lasting)
        elif method == "resources/read":
            self.note("reads", params["uri"])
            texts = {one["uri"]: one["text"] for one in json.loads(given.read_text())} if given.exists() else {}
            uri, picture = params["uri"], {"blob": "aGVsbG8=", "mimeType": "image/png"}
            held = {
                "note:///picture": [{"uri": uri, **picture}],
                "note:///both": [{"uri": f"{uri}/1", "text": "one"}, {"uri": f"{uri}/2", **picture}],
                "note:///empty": [],
                "note:///whose": [{"uri": uri, "text": str(os.environ.get("FLEXCHAT_TENANT"))}],
                "note:///large": [{"uri": uri, "text": "".join(f"line {n} é\n" for n in range(4000))}],
            }
            fault = self.fault()
            if fault == "die":
                os._exit(7)
            elif params["uri"] in texts:
                self.result(asked, contents=[{"uri": uri, "text": texts[uri]}], **lasting)
            elif "inputResponses" in params:
                told = json.dumps(params["inputResponses"]["q"]["content"])
                self.result(asked, contents=[{"uri": uri, "text": told}], **lasting)
            elif fault == "ask":
                form = {"mode": "form", "message": "Which seat?", "requestedSchema": FORM}
                request = {"method": "elicitation/create", "params": form}
                self.result(asked, resultType="input_required", inputRequests={"q": request}, requestState="s")
            elif fault == "refuse":
                self.error(asked, -32603, "the disk is gone")
            elif not uri.startswith("note:///") or "missing" in uri:
                self.error(asked, -32602 if self.is_modern else -32002, f"Resource not found: {uri}")
            else:
                note = [{"uri": uri, "text": "a note\n\u001b[31mred"}]
                self.result(asked, contents=held.get(uri, note), **lasting)
        elif method == "prompts/list":
            arguments = [{"name": "city", "required": True}, {"name": "tone"}]
            self.result(asked, prompts=[{"name": "greet", "description": "Greet.", "arguments": arguments}], **lasting)
        else:
            told = json.dumps(params.get("arguments") or {})
            self.result(asked, messages=[{"role": "user", "content": {"type": "text", "text": f"Greet {told}"}}])

    def list(self, asked):
        self.note("lists", "")
        tools = self.tools()
        fresh = {"ttlMs": int((self.folder / "ttl").read_text()) if (self.folder / "ttl").exists() else 60_000}
        fresh = {**fresh, "cacheScope": "private"} if self.is_modern else {}
        if "hang lists" in self.faults:
            return
        if "endless pages" in self.faults:
            at = int((asked.get("params") or {}).get("cursor", "0"))
            self.result(asked, tools=[{**tools[0], "name": f"t{at}"}], nextCursor=str(at + 1), **fresh)
        elif "circle of pages" in self.faults:
            self.result(asked, tools=[], nextCursor="again", **fresh)
        elif "pages" in self.faults:
            at = int((asked.get("params") or {}).get("cursor", "0"))
            more = {"nextCursor": str(at + 1)} if at + 1 < len(tools) else {}
            self.result(asked, tools=tools[at : at + 1], **more, **fresh)
        else:
            self.result(asked, tools=tools, **fresh)

    def listen(self, asked):
        def ticking():
            key = "io.modelcontextprotocol/subscriptionId"
            about = {"_meta": {key: asked["id"]}}
            self.send(
                {
                    "method": "notifications/subscriptions/acknowledged",
                    "params": {**about, "notifications": {"toolsListChanged": True}},
                }
            )
            seen = None
            while True:
                path = self.folder / "tools.json"
                now = path.stat().st_mtime_ns if path.exists() else None
                if seen is not None and now != seen:
                    self.send({"method": "notifications/tools/list_changed", "params": about})
                seen = now or 0
                time.sleep(0.02)

        threading.Thread(target=ticking, daemon=True).start()

    def start_task(self, asked, plan):
        params = asked["params"]
        if self.is_modern:
            declared = params["_meta"]["io.modelcontextprotocol/clientCapabilities"].get("extensions", {})
            if TASKS not in declared:
                self.error(asked, -32021, "Missing required client capability")
                return
        elif "task" not in params and not plan.get("unasked"):
            self.error(asked, -32601, "Tool requires task augmentation")
            return
        id = plan.get("id", os.urandom(4).hex())
        task = {"id": id, "tool": params["name"], "plan": plan, "polls": 0, "ttl": params.get("task", {}).get("ttl")}
        self.note("tasks_made", json.dumps({"id": id, "task": params.get("task")}))
        if not plan.get("forget"):
            self.keep_task(task)
        told = self.told_of(task)
        if self.is_modern:
            self.result(asked, resultType="task", **told)
        else:
            self.result(asked, task=told)

    def keep_task(self, task):
        folder = self.folder / "tasks"
        folder.mkdir(exist_ok=True)
        part = folder / f".{os.urandom(4).hex()}"
        part.write_text(json.dumps(task))
        part.replace(folder / f"{task['id']}.json")

    def task(self, id):
        path = self.folder / "tasks" / f"{id}.json"
        return json.loads(path.read_text()) if path.exists() else None

    def told_of(self, task):
        plan = task["plan"]
        if task.get("cancelled"):
            status = "cancelled"
        elif plan.get("ask") and "reply" not in task:
            status = "input_required"
        elif (self.folder / plan["until"]).exists() if "until" in plan else task["polls"] > plan.get("after", 1):
            status = plan.get("end", "completed")
        else:
            status = "working"
        every = {"pollIntervalMs" if self.is_modern else "pollInterval": plan.get("interval", 0)}
        lasts = {"ttlMs" if self.is_modern else "ttl": None}
        told = {"taskId": task["id"], "status": status, "statusMessage": f"step {task['polls']}", **every, **lasts}
        told |= {"createdAt": "2026-11-26T00:00:00Z", "lastUpdatedAt": "2026-11-26T00:00:00Z", **plan.get("more", {})}
        if self.is_modern and status == "completed":
            told["result"] = self.result_of(task)
        elif self.is_modern and status == "failed":
            told["error"] = {"code": -32603, "message": plan.get("error", "no more paper"), "data": plan.get("data")}
        elif self.is_modern and status == "input_required":
            form = {"mode": "form", "message": "Which seat?", "requestedSchema": FORM}
            kind = "elicitation/create" if plan["ask"] is True else plan["ask"]
            name = f"q{task['polls']}" if plan.get("again") else "q"
            told["inputRequests"] = {name: {"method": kind, "params": form}}
        return told

    def result_of(self, task):
        said = f"{task['tool']} done" + (f", {json.dumps(task['reply'])}" if "reply" in task else "")
        return task["plan"].get("result", {"content": [{"type": "text", "text": said}]})

    def about_task(self, asked):
        method, params = asked["method"], asked["params"]
        task = self.task(params["taskId"])
        if method != "tasks/get" and method != "tasks/result":
            self.note(f"{method.removeprefix('tasks/')}s", json.dumps(params.get("inputResponses", params["taskId"])))
        if task is None:
            self.error(asked, -32602, "Failed to retrieve task: Task not found")
        elif method == "tasks/get":
            task["polls"] += 1
            self.keep_task(task)
            self.note("polls", task["id"])
            if task["polls"] == task["plan"].get("die"):
                os._exit(9)
            if task["polls"] == task["plan"].get("deaf"):
                return
            if task["polls"] <= task["plan"].get("broken", 0):
                self.error(asked, -32603, "Internal error")
                return
            self.result(asked, **self.told_of(task))
            if task["plan"].get("stir") and not self.is_modern and task["polls"] == 1:
                (self.folder / task["plan"]["until"]).touch()
                self.send({"method": "notifications/tasks/status", "params": self.told_of(task)})
        elif method == "tasks/update":
            if not task["plan"].get("again"):
                self.keep_task({**task, "reply": params["inputResponses"]["q"]})
            self.result(asked)
        elif method == "tasks/cancel":
            self.keep_task({**task, "cancelled": True})
            self.result(asked, **({} if self.is_modern else self.told_of({**task, "cancelled": True})))
        elif method == "tasks/result":
            about = {"_meta": {RELATED: {"taskId": task["id"]}}}
            if self.told_of(task)["status"] == "input_required":
                form = {"mode": "form", "message": "Which seat?", "requestedSchema": FORM, **about}
                self.send({"id": "question", "method": "elicitation/create", "params": form})
                reply = self.replies.get()["result"]
                assert reply.pop("_meta") == about["_meta"]
                task["reply"] = reply
                self.keep_task(task)
            while self.told_of(task)["status"] == "working":
                task["polls"] += 1
                time.sleep(0.01)
            if "error" in task["plan"]:
                self.error(asked, -32603, task["plan"]["error"])
                return
            self.result(asked, **{**self.result_of(task), **about})
        else:
            self.error(asked, -32601, "Method not found")

    def is_new(self, key):
        """Return whether no call had this idempotency key before; a call without one is always new."""
        path = self.folder / "keys"
        if key is None or (path.exists() and key in path.read_text().splitlines()):
            return key is None
        self.note("keys", key)
        return True

    def call(self, asked):
        params = asked["params"]
        name, arguments = params["name"], params.get("arguments") or {}
        if "inputResponses" in params:  # it is asked again, with the answer
            self.note("replies", json.dumps([params["inputResponses"]["q"], params.get("requestState")]))
            if name == "count" and self.is_new(params.get("_meta", {}).get("example.com/key")):
                self.note("effects", json.dumps(arguments))
            if self.fault() == "hang":
                time.sleep(600)
            self.result(asked, content=[{"type": "text", "text": json.dumps(params["inputResponses"]["q"])}])
            return
        fault = self.fault()
        self.note("calls", json.dumps({"name": name, "meta": params.get("_meta", {}), "fault": fault}))
        if name == "count" and fault != "ask" and self.is_new(params.get("_meta", {}).get("example.com/key")):
            self.note("effects", json.dumps(arguments))
        if fault == "die":
            os._exit(7)
        elif fault == "say why and die":
            sys.stderr.write("boom: no more room\n")
            sys.stderr.flush()
            os._exit(7)
        elif fault == "half":
            self.write('{"jsonrpc": "2.0", "id": 99, "resu')
            os._exit(0)
        elif fault == "hang":
            time.sleep(600)
        elif fault == "stop":
            os.kill(os.getpid(), 19)
        elif fault == "hang until cancelled":
            while asked["id"] not in self.cancelled:
                time.sleep(0.005)
        elif fault == "wait for go":
            while not (self.folder / "go").exists():
                time.sleep(0.005)
            self.result(asked, content=[{"type": "text", "text": "gone"}])
        elif fault.startswith("large "):
            self.result(asked, content=[{"type": "text", "text": "x" * int(fault.split()[1])}])
        elif fault == "flood":
            while True:
                self.send({"method": "notifications/message", "params": {"level": "info", "data": "y" * 100_000}})
        elif fault == "nonsense":
            while True:
                self.write("not a message\n")
        elif fault == "endless line":
            while True:
                self.write("z" * 100_000)
        elif fault == "print":
            self.write("debug: adding\n{]\n\x00\xff\n")
            self.result(asked, content=[{"type": "text", "text": "fine"}])
        elif fault == "refuse":
            self.error(asked, -32602, "Unknown tool: add")
        elif fault == "not a result":
            self.result(asked, content=7)
        elif fault == "progress":
            token = params["_meta"]["progressToken"]
            for told in ({"progress": 1, "total": 2, "message": "adding"}, {"progress": "much"}):
                self.send({"method": "notifications/progress", "params": {"progressToken": token, **told}})
            self.result(asked, content=[{"type": "text", "text": "fine"}])
        elif fault == "ask":
            form = {"mode": "form", "message": "Which seat?", "requestedSchema": FORM}
            if self.is_modern:
                request = {"method": "elicitation/create", "params": form}
                self.result(asked, resultType="input_required", inputRequests={"q": request}, requestState="s")
                return
            self.send({"id": "question", "method": "elicitation/create", "params": form})
            reply = self.replies.get()
            if name == "count":
                self.note("effects", json.dumps(arguments))
            self.result(asked, content=[{"type": "text", "text": json.dumps(reply.get("result"))}])
        elif fault.startswith("task "):
            self.start_task(asked, json.loads(fault.removeprefix("task ")))
        elif fault.startswith("{"):
            self.result(asked, **json.loads(fault))
        elif name == "add":
            total = arguments.get("a", 0) + arguments.get("b", 0)
            self.result(asked, content=[{"type": "text", "text": str(total)}])
        elif name == "count":
            self.result(asked, content=[{"type": "text", "text": "counted"}])
        elif name == "whose":
            about = {"tenant": os.environ.get("FLEXCHAT_TENANT"), "pid": os.getpid(), **arguments}
            self.result(asked, content=[{"type": "text", "text": json.dumps(about)}])
        else:
            self.result(asked, content=[{"type": "text", "text": f"Unknown tool: {name}"}], isError=True)


def main():
    # argparse would take a third of the server's start.
    folder, *words = [word for text in sys.argv[1:] for word in text.split("=", 1)]
    options = list(zip(words[::2], words[1::2], strict=True))
    faults = [value for name, value in options if name == "--fault"]
    Server(SimpleNamespace(folder=folder, era=dict(options).get("--era", "both"), fault=faults)).serve()


if __name__ == "__main__":
    main()
