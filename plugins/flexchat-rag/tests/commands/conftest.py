"""A command line in a folder with a config, documents and a store."""

import io
import sys
from pathlib import Path

import attrs
import pytest
from flexchat_cli.main import main
from flexchat_rag.commands import add

CONFIG = """
[stores.{name}]
provider = "{provider}"
"""


MODEL = """
[llms.r]
provider = "rehearsal"

[[responses]]
llm = "r"
model = "rehearsal"
"""


SQLITE = 'path = "{name}.db"\nsearch = "keyword"\n'


GUIDE = "# Guide\n\n## Install\n\nRun the installer on Linux.\n\n## Use\n\nStart the engine.\n"


@attrs.frozen
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command line in a folder with a config, documents and a store."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(add, "SECONDS_BEFORE_THE_FIRST_LINE", 600)  # however slow this machine is just now
    for name in ("FLEXCHAT_CONFIG", "FLEXCHAT_BLOCK_PLUGINS", "FLEXCHAT_STRICT_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    configure("documents")
    Path("docs").mkdir()
    Path("docs/guide.md").write_text(GUIDE)
    Path("docs/notes.txt").write_text("Tea is served at five.")

    def call(*words, stdin="", terminal=False):
        typed = io.StringIO(stdin)
        typed.isatty = lambda: terminal
        monkeypatch.setattr(sys, "stdin", typed)
        monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
        status = main(words)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return call


def configure(*names, provider="sqlite"):
    extra = SQLITE if provider == "sqlite" else ""
    stores = "".join((CONFIG + extra).format(name=name, provider=provider) for name in names)
    Path("flexchat.toml").write_text(stores + MODEL)
