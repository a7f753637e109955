"""One user who slows all others: what another user waits while expensive requests come in.

    python benchmarks/web_load.py [--seconds 4] [--only NAME …] [--list]

For each attack: a fresh `flexchat serve` in its own process, a light user (short chats that are kept, a little
Markdown, the health check, one after the other) measured first alone, then while another process sends the attack in
bursts. Prints the light user's p50 and p95 in ms, their ratio to those measured alone just before, its longest wait,
the server's seconds of CPU (its worker processes included) and the most memory one of its processes held.

The goal is a p95 of at most twice that of the undisturbed user. Machines are noisy: read ratios, not milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

FIXED = """\
[llms.robot]
provider = "rehearsal"
default_model = "r1"

[conversations]
path = "conversations.db"

[validation]
store = "validation.db"
"""
LAST_RULE = '[[responses]]\nllm = "robot"\nmodel = "r1"\nprompt = "Answer."\n'
TOOLS = '[tools]\nenabled = true\n[[tools.registry]]\nname = "calculator"\n'
FOUND_RULE = LAST_RULE.replace("Answer.", "Answer from {{rag_context}}")
STORE = '[stores.documents]\nprovider = "sqlite"\npath = "documents.db"\ncollection = "notes"\nsearch = "keyword"\n'


MAX_S = 30.0
"""After which the light user gives up."""


class Attack(NamedTuple):
    """What one user sends."""

    name: str
    path: str
    make: Callable[[], Any]  # JSON data of the body; None: a GET
    at_once: int = 16
    config: Callable[[str], str] = lambda liar: FIXED + TOOLS + LAST_RULE


def rules(count: int, condition: Callable[[int], str]) -> str:
    """Return a configuration's rules, none of which a chat of the light user fits but the last."""
    made = (f'[[responses]]\nllm = "robot"\nmodel = "r1"\nmatch = {{ {condition(i)} }}\n' for i in range(count))
    return FIXED + "".join(made) + LAST_RULE


def lying(liar: str) -> str:
    """Return a configuration with services that lie."""
    services = (
        f'[llms.{name}]\nprovider = "openai"\nbase_url = "{liar}/{name}"\ndefault_model = "m"\nretries = 0\n'
        for name in ("sse", "gzip", "plain", "retry")
    )
    return FIXED + "".join(services) + LAST_RULE


def markdown(text: str) -> Callable[[], Any]:
    return lambda: {"texts": [text]}


def toml(text: str) -> Callable[[], Any]:
    return lambda: {"text": FIXED + LAST_RULE + text, "format": "toml"}


def properties() -> dict[str, int]:
    """200,000 of them: 6 to 8 MB."""
    return {f"a_property_with_a_long_name_{i}": i for i in range(180_000)}


def completion(model: str) -> Callable[[], Any]:
    return lambda: {"model": model, "stream": model == "sse/m", "messages": [{"role": "user", "content": "hello"}]}


def history(size: int) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[i % 2], "content": f"word {i}"} for i in range(size)]


def regexps(_: str) -> str:
    patterns = ("(a+)+(?=b)c", "(?:a|aa)+(?!x)$y", "(\\\\w+\\\\s?)+(?<=q)z", "(a*)*\\\\1b", "(.*a){12}(?=z)")
    return rules(10, lambda i: f'topic_regexp = "{patterns[i % 5]}{i}"').replace(
        "[[responses]]", "[topic]\n[[responses]]", 1
    )


def words() -> str:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return " ".join(letters[i % 26] for i in range(250))


def in_store(_: str) -> str:
    """Return a configuration whose only rule shows the passages found, so that each chat searches."""
    return FIXED + STORE + FOUND_RULE


def common_words(count: int) -> str:
    """Return a question of as many words, each of which every passage of the store has."""
    return " ".join(f"w{i}" for i in range(count))


def old_records(models: int, tests: int) -> Any:
    """Return as many tests as a body may have values for: all different, or they would be one."""
    return {
        "records": {
            f"robot/m{i}": {
                "history": [
                    {"success": True, "timestamp": f"2026-01-01T00:{j // 60:02}:{j % 60:02}Z", "details": "x" * 20}
                    for j in range(tests)
                ]
            }
            for i in range(models)
        }
    }


