"""Running a command line in process."""

import sys

import attrs
import pytest
from flexchat_cli.main import main


@attrs.frozen
class Ran:
    status: int
    out: str
    err: str


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run a command line in an empty folder, without the caller's settings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("FLEXCHAT_CONFIG", "FLEXCHAT_BLOCK_PLUGINS", "FLEXCHAT_STRICT_PLUGINS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "100")

    def call(*words):
        status = main(words)
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return call
