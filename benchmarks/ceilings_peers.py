"""The budget of ceilings.py with two peers: how much is spent beyond the ceiling, or left.

    python -m venv harness && harness/bin/pip install pydantic-ai-harness
    harness/bin/python benchmarks/ceilings_peers.py spend-limits --requests 2000 --at-once 32

    python -m venv litellm && litellm/bin/pip install "litellm[proxy]"
    litellm/bin/python benchmarks/ceilings_peers.py litellm --requests 2000 --at-once 32 [--tiered]

One process each. SpendLimits: its store for several processes is Redis; its store in memory is shared by all runs.
LiteLLM: the proxy with a budget of one key, which a custom_auth module grants, since keys of its own need prisma's
programs, and with the callback that settles, which it adds with a database only; its counters and reservations are in
memory, and several proxies would share them by Redis. Usage and prices
are those of ceilings.py (with --tiered, LiteLLM's tiered_pricing as well), and what was charged is what the model
counted itself. A client gives up once it was refused 10 times, 0.1 s apart, as reservations of others end meanwhile.
"""

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
from decimal import Decimal
from pathlib import Path

MAX_REFUSALS = 10
AUTH = """
from litellm.proxy._types import UserAPIKeyAuth, hash_token
from litellm.proxy.hooks.proxy_track_cost_callback import _ProxyDBLogger

settling = _ProxyDBLogger()


async def check(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, token=hash_token(api_key), max_budget={usd})
"""


def charge(input_tokens, output_tokens, is_tiered=True):
    dear = 2 if is_tiered and input_tokens > 150 else 1
    return Decimal(dear * (input_tokens + 4 * output_tokens)) / 1_000_000


async def spend(options, ask):
    """Let clients ask at the same time; return the number of refusals. *ask* returns whether it was answered."""
    left, refused = options.requests, 0

    async def worker():
        nonlocal left, refused
        refusals = 0
        while left > 0 and refusals < MAX_REFUSALS:
            left -= 1
            if not await ask():
                refusals, refused = refusals + 1, refused + 1
                await asyncio.sleep(0.1)

    await asyncio.gather(*[worker() for _ in range(options.at_once)])
    return refused


async def spend_with_harness(options):
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.usage import RequestUsage
    from pydantic_ai_harness.spend import Budget, SpendLimitExceeded, SpendLimits

    charged = []

    async def answer(messages, info):
        await asyncio.sleep(options.seconds)
        usage = RequestUsage(input_tokens=random.randint(5, 200), output_tokens=random.randint(1, 50))
        charged.append(charge(usage.input_tokens, usage.output_tokens))
        return ModelResponse(parts=[TextPart("Yes.")], usage=usage)

    def price(response):
        return charge(response.usage.input_tokens, response.usage.output_tokens)

    limits = SpendLimits(budgets=[Budget(usd=options.usd, window="day")], price=price)
    agent = Agent(FunctionModel(answer), capabilities=[limits])

    async def ask():
        try:
            await agent.run("Hello")
        except SpendLimitExceeded:
            return False
        return True

    return charged, await spend(options, ask)


async def spend_with_litellm(options):
    import httpx

    charged = []

    async def serve(reader, writer):
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(head.partition(b"content-length:")[2].split(b"\r\n")[0] or 0))
                await asyncio.sleep(options.seconds)
                read, written = random.randint(5, 200), random.randint(1, 50)
                charged.append(charge(read, written, options.tiered))
                message = {"role": "assistant", "content": "Yes."}
                body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
                body["choices"] = [{"index": 0, "finish_reason": "stop", "message": message}]
                body["usage"] = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
                text = json.dumps(body).encode()
                head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
                writer.write(head.encode() + text)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6, "max_output_tokens": 50, "max_tokens": 50}
    if options.tiered:
        dear = {"range": [150, 1_000_000], "input_cost_per_token": 2e-6, "output_cost_per_token": 8e-6}
        cheap = {"range": [0, 150], "input_cost_per_token": 1e-6, "output_cost_per_token": 4e-6}
        prices["tiered_pricing"] = [cheap, dear]
    model = {"model": "openai/m", "api_base": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"}
    config = {
        "model_list": [{"model_name": "m", "litellm_params": {**model, "api_key": "none"}, "model_info": prices}],
        "general_settings": {
            "master_key": "sk-0123456789abcdef0123456789abcdef0123456789",
            "custom_auth": "granting.check",
            "custom_auth_run_common_checks": True,
        },
        "litellm_settings": {"num_retries": 0, "callbacks": "granting.settling"},
    }
    with tempfile.TemporaryDirectory() as name, socket.socket() as unused:
        folder = Path(name)
        (folder / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
        (folder / "granting.py").write_text(AUTH.format(usd=options.usd))
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        unused.close()
        words = ["--config", folder / "config.yaml", "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
        environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with (folder / "log").open("w") as log:
            program = Path(sys.executable).with_name("litellm")
            command = [program, *words]
            proxy = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, env=environment)  # noqa: ASYNC220
        try:
            headers = {"Authorization": "Bearer sk-1"}
            address = f"http://127.0.0.1:{port}"
            async with httpx.AsyncClient(base_url=address, headers=headers, timeout=120) as client:
                request = {"model": "m", "max_tokens": 50, "messages": [{"role": "user", "content": "Hello? " * 120}]}

                async def ask():
                    answer = await client.post("/v1/chat/completions", json=request)
                    if answer.is_success:
                        return True
                    if "budget_exceeded" not in answer.text:
                        raise RuntimeError(answer.text)
                    return False

                while True:
                    assert proxy.poll() is None, (folder / "log").read_text()[-2000:]
                    try:
                        await client.get("/health/liveliness")
                        break
                    except httpx.TransportError:
                        await asyncio.sleep(0.5)
                return charged, await spend(options, ask)
        finally:
            proxy.kill()
            proxy.wait()
            server.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=["spend-limits", "litellm"])
    parser.add_argument("--requests", type=int, default=2_000)
    parser.add_argument("--at-once", type=int, default=32)
    parser.add_argument("--seconds", type=float, default=0.02, help="that an answer takes")
    parser.add_argument("--usd", type=Decimal, default=Decimal("0.05"))
    parser.add_argument("--tiered", action="store_true", help="LiteLLM: the second tier of prices as well")
    options = parser.parse_args()
    run = spend_with_litellm if options.peer == "litellm" else spend_with_harness
    charged, refused = asyncio.run(run(options))
    total = sum(charged)
    text = f"budget ${options.usd}, charged ${total} ({total / options.usd:.2%})"
    print(f"{options.peer}: {len(charged):,} answers, {refused} refused; {text}")


if __name__ == "__main__":
    main()
