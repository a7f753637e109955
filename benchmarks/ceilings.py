"""Spend a budget, and use limits, from many processes at once: never over the ceiling, and nearly all of it usable.

    python benchmarks/ceilings.py budgets --processes 8 --requests 10000                 SQLite
    python benchmarks/ceilings.py budgets --dsn postgresql://localhost/test              PostgreSQL, a schema of its own
    python benchmarks/ceilings.py limits --processes 8 --buckets 100 --seconds 60

Budgets: each process asks a model whose answers have random usage, priced in two tiers; some attempts fail before
anything is sent, some break off after the service has charged for them, some are refused and asked of a fallback; some
answers call a tool that has a price. A process is killed every few seconds, and another takes its place. What the
service and the tool charge is written down by themselves, to a file for each process, before they answer. At the end,
the sums by tool, rule, principal, tenant and model are compared with the total. Limits: each process starts calls of
buckets as fast as it may; the times of the starts are compared with burst + rate x time in every interval, and their
order with that of the requests. Exit status 1 if a ceiling was exceeded, or less than 97 % was usable.
"""

import argparse
import asyncio
import json
import logging
import multiprocessing
import os
import random
import secrets
import signal
import sys
import tempfile
import time
from decimal import Decimal
from pathlib import Path

from flexchat import CeilingReachedError, FlexChat, Principal, tool
from flexchat.domain.prices import ModelPrice, Price
from flexchat.store import Charge, StorageError
from flexchat_policy.costs import KEYS, add_up
from flexchat_sdk import ProviderConnectionError, ProviderError, ProviderOverloadedError, Usage
from flexchat_testing import ScriptedProvider, calls, says

SHORT = Price(input=Decimal(1), output=Decimal(4))
LONG = Price(input=Decimal(2), output=Decimal(8))
TIERED = ModelPrice(price=SHORT, window=200_000, above=((150, LONG),))
LEASE_S = 30  # of flexchat_policy


class Charging(ScriptedProvider):
    """A service that charges before it answers, and fails in several ways."""

    def __init__(self, ledger: Path) -> None:
        super().__init__([self.answer], repeat=True)
        self.ledger = ledger.open("a", buffering=1)

    def price_of(self, model):
        return TIERED

    async def answer(self, messages, options):
        self.requests.clear()
        chance = random.random()
        if chance < 0.01:
            raise ProviderConnectionError("nothing listens", code="no_connection", retryable=True)
        if chance < 0.02:
            raise ProviderOverloadedError("busy", status=503)
        most_read = len(messages[-1].content)
        usage = Usage(input_tokens=random.randint(5, most_read), output_tokens=random.randint(1, options.max_tokens))
        cost = TIERED.of(usage).amount(usage)
        self.ledger.write(f"{cost}\n")
        if chance < 0.021:
            raise ProviderConnectionError("broke off", retryable=True)
        if chance < 0.1 and options.tools and messages[-1].role == "user":
            return calls(("look_up", {"number": random.randint(1, 10**9)}), usage=usage)
        return says("Yes. " * 5, usage=usage)


def config(store, tables):
    llms = {name: {"provider": "scripted", "default_model": "m"} for name in ("one", "two")}
    rule = {"llm": "one", "model": "m", "fallback": ["two"], "max_tokens": 50, "tools": {"enabled": True}}
    return {"llms": llms, "responses": [rule], "conversations": store, **tables}


