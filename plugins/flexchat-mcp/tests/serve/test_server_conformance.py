"""The official conformance suite against flexchat serve: all that each revision requires, and the tasks extension.

Of 2025-11-25, sampling and logging are left out: the protocol has deprecated them.
"""

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from installed import with_path

pytestmark = pytest.mark.slow

SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
TOOLS = Path(__file__).parents[1] / "conformance_tools.py"
DEPRECATED = {"logging-set-level", "tools-call-with-logging", "tools-call-sampling"}
NOT_REQUIRED = {"json-schema-2020-12", "http-custom-header-server-validation"}  # pending in the suite
COUNTS = {"2026-07-28": 37, "2025-11-25": 30}


@pytest.fixture
def url(tmp_path):
    """Start flexchat serve with the suite's tools; return the address of its /mcp."""
    (tmp_path / TOOLS.name).write_text(TOOLS.read_text())
    write = "import json, conformance_tools as c; print(json.dumps(c.config('c.db')))"
    data = subprocess.run([sys.executable, "-c", write], cwd=tmp_path, capture_output=True, text=True, check=True)
    (tmp_path / "flexchat.json").write_text(data.stdout)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("FLEXCHAT")}
    environment["XDG_DATA_HOME"] = str(tmp_path / "data")
    serve = [str(Path(sys.executable).with_name("flexchat")), "serve", "--port", "0"]
    with subprocess.Popen(serve, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            threading.Thread(target=server.stdout.read, daemon=True).start()
            yield re.search(r"http://[\d.:]+", line)[0] + "/mcp"
        finally:
            server.terminate()


@pytest.mark.parametrize("revision", [*COUNTS])
def test_everything_that_a_revision_requires_of_a_server(installed, url, revision, tmp_path):
    node = installed.node()
    command = [str(node / "node"), str(installed.npm(SUITE) / "conformance"), "server", "--url", url]
    options = ["--requirements", revision, "--timeout", "100000"]
    environment = {**os.environ, **with_path(node), "HOME": str(tmp_path)}
    ran = subprocess.run(
        [*command, *options], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=280
    )

    summary = ran.stdout.partition("=== SUMMARY ===")[2].partition("Total:")[0]
    passed, failed = (set(re.findall(rf"^{mark} ([\w-]+):", summary, re.MULTILINE)) for mark in "✓✗")
    assert failed - DEPRECATED - NOT_REQUIRED == set(), ran.stdout[-4_000:]
    tasks = {name for name in passed if name.startswith("tasks-")}
    assert len(passed - tasks) + len(failed & DEPRECATED) >= COUNTS[revision], json.dumps(sorted(passed))
    assert len(tasks) == (10 if revision == "2026-07-28" else 0)
