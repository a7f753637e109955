"""Running a command line in process."""

import io
import sys

import attrs
import pytest
from flexchat_cli.main import main


@attrs.frozen
class Ran:
    status: int
    out: str
    err: str


class Typed(io.StringIO):
    """Standard input of a program, at a terminal or not."""

    def __init__(self, text, terminal):
        super().__init__(text)
        self._terminal = terminal

    def isatty(self):
        return self._terminal


@pytest.fixture(autouse=True)
def somewhere_empty(tmp_path, monkeypatch):
    """Every test runs in a folder of its own, without the caller's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # commands add the folder of the configuration
    for name in ("FLEXCHAT_CONFIG", "FLEXCHAT_BLOCK_PLUGINS", "FLEXCHAT_STRICT_PLUGINS", "NO_COLOR", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")


@pytest.fixture
def run(capsys, monkeypatch):
    """Run a command line; stdin is what is typed, or the bytes of a pipe; terminal says whether all streams are one."""

    def call(*words, stdin="", terminal=False):
        piped = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8") if isinstance(stdin, bytes) else None
        monkeypatch.setattr(sys, "stdin", piped or Typed(stdin, terminal))
        for stream in (sys.stdout, sys.stderr):
            monkeypatch.setattr(stream, "isatty", lambda: terminal, raising=False)
        status = main(words)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return call


SCRIPT = """
[llms.script]
provider = "scripted"
replies = [{replies}]

[[responses]]
llm = "script"
model = "any"
tools = {{ enabled = true }}

[tools]
enabled = true
{tools}
"""


@pytest.fixture
def script(tmp_path):
    """Write flexchat.toml with a scripted model: TOML of its replies, and of tools."""

    def write(*replies, tools='registry = [{ name = "calculator" }]', name="flexchat.toml"):
        path = tmp_path / name
        path.write_text(SCRIPT.format(replies=", ".join(replies), tools=tools))
        return path

    return write