async def spend(store, usd, requests, ledger, seed):
    logging.disable()
    random.seed(seed)
    providers = {"one": Charging(ledger), "two": Charging(ledger)}

    @tool(effect="read", price={"usd": 0.0001})
    def look_up(number: int) -> str:
        """Look a number up, for money."""
        providers["one"].ledger.write("0.0001\n")
        return "found"

    table = config(store, {"budgets": [{"scope": "all", "per": "month", "usd": usd}]})
    done = refused = busy = 0
    async with FlexChat.from_config(table, providers=providers, tools=[look_up]) as chat:

        async def worker():
            nonlocal done, refused, busy
            while done < requests and refused < 40:
                done += 1
                text = "Hello, is it there? " * random.randint(1, 10)
                whose = {"tenant": f"t{random.randint(1, 3)}", "principal": Principal(name=f"p{random.randint(1, 3)}")}
                try:
                    if done % 2:
                        async for _ in chat.stream(text, **whose):
                            pass
                    else:
                        await chat.respond(text, **whose)
                except CeilingReachedError:
                    refused += 1  # others may still settle for less
                    await asyncio.sleep(0.1)
                except ProviderError:
                    continue
                except StorageError:  # eight processes write to one file: nothing was sent without a reservation
                    busy += 1

        await asyncio.gather(*[worker() for _ in range(4)])
    if busy:
        print(f"process {seed}: {busy} turns failed as the store was in use for longer than it waits", flush=True)


def run(work, *arguments):
    asyncio.run(work(*arguments))


async def summed(store):
    """Return the sums by each key, in dollars, once the reservations of killed processes have expired."""
    providers = {name: ScriptedProvider([]) for name in ("one", "two")}
    async with FlexChat.from_config(config(store, {}), providers=providers) as chat:
        counters = chat.conversations.store.counters
        nothing = Charge(key="expire", amount=1, ceiling=0)
        await counters.reserve("expire", [nothing], owner="benchmark")
        sums = await counters.sums()
    return {by: Decimal(sum(each.trillionths for each in add_up(sums, by).rows)).scaleb(-12) for by in KEYS}


def budgets(options, folder):
    # About what a request costs: so that the budget ends shortly before the requests do.
    usd = options.usd or round(options.processes * options.requests * 0.00018, 3)
    context = multiprocessing.get_context("fork")
    started, kills, number = time.monotonic(), 0, 0
    running = []
    while True:
        running = [each for each in running if each.is_alive()]
        finished = number - kills - len(running)
        if finished >= options.processes:
            break
        while len(running) + finished < options.processes:
            arguments = (spend, options.store, usd, options.requests, folder / f"{number}.costs", number)
            running.append(context.Process(target=run, args=arguments))
            running[-1].start()
            number += 1
        time.sleep(0.2)
        if kills < options.kills and random.random() < 0.05 and time.monotonic() - started > 3:
            victim = random.choice(running)
            if victim.is_alive():
                os.kill(victim.pid, signal.SIGKILL)
                victim.join()
                kills += victim.exitcode == -signal.SIGKILL
    lines = [line for path in folder.glob("*.costs") for line in path.read_text().splitlines()]
    seconds = time.monotonic() - started
    time.sleep(LEASE_S + 1 if kills else 0)
    charged, by_key = sum(map(Decimal, lines)), asyncio.run(summed(options.store))
    counted = by_key["model"]
    print(f"{len(lines):,} answers charged, {kills} kills, {seconds:.0f} s ({len(lines) / seconds:.0f}/s)")
    print(f"budget ${usd}; charged ${charged} ({charged / Decimal(usd):.2%}); counted ${counted}")
    print(f"sums by {', '.join(by_key)}: {'equal' if len({*by_key.values()}) == 1 else by_key}")
    is_exact = len({*by_key.values()}) == 1 and counted >= charged and (kills > 0 or counted <= Decimal(str(usd)))
    return charged <= Decimal(str(usd)) and is_exact and charged >= Decimal(str(usd)) * Decimal("0.97")


