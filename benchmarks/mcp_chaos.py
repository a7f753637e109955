"""Break real MCP servers in the middle of turns: no turn hangs, nothing is left behind, the next turn works.

    python benchmarks/mcp_chaos.py --faults 1000             the table; exit status 1 if a promise is broken
    python benchmarks/mcp_chaos.py --faults 60 --only half   faults whose name begins so
    python benchmarks/mcp_chaos.py --servers small           with the tests' own server, which starts at once
    python benchmarks/mcp_chaos.py --environments FOLDER     where the servers are installed, kept for the next time

A process has a chat with eight servers that others wrote (tests/servers/mcp_real.py), each behind a wrapper of its own
(mcp_chaos_wrapper.py), and four faults at once. A turn with a fault has to end with a result or an error that names
the server, within its budgets; the next turn has to work. Meanwhile turns go on that call all the servers that have no
fault. After 40 faults the process is closed, interrupted or killed with a fault going on, and another one takes over.

- Hung: a turn that did not end within the call's budget, and 3 s.
- Orphans: processes that are there GONE_S after nothing needs them: while the chat runs, and after its end. All of them
  descend from this driver, which adopts whatever is left (PR_SET_CHILD_SUBREAPER), so none can hide. Linux only.
- Sent twice: the wrapper saw the call of a tool that writes more than once, or of one that reads more than twice.
- Recovery, of faults that end a call: from the fault to the result, if the turn with the fault has one; otherwise from
  the end of that turn to the result of the next. "Own start" is the part of it in which the server itself was starting,
  until its first answer, as the wrapper saw it in the same moment: on a busy machine both are slow.
- Affected: a call of a server without a fault that failed or took more than AFFECTED_S.
"""

import argparse
import asyncio
import collections
import contextlib
import ctypes
import json
import os
import random
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP / "tests" / "servers"), str(TOP / "benchmarks")]

import attrs
import mcp_chaos_wrapper as wrapper
import mcp_real
import pytest
from flexchat import FlexChat
from flexchat_testing import ScriptedProvider, calls, says
from installed import Installed

GRACE_S = 3.0
GONE_S = float(os.environ.get("MCP_CHAOS_GONE_S", "5"))
AFFECTED_S = 2.0
PER_LIFE, AT_ONCE = 40, 4
ENDINGS = ("closed", "closed amid a fault", "killed amid a fault", "interrupted amid a fault")

IDLE = {
    "SIGKILL when idle": signal.SIGKILL,
    "SIGTERM when idle": signal.SIGTERM,
    "SIGSTOP when idle": signal.SIGSTOP,
    "ends between messages": signal.SIGUSR1,
}
IN_CALL = (*wrapper.AFTER, *wrapper.BEFORE, *wrapper.ON_ANSWER)
FAULTS = (*IN_CALL, *IDLE, *wrapper.AT_START)
BORNE = {
    "flood of stderr",
    "prints on stdout",
    "answers twice",
    "nested too deeply",
    "storm of list_changed",
    "asks 400 things",
    "answer in drips",
    "slow answer",
    "prints a banner",
}
"""What a server may do, and the turn has its result all the same."""
CLEAR = re.compile(r"the MCP server '|Tool execution timed out after \d+ms|the tool's answer")
MUDDLED = re.compile(r"Traceback|ExceptionGroup|TaskGroup|unhandled|object at 0x|hunter2")


# ---- the servers


def seen(number):
    return f"seen {number % 20}"


