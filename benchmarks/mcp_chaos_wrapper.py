"""Stands between FlexChat and an MCP server's pipes, and does what servers do on a bad day, when mcp_chaos.py says so.

    mcp_chaos_wrapper.py FOLDER NAME COMMAND…

It runs COMMAND and passes on what both sides write. FOLDER/NAME.fault holds the fault that the next call of a tool
meets, FOLDER/NAME.start one of the next start; each is removed when it is taken. FOLDER/NAME.log gets a line of JSON
for each start, for the first answer of the command, for each call, and for each fault: so calls are counted by somebody
who is not FlexChat. Its process knows nothing of FlexChat, and needs the standard library alone.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time

LIST_CHANGED = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'
DAEMON = "trap '' TERM HUP INT; sleep 600 & wait; sleep 600"


class Wrapper:
    def __init__(self, folder, name, command):
        self.folder, self.name, self.command = folder, name, command
        self.lock = threading.Lock()
        self.on_answer = {}
        self.is_silent = self.has_answered = False
        self.server = None

    def note(self, what, **more):
        line = json.dumps({"what": what, "at": time.monotonic(), **more}) + "\n"
        with open(f"{self.folder}/{self.name}.log", "a") as file:
            file.write(line)

    def take(self, kind):
        """Return the fault that is due, and forget it."""
        path = f"{self.folder}/{self.name}.{kind}"
        with contextlib.suppress(OSError):
            os.rename(path, f"{path}.taken")
            with open(f"{path}.taken") as file:
                return json.load(file)
        return {}

    def write(self, data):
        with self.lock:
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(1, rest) :]

    def run(self):
        with open("/proc/self/stat") as file:  # when this process began: its own start is none of FlexChat's
            ticks = int(file.read().rpartition(")")[2].split()[19])
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        began = time.monotonic() - age
        signal.signal(signal.SIGUSR1, lambda *_: os._exit(0))  # told to end between two messages
        fault = self.take("start").get("fault")
        if fault == "prints a banner":
            self.write(b"Welcome!\n\n  v1.0 \xe2\x9c\xa8 \x1b[1mready\x1b[0m\n{}\n[1, 2]\n")
        self.server = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.note("start", began=began, pid=os.getpid(), server=self.server.pid)
        if fault is not None:
            self.note("struck")
        threading.Thread(target=self.up, args=(fault,), daemon=True).start()
        for line in self.server.stdout:
            if not self.has_answered:
                self.has_answered = True
                self.note("answered")
            self.down(line)
        code = self.server.wait()
        if code < 0:
            signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
            os.kill(os.getpid(), -code)
        os._exit(code)

    def up(self, start_fault):
        """Pass on what FlexChat writes."""
        with contextlib.suppress(OSError):
            for line in sys.stdin.buffer:
                if start_fault == "dies at its start":
                    os._exit(1)
                if start_fault == "is silent at its start":
                    continue
                fault = {}
                if b'"tools/call"' in line:
                    asked = json.loads(line)
                    self.note("call", id=asked["id"], arguments=asked["params"].get("arguments"))
                    fault = self.take("fault")
                    if fault:
                        self.arm(asked, **fault)
                self.server.stdin.write(line)
                self.server.stdin.flush()
                if fault.get("fault") in AFTER:
                    self.note("struck")
                    AFTER[fault["fault"]](self)
            self.server.stdin.close()

    def arm(self, asked, fault, late_s=0.0):
        if fault in ON_ANSWER:
            self.on_answer[asked["id"]] = fault, late_s
        elif fault in BEFORE:
            self.note("struck")
            BEFORE[fault](self)

    def down(self, line):
        """Pass on what the server writes."""
        if self.is_silent:
            return
        armed = None
        if self.on_answer:
            answer = json.loads(line)
            armed = self.on_answer.pop(answer.get("id"), None)
        if armed is None:
            self.write(line)
            return
        self.note("struck")
        fault, late_s = armed
        if fault in LATE:
            threading.Timer(late_s, self.write, (line,)).start()
        else:
            ON_ANSWER[fault](self, line, answer)


# ---- faults that come when the request has been passed on


def kill_the_server(w):
    w.server.kill()


def kill_itself(w):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_the_group(w):
    os.killpg(0, signal.SIGKILL)


def kill_the_keeper(w):
    os.kill(os.getppid(), signal.SIGKILL)


def terminate(w):
    w.server.terminate()


def stop_the_server(w):
    w.server.send_signal(signal.SIGSTOP)


def stop_the_group(w):
    os.killpg(0, signal.SIGSTOP)


def close_stdout(w):
    w.is_silent = True
    with w.lock:
        os.close(1)
    time.sleep(600)


def go_deaf(w):
    w.is_silent = True
    time.sleep(600)


def leave_a_daemon(w):
    """In a session of its own, deaf to signals, with our pipes in its hands; then die."""
    subprocess.Popen(["sh", "-c", DAEMON], start_new_session=True)
    os._exit(3)


def flood(w):
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "y" * 50_000}}
    data = json.dumps(note).encode() + b"\n"
    while True:
        w.write(data)


def flood_of_small_messages(w):
    while True:
        w.write(LIST_CHANGED * 500)


def print_without_end(w):
    while True:
        w.write(b"debug: still here, not a message\n" * 100)


def endless_line(w):
    while True:
        w.write(b'{"jsonrpc":"2.0","result":"' + b"z" * 100_000)


def flood_stderr(w):
    """As long as it lives, and answer all the same."""
    line = b"WARNING: the sky is falling, token=hunter2-secret\n" * 200

    def flooding():
        while True:
            os.write(2, line)

    threading.Thread(target=flooding, daemon=True).start()


AFTER = {
    "SIGKILL to the server": kill_the_server,
    "SIGKILL to its parent": kill_itself,
    "SIGKILL to its group": kill_the_group,
    "SIGKILL to its keeper": kill_the_keeper,
    "SIGTERM to the server": terminate,
    "SIGSTOP to the server": stop_the_server,
    "SIGSTOP to its group": stop_the_group,
    "stdout closed, lives on": close_stdout,
    "reads and writes no more": go_deaf,
    "dies, leaves a daemon": leave_a_daemon,
    "flood of messages": flood,
    "flood of list_changed": flood_of_small_messages,
    "flood of prints": print_without_end,
    "line without end": endless_line,
}
BEFORE = {"flood of stderr": flood_stderr}

# ---- faults of an answer


def half_and_die(w, line, answer):
    w.write(line[: len(line) // 2])
    os._exit(0)


def half_and_silence(w, line, answer):
    w.write(line[: len(line) // 2])
    w.is_silent = True


def prints(w, line, answer):
    w.write(b"calling the tool...\n\n{]\n\x00\xff\n" + line + b"done\n")


def wrong_ids(w, line, answer):
    for wrong in (10**9, "7", -1, None, [], 1.5, "x" * 500):
        w.write(json.dumps({**answer, "id": wrong}).encode() + b"\n")


def twice(w, line, answer):
    w.write(line + line + json.dumps({**answer, "id": 10**9}).encode() + b"\n")


def huge(w, line, answer):
    answer["result"] = {"content": [{"type": "text", "text": "x" * 20_000_000}]}  # where this server puts it
    w.write(json.dumps(answer).encode() + b"\n")


def not_a_result(w, line, answer):
    w.write(json.dumps({**answer, "result": {"content": 7}}).encode() + b"\n")


def deep(w, line, answer):
    w.write(b'{"jsonrpc":"2.0","id":%s,"result":' % json.dumps(answer["id"]).encode())
    w.write(b"[" * 50_000 + b"]" * 50_000 + b"}\n" + line)


def storm(w, line, answer):
    w.write(LIST_CHANGED * 500 + line)


def asks(w, line, answer):
    methods = ("ping", "roots/list", "sampling/createMessage", "no/such/method")
    for number in range(400):
        asked = {"jsonrpc": "2.0", "id": f"s{number}", "method": methods[number % 4], "params": {}}
        w.write(json.dumps(asked).encode() + b"\n")
    w.write(line)


def drip(w, line, answer):
    size = max(len(line) // 20, 1)
    for start in range(0, len(line), size):
        w.write(line[start : start + size])
        time.sleep(0.01)


LATE = ("late answer", "slow answer")
ON_ANSWER = {
    "half a message, then death": half_and_die,
    "half a message, then silence": half_and_silence,
    "prints on stdout": prints,
    "wrong ids": wrong_ids,
    "answers twice": twice,
    "huge result": huge,
    "not a result": not_a_result,
    "nested too deeply": deep,
    "storm of list_changed": storm,
    "asks 400 things": asks,
    "answer in drips": drip,
    **dict.fromkeys(LATE),
}
AT_START = ("dies at its start", "is silent at its start", "prints a banner")

if __name__ == "__main__":
    Wrapper(sys.argv[1], sys.argv[2], sys.argv[3:]).run()