async def knock(store, buckets, rate, seconds, path, seed):
    from flexchat_sqlite import SqliteConversations

    random.seed(seed)
    if "dsn" in store:
        from flexchat_postgresql.config import PostgresqlConfig
        from flexchat_postgresql.conversation_store import PostgresqlConversations

        kept = PostgresqlConversations(PostgresqlConfig(dsn=store["dsn"], schema=store["schema"]))
    else:
        kept = SqliteConversations(store["path"])
    until, starts = time.time() + seconds, []

    async def worker(bucket):
        charge = Charge(key=f"bucket {bucket}", amount=1, ceiling=rate, refill_us=-(-1_000_000 // rate))
        while (asked := time.time()) < until:
            id = secrets.token_hex(8)
            refusal = await kept.counters.reserve(id, [charge], owner=str(seed), lease_s=30, wait_s=60)
            queued, last = time.time(), asked
            while refusal is not None and time.time() < until:
                await asyncio.sleep(max(refusal.retry_after_s or 0.01, 0.005))
                last = time.time()
                refusal = await kept.counters.reserve(id, [charge], owner=str(seed), wait_s=60)
            if refusal is None:
                starts.append((bucket, time.time(), last, asked, queued))
            await kept.counters.settle(id, {})

    await asyncio.gather(*[worker(bucket) for bucket in range(buckets)])
    path.write_text(json.dumps(starts))
    await kept.aclose()


def overtaken(starts):
    """Return how many of a bucket's starts were granted before one that came earlier, whose unit was kept for it."""
    count = 0
    for granted, _, asked, _ in starts:
        count += any(queued < asked and granted < last for _, last, _, queued in starts)
    return count


def limits(options, folder):
    context = multiprocessing.get_context("fork")
    arguments = (knock, options.store, options.buckets, options.rate, options.seconds)
    processes = [
        context.Process(target=run, args=(*arguments, folder / f"{number}.starts", number))
        for number in range(options.processes)
    ]
    for each in processes:
        each.start()
    for each in processes:
        each.join()
    rows = [[] for _ in range(options.buckets)]
    for path in folder.glob("*.starts"):
        for bucket, *row in json.loads(path.read_text()):
            rows[bucket].append(row)
    times = [sorted(row[0] for row in starts) for starts in rows]
    over = logged = -float(options.rate)
    for starts in map(sorted, rows):
        for first, (begin, earliest, *_) in enumerate(starts):
            for last in range(first, len(starts)):
                end, asked, *_ = starts[last]
                earliest = min(earliest, asked)
                count = last - first + 1 - options.rate
                logged, over = (
                    max(logged, count - options.rate * (end - begin)),
                    max(over, count - options.rate * (end - earliest)),
                )
    seconds = max(each[-1] for each in times if each) - min(each[0] for each in times if each)
    most = options.buckets * (options.rate + options.rate * seconds)
    used = sum(map(len, times)) / most
    print(
        f"{sum(map(len, times)):,} starts, {used:.1%} of what the limits allow; in the fullest interval {over:+.2f} "
        f"({logged:+.2f} by the times at which processes that were late logged them)"
    )
    order, longest = sum(map(overtaken, rows)), max(row[0] - row[2] for starts in rows for row in starts)
    fewest = min(map(len, times))
    print(f"the longest wait was {longest:.2f} s, the fewest starts of a bucket {fewest}")
    print(f"{order} were granted while one that came earlier had not asked again yet, with its unit kept for it")
    # A start was granted between the request for it and its entry in the log: more in this time is certainly over.
    return over <= 0 and used >= 0.97 and fewest > 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["budgets", "limits"])
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--requests", type=int, default=10_000, help="of each process")
    parser.add_argument("--usd", type=float)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--buckets", type=int, default=100)
    parser.add_argument("--rate", type=int, default=5, help="of each bucket, in a second")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--dsn")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        options.store = {"path": f"{name}/kept.db"}
        if options.dsn:
            schema = f"bench_{secrets.token_hex(4)}"
            options.store = {"provider": "postgresql", "dsn": options.dsn, "schema": schema}
        is_kept = (budgets if options.what == "budgets" else limits)(options, Path(name))
    print("kept" if is_kept else "BROKEN")
    sys.exit(not is_kept)


if __name__ == "__main__":
    main()
