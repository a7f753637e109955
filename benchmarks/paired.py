"""Two checkouts measured in turns, in the same run: what a change costs or saves.

    .venv/bin/python benchmarks/paired.py --against ../other

Rows: a streamed answer in one burst and paced (CPU time per chunk, against a loop over httpx written by hand), from
the start of a process to its first conversation (against the same loop), how the cost of a tool iteration grows in a
long conversation, whole turns in memory, and turns of kept conversations (a SQLite file). Within a round a figure is
the least of several counts, as others use the machine too; what is shown is the median over the rounds, and a ratio is
taken within a round. The server runs in a process of its own, on the loopback interface; CPU time is the client's.
"""

import argparse
import asyncio
import importlib.metadata
import inspect
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
SCENARIOS = ("burst", "paced", "first", "growth", "memory", "kept")
ITERATIONS = (1, 10, 50, 100)
GAP_S = 0.0005
PROMPT, MESSAGE = "Be brief.", "How is the weather in Paris?"
FINAL = "It is nineteen degrees in Paris."


# The server: its path says what it plays, /ITERATIONS/CHUNKS/BURST-OR-PACED/chat/completions.


def chunk(delta, finish=None):
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    data = json.dumps({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})
    line = f"data: {data}\n\n".encode()
    return b"%x\r\n%s\r\n" % (len(line), line)


def whole(message, finish):
    body = json.dumps({"id": "c", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": finish}]})
    head = f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body.encode()


STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
STREAM_END = chunk({}, "stop") + b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n"


async def play(reader, writer):
    while head := await reader.readuntil(b"\r\n\r\n"):
        iterations, chunks, pace = re.match(rb"POST /(\d+)/(\d+)/(\w+)/", head).groups()
        length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE).group(1))
        body = await reader.readexactly(length)
        called = len(re.findall(rb'"role": ?"tool"', body))
        if re.search(rb'"stream": ?true', body):
            pieces = [chunk({"content": "word "})] * int(chunks)
            if pace == b"burst":
                writer.write(STREAM_HEAD + b"".join(pieces) + STREAM_END)
            else:
                writer.write(STREAM_HEAD)
                for piece in pieces:
                    writer.write(piece)
                    await asyncio.sleep(GAP_S)
                writer.write(STREAM_END)
        elif called < int(iterations):
            function = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
            call = {"id": f"call_{called}", "type": "function", "function": function}
            writer.write(whole({"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"))
        else:
            writer.write(whole({"role": "assistant", "content": FINAL}, "stop"))
        await writer.drain()


async def serve():
    async def connected(reader, writer):
        try:
            await play(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


# Who is measured: FlexChat, and a loop over httpx written by hand.


async def weather(city: str) -> str:
    """Get the weather of a city."""
    return "19 degrees"


class Ours:
    def __init__(self, url):
        from flexchat import FlexChat, tool
        from flexchat.config.model import LimitsTable
        from flexchat.plugin.host import PluginHost

        # As where core and this one provider are installed, and nothing else.
        others = (one.name for one in importlib.metadata.entry_points(group="flexchat") if one.name != "openai")
        plugins = PluginHost(block=dict.fromkeys(others, "the benchmark"))
        plugins.load_installed()
        has_provider = "provider" in inspect.signature(FlexChat.from_model).parameters  # until it was "openai/m"
        self.chat = FlexChat.from_model(
            *(("openai", "m") if has_provider else ("openai/m",)),
            base_url=url,
            api_key="k",
            prompt=PROMPT,
            tools=[tool(name="get_weather", effect="read", repeatable=True)(weather)],
            max_iterations=ITERATIONS[-1] + 5,
            limits=LimitsTable(tool_calls_per_turn=1000),
            plugins=plugins,
        )

    async def converse(self):
        response = (await self.chat.respond(MESSAGE)).response
        return response.content, len(response.tool_calls)

    async def stream(self):
        from flexchat import TextDelta

        return sum([1 async for event in self.chat.stream(MESSAGE) if type(event) is TextDelta])

    async def close(self):
        await self.chat.aclose()


class Raw:
    def __init__(self, url):
        import httpx

        self.url = f"{url}/chat/completions"
        self.http = httpx.AsyncClient(headers={"authorization": "Bearer k"}, timeout=60)
        parameters = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        function = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": parameters}
        self.body = {"model": "m", "tools": [{"type": "function", "function": function}]}
        self.start = [{"role": "system", "content": PROMPT}, {"role": "user", "content": MESSAGE}]

    async def converse(self):
        messages, called = [*self.start], 0
        while True:
            answer = await self.http.post(self.url, json={**self.body, "messages": messages})
            message = json.loads(answer.content)["choices"][0]["message"]
            if not message.get("tool_calls"):
                return message["content"], called
            messages.append(message)
            for call in message["tool_calls"]:
                called += 1
                result = await weather(**json.loads(call["function"]["arguments"]))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})

    async def stream(self):
        body, pieces = {**self.body, "messages": self.start, "stream": True}, 0
        async with self.http.stream("POST", self.url, json=body) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: ") and line != "data: [DONE]":
                    pieces += bool(json.loads(line[6:])["choices"][0]["delta"].get("content"))
        return pieces

    async def close(self):
        await self.http.aclose()


