"""flexchat validate as a whole process: killed in the middle, and resumed."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

pytestmark = pytest.mark.slow

CONFIG = """
[llms.slow]
provider = "openai"
base_url = "{url}"
api_key = "not-a-real-key"

[[responses]]
llm = "slow"
model = "m-1"

[validation]
concurrency = 2
store = "results.db"
"""
CASE = '\n[[validation.cases]]\nname = "{name}"\nmessage = "Say hello"\nno_call = true\n'
KILLS = int(os.environ.get("FLEXCHAT_KILLS", "1"))
CASES = 8 * KILLS


@pytest.fixture
def validate(tmp_path, chat_server):
    """Begin a command line in a folder with a configuration of some cases."""
    chat_server.replies = [{"content": "Hello."}]
    cases = "".join(CASE.format(name=f"case {n}") for n in range(CASES))
    (tmp_path / "flexchat.toml").write_text(CONFIG.format(url=chat_server.url) + cases)

    def begin(*words):
        command = [sys.executable, "-m", "flexchat", "validate", *words]
        return subprocess.Popen(command, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    return begin


def acknowledged(line):
    """The case a line of the log says is done; None for another line."""
    return line.rpartition(": ")[2].strip() if line.startswith("passed: ") else None


def test_a_run_that_is_killed_loses_nothing_it_has_told_and_makes_nothing_twice(validate):
    """kill -9 in the middle, again and again; each time --resume goes on with what is missing."""
    told: list[str] = []
    for kill in range(KILLS):
        process = validate("-v", *(["--resume"] if kill else []))
        here = 0
        for line in process.stderr:
            case = acknowledged(line)
            if case is not None:
                told.append(case)
                here += 1
            if here == 3:
                os.kill(process.pid, signal.SIGKILL)
                break
        told += [case for line in process.stderr if (case := acknowledged(line)) is not None]
        process.stdout.close()
        process.stderr.close()
        assert process.wait() == -signal.SIGKILL

    out, err = validate("--resume", "--json").communicate()
    report = json.loads(out)

    assert report["run"]["state"] == "finished", err
    assert Counter(a["case"] for a in report["attempts"]) == {f"case {n}": 1 for n in range(CASES)}
    assert report["models"][0]["test_count"] == CASES
    assert len(told) >= 3 * KILLS
    assert max(Counter(told).values()) == 1


def test_a_run_that_is_interrupted_says_how_to_go_on(validate):
    """Ctrl-C: what was tried is reported and kept, the exit status is 130, no traceback."""
    process = validate("-v")
    for line in process.stderr:
        if acknowledged(line) is not None:
            process.send_signal(signal.SIGINT)
            break
    out, err = process.communicate()

    assert process.returncode == 130
    assert "interrupted: " in out
    assert "attempts are kept; flexchat validate --resume makes the others" in err
    assert "Traceback" not in err