ATTACKS = (
    Attack("harmless, for comparison", "/api/markdown", markdown("a *b*")),
    Attack("markdown: images", "/api/markdown", markdown("![" * 45_000)),
    Attack("markdown: links", "/api/markdown", markdown("[a](" * 24_000)),
    Attack("markdown: nested links", "/api/markdown", markdown("[" * 45_000 + "](x)" * 10_000)),
    Attack("markdown: table", "/api/markdown", markdown("|a" * 200 + "\n" + "|-" * 200 + "\n" + "|\n" * 45_000)),
    Attack(
        "markdown: wide table", "/api/markdown", markdown("|a" * 16_000 + "\n" + "|-" * 16_000 + "\n" + "|b" * 9_000)
    ),
    Attack("markdown: ticks", "/api/markdown", markdown("".join("`" * i + " " for i in range(1, 430)))),
    Attack("markdown: html", "/api/markdown", markdown("<a " * 32_000)),
    Attack("markdown: emphasis", "/api/markdown", markdown("*a_b**c__" * 11_000)),
    Attack("markdown: quotes", "/api/markdown", markdown(("> " * 40 + "a\n") * 1_200)),
    Attack("markdown: references", "/api/markdown", markdown("".join(f"[{i}]: /x\n" for i in range(8_000)))),
    Attack("config: x = [1,1,…]", "/api/config/validate", toml("x = [" + "1," * 300_000 + "]\n")),
    Attack("config: 10,000 rules", "/api/config/validate", toml(LAST_RULE * 10_000)),
    Attack(
        "config: 20,000 unknown keys",
        "/api/config/validate",
        toml("".join(f"unknown_{i} = 1\n" for i in range(20_000))),
    ),
    Attack(
        "config: 20,000 in a rule",
        "/api/config/validate",
        toml(LAST_RULE + "".join(f"max_token{i} = 1\n" for i in range(20_000))),
    ),
    Attack(
        "config: 800 misspelt models",
        "/api/config/validate",
        toml(
            "".join(
                f'[llms.service_{i}]\nprovider = "rehearsal"\n[[responses]]\nllm = "servise_{i}"\nmodel = "m"\n'
                for i in range(800)
            )
        ),
    ),
    Attack("config: as JSON, 180,000 keys", "/api/config/validate", lambda: {"config": properties()}),
    Attack(
        "config: edit 300 kB",
        "/api/config/edit",
        lambda: {
            "text": FIXED + LAST_RULE * 6_000,
            "format": "toml",
            "changes": [{"path": ["responses", 0, "model"], "value": "r2"}],
        },
        4,
    ),
    Attack(
        "config: diff 20,000 lines",
        "/api/config/diff",
        lambda: {"text": "".join(f"{random.choice('abc')} = 1\n" for i in range(20_000))},
    ),
    Attack("body: 180,000 properties, chat", "/chat/api", lambda: {"prompt": "hello", **properties()}),
    Attack(
        "body: 180,000 properties, tool", "/api/tools/call", lambda: {"name": "calculator", "arguments": properties()}
    ),
    Attack(
        "body: 180,000 properties, /v1",
        "/v1/chat/completions",
        lambda: {"model": "flexchat", "messages": [{"role": "user", "content": "hello"}], "x": properties()},
    ),
    Attack("body: 180,000 properties, import", "/api/validation/import", lambda: {"records": properties()}),
    Attack("body: a million numbers", "/chat/api", lambda: {"prompt": "hello", "selectedModels": [1] * 1_000_000}),
    Attack(
        "history: 20,000 messages", "/chat/api", lambda: {"prompt": "hello", "previousMessages": history(20_000)}, 4
    ),
    Attack(
        "history: 20,000 messages, /v1",
        "/v1/chat/completions",
        lambda: {"model": "flexchat", "messages": [*history(20_000), {"role": "user", "content": "hello"}]},
        4,
    ),
    Attack(
        "explain: 3,000 rules",
        "/api/explain",
        lambda: {"prompt": "hello"},
        16,
        lambda _: rules(3_000, lambda i: f'topic = "t{i}"'),
    ),
    Attack(
        "explain: patterns over 100,000", "/api/explain", lambda: {"prompt": "hello", "topic": "a" * 99_000}, 4, regexps
    ),
    Attack("chat: patterns over 100,000", "/chat/api", lambda: {"prompt": "hello", "topic": "a" * 99_000}, 4, regexps),
    Attack("validation: import of 80 × 300", "/api/validation/import", lambda: old_records(80, 300), 4),
    Attack("validation: matrix", "/api/validation/matrix", lambda: None, 8),
    Attack("service: SSE without empty lines", "/v1/chat/completions", completion("sse/m"), 4, lying),
    Attack("service: 15 MB unpacked", "/v1/chat/completions", completion("plain/m"), 2, lying),
    Attack("service: 15 MB in gzip", "/v1/chat/completions", completion("gzip/m"), 2, lying),
    Attack("service: Retry-After of 401 digits", "/v1/chat/completions", completion("retry/m"), 4, lying),
    Attack(
        "search: 250 words of one letter",
        "/chat/api",
        lambda: {"prompt": words()},
        16,
        in_store,
    ),
    Attack("search: 16 words that all passages have", "/chat/api", lambda: {"prompt": common_words(16)}, 16, in_store),
    Attack("search: 64 words that all passages have", "/chat/api", lambda: {"prompt": common_words(64)}, 16, in_store),
    Attack("search: 90,000 characters", "/chat/api", lambda: {"prompt": "sea of words " * 6_900}, 16, in_store),
    Attack(
        "explain: 64 words that all passages have", "/api/explain", lambda: {"prompt": common_words(64)}, 16, in_store
    ),
    Attack("rag add: a row of 20,000 columns", "", lambda: None, 1, in_store),
)


