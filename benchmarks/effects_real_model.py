"""A real model, a real server, kill -9 in the middle of a turn with a tool that pays: it goes on, and pays once.

    python benchmarks/effects_real_model.py --url http://127.0.0.1:18080/v1 [--model NAME]

URL is an OpenAI-compatible server. `flexchat serve` answers one message with that model and a tool that appends a line
to a file. It is killed when the file has the line: while the tool still runs ("tool"), or while the model writes its
last answer ("answer"). Then it is started again, and takes the turn up by itself. Exit status 1 if a turn does not end,
if anything was paid twice, or if the answer does not know of it.
"""

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

CONVERSATION = "a" * 32

CONFIG = '''
[llms.it]
provider = "openai"
base_url = "{url}"
api_key = "none"

[conversations]
path = "kept.db"

[tools.effects]
lease_s = 2

[[tools.registry]]
name = "transfer"
description = "Transfer money. Returns the number of the receipt."
implementation = {{ type = "python", function = "bank:transfer" }}
effect = "write"
honours_key = true

[tools.registry.parameters]
type = "object"
required = ["amount", "to"]
properties = {{ amount = {{ type = "integer" }}, to = {{ type = "string" }} }}

[[responses]]
llm = "it"
model = "{model}"
prompt = """
You are a bank clerk. Use the tool to transfer money. Then say in one sentence what was done, with the number of the
receipt."""
tools = {{ enabled = true }}
'''

BANK = '''
import json, time
from pathlib import Path

from flexchat import ToolContext

DONE = Path(__file__).with_name("paid.jsonl")


def transfer(amount: int, to: str, context: ToolContext) -> dict:
    """Transfer money, once for each key."""
    done = [json.loads(line) for line in DONE.read_text().splitlines()] if DONE.exists() else []
    for payment in done:
        if payment["key"] == context.key:
            return {"receipt": payment["receipt"]}
    receipt = 7001 + len(done)
    with DONE.open("a") as file:
        file.write(json.dumps({"key": context.key, "amount": amount, "to": to, "receipt": receipt}) + "\\n")
    time.sleep(SECONDS)
    return {"receipt": receipt}
'''


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def serve(folder, port):
    """Start the server, and wait until it answers."""
    env = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, "-m", "flexchat", "serve", "--config", "flexchat.toml", "--port", str(port)]
    with (folder / "log").open("a") as log:
        server = subprocess.Popen(command, cwd=folder, env=env, stdout=log, stderr=log)
    until(lambda: asked(port, "/api/turns"), "the server does not start", folder)
    return server


def asked(port, path, body=None):
    """Return what the server answers, as JSON; None if it does not."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {"content-type": "application/json"})
    with contextlib.suppress(OSError):
        return json.load(urllib.request.urlopen(request, timeout=300))
    return None


def until(happened, else_say, folder, seconds=300):
    """Wait until something has happened, and return it."""
    end = time.monotonic() + seconds
    while not (found := happened()):
        if time.monotonic() > end:
            sys.exit(f"{else_say}:\n{(folder / 'log').read_text()}")
        time.sleep(0.05)
    return found


def killed_at(where, args):
    """Kill the server there; return whether the turn went on as promised."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        seconds = 3 if where == "tool" else 0
        (folder / "bank.py").write_text(BANK.replace("SECONDS", str(seconds)))
        (folder / "flexchat.toml").write_text(CONFIG.format(url=args.url, model=args.model))
        server = serve(folder, port)
        message = "Transfer 25 euros to Ann, please."
        curl = subprocess.Popen(
            [sys.executable, __file__, "--url", str(port), "--post", message], stdout=subprocess.DEVNULL
        )
        paid = folder / "paid.jsonl"
        until(paid.exists, "the model has not called the tool", folder)
        if where == "answer":
            until(
                lambda: any(effect["state"] == "done" for effect in asked(port, "/api/effects")["effects"]),
                "the tool does not end",
                folder,
            )
        server.send_signal(signal.SIGKILL)
        server.wait()
        curl.wait()
        (before,) = (json.loads(line) for line in paid.read_text().splitlines())

        server = serve(folder, port)
        until(
            lambda: [turn for turn in asked(port, "/api/turns")["turns"] if turn["state"] == "done"],
            "the turn does not go on",
            folder,
        )
        (effect,) = asked(port, "/api/effects")["effects"]
        conversation = asked(port, f"/api/conversations/{CONVERSATION}")
        answer = conversation["turns"][-1]["messages"][-1]
        server.terminate()
        server.wait()
        payments = len(paid.read_text().splitlines())
    text = json.dumps(answer, ensure_ascii=False)
    knows = str(before["receipt"]) in text
    print(f"killed in the {where}: {payments} payment, effect {effect['state']}, the answer: {text}")
    return payments == 1 and knows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True)
    parser.add_argument("--model", default="real-model")
    parser.add_argument("--post", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.post:
        return asked(args.url, "/chat/api", {"prompt": args.post, "conversation": CONVERSATION}) and 0
    return 0 if sum(killed_at(where, args) for where in ("tool", "answer")) == 2 else 1


if __name__ == "__main__":
    sys.exit(main())
