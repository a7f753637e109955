"""A real model uses a real MCP server and a tool of our own in one turn.

    python benchmarks/mcp_real_model.py --url http://127.0.0.1:18080/v1 [--model NAME]

URL is an OpenAI-compatible server. The MCP server is mcp-server-git, installed from the package registry into an
environment of its own; the repository is made here, so that the right answer is known. Exit status 1 if a question does
not use the tools it needs, or if the answer does not say what they said.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

PACKAGE = "mcp-server-git==2026.10.19"
CONFIG = """
[llms.it]
provider = "openai"
base_url = "{url}"
api_key = "none"

[[tools.mcp]]
name = "git"
command = ["{server}", "--repository", "{folder}"]
include = ["git_log", "git_status"]
effects = {{ "*" = "read" }}
timeout_ms = 60000

[[tools.registry]]
name = "calculator"

[[responses]]
llm = "it"
model = "{model}"
prompt = "Answer with the tools. The repository is {folder}. Say the results of all tools in one sentence."
tools = {{ enabled = true, allowed_tools = ["git/*", "calculator"] }}
"""
ASKED = (
    ("Show the last commits of the repository.", {"git_log"}, ("Plant the apple tree",)),
    (
        "What is 8712 * 4391, and what is the message of the last commit? Use the calculator and git_log.",
        {"git_log", "calculator"},
        ("Plant the apple tree", "38254392"),
    ),
)
"""A question, the tools it needs, and words of the answer."""


def repository(folder: Path) -> Path:
    """Make a repository with two commits."""
    git = ["git", "-C", str(folder), "-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run([*git, "init", "-q"], check=True)
    for name, message in (("a.txt", "Dig the garden"), ("b.txt", "Plant the apple tree")):
        (folder / name).write_text(message)
        subprocess.run([*git, "add", name], check=True)
        subprocess.run([*git, "commit", "-q", "-m", message], check=True)
    return folder


def installed(folder: Path) -> Path:
    """Install the server; return its program."""
    venv.create(folder, with_pip=False)
    pip = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install", "-q"]
    subprocess.run([*pip, PACKAGE], check=True)
    return folder / "bin" / "mcp-server-git"


def run(folder: Path, *words: str) -> str:
    """Run a command as a user would; return what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "flexchat", *words], cwd=folder, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        sys.exit(done.stderr)
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", required=True, help="an OpenAI-compatible server")
    parser.add_argument("--model", default="real-model")
    given = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        work, folder = Path(name) / "repository", Path(name)
        work.mkdir()
        server = installed(folder / "server")
        config = CONFIG.format(url=given.url, model=given.model, server=server, folder=repository(work))
        (folder / "flexchat.toml").write_text(config)
        print(run(folder, "tools", "accept", "git"))
        for question, tools, words in ASKED:
            turn: dict[str, Any] = json.loads(run(folder, "ask", "--json", question))
            called = {call["tool"] for call in turn["tool_calls"] or ()}
            is_right = tools <= called and all(word in turn["content"].replace(",", "") for word in words)
            failed += not is_right
            verdict = "right" if is_right else "WRONG"
            print(f"{question}\n  called: {sorted(called)}\n  answer: {turn['content']}\n  {verdict}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