CALLS = {
    "time": lambda n, folder: (
        "convert_time",
        {"source_timezone": "UTC", "time": f"{n // 60 % 24:02}:{n % 60:02}", "target_timezone": "Asia/Tokyo"},
        f"T{n // 60 % 24:02}:{n % 60:02}:00",
    ),
    "fetch": lambda n, folder: (
        "fetch",
        {"url": f"{(folder.parent / 'page').read_text()}{n}"},
        f"This is page {n} of this",
    ),
    "git": lambda n, folder: ("git_show", {"repo_path": str(folder), "revision": f"t{n % 20}"}, seen(n)),
    "everything": lambda n, folder: ("echo", {"message": f"number {n}"}, f"Echo: number {n}"),
    "filesystem": lambda n, folder: ("read_text_file", {"path": str(folder / f"{n % 20}.txt")}, seen(n)),
    "memory": lambda n, folder: ("open_nodes", {"names": [f"e{n % 20}"]}, seen(n)),
    "sequential-thinking": lambda n, folder: (
        "sequentialthinking",
        {"thought": "On.", "nextThoughtNeeded": False, "thoughtNumber": n, "totalThoughts": n},
        f'"thoughtNumber": {n}',
    ),
    "fastmcp": lambda n, folder: ("add", {"a": n, "b": 0}, str(n)),
}
"""A call of each server, by number, and what its answer holds; so an answer to another call is noticed."""
SMALL = {f"small{n}": lambda n, folder: ("add", {"a": n}, str(n)) for n in range(4)}


def prepared(folder, servers):
    """Fill the folder the servers work in."""
    (folder / "control").mkdir()
    if "git" not in servers:
        return
    work = mcp_real.filled(folder / "work")
    git = ["git", "-C", str(work), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    graph = []
    for number in range(20):
        (work / f"{number}.txt").write_text(f"A note: {seen(number)}.\n")
        graph.append({"type": "entity", "name": f"e{number}", "entityType": "x", "observations": [seen(number)]})
        subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"Commit: {seen(number)}"], check=True)
        subprocess.run([*git, "tag", f"t{number}"], check=True)
    (work / "memory.jsonl").write_text("\n".join(map(json.dumps, graph)))


def tables(folder, environments, is_small):
    """Return the servers' tables, each with its wrapper."""
    work = folder / "work"
    made = []
    for name in SMALL if is_small else CALLS:
        if is_small:
            (folder / name).mkdir(exist_ok=True)
            program = [sys.executable, "-I", "-S", str(TOP / "tests" / "servers" / "mcp_server.py"), str(folder / name)]
            table = {"name": name, "command": program, "call_timeout_ms": 2_500, "start_ms": 1_500}
        else:
            table = mcp_real.table_of(Installed(environments), work, name)
            table |= {"call_timeout_ms": 10_000, "start_ms": 9_500}
        if name == "memory":
            table["env"] = {**table["env"], "MEMORY_FILE_PATH": str(work / "memory.jsonl")}
        wrapped = [sys.executable, "-I", "-S", wrapper.__file__, str(folder / "control"), name]
        table |= {"command": [*wrapped, *table["command"]], "prefix": f"{name}_", "restarts": 1000}
        made.append({**table, "timeout_ms": 30_000})
    return made


def write_config(folder, number, servers):
    tools = {"allowed_tools": [f"{table['name']}/*" for table in servers]}
    config = {
        "llms": {"bot": {"provider": "scripted"}},
        "responses": [{"llm": "bot", "model": "m", "tools": tools}],
        "tools": {"mcp": servers},
    }
    (folder / f"chat{number}.json").write_text(json.dumps(config))


# ---- a process with a chat


class Log:
    """What a wrapper noted."""

    def __init__(self, path):
        self._path, self._lines = path, []

    def lines(self):
        with contextlib.suppress(OSError), self._path.open() as file:
            self._lines = [json.loads(line) for line in file if line.endswith("\n")]
        return self._lines

    def since(self, at, what):
        return [line for line in self.lines() if line["at"] >= at and line["what"] == what]


