"""A server of OpenAI's API under load: requests a second, latency, CPU and memory of the server.

    python benchmarks/gateway.py [--requests 600] [--litellm PATH/TO/litellm]

Each server is a process of its own in front of one model service that takes 20 ms, on loopback with TCP_NODELAY, so
that 20 ms is the floor of each answer. CPU and memory are those of the server's processes, its children included.
LiteLLM's proxy (measured: 1.108.7) runs beside ours if its program is named: install litellm[proxy] in an environment
of its own.

Measured on two cores shared with other work; read the columns CPU and MB, and compare rows of one run:

    server, at once           requests/s   p50 ms   CPU ms a request   MB
    flexchat, 1               38           25       3.5                72
    flexchat, 32              516          52       1.6                76
    flexchat, 32 streamed     464          69       1.9                78
    flexchat, 128             523          235      1.8                85
    litellm, 1            8            119      19.0               351
    litellm, 32           14           1845     14.8               357
    litellm, 32 streamed  22           1247     25.9               415
    litellm, 128          19           4976     14.6               427
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from web_load import cpu_s, processes, program

MODEL_S = 0.02
KEY = "sk-gateway-0123456789"
ROWS = ((1, False), (32, False), (32, True), (128, False))
WARM_UP = 20


async def model_service() -> None:
    """Answer every request after MODEL_S; print the port, and serve until the input ends."""
    answer = {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Paris."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
    whole = json.dumps(answer).encode()
    words = ["Paris", " is", " the", " capital", " of", " France", "."]
    pieces = [{"delta": {"content": word}, "finish_reason": None} for word in words]
    pieces.append({"delta": {}, "finish_reason": "stop"})
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    streamed = b"".join(b"data: %b\n\n" % json.dumps({**base, "choices": [{"index": 0, **p}]}).encode() for p in pieces)
    streamed += b"data: [DONE]\n\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
                is_stream = json.loads(await reader.readexactly(length) or b"{}").get("stream")
                await asyncio.sleep(MODEL_S)
                body, kind = (streamed, b"text/event-stream") if is_stream else (whole, b"application/json")
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, len(body)))
                writer.write(body)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0, backlog=512)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


def memory_mb(pid: int) -> float:
    """Return the memory of a process and all below it."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in processes(pid))
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def measure(url: str, pid: int, model: str, requests: int, at_once: int, *, stream: bool) -> str:
    """Return a row of the table."""
    import aiohttp

    body = {"model": model, "stream": stream, "messages": [{"role": "user", "content": "What is France's capital?"}]}
    took: list[float] = []
    errors = 0
    connector = aiohttp.TCPConnector(limit=at_once)
    async with aiohttp.ClientSession(connector=connector, headers={"authorization": f"Bearer {KEY}"}) as session:

        async def ask() -> None:
            nonlocal errors
            began = time.perf_counter()
            async with session.post(f"{url}/v1/chat/completions", json=body) as answer:
                errors += b"Paris" not in await answer.read()
            took.append((time.perf_counter() - began) * 1000)

        for _ in range(WARM_UP):
            await ask()
        took.clear()
        numbers = iter(range(requests))

        async def work() -> None:
            for _ in numbers:
                await ask()

        cpu, began = cpu_s(pid), time.perf_counter()
        await asyncio.gather(*(work() for _ in range(at_once)))
        wall, cpu = time.perf_counter() - began, cpu_s(pid) - cpu
    took.sort()
    p50, p99 = took[len(took) // 2], took[int(len(took) * 0.99)]
    kind = " streamed" if stream else ""
    return (
        f"{at_once}{kind} | {requests / wall:.0f} | {p50:.0f} | {p99:.0f} | {1000 * cpu / requests:.1f} | "
        f"{memory_mb(pid):.0f} | {errors}"
    )


@contextlib.contextmanager
def flexchat(service: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Run flexchat serve; yield its address and process."""
    (folder / "flexchat.toml").write_text(
        f'[llms.main]\nprovider = "openai"\nbase_url = "{service}/v1"\napi_key = "none-needed"\ndefault_model = "m"\n'
        '[[responses]]\nllm = "main"\nmodel = "m"\nprompt = "You are helpful."\n'
    )
    with started([program(), "serve", "--port", "0"], folder, {"FLEXCHAT_TOKEN": KEY}) as server:
        assert server.stdout is not None
        yield server.stdout.readline().split()[2].rstrip("/"), server.pid


@contextlib.contextmanager
def litellm(path: str, service: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Run LiteLLM's proxy; yield its address and process."""
    (folder / "litellm.yaml").write_text(
        "model_list:\n- model_name: main/m\n  litellm_params:\n"
        f"    {{model: openai/m, api_base: {service}/v1, api_key: none-needed}}\n"
    )
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    command = [path, "--config", "litellm.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with started(command, folder, {"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}) as server:
        url = f"http://127.0.0.1:{port}"
        for _ in range(240):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health/liveliness", timeout=1):
                break
            time.sleep(0.25)
        yield url, server.pid


@contextlib.contextmanager
def started(command: list[str], folder: Path, environ: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a server in a folder until the block ends."""
    pipes = {"stdout": subprocess.PIPE if environ.get("FLEXCHAT_TOKEN") else subprocess.DEVNULL}
    env = {**os.environ, **environ}
    server = subprocess.Popen(command, cwd=folder, env=env, stderr=subprocess.DEVNULL, text=True, **pipes)
    try:
        yield server
    finally:
        server.kill()
        server.communicate()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=600, help="of each row; a third of them for one at a time")
    parser.add_argument("--litellm", metavar="PATH", help="LiteLLM's program, to measure its proxy beside ours")
    parser.add_argument("--service", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.service:
        asyncio.run(model_service())
        return 0
    command = [sys.executable, __file__, "--service"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as service:
        address = f"http://127.0.0.1:{int(service.stdout.readline())}"
        print("server | at once | requests/s | p50 ms | p99 ms | CPU ms a request | MB | errors", flush=True)
        with tempfile.TemporaryDirectory() as name:
            servers = {"flexchat": lambda: flexchat(address, Path(name))}
            if options.litellm:
                servers["litellm"] = lambda: litellm(options.litellm, address, Path(name))
            for server, run in servers.items():
                with run() as (url, pid):
                    for at_once, stream in ROWS:
                        count = options.requests if at_once > 1 else options.requests // 3
                        row = asyncio.run(measure(url, pid, "main/m", count, at_once, stream=stream))
                        print(f"{server} | {row}", flush=True)
        service.stdin.close()
        service.wait(10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
