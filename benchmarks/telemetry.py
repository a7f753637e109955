"""What telemetry costs a turn: without the package, without an SDK, with a batch exporter, with one that never answers.

    python benchmarks/telemetry.py --turns 2000

Each way runs in a process of its own, in turns with the others, so that a change of the machine's load meets all. CPU
is that of the whole process (the exporter's thread included) per turn; the percentiles are of the turns' times. With
--kept, turns are kept in SQLite, as a server does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

WAYS = ("absent", "no sdk", "sdk", "hanging")
ROUNDS = 5


def measure(way: str, turns: int, think_ms: float, *, is_kept: bool) -> dict[str, float]:
    """Run turns in one way, in this process; return the CPU of each in microseconds, and times in milliseconds."""
    if way in ("sdk", "hanging"):
        set_sdk(hangs=way == "hanging")
    from flexchat import FlexChat, new_conversation_id, tool
    from flexchat.host import installed_plugins
    from flexchat_testing import ScriptedProvider, calls

    @tool(effect="read")
    async def add(a: int, b: int) -> int:
        """Add two numbers."""
        await asyncio.sleep(think_ms / 1000)
        return a + b

    plugins = installed_plugins(block={"otel": "the benchmark"}) if way == "absent" else installed_plugins()
    provider = ScriptedProvider([calls(("add", {"a": 1, "b": 2})), "three"], repeat=True)
    config: dict[str, Any] = {
        "responses": [{"name": "main", "llm": "m", "model": "m1", "tools": {"allowed_tools": ["add"]}}]
    }

    if is_kept:
        config["conversations"] = {"path": f"{tempfile.mkdtemp()}/c.db"}

    async def run() -> dict[str, float]:
        times = []
        async with FlexChat.from_config(config, tools=[add], providers={"m": provider}, plugins=plugins) as chat:
            assert chat.hooks.traces == (way in ("sdk", "hanging"))
            for _ in range(200):
                await chat.respond("1 + 2?", conversation=new_conversation_id() if is_kept else None)
            cpu = time.process_time()
            for _ in range(turns):
                began = time.perf_counter()
                await chat.respond("1 + 2?", conversation=new_conversation_id() if is_kept else None)
                times.append((time.perf_counter() - began) * 1000)
            cpu = time.process_time() - cpu
        times.sort()
        return {"cpu_us": cpu / turns * 1e6, "p50_ms": times[turns // 2], "p95_ms": times[turns * 95 // 100]}

    return asyncio.run(run())


def set_sdk(*, hangs: bool) -> None:
    """Set an SDK with a batch exporter, which answers at once or never."""
    import threading

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
    parser.add_argument("--turns", type=int, default=2000)
    parser.add_argument("--think-ms", type=float, default=0.0, help="how long the tool takes, without using the CPU")
    parser.add_argument("--kept", action="store_true", help="keep the turns in SQLite")
    parser.add_argument("--way", choices=WAYS, help="only this one, in this process, as JSON")
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way, options.turns, options.think_ms, is_kept=options.kept)), flush=True)
        os._exit(0)  # an exporter that hangs would hold up the exit
    found: dict[str, list[dict[str, float]]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            command = [sys.executable, __file__, "--way", way, "--turns", str(options.turns)]
            command += ["--think-ms", str(options.think_ms), *(["--kept"] if options.kept else [])]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[way].append(json.loads(done.stdout))
    base = {name: statistics.median(each[name] for each in found["absent"]) for name in found["absent"][0]}
    print(f"{'':10}{'CPU µs':>10}{'ratio':>8}{'p50 ms':>10}{'p95 ms':>10}{'ratio':>8}")
    for way in WAYS:
        now = {name: statistics.median(each[name] for each in found[way]) for name in base}
        ratios = now["cpu_us"] / base["cpu_us"], now["p95_ms"] / base["p95_ms"]
        print(
            f"{way:10}{now['cpu_us']:10.0f}{ratios[0]:8.3f}{now['p50_ms']:10.3f}{now['p95_ms']:10.3f}{ratios[1]:8.3f}"
        )


if __name__ == "__main__":
    main()