# What is measured; each in a process of its own.


async def per_chunk(kind, server, pace, repeats):
    """CPU µs per chunk: the slope between 200 and 2,000 chunks."""
    cost = {}
    for chunks in (200, 2000):
        one = kind(f"{server}/0/{chunks}/{pace}")
        took = []
        for _ in range(repeats[chunks] + 1):
            before = time.process_time()
            assert await one.stream() == chunks
            took.append(time.process_time() - before)
        await one.close()
        cost[chunks] = min(took[1:])
    return (cost[2000] - cost[200]) / 1800 * 1e6


async def first(kind, server):
    one = kind(f"{server}/1/0/burst")
    assert await one.converse() == (FINAL, 1)
    await one.close()


async def growth(kind, server):
    """What an iteration costs from the 50th to the 100th, over what it costs from the first to the tenth."""
    cost = {}
    for count in ITERATIONS:
        one = kind(f"{server}/{count}/0/burst")
        took = []
        for _ in range(4):
            before = time.process_time()
            assert await one.converse() == (FINAL, count)
            took.append(time.process_time() - before)
        await one.close()
        cost[count] = min(took[1:])
    early, late = (cost[10] - cost[1]) / 9, (cost[100] - cost[50]) / 50
    return {"growth at 100 iterations": late / early, "iteration 50 to 100, µs": late * 1e6}


async def in_memory():
    """CPU µs of a turn whose model is a script: without a network, and with one tool, or none, or streamed."""
    from flexchat import FlexChat, tool

    try:
        from flexchat_testing import ScriptedProvider, calls, says
    except ImportError:  # a checkout from before it was a package of its own
        from flexchat.testing import ScriptedProvider, calls, says

    def chat(*replies):
        config = {
            "llms": {"it": {"provider": "scripted"}},
            "responses": [{"llm": "it", "model": "m", "prompt": PROMPT, "tools": {"enabled": True}}],
        }
        model = ScriptedProvider(replies, repeat=True)
        get_weather = tool(name="get_weather", effect="read")(weather)
        return FlexChat.from_config(config, tools=[get_weather], providers={"it": model}), model

    async def cost(replies, *, streamed=False):
        made, model = chat(*replies)
        took = []
        for _ in range(9):
            before = time.process_time()
            for _ in range(100):
                if streamed:
                    async for _event in made.stream(MESSAGE):
                        pass
                else:
                    await made.respond(MESSAGE)
                model.requests.clear()  # it answers by their number
            took.append((time.process_time() - before) / 100)
        return min(took) * 1e6

    with_tool = [calls(("get_weather", {"city": "Paris"})), says(FINAL)]
    return {
        "turn in memory, one tool, µs": await cost(with_tool),
        "the same, streamed, µs": await cost(with_tool, streamed=True),
        "turn in memory, no call, µs": await cost([says(FINAL)]),
    }


async def kept():
    """CPU µs of a turn in a new conversation that is kept, all threads included: without tools, and with one write."""
    from flexchat import FlexChat, tool
    from flexchat_sqlite.conversations import SqliteConversations
    from flexchat_testing import ScriptedProvider, calls, says

    async def pay(amount: int) -> str:
        """Pay an amount."""
        return "paid"

    async def cost(replies, folder):
        config = {
            "llms": {"it": {"provider": "scripted"}},
            "responses": [{"llm": "it", "model": "m", "prompt": PROMPT, "tools": {"enabled": True}}],
        }
        model = ScriptedProvider(replies, repeat=True)
        made = FlexChat.from_config(config, tools=[tool(name="pay", effect="write")(pay)], providers={"it": model})
        store = SqliteConversations(folder / "kept.db")
        made.keep_in(store)
        took = []
        for number in range(9):
            before = time.process_time()
            for turn in range(60):
                await made.respond(MESSAGE, conversation=f"{number} {turn}")
                model.requests.clear()
            took.append((time.process_time() - before) / 60)
        await store.aclose()
        return min(took) * 1e6

    figures = {}
    for row, replies in {
        "kept turn, no call, µs": [says(FINAL)],
        "kept turn, one write tool, µs": [calls(("pay", {"amount": 5})), says(FINAL)],
    }.items():
        with tempfile.TemporaryDirectory() as folder:
            figures[row] = await cost(replies, Path(folder))
    return figures