class Life:
    """A chat with all servers, and its share of the faults.

    Attributes:
        others: How long each call took that a server without a fault answered while others had one.
        affected: What went wrong with such calls.
        lag_s: The longest time in which this process did nothing else.
    """

    def __init__(self, path, seed):
        self.path, self.folder, self.chance = path, path.parent, random.Random(seed)
        servers = json.loads(path.read_text())["tools"]["mcp"]
        self.calls = SMALL if "small0" in {each["name"] for each in servers} else CALLS
        self.names = [each["name"] for each in servers]
        self.effects = {each["name"]: each["effects"]["*"] for each in servers}
        self.limit_s = servers[0]["call_timeout_ms"] / 1000
        self.locks = {name: asyncio.Lock() for name in self.names}
        self.logs = {name: Log(self.folder / "control" / f"{name}.log") for name in self.names}
        self.number, self.others, self.affected, self.lag_s = self.chance.randrange(1000), [], [], 0.0
        self.struck = {}

    def chat(self):
        """Open a chat as its config says, with a model that asks for what the message names."""

        def reply(messages, options):
            last = messages[-1]
            return calls(*json.loads(last.content)) if last.role == "user" else says("Done.")

        return FlexChat.from_config(self.path, providers={"bot": ScriptedProvider([reply], repeat=True)})

    async def turn(self, *names):
        """Call a tool of each of these servers in one turn. Return what came of it for each, and the seconds."""
        self.number += 1
        asked = {name: self.calls[name](self.number, self.folder / "work") for name in names}
        message = json.dumps([(f"{name}_{tool}", params) for name, (tool, params, _) in asked.items()])
        began = time.monotonic()
        task = asyncio.ensure_future(self.chat_now.respond(message))
        done, _ = await asyncio.wait([task], timeout=self.limit_s + GRACE_S)
        took = time.monotonic() - began
        if not done:
            task.cancel()
            await asyncio.wait([task], timeout=5)
            return dict.fromkeys(names, ("hung", "")), took
        try:
            records = task.result().response.tool_calls
        except Exception as error:
            return {name: ("no turn", f"{type(error).__name__}: {error}") for name in names}, took
        found = {}
        for (name, (_, _, word)), record in zip(asked.items(), records, strict=True):
            result = record.result
            if result.success:
                text = result.result if isinstance(result.result, str) else json.dumps(result.result)
                found[name] = ("answered", "") if word in text else ("wrong answer", f"{word!r} is not in {text[:300]}")
            else:
                text = result.explained()
                is_clear = CLEAR.search(text) and not MUDDLED.search(text) and len(text) < 1000
                found[name] = ("error" if is_clear else "muddled error", text)
        return found, took

    def server(self, name):
        return self.chat_now.tools.sources.by_name[name]._source.server

    async def strike(self, name, fault):
        """Let a server have a fault in a turn, and see what becomes of that and the next turn."""
        log, began = self.logs[name], time.monotonic()
        control = self.folder / "control"
        if fault in IN_CALL:
            late_s = 0.3 if fault == "slow answer" else self.limit_s + 0.4
            late = {"late_s": late_s} if fault in wrapper.LATE else {}
            (control / f"{name}.fault").write_text(json.dumps({"fault": fault, **late}))
        else:
            if fault in wrapper.AT_START:
                (control / f"{name}.start").write_text(json.dumps({"fault": fault}))
            starts = [line for line in log.lines() if line["what"] == "start"]
            with contextlib.suppress(ProcessLookupError):
                pid = starts[-1]["pid"]
                signal_ = IDLE.get(fault, signal.SIGKILL)
                os.killpg(os.getpgid(pid), signal_) if signal_ == signal.SIGSTOP else os.kill(pid, signal_)
            if fault in wrapper.AT_START:  # a call that the dead server was sent would have another fault
                while self.server(name).state.status == "running":  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            else:
                await asyncio.sleep(self.chance.choice((0, 0, 0.005, 0.03)))
        asked = time.monotonic()
        found, took = await self.turn(name)
        verdict, text = found[name]
        ended = asked + took
        sent = [len([line for line in log.since(asked, "call") if line["at"] <= ended])]
        again, tries, error = "", 0, ""
        while again != "answered" and tries < 4:
            tries, since = tries + 1, time.monotonic()
            found, took = await self.turn(name)
            sent.append(len(log.since(since, "call")))
            again, error = found[name][0], error or found[name][1]
            if (tries, verdict, again) == (1, "answered", "error"):  # it was quick enough to answer before the fault
                verdict, text, ended, tries = "error", found[name][1], time.monotonic(), 0
        recovered = time.monotonic()
        struck = [line["at"] for line in log.since(began, "struck")]
        hit = struck[0] if struck else began
        base, until = (hit, ended) if verdict == "answered" else (ended, recovered)
        for kind in ("fault", "start"):
            (control / f"{name}.{kind}").unlink(missing_ok=True)
        return {
            "fault": fault,
            "server": name,
            "effect": self.effects[name],
            "verdict": verdict,
            "text": text,
            "turn_s": ended - asked,
            "was_struck": bool(struck) or fault in IDLE,
            "sent": max(sent),
            "tries": tries,
            "again": again,
            "again_text": error,
            "recovery_s": until - base,
            "own_s": own_start_s(log, base, until),
        }

    async def lane(self, plan):
        """Strike one server after another."""
        while plan:
            name, fault = plan.pop()
            async with self.locks[name]:
                self.struck[name] = fault
                row = await self.strike(name, fault)
                del self.struck[name]
            print(json.dumps(row), flush=True)

    async def go_on(self):
        """Call all servers that have no fault, again and again."""
        while True:
            free = [name for name in self.names if not self.locks[name].locked()]
            async with contextlib.AsyncExitStack() as stack:
                for name in free:
                    await stack.enter_async_context(self.locks[name])
                before = dict(self.struck)
                found, took = await self.turn(*free) if free else ({}, 0)
                self.others += [took] * len(found)
                for name, (verdict, text) in found.items():
                    if verdict != "answered" or took > AFFECTED_S:
                        told = {"server": name, "verdict": verdict, "text": text, "took_s": took}
                        self.affected.append({**told, "faults": {**before, **self.struck}})
            await asyncio.sleep(0.05)

    async def watch(self):
        """Notice when this process stands still."""
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.01)
            self.lag_s = max(self.lag_s, time.monotonic() - began - 0.01)

    async def leftovers(self, driver):
        """Return the processes that nothing needs any more, once they have had time to go."""
        open_now = [each for name in self.names if (each := self.server(name)._connection) and not each.has_ended]
        needed = [os.getpid(), *(each.process.process.pid for each in open_now)]
        until = time.monotonic() + GONE_S
        while found := [pid for pid in descendants(driver, but=needed) if pid not in needed]:
            if time.monotonic() > until:
                return [words_of(pid) for pid in found]
            await asyncio.sleep(0.05)
        return []

    async def live(self, driver, plan, ending):
        """Make the faults of a plan, say what became of them, and end."""
        async with self.chat() as self.chat_now:
            first, tries = {"": ("", "")}, 0
            while any(verdict != "answered" for verdict, _ in first.values()):  # all start at once, on few cores
                first, tries = (await self.turn(*self.names))[0], tries + 1
                if tries > 10:
                    raise SystemExit(f"the servers do not work without any fault: {first}")
            files, aside = len(os.listdir("/proc/self/fd")), [asyncio.ensure_future(self.watch())]
            aside.append(asyncio.ensure_future(self.go_on()))
            await asyncio.gather(*(self.lane(plan) for _ in range(min(AT_ONCE, len(self.names) - 1))))
            for task in aside:
                task.cancel()
            await asyncio.wait(aside)
            for name in self.names:
                await self.turn(name)
            left = await self.leftovers(driver)
            told = {
                "others": self.others,
                "affected": self.affected,
                "lag_s": self.lag_s,
                "left": left,
                "files": len(os.listdir("/proc/self/fd")) - files,
                "starts": {name: own_starts(self.logs[name]) for name in self.names},
            }
            print(json.dumps(told), flush=True)
            if "amid" in ending:
                fault = self.chance.choice(IN_CALL)
                for name in self.chance.sample(self.names, 2):
                    (self.folder / "control" / f"{name}.fault").write_text(json.dumps({"fault": fault, "late_s": 1}))
                going = asyncio.ensure_future(self.turn(*self.names))
                await asyncio.sleep(self.chance.random() * 0.5)
                print(json.dumps({"ending": ending, "fault": fault}), flush=True)
                if ending != "closed amid a fault":
                    await asyncio.sleep(60)
        if "amid" in ending:
            await asyncio.wait([going])