# --- the user who is measured ---


async def light_user(url: str, seconds: float) -> list[float]:
    """Do small things, one after the other, for so long; return how long each took, in ms."""
    import aiohttp

    took: list[float] = []
    ends = time.perf_counter() + seconds
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=MAX_S)) as session:

        async def chat() -> None:
            body = {"prompt": "hello", "conversation": f"light{len(took) // 24}"}
            async with session.post(f"{url}/chat/api", json=body) as answer:
                assert answer.status == 200, await answer.text()

        async def little_markdown() -> None:
            async with session.post(f"{url}/api/markdown", json={"texts": ["a **b** `c`"]}) as answer:
                assert answer.status == 200, await answer.text()

        async def health() -> None:
            async with session.get(f"{url}/health") as answer:
                assert answer.status == 200, await answer.text()

        while time.perf_counter() < ends:
            for each in (chat, little_markdown, health):
                began = time.perf_counter()
                with contextlib.suppress(TimeoutError):
                    await each()
                took.append((time.perf_counter() - began) * 1000)
                await asyncio.sleep(0.005)
    return took


def at(values: list[float], part: float) -> float:
    """Return a quantile."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


# --- the user who slows the others: a process of its own ---


async def attacker(attack: Attack, url: str, seconds: float) -> None:
    """Send bursts: the next one a second after the last, or when that is answered."""
    import aiohttp

    data = attack.make()
    raw = None if data is None else json.dumps(data).encode()
    statuses: dict[int, int] = {}
    done = 0
    timeout = aiohttp.ClientTimeout(total=300)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:

        async def one() -> None:
            nonlocal done
            method = "POST" if raw is not None else "GET"
            try:
                headers = {"content-type": "application/json"}
                async with session.request(method, url + attack.path, data=raw, headers=headers) as answer:
                    await answer.read()
                    statuses[answer.status] = statuses.get(answer.status, 0) + 1
            except (aiohttp.ClientError, OSError):  # refused before its end
                statuses[0] = statuses.get(0, 0) + 1
            done += 1

        print("ready", flush=True)
        sys.stdin.readline()
        ends = time.perf_counter() + seconds
        while time.perf_counter() < ends:
            began = time.perf_counter()
            await asyncio.gather(*(one() for _ in range(attack.at_once)))
            await asyncio.sleep(max(0.0, began + 1 - time.perf_counter()))
    print(json.dumps(statuses), flush=True)


def adder(folder: Path) -> list[str]:
    """Return the command that adds one row of 20,000 columns to the store the server reads."""
    names = ",".join(f"column_{i}" for i in range(20_000))
    (folder / "wide.csv").write_text(f"{names}\n{','.join(f'value {i}' for i in range(20_000))}\n")
    return [program(), "rag", "add", "wide.csv", "--collection", "notes"]


def added(pid: int, folder: Path) -> str:
    """Wait for that command to end, and return what it took and how large it left the store."""
    _, _, used = os.wait4(pid, 0)
    size = sum(each.stat().st_size for each in folder.glob("documents.db*"))
    return (
        f"rag add: {used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss / 1024:.0f} MiB; "
        f"store {size / 2**20:.1f} MiB, the file {(folder / 'wide.csv').stat().st_size / 2**20:.1f}"
    )


# --- services that lie ---


async def lie() -> None:
    """Serve answers no honest service gives; print the port, and serve until the input ends."""
    from aiohttp import web

    text = "a" * (15 * 2**20)
    whole = json.dumps(
        {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
    ).encode()
    packed = gzip.compress(whole)

    async def sse(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        for _ in range(390):
            await answer.write(b": no\n" * 205)
        await answer.write_eof()
        return answer

    async def plain(_: web.Request) -> web.Response:
        return web.Response(body=whole, content_type="application/json")

    async def in_gzip(_: web.Request) -> web.Response:
        return web.Response(body=packed, content_type="application/json", headers={"content-encoding": "gzip"})

    async def retry(_: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "later"}}, status=429, headers={"retry-after": "9" * 401})

    app = web.Application()
    for name, handler in (("sse", sse), ("plain", plain), ("gzip", in_gzip), ("retry", retry)):
        app.router.add_post(f"/{name}/chat/completions", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(site._server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


# --- measuring ---

COLUMNS = (
    "attack",
    "at once",
    "alone p50 / p95 ms",
    "disturbed p50 / p95 ms",
    "ratio of p95",
    "longest ms",
    "CPU s",
    "peak MiB",
    "answers",
)


def program() -> str:
    return str(Path(sys.executable).parent / "flexchat")


def processes(pid: int) -> list[int]:
    """Return a process and all below it."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in (task / "children").read_text().split():
            found += processes(int(child))
    return found