async def work(what, server):
    who, _, scenario = what.partition(" ")
    kind = Ours if who == "ours" else Raw
    if scenario == "first":
        return await first(kind, server)
    if scenario == "burst":
        return await per_chunk(kind, server, "burst", {200: 20, 2000: 6})
    if scenario == "paced":
        return await per_chunk(kind, server, "paced", {200: 4, 2000: 2})
    if scenario == "growth":
        return await growth(kind, server)
    return await (kept() if scenario == "kept" else in_memory())


# The run.


def measure(what, tree, server):
    """Run a scenario in a process that imports a checkout; return what it says, and the process's own times."""
    folders = [tree / "core" / "src", *tree.glob("flexchat-*/src"), *tree.glob("plugins/*/src")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders)), "PYTHONHASHSEED": "0"}
    own = tree / ".venv" / "bin" / "python"
    python = str(own) if own.exists() else sys.executable  # the plugins it finds are those of its environment
    began = time.perf_counter()
    child = subprocess.Popen(
        [python, __file__, "--work", what, "--server", server], env=env, stdout=subprocess.PIPE, text=True
    )
    said = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"{what} in {tree}: exit code {child.returncode}")
    elapsed = time.perf_counter() - began
    return json.loads(said), {"CPU": (usage.ru_utime + usage.ru_stime) * 1e3, "wall": elapsed * 1e3}


def one_round(trees, server, order, scenarios):
    """Return the figures of one round: by row, then "raw" and the trees' names."""
    rows = {}
    for scenario in scenarios:
        asked = [(name, f"ours {scenario}") for name in order]
        if scenario in ("burst", "paced", "first"):
            asked.insert(1, ("raw", f"raw {scenario}"))
        for name, what in asked:
            said, times = measure(what, trees.get(name, HERE), server)
            if scenario == "first":
                more = [measure(what, trees.get(name, HERE), server)[1] for _ in range(2)]
                said = {
                    f"start to first conversation, {kind} ms": min(one[kind] for one in (times, *more))
                    for kind in ("CPU", "wall")
                }
            elif not isinstance(said, dict):
                said = {f"{scenario}, CPU µs per chunk": said}
            for row, figure in said.items():
                rows.setdefault(row, {})[name] = figure
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--against", type=Path, help="the other checkout")
    parser.add_argument("--tree", type=Path, default=HERE, help="the checkout that is measured; absent: this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=SCENARIOS, action="append", help="measure this; may be repeated")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--server", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        return asyncio.run(serve())
    if args.work:
        return print(json.dumps(asyncio.run(work(args.work, args.server))))
    if args.against is None:
        parser.error("--against names the other checkout")
    trees = {"before": args.against.resolve(), "after": args.tree.resolve()}
    playing = subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True)
    try:
        server = f"http://127.0.0.1:{playing.stdout.readline().strip()}"
        rounds, order = [], ["before", "after"]
        for number in range(args.rounds):
            rounds.append(one_round(trees, server, order if number % 2 == 0 else order[::-1], args.only or SCENARIOS))
            print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
    finally:
        playing.kill()
        playing.wait()
    show(trees, rounds)


def show(trees, rounds):
    print(f"before {trees['before']}, after {trees['after']}; medians of {len(rounds)} rounds\n")
    print(f"| {'':36} | raw httpx | before | after | before / raw | after / raw | after / before |")
    print("|---|---|---|---|---|---|---|")
    for row in rounds[0]:

        def middle(name, over=None, row=row):
            if name not in rounds[0][row] or (over and over not in rounds[0][row]):
                return ""
            values = [one[row][name] / (one[row][over] if over else 1) for one in rounds]
            return f"{statistics.median(values):,.2f}"

        cells = [middle("raw"), middle("before"), middle("after"), middle("before", "raw"), middle("after", "raw")]
        print(f"| {row:36} | {' | '.join(cells)} | {middle('after', 'before')} |")


if __name__ == "__main__":
    main()