def own_start_s(log, base, until):
    """Return the seconds between two moments in which a server was starting: until its first answer."""
    spent, began = 0.0, None
    for line in log.lines():
        if line["what"] == "start":
            began = line["began"]
        elif line["what"] == "answered" and began is not None:
            spent += max(min(line["at"], until) - max(began, base), 0.0)
            began = None
    return spent


def own_starts(log):
    began, spent = None, []
    for line in log.lines():
        if line["what"] == "start":
            began = line["began"]
        elif line["what"] == "answered" and began is not None:
            spent.append(line["at"] - began)
            began = None
    return spent


# ---- processes


def descendants(top, but=()):
    """Return the living processes that descend from one, without those that descend from others."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):
                state, parent = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[:2]
                if state not in "ZX":
                    parents[int(name)] = int(parent)

    def is_below(pid):
        while pid in parents and pid != top:
            if pid in but and pid != os.getpid():
                return False
            pid = parents[pid]
        return pid == top

    return [pid for pid in parents if pid != top and is_below(pid)]


def words_of(pid):
    with contextlib.suppress(OSError):
        return f"{pid} {Path(f'/proc/{pid}/cmdline').read_bytes().replace(bytes(1), b' ').decode()[:200]}"
    return str(pid)


def bury(within_s):
    """Wait for the end of everything below us; end what is left. Return that, and how long it took."""
    began = time.monotonic()
    while True:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        left = descendants(os.getpid())
        took = time.monotonic() - began
        if not left or took > within_s:
            break
        time.sleep(0.02)
    told = [words_of(pid) for pid in left]
    for pid in left:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return told, took


# ---- the driver


@attrs.define
class Counted:
    """What came of it all."""

    rows: list = attrs.field(factory=list)
    lives: list = attrs.field(factory=list)
    endings: list = attrs.field(factory=list)
    wrong: list = attrs.field(factory=list)


def live(folder, seed, number, plan, ending, counted):
    """Run a process for a part of the faults, end it, and count what is left."""
    file = folder / f"plan{number}.json"
    file.write_text(json.dumps(plan))
    words = [sys.executable, __file__, "--life", str(folder), str(number), "--seed", str(seed), "--ending", ending]
    stderr = folder / f"stderr{number}"
    with stderr.open("w") as errors:
        child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, bufsize=1)
    watchdog = _Watchdog(child, 90)
    done, began = 0, time.monotonic()
    for line in child.stdout:
        watchdog.fed()
        told = json.loads(line)
        if "verdict" in told:
            counted.rows.append(told)
            done += 1
            for text in broken(told):
                print(f"{told['fault']}, {told['server']}: {text}", file=sys.stderr, flush=True)
        elif "ending" in told:
            if ending.startswith("killed"):
                child.kill()
            elif ending.startswith("interrupted"):
                child.send_signal(signal.SIGINT)
            began = time.monotonic()
        else:
            counted.lives.append(told)
            began = time.monotonic()
    child.wait()
    watchdog.stop()
    if watchdog.has_bitten:
        counted.wrong.append(f"life {number} ({ending}): it stood still for 90 s")
    if done < len(plan):
        counted.wrong.append(f"life {number}: {len(plan) - done} faults were not made, exit {child.returncode}")
        began = time.monotonic()
    left, _ = bury(GONE_S)
    counted.endings.append({"ending": ending, "took_s": time.monotonic() - began, "left": left})
    text = stderr.read_text()
    bad = re.search(r"Traceback|never retrieved|was destroyed|never awaited|hunter2", text)
    if bad and not (ending.startswith("interrupted") and text.rstrip().endswith("KeyboardInterrupt")):
        counted.wrong.append(f"life {number} ({ending}) wrote to its stderr, kept in {stderr}: {bad[0]}")


class _Watchdog:
    """Kills a process that says nothing for a while."""

    def __init__(self, child, seconds):
        self._child, self._seconds, self._timer = child, seconds, None
        self.has_bitten = False
        self.fed()

    def fed(self):
        self.stop()
        self._timer = threading.Timer(self._seconds, self._bite)
        self._timer.daemon = True
        self._timer.start()

    def _bite(self):
        self.has_bitten = True
        self._child.kill()

    def stop(self):
        if self._timer is not None:
            self._timer.cancel()


def quantile(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)] if values else 0.0


def verdict(counted, recovery_s):
    """Print the tables; return what is wrong."""
    wrong = list(counted.wrong)
    by_fault = collections.defaultdict(list)
    for row in counted.rows:
        by_fault[row["fault"]].append(row)
    print(f"{'fault':30}turns result  error   hung  again  recovery p50    p99    over own start p50    p99  max")
    for fault in FAULTS:
        if by_fault[fault]:
            print(line_of(fault, by_fault[fault]))
    print(line_of("all", counted.rows))
    for row in counted.rows:
        wrong += [f"{row['fault']}, {row['server']} ({row['effect']}): {text}" for text in broken(row)]
    over = [row["recovery_s"] - row["own_s"] for row in counted.rows if row["fault"] not in BORNE]
    if quantile(over, 0.99) > recovery_s:
        wrong.append(f"recovery took {quantile(over, 0.99):.2f} s more than the server's own start (p99)")
    if counted.lives:
        print(f"\n{'server':30}faults  own start p50    p99")
        for name, spent in counted.lives[-1]["starts"].items():
            faults = sum(row["server"] == name for row in counted.rows)
            print(f"{name:30}{faults:6}{statistics.median(spent):13.2f} s{quantile(spent, 0.99):6.2f} s")
    others = [took for each in counted.lives for took in each["others"]]
    affected = [one for each in counted.lives for one in each["affected"]]
    print(f"\ncalls of other servers meanwhile: {len(others):,}; affected: {len(affected)}; ", end="")
    print(f"p50 {quantile(others, 0.5):.3f} s, p99 {quantile(others, 0.99):.3f} s, max {max([0, *others]):.2f} s")
    wrong += [f"another server was affected: {json.dumps(one)}" for one in affected]
    print(f"longest time in which our process did nothing else: {max([0, *(e['lag_s'] for e in counted.lives)]):.2f} s")
    for each in counted.lives:
        wrong += [f"left over while the chat ran: {words}" for words in each["left"]]
        if each["files"] > 4:
            wrong.append(f"{each['files']} files were left open")
    for ending in ENDINGS:
        ends = [each for each in counted.endings if each["ending"] == ending]
        if ends:
            gone = max(each["took_s"] for each in ends)
            print(f"{ending}: {len(ends)} times, everything gone within {gone:.1f} s")
        wrong += [f"left over when it was {ending}: {words}" for each in ends for words in each["left"]]
    print(f"orphans: {sum(text.startswith('left over') for text in wrong)}")
    return wrong


def broken(row):
    """Yield the promises that were not kept in a turn with a fault."""
    if row["verdict"] not in ("answered", "error"):
        yield f"{row['verdict']} after {row['turn_s']:.1f} s: {row['text']}"
    if row["fault"] in BORNE and row["verdict"] == "error":
        yield f"it should have been borne: {row['text']}"
    if row["again"] != "answered":
        yield f"it did not recover in {row['tries']} turns: {row['again_text']}"
    elif row["tries"] > 1:
        yield f"it recovered only in turn {row['tries']}: {row['again_text']}"
    if row["sent"] > {"write": 1, "read": 2}[row["effect"]]:
        yield f"the call was sent {row['sent']} times"
    if not row["was_struck"]:
        yield "the fault did not come to be"


def line_of(name, rows):
    counts = [sum(row["verdict"] == kind for row in rows) for kind in ("answered", "error", "hung")]
    again = sum(row["tries"] == 1 and row["again"] == "answered" for row in rows)
    line = f"{name:30}{len(rows):5}{counts[0]:7}{counts[1]:7}{counts[2]:7}{again:7}"
    rows = [row for row in rows if row["fault"] not in BORNE]
    if not rows:
        return f"{line}     nothing to recover from"
    recovery = [row["recovery_s"] for row in rows]
    over = [row["recovery_s"] - row["own_s"] for row in rows]
    line += f"{quantile(recovery, 0.5):14.2f} s{quantile(recovery, 0.99):6.2f} s"
    return line + f"{quantile(over, 0.5):19.2f} s{quantile(over, 0.99):6.2f} s{max(over):6.2f} s"


def plans(faults, names, chance, only):
    """Return who has which fault, in parts: each kind equally often, never the same server twice in a row."""
    kinds = [fault for fault in FAULTS if fault.startswith(only)]
    if not kinds:
        sys.exit(f"no fault begins with '{only}'; there are: {', '.join(FAULTS)}")
    made, recent = [], []
    while len(made) < faults:
        for fault in chance.sample(kinds, len(kinds)):
            name = chance.choice([name for name in names if name not in recent])
            recent = [*recent, name][-min(AT_ONCE, len(names) - 1) :]
            made.append((name, fault))
    size = max(min(PER_LIFE, -(-faults // len(ENDINGS))), 1)
    return [made[:faults][start : start + size] for start in range(0, faults, size)]


def drive(args, folder):
    """Make the faults, and say what came of them."""
    if sys.platform != "linux":
        sys.exit("this looks into /proc: Linux only")
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: whoever loses its parent becomes our child
    environments = args.environments or folder / "environments"
    environments.mkdir(exist_ok=True)
    is_small = args.servers == "small"
    names = [*(SMALL if is_small else CALLS)]
    prepared(folder, names)
    os.environ["FLEXCHAT_DATA"] = str(folder / "data")
    servers = tables(folder, environments, is_small)
    chance, counted, began = random.Random(args.seed), Counted(), time.monotonic()
    for number in (0, 1):  # servers that read in one of the two write in the other
        with_effects = [
            {**table, "effects": {"*": "read" if (number + index) % 2 else "write"}}
            for index, table in enumerate(servers)
        ]
        patient = [{**table, "start_ms": 60_000, "timeout_ms": 60_000} for table in with_effects]
        write_config(folder, number, patient)
        live(folder, number, f"{number}-accept", [], "closed", Counted())
        write_config(folder, number, with_effects)
    with contextlib.suppress(KeyboardInterrupt):  # then with what there is
        for number, plan in enumerate(plans(args.faults, names, chance, args.only)):
            ending = ENDINGS[number % len(ENDINGS)] if args.ending is None else args.ending
            live(folder, chance.randrange(2**32), number, plan, ending, counted)
            said = f"{len(counted.rows)} faults, {time.monotonic() - began:.0f} s, {ending}"
            print(f"{said}; left: {counted.endings[-1]['left'] or 0}", file=sys.stderr, flush=True)
            (folder / "rows.json").write_text(json.dumps(attrs.asdict(counted)))
    wrong = verdict(counted, args.recovery)
    for text in wrong[:30]:
        print(text)
    took = time.monotonic() - began
    print(f"{len(wrong)} broken promises in {len(counted.rows)} faults, {took:.0f} s, seed {args.seed}")
    return 1 if wrong else 0


async def page(folder):
    """Serve a page for mcp-server-fetch, whose text is the number in its address."""

    async def answer(reader, writer):
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            number = head.split()[1].decode().strip("/")
            body = f"This is page {number} of this machine.".encode()
            head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            writer.write(head % len(body) + body)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    (folder / "page").write_text(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    return server


async def one_life(folder, number, seed, ending):
    """Be the process with the chat."""
    life = Life(folder / f"chat{int(number.partition('-')[0]) % 2}.json", seed)
    plan = [tuple(each) for each in json.loads((folder / f"plan{number}.json").read_text())]
    async with await page(folder):
        await life.live(os.getppid(), plan, ending)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="faults whose name begins so")
    parser.add_argument("--servers", choices=["real", "small"], default="real")
    parser.add_argument("--environments", type=Path, help="folder in which the servers are installed")
    parser.add_argument("--ending", choices=ENDINGS, help="how each process ends; default: by turns")
    parser.add_argument("--recovery", type=float, default=2.0, help="seconds beyond the server's own start, p99")
    parser.add_argument("--life", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.life:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(one_life(Path(args.life[0]), args.life[1], args.seed, args.ending))
        return 0
    folder = Path(tempfile.mkdtemp(prefix="flexchat-chaos-"))
    try:
        return drive(args, folder)
    except pytest.skip.Exception as missing:  # how Installed says that something cannot be had
        print(missing)
        return 3


if __name__ == "__main__":
    sys.exit(main())