def cpu_s(pid: int) -> float:
    """Return the CPU time of a process and all below it, those that have ended too."""
    ticks = 0
    for each in processes(pid):
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """Return the most that one of the processes held."""

    def peak(each: int) -> int:
        lines = Path(f"/proc/{each}/status").read_text().splitlines()
        return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)

    return max(map(peak, processes(pid))) / 1024


def measure(attack: Attack, liar: str, seconds: float) -> str:
    """Return a row of the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "flexchat.toml").write_text(attack.config(liar))
        if STORE in attack.config(liar):
            (folder / "note.txt").write_text(
                "\n\n".join(f"a b c d e f {i} about the sea " * 3 + common_words(64) for i in range(2_000))
            )
            add = [program(), "rag", "add", "note.txt", "--collection", "notes"]
            subprocess.run(add, cwd=folder, check=True, capture_output=True)
        serve = [program(), "serve", "--port", "0"]
        server = subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            url = server.stdout.readline().split()[2].rstrip("/")
            if "matrix" in attack.name:
                import urllib.request

                for _ in range(1):
                    body = json.dumps(old_records(80, 300)).encode()
                    request = urllib.request.Request(
                        f"{url}/api/validation/import", body, {"content-type": "application/json"}
                    )
                    urllib.request.urlopen(request).read()
            asyncio.run(light_user(url, 0.5))  # warms up
            alone = asyncio.run(light_user(url, seconds))
            before = cpu_s(server.pid)
            if attack.path:
                command = [sys.executable, __file__, "--attack", attack.name, url, str(seconds)]
            else:
                command = adder(folder)
            other = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
            if attack.path:
                other.stdout.readline()
                other.stdin.write("go\n")
                other.stdin.flush()
            disturbed = asyncio.run(light_user(url, seconds))
            try:
                statuses = (
                    other.communicate(timeout=2 * seconds)[0].strip() if attack.path else added(other.pid, folder)
                )
            except subprocess.TimeoutExpired:
                statuses = "not answered in time"
            other.kill()
            other.wait()
            cpu, peak = cpu_s(server.pid) - before, peak_mib(server.pid)
        except (OSError, AssertionError, TimeoutError) as error:
            return f"| {attack.name} | {type(error).__name__}: {error} |"
        finally:
            server.send_signal(signal.SIGKILL)
            server.wait()
    p95s = at(alone, 0.95), at(disturbed, 0.95)
    return (
        f"| {attack.name} | {attack.at_once} | {at(alone, 0.5):.1f} / {p95s[0]:.1f} | "
        f"{at(disturbed, 0.5):.1f} / {p95s[1]:.1f} | {p95s[1] / p95s[0]:.1f} | {max(disturbed):.0f} | {cpu:.1f} | "
        f"{peak:.0f} | {statuses} |"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="how long each is measured, alone and disturbed")
    parser.add_argument("--only", metavar="NAME", nargs="*", help="attacks whose names have one of these in them")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    parser.add_argument("--attack", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--lie", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.lie:
        asyncio.run(lie())
        return 0
    if options.attack:
        name, url, seconds = options.attack
        asyncio.run(attacker(next(a for a in ATTACKS if a.name == name), url, float(seconds)))
        return 0
    chosen = [a for a in ATTACKS if not options.only or any(part in a.name for part in options.only)]
    if options.list:
        print("\n".join(attack.name for attack in chosen))
        return 0
    command = [sys.executable, __file__, "--lie"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as liar:
        url = f"http://127.0.0.1:{int(liar.stdout.readline())}"
        print(f"| {' | '.join(COLUMNS)} |\n|{' --- |' * len(COLUMNS)}", flush=True)
        try:
            for attack in chosen:
                print(measure(attack, url, options.seconds), flush=True)
        finally:
            liar.stdin.close()
            liar.wait(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
