"""Many streaming chats at once: a server process with a model that takes 0.2 s, and clients in another process.

    python benchmarks/web_streams.py [--streams 1000] [--rounds 3] [--openai] [--keep]

Prints errors, the time until the first event and until the end (p50, p95), and the memory of the server. With a model
of 0.2 s that is the floor of each time; what is above it is the server's work and, on the same machine, the clients'.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

MODEL_SECONDS = 0.2
ANSWER = "It is warm and sunny in Rome today, with a light wind from the sea."


def serve(keep: str) -> None:
    """Be the server: print the port, then serve until the input ends."""
    import socket
    import threading

    import attrs
    from flexchat.assembly import installed_plugins
    from flexchat.plugin import hookimpl
    from flexchat_sdk import ProviderType
    from flexchat_testing import ScriptedProvider
    from flexchat_web.app import create_app
    from flexchat_web.commands.server import Server

    async def reply(messages, options):
        await asyncio.sleep(MODEL_SECONDS)
        return ANSWER

    @attrs.frozen
    class Nothing:
        pass

    class Plugin:
        @hookimpl
        def flexchat_register_providers(self):
            yield ProviderType(
                name="slow",
                config_class=Nothing,
                create=lambda _: ScriptedProvider([reply], repeat=True),
                tool_formats={"slow": lambda _: []},
            )

    host = installed_plugins()
    host.register(Plugin(), "slow")
    tables = {"llms": {"slow": {"provider": "slow"}}, "responses": [{"llm": "slow", "model": "m"}]}
    if keep:
        tables["conversations"] = {"path": keep}
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(4096)

    def started() -> None:
        print(listening.getsockname()[1], flush=True)

    server = Server(create_app(tables, plugins=host), started, verbose=False)

    def end() -> None:
        sys.stdin.read()
        server.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    asyncio.run(server.serve(sockets=[listening]))


async def one(session, url: str, number: int, *, openai: bool, keep: bool) -> tuple[float, float, str]:
    """Hold one streaming chat; return seconds to the first text, to the end, and what went wrong."""
    if openai:
        path = "/v1/chat/completions"
        body = {"model": "flexchat", "stream": True, "messages": [{"role": "user", "content": f"Rome? {number}"}]}
    else:
        path = "/chat/api"
        body = {"prompt": f"Rome? {number}", "stream": True}
        if keep:
            body["conversation"] = f"c{number}-{time.monotonic_ns()}"
    began = time.perf_counter()
    first, text, ended = 0.0, "", False
    try:
        async with session.post(url + path, json=body) as answer:
            if answer.status != 200:
                return 0.0, 0.0, f"status {answer.status}: {(await answer.text())[:200]}"
            name = ""
            async for raw in answer.content:
                line = raw.decode().rstrip("\n")
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    if line == "data: [DONE]":
                        ended = True
                        continue
                    data = json.loads(line[6:])
                    piece = (
                        (data["choices"][0]["delta"].get("content") or "")
                        if openai and data["choices"]
                        else data["text"]
                        if name == "text"
                        else ""
                    )
                    text += piece
                    first = first or (time.perf_counter() - began if piece else 0.0)
                    ended = ended or name == "turn"
    except Exception as error:
        return 0.0, 0.0, f"{type(error).__name__}: {error}"
    problem = "" if ended and text == ANSWER else f"incomplete: {text[:50]!r}"
    return first, time.perf_counter() - began, problem


def rss_mib(pid: int) -> tuple[float, float]:
    """Return what a process holds now, and the most it has held."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    return tuple(int(found[key].split()[0]) / 1024 for key in ("VmRSS", "VmHWM"))


def at(values: list[float], part: float) -> float:
    """Return a quantile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


async def load(options: argparse.Namespace, server: subprocess.Popen, url: str) -> int:
    """Make the load, round by round; return how many chats went wrong."""
    import aiohttp

    wrong = 0
    print(f"server before: {rss_mib(server.pid)[0]:.0f} MiB")
    for number in range(options.rounds + 1):
        streams = options.streams if number else 20  # the first round warms up
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            began = time.perf_counter()
            asked = [one(session, url, i, openai=options.openai, keep=options.keep) for i in range(streams)]
            found = await asyncio.gather(*asked)
            took = time.perf_counter() - began
        problems = [problem for _, _, problem in found if problem]
        wrong += len(problems)
        good = [(first, whole) for first, whole, problem in found if not problem]
        if not number:
            continue
        now, most = rss_mib(server.pid)
        firsts, wholes = [first for first, _ in good], [whole for _, whole in good]
        print(
            f"round {number}: {streams} streams at once, {len(problems)} errors, {took:.2f} s in all; "
            f"first text p50 {at(firsts, 0.5):.2f} s, p95 {at(firsts, 0.95):.2f} s; "
            f"end p50 {at(wholes, 0.5):.2f} s, p95 {at(wholes, 0.95):.2f} s; "
            f"server {now:.0f} MiB, at most {most:.0f} MiB"
        )
        for problem in sorted(set(problems))[:5]:
            print("   ", problem)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--openai", action="store_true", help="through /v1/chat/completions")
    parser.add_argument("--keep", action="store_true", help="each chat is a conversation that is kept")
    parser.add_argument("--serve", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 65_536)), hard))
    if options.serve is not None:
        serve(options.serve)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        keep = os.path.join(folder, "conversations.db") if options.keep else ""
        command = [sys.executable, __file__, "--serve", keep]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            url = f"http://127.0.0.1:{int(server.stdout.readline())}"
            try:
                return 1 if asyncio.run(load(options, server, url)) else 0
            finally:
                server.stdin.close()
                server.wait(30)


if __name__ == "__main__":
    sys.exit(main())
