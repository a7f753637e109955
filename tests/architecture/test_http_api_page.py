"""docs/http-api.md: its table is the program's, its requests do what it says. Run this file to write the table anew."""

import json
import re
import shlex
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "http-api.md"
TEXT = PAGE.read_text()
DEMO = {
    "llms": {"demo": {"provider": "rehearsal"}},
    "tools": {"registry": [{"name": "calculator"}]},
    "responses": [{"llm": "demo", "model": "rehearsal", "tools": {"enabled": True}}],
}


def table() -> str:
    from flexchat_web import create_app

    lines, tag = ["| | | |", "|---|---|---|"], ""
    for operation in create_app(DEMO).operations:
        if operation.tag != tag:
            tag = operation.tag
            lines.append(f"| **{'OpenAI' if tag == 'openai' else tag.capitalize()}** | | |")
        path = operation.path.replace(":path}", "}")
        marks = [word for word, holds in (("edit", operation.edits), ("events", operation.streams)) if holds]
        lines.append(f"| `{operation.method} {path}` | {operation.summary} | {', '.join(marks)} |")
    return "\n".join(lines)


def with_table(text: str) -> str:
    head, _, rest = text.partition("<!-- operations -->\n")
    return f"{head}<!-- operations -->\n{table()}\n<!-- end -->{rest.partition('<!-- end -->')[2]}"


@pytest.fixture(scope="module")
def served():
    """A server with the demo's model on a port of its own."""
    import uvicorn
    from flexchat_web import create_app

    server = uvicorn.Server(uvicorn.Config(create_app(DEMO), port=0, log_level="error", ws="none"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        thread.join(0.01)
        assert thread.is_alive()
    port = server.servers[0].sockets[0].getsockname()[1]
    yield f"127.0.0.1:{port}"
    server.should_exit = True
    thread.join(10)


def test_the_table_of_operations_is_the_programs():
    """Every operation with its summary and marks."""
    assert with_table(TEXT) == TEXT, "run: python tests/architecture/test_http_api_page.py"


def test_the_first_request_is_answered_as_it_says(served):
    """The curl line, and the events of the same with stream."""
    import httpx

    words = shlex.split(re.search(r"\$ curl (.*)", TEXT)[1])
    body = json.loads(words[words.index("-d") + 1])
    answer = httpx.post(f"http://{served}/chat/api", json=body).json()
    streamed = httpx.post(f"http://{served}/chat/api", json=body | {"stream": True}).text

    assert "39.1" in answer["response"]
    assert {"topic", "service", "model", "status", "turn"} <= {*answer}
    assert {"tool_calls", "phases", "citations", "usage"} <= {*answer["turn"]}
    happened = re.findall(r"^event: (\w+)$", streamed, re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`[^|]+) \| .* \|$", TEXT, re.MULTILINE))))
    assert {"tool_started", "tool_finished", "text", "turn"} <= {*happened} <= named


def test_the_python_runs(served):
    """The example of OpenAI's client, and that of mounting."""
    blocks = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    printed: list = []
    for block in blocks:
        exec(block.replace("127.0.0.1:8000", served), {"print": printed.append})

    assert len(blocks) == 2
    assert "39.1" in printed[0]
    assert printed[1][0]["tool"] == "calculator"


def test_every_option_it_names_exists():
    """Those of flexchat serve."""
    from flexchat_web.commands.serve import serve

    known = {name for param in serve.params for name in param.opts}
    for option in re.findall(r"(?<![\w-])--[a-z]+[a-z-]*", TEXT):
        assert option in known, option


if __name__ == "__main__":
    PAGE.write_text(with_table(TEXT))
