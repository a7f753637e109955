"""Schemathesis against a server of ours: requests made up from /openapi.json, and what comes back held against it.

    python benchmarks/web_schemathesis.py [--examples 10000] [--per-operation 100] [--seed 1] [--keep FOLDER]

A server of its own with two LLMs, tools, conversations, documents and validation cases is asked until so
many requests were made, in rounds of another seed each, every other one with a token, so that the checks of
authentication have something to check. All checks and all phases are on. Prints requests, answers and checks, what was
found, and the incidents in the server's log; exits with 1 if anything was found.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import httpx

TOKEN = "a-token-for-schemathesis"

CONFIG = """\
[llms.rehearsal]
provider = "rehearsal"

[llms.robot]
provider = "scripted"
repeat = true
default_model = "m1"
replies = [
    { tool_calls = [{ name = "calculator", arguments = { expression = "1+1" } }] },
    { text = '{"sum": 2}' },
]

[llms.parrot]
provider = "scripted"
repeat = true
default_model = "m2"
replies = [{ text = '{"said": "Hello"}' }]

[stores.notes]
provider = "sqlite"
path = "notes.db"

[conversations]
path = "conversations.db"

[tools]
registry = [
    { name = "calculator" },
    { name = "get_current_datetime" },
    { name = "get_weather", description = "Tell the weather.", effect = "read", parameters = { type = "object", \
properties = { city = { type = "string" } }, required = ["city"] }, implementation = { type = "mock", \
mock_response = { celsius = 21 } } },
]

[validation]
store = "validation.db"
runs = 1

[[validation.cases]]
name = "sum"
tags = ["sums"]
message = "What is 2 + 2?"
calls = [{ tool = "calculator" }]

[[validation.cases]]
name = "hello"
message = "Hello!"
no_call = true

[[responses]]
match = { service = "notes" }
llm = "parrot"

