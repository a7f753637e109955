"""What telemetry costs a turn: without the package, without an SDK, with a batch exporter, with one that never answers.

    python benchmarks/telemetry.py --turn http

Kinds of turn, each with two requests to a model and one call of a tool:

    memory   a scripted model: no network, nothing kept
    http     a server for OpenAI's API on the loopback interface, in a process of its own
    kept     the same, in a conversation that SQLite keeps
    served   the same, through the API of ``flexchat serve`` in this process; the client is in another

Each way runs in a process of its own, in turns with the others, so that a change of the machine's load meets all. CPU
is that of the whole process (the exporter's thread included) per turn, in the quietest fifth of the batches; the
percentiles are of the turns' times. Metrics are aggregated as well.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

WAYS = ("absent", "no sdk", "sdk", "hanging")
KINDS = ("memory", "http", "kept", "served")
BATCH = 100
WEATHER = {
    "name": "get_weather",
    "description": "Get the weather of a city.",
    "effect": "read",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "implementation": {"type": "mock", "mock_response": {"celsius": 19}},
}
PAIRED = Path(__file__).with_name("paired.py")
MESSAGE = "How is the weather in Paris?"
CLIENT = """\
import http.client, json, sys, uuid
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
HEADERS = {"Content-Type": "application/json"}
for line in sys.stdin:
    body = json.dumps({"prompt": sys.argv[2], "conversation": uuid.uuid4().hex})
    connection.request("POST", "/chat/api", body, HEADERS)
    answer = connection.getresponse()
    text = answer.read()
    print(json.dumps([answer.status, text.decode()[-200:]]), flush=True)
"""


def measure(way: str, kind: str, turns: int) -> dict[str, float]:
    """Run turns in one way, in this process; return the CPU of each in microseconds, and times in milliseconds."""
    if way in ("sdk", "hanging"):
        set_sdk(hangs=way == "hanging")

    async def run() -> dict[str, float]:
        cpu, times = [], []
        async with turn_of(kind, way) as turn:
            for _ in range(4 * BATCH):
                await turn()
            for _ in range(turns // BATCH):
                before = time.process_time()
                for _ in range(BATCH):
                    began = time.perf_counter()
                    await turn()
                    times.append((time.perf_counter() - began) * 1000)
                cpu.append((time.process_time() - before) / BATCH * 1e6)
        times.sort()
        quiet = sorted(cpu)[: max(1, len(cpu) // 5)]
        return {
            "cpu_us": statistics.mean(quiet),
            "p50_ms": times[len(times) // 2],
            "p95_ms": times[len(times) * 95 // 100],
        }

    return asyncio.run(run())


@contextlib.asynccontextmanager
async def turn_of(kind: str, way: str) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Open a chat, and what surrounds it; yield a function that runs a turn."""
    import attrs
    from flexchat import FlexChat, new_conversation_id
    from flexchat.domain.prices import Usage
    from flexchat.host import installed_plugins
    from flexchat_testing import ScriptedProvider, calls, says

    plugins = installed_plugins(block={"otel": "the benchmark"}) if way == "absent" else installed_plugins()
    config: dict[str, Any] = {
        "responses": [{"name": "main", "llm": "m", "model": "m1", "tools": {"enabled": True}}],
        "tools": {"enabled": True, "registry": [WEATHER]},
    }
    providers: dict[str, Any] = {}
    async with contextlib.AsyncExitStack() as stack:
        if kind == "memory":
            usage = Usage(input_tokens=100, output_tokens=10)
            script = calls(("get_weather", {"city": "Paris"})), says("It is nineteen degrees in Paris.")
            providers["m"] = ScriptedProvider([attrs.evolve(each, usage=usage) for each in script], repeat=True)
        else:
            pipe = asyncio.subprocess.PIPE
            server = await asyncio.create_subprocess_exec(sys.executable, PAIRED, "--serve", stdout=pipe)
            stack.callback(server.kill)
            assert server.stdout is not None
            url = f"http://127.0.0.1:{(await server.stdout.readline()).decode().strip()}/1/0/burst"
            config["llms"] = {"m": {"provider": "openai", "base_url": url, "api_key": "k"}}
        if kind in ("kept", "served"):
            config["conversations"] = {"path": f"{tempfile.mkdtemp()}/c.db"}
        if kind == "served":
            yield await stack.enter_async_context(served(config, plugins))
            return
        chat = FlexChat.from_config(config, providers=providers, plugins=plugins)
        await stack.enter_async_context(chat)
        assert chat.hooks.traces == (way in ("sdk", "hanging"))

        async def run() -> None:
            turn = await chat.respond(MESSAGE, conversation=new_conversation_id() if kind == "kept" else None)
            assert len(turn.tool_calls) == 1

        yield run


@contextlib.asynccontextmanager
async def served(config: Any, plugins: Any) -> AsyncIterator[Callable[[], Awaitable[Any]]]:
    """Serve a configuration; yield a function that has a client, in a process of its own, send a message."""
    import uvicorn
    from flexchat_web import create_app

    app = create_app(config, plugins=plugins)
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, access_log=False))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has nothing to wait for
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    pipe = asyncio.subprocess.PIPE
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", CLIENT, str(port), MESSAGE, stdin=pipe, stdout=pipe
    )

    async def run() -> None:
        assert client.stdin is not None
        assert client.stdout is not None
        client.stdin.write(b"\n")
        status, text = json.loads(await client.stdout.readline())
        assert status == 200, text

    try:
        yield run
    finally:
        client.kill()
        server.should_exit = True
        await task


def set_sdk(*, hangs: bool) -> None:
    """Set an SDK with a batch exporter, which answers at once or never."""
    from opentelemetry import metrics, trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    class Exporter(SpanExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            if hangs:
                threading.Event().wait()
            return SpanExportResult.SUCCESS

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(Exporter()))
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False))


def main() -> None:
    """Measure all ways, and print them beside each other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turn", choices=KINDS, default="http")
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--way", choices=WAYS, help="only this one, in this process, as JSON")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.turn, options.turns)), flush=True)
        os._exit(0)  # an exporter that hangs would hold up the exit
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(options.rounds):
        for way in WAYS:
            command = [sys.executable, __file__, "--way", way, "--turns", str(options.turns), "--turn", options.turn]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[way].append(json.loads(done.stdout.splitlines()[-1]))
    base = {name: statistics.median(each[name] for each in found["absent"]) for name in found["absent"][0]}
    print(f"{options.turn:10}{'CPU µs':>10}{'ratio':>8}{'p50 ms':>10}{'p95 ms':>10}{'ratio':>8}")
    for way in WAYS:
        now = {name: statistics.median(each[name] for each in found[way]) for name in base}
        ratios = now["cpu_us"] / base["cpu_us"], now["p95_ms"] / base["p95_ms"]
        print(
            f"{way:10}{now['cpu_us']:10.0f}{ratios[0]:8.3f}{now['p50_ms']:10.3f}{now['p95_ms']:10.3f}{ratios[1]:8.3f}"
        )


if __name__ == "__main__":
    main()