[[responses]]
llm = "robot"
[responses.tools]
enabled = true
"""

ACCEPTED = ("2xx", "3xx", "401", "403", "404", "409", "413", "422", "429")
"""Answers to a request that fits the document: Schemathesis' own list without 5xx (no service here can fail), and two
more: 422, what can be read and makes no sense (a configuration with problems, settings that a provider refuses); 413,
more than a model's window holds. 404 is for names of nothing. A 400 is a fault: only what does not fit the document
may get it."""

AS_OTHERS_DO = {
    "validateConfig": "answers 400 with the same body as 200 for a configuration with problems: the Node original's",
    "reloadConfig": "answers 400 for a configuration with problems: the Node original's",
    "testConnection": "answers 400 where the service does not answer: the Node original's",
    "discoverModels": "answers 400 where the service does not answer: the Node original's",
    "listProviderModels": "the same operation under another name",
    "create_chat_completion": "answers 400 where a role holds what is not its own: OpenAI's",
}
"""Operations that may answer 400 to a request that fits, and why."""

STAY = ("show_run", "watch_run")
"""Operations on what DELETE does not remove: it cancels a run, and what that has found is kept."""

WORDS = {
    "services": ("robot", "rehearsal", "notes", "openai"),
    "providers": ("rehearsal", "scripted", "sqlite", "memory", "openai"),
    "models": ("robot/m1", "parrot/m2", "rehearsal/m3", "robot:m1", "flexchat"),
    "collections": ("default", "notes"),
    "tools": ("calculator", "get_weather", "get_current_datetime"),
    "cases": ("sum", "hello"),
    "tags": ("sums",),
    "talks": ("talk-1", "talk-2"),
}
"""What there is, by kind: names that no generator would hit upon."""

PLACES = {
    "path.name": "providers",
    "query.tag": "tags",
    "query.model_id": "models",
    "query.case": "cases",
    "body.model": "models",
    "body.llm": "services",
    "body.provider": "providers",
    "body.name": "tools",
    "body.conversation": "talks",
    "query.before": "talks",
    "body.cases[*]": "cases",
    "body.models[*]": "models",
    "body.tags[*]": "tags",
    "body.selectedCollections[*].service": "services",
    "body.selectedCollections[*].name": "collections",
}
"""Where such a name stands in a request: there in half of them."""

HOOKS = '''
from pathlib import Path

import requests
import schemathesis

FILE = Path(__file__).with_name("flexchat.toml")
WRITTEN = FILE.read_text()


@schemathesis.hook
def before_call(context, case, kwargs):
    """Give the user the last word in requests that fit: JSON Schema cannot say it of a list."""
    fits = case.meta is not None and case.meta.generation.mode.is_positive
    if fits and case.method == "POST" and case.path == "/v1/chat/completions":
        case.body = {**case.body, "messages": [*case.body["messages"], {"role": "user", "content": "Hello!"}]}


@schemathesis.hook
def after_call(context, case, response):
    """Put our own configuration back in force where a request put another: else little is left to be asked for."""
    if case.path in ("/api/config", "/api/config/reload") and case.method != "GET" and response.status_code == 200:
        FILE.write_text(WRITTEN)
        address = response.request.url.partition("/api/")[0]
        token = response.request.headers.get("Authorization")
        headers = {"Authorization": token} if token else {}
        requests.post(f"{address}/api/config/reload", headers=headers, timeout=30).raise_for_status()
'''


def settings(folder: Path, run: str) -> str:
    """Return schemathesis.toml.

    Args:
        run: A validation run that can be resumed.
    """
    lines = [f"hooks = {json.dumps(str(folder / 'hooks.py'))}", "", "[dictionaries]"]
    lines += [f"{name} = {{ values = {json.dumps(values)} }}" for name, values in WORDS.items()]
    lines.append(f"runs = {{ values = {json.dumps([run])} }}")
    lines += ["", "[parameters]"]
    lines += [f'"{place}" = {{ dictionary = "{name}", probability = 0.5 }}' for place, name in PLACES.items()]
    lines += [
        "",
        "[checks]",
        "max_response_time = 20",
        f"positive_data_acceptance.expected-statuses = {json.dumps(ACCEPTED)}",
    ]
    for tag, name in (("conversations", "talks"), ("validation", "runs")):
        place = f'"path.id" = {{ dictionary = "{name}", probability = 0.5 }}'
        lines += ["", "[[operations]]", f'include-tag = "{tag}"', "[operations.parameters]", place]
    for name, why in AS_OTHERS_DO.items():
        lines += [
            "",
            f"# {why}",
            "[[operations]]",
            f'include-operation-id = "{name}"',
            f"checks.positive_data_acceptance.expected-statuses = {json.dumps((*ACCEPTED, '400'))}",
        ]
    for name in STAY:
        lines += ["", "[[operations]]", f'include-operation-id = "{name}"', "checks.use_after_free.enabled = false"]
    return "\n".join(lines) + "\n"


@contextlib.contextmanager
def serving(folder: Path, token: str = "") -> Iterator[str]:
    """Serve the configuration of a folder; give the address."""
    environment = {**os.environ, "XDG_DATA_HOME": str(folder / "data")}
    environment.pop("FLEXCHAT_TOKEN", None)
    if token:
        environment["FLEXCHAT_TOKEN"] = token
    words = [sys.executable, "-m", "flexchat", "--config", str(folder / "flexchat.toml"), "serve", "--port", "0"]
    with (
        (folder / "server.log").open("ab") as log,
        subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=log, text=True, cwd=folder) as server,
    ):
        try:
            told = server.stdout.readline()
            yield re.search(r"http://[^/ ]+", told)[0]
        finally:
            server.terminate()
            server.wait(30)


def cancelled_run(url: str, token: str) -> str:
    """Begin a validation run and cancel it: one that can be resumed. Return its id."""
    with httpx.Client(base_url=url, headers={"Authorization": f"Bearer {token}"} if token else {}) as client:
        begun = client.post("/api/validation/runs", json={"models": ["rehearsal/m3"], "runs": 200})
        begun.raise_for_status()
        client.delete(f"/api/validation/runs/{begun.json()['id']}").raise_for_status()
        return begun.json()["id"]


class Round:
    """What came of one run of Schemathesis."""

    def __init__(self, folder: Path, number: int) -> None:
        self._report, self._events = folder / f"report-{number}.json", folder / f"events-{number}.ndjson"
        self.statuses: Counter[int | str] = Counter()
        self.fitting: Counter[tuple[str, int | str]] = Counter()
        self.checks: Counter[tuple[str, str]] = Counter()
        self.failures: list[str] = []

    def run(self, folder: Path, url: str, seed: int, per_operation: int, token: str) -> None:
        """Let Schemathesis ask, and read what it reports."""
        words = [
            str(Path(sys.executable).parent / "st"), "--config-file", str(folder / "schemathesis.toml"), "run",
            f"{url}/openapi.json", "--checks", "all", "--max-examples", str(per_operation), "--seed", str(seed),
            "--continue-on-failure", "--request-timeout", "30", "--generation-database", "none", "--no-color",
            "--report", "json,ndjson", "--report-json-path", str(self._report),
            "--report-ndjson-path", str(self._events),
        ]  # fmt: skip
        words += ["--header", f"Authorization: Bearer {token}"] if token else []
        with (folder / "st.log").open("ab") as log:
            subprocess.run(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=False)
        with self._events.open() as lines:
            for line in lines:
                finished = json.loads(line).get("ScenarioFinished")
                if finished is not None:
                    self._count(finished["recorder"])
        self._events.unlink()  # tens of megabytes a round
        report = json.loads(self._report.read_text())
        self.failures += [f"error: {json.dumps(each)[:500]}" for each in report["errors"]]
        if not report["complete"]:
            self.failures.append(f"the round ended early: {report['stop_reason']}")

    def _count(self, recorder: dict) -> None:
        for id, case in recorder.get("cases", {}).items():
            value = case["value"]
            answer = (recorder["interactions"].get(id) or {}).get("response") or {}
            status = answer.get("status_code", "none")
            self.statuses[status] += 1
            if ((value.get("meta") or {}).get("generation") or {}).get("mode") == "positive":
                self.fitting[f"{value['method']} {value['path']}", status] += 1
        for id, checks in recorder.get("checks", {}).items():
            for check in checks:
                self.checks[check["name"], check["status"]] += 1
                if check["status"] != "success":
                    self.failures.append(f"{recorder['label']}: {check['name']}: {json.dumps(check)[:600]} [{id}]")


def main() -> int:
    """Run rounds until there were examples enough; print what came of them."""
    words = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    words.add_argument("--examples", type=int, default=10_000, help="requests to be made at least")
    words.add_argument("--per-operation", type=int, default=100, help="most requests of a phase to an operation")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--keep", type=Path, help="folder for the server's files and the reports; else they are removed")
    given = words.parse_args()
    with contextlib.ExitStack() as stack:
        folder = given.keep or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        return rounds(folder, given.examples, given.per_operation, given.seed)


def rounds(folder: Path, examples: int, per_operation: int, seed: int) -> int:
    """Run them, each with a server of its own over the files of those before."""
    (folder / "hooks.py").write_text(HOOKS)
    statuses, fitting, checks, failures = Counter(), Counter(), Counter(), []
    began, number = time.monotonic(), 0
    while statuses.total() < examples:
        (folder / "flexchat.toml").write_text(CONFIG)
        token = TOKEN if number % 2 else ""
        one = Round(folder, number)
        with serving(folder, token) as url:
            (folder / "schemathesis.toml").write_text(settings(folder, cancelled_run(url, token)))
            one.run(folder, url, seed + number, per_operation, token)
        number += 1
        statuses += one.statuses
        fitting += one.fitting
        checks += one.checks
        failures += one.failures
        print(
            f"round {number} ({'with' if token else 'without'} a token, seed {seed + number - 1}): "
            f"{one.statuses.total():,} requests, {one.checks.total():,} checks, {len(one.failures)} failures, "
            f"{time.monotonic() - began:.0f} s since the start",
            flush=True,
        )
        if not one.statuses:
            failures.append("a round without requests; see st.log")
            break
    print("\nanswers: " + ", ".join(f"{status}: {count:,}" for status, count in statuses.most_common()))
    names = dict.fromkeys(name for name, _ in checks)
    print("checks: " + ", ".join(f"{name}: {checks[name, 'success']:,}" for name in names))
    print("never answered 2xx, of what fits the document:")
    for label in sorted({label for label, _ in fitting}):
        answers = {status: count for (each, status), count in fitting.items() if each == label}
        if not any(isinstance(status, int) and status < 300 for status in answers):
            print(f"  {label}: {answers}")
    wrong = sum(count for status, count in statuses.items() if not isinstance(status, int) or status >= 500)
    log = (folder / "server.log").read_text(errors="replace")
    for failure in dict.fromkeys(failures):
        print(failure)
    print(f"\n{statuses.total():,} requests, {checks.total():,} checks, {len(failures)} failures, {wrong} answers 5xx")
    if log.strip():
        print(f"in the server's log:\n{log[-3000:]}")
    return 1 if failures or wrong or "Traceback" in log else 0


if __name__ == "__main__":
    sys.exit(main())
